//! Text with variables of the gate's environment: `Bearer ${TRACKER_TOKEN}`.
//!
//! The values are not known here: the caller that owns the environment expands them.

use std::fmt;

use crate::decode::{ConfigField, located_text};
use crate::problem::{Located, shown};
use crate::problem_report::ProblemReport;
use crate::tool::is_variable;

/// Text in which `${NAME}` stands for a variable, and `${NAME:-text}` for one with a default if it is unset or empty.
#[derive(Clone, PartialEq, Eq)]
pub struct VariableText {
    pieces: Vec<VariablePiece>,
}

#[derive(Clone, PartialEq, Eq)]
enum VariablePiece {
    Literal(String),
    Variable { name: String, otherwise: Option<String> },
}

/// A variable that is not set and has no default.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the variable `{0}` is not set")]
pub struct MissingVariable(pub String);

impl VariableText {
    /// Parses a text; the error is a `${` that names no variable.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (inside, behind) = after.split_once('}').ok_or_else(|| format!("${{{after}"))?;
            let (name, otherwise) = match inside.split_once(":-") {
                Some((name, otherwise)) => (name, Some(otherwise.to_owned())),
                None => (inside, None),
            };
            if !is_variable(name) {
                return Err(format!("${{{inside}}}"));
            }
            pieces.extend((!before.is_empty()).then(|| VariablePiece::Literal(before.to_owned())));
            pieces.push(VariablePiece::Variable { name: name.to_owned(), otherwise });
            rest = behind;
        }
        pieces.extend((!rest.is_empty()).then(|| VariablePiece::Literal(rest.to_owned())));
        Ok(Self { pieces })
    }

    /// Expands the variables.
    ///
    /// # Errors
    /// The first variable that is not set and has no default.
    pub fn expand(&self, variable: impl Fn(&str) -> Option<String>) -> Result<String, MissingVariable> {
        let value = |piece: &VariablePiece| match piece {
            VariablePiece::Literal(text) => Ok(text.clone()),
            VariablePiece::Variable { name, otherwise: None } => {
                variable(name).ok_or_else(|| MissingVariable(name.clone()))
            }
            VariablePiece::Variable { name, otherwise: Some(otherwise) } => {
                Ok(variable(name).filter(|value| !value.is_empty()).unwrap_or_else(|| otherwise.clone()))
            }
        };
        self.pieces.iter().map(value).collect()
    }

    /// The names of the variables, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            VariablePiece::Literal(_) => None,
            VariablePiece::Variable { name, .. } => Some(name.as_str()),
        })
    }

    /// The text as written, with variable names. It may contain a secret: only for the operator who reviews the file.
    #[must_use]
    pub fn as_written(&self) -> String {
        let written = |piece: &VariablePiece| match piece {
            VariablePiece::Literal(text) => text.clone(),
            VariablePiece::Variable { name, otherwise: None } => format!("${{{name}}}"),
            VariablePiece::Variable { name, otherwise: Some(otherwise) } => {
                format!("${{{name}:-{otherwise}}}")
            }
        };
        self.pieces.iter().map(written).collect()
    }

    /// Whether the text has no variables.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.names().next().is_none()
    }

    /// The text before the first variable.
    pub(crate) fn beginning(&self) -> &str {
        match self.pieces.first() {
            Some(VariablePiece::Literal(text)) => text,
            _ => "",
        }
    }
}

/// Text that was declared in code instead of a file, without variables.
impl From<&str> for VariableText {
    fn from(text: &str) -> Self {
        Self { pieces: vec![VariablePiece::Literal(text.to_owned())] }
    }
}

/// The literal parts may be a secret, so only the names of variables are shown.
impl fmt::Debug for VariableText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("VariableText").field(&self.names().collect::<Vec<_>>()).finish()
    }
}

/// A text with variables, and its position.
pub(crate) fn variable_text(
    field: &ConfigField,
    report: &mut ProblemReport<'_>,
) -> Option<Located<VariableText>> {
    let text = located_text(field, report)?;
    if text.value.contains('\0') {
        report.node(&field.node, format!("{} holds NUL", field.name), Some("remove it".to_owned()));
        return None;
    }
    match VariableText::parse(&text.value) {
        Ok(parsed) => Some(text.with(parsed)),
        Err(written) => {
            let help = "write `${NAME}`, or `${NAME:-text}` where it may be unset; the gate's own environment is asked";
            let message = format!("`{}` names no variable", shown(&written));
            report.located(&text, message, Some(help.to_owned()));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn known(name: &str) -> Option<String> {
        match name {
            "TOKEN" => Some("t0k".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_put_in() {
        for (text, expected) in [
            ("", Ok("")),
            ("plain $5 {x}", Ok("plain $5 {x}")),
            ("${TOKEN}", Ok("t0k")),
            ("Bearer ${TOKEN}!", Ok("Bearer t0k!")),
            ("${TOKEN}${TOKEN}", Ok("t0kt0k")),
            ("${EMPTY}", Ok("")),
            ("${EMPTY:-x}", Ok("x")),
            ("${GONE:-x y}", Ok("x y")),
            ("${GONE:-}", Ok("")),
            ("${GONE}", Err("GONE")),
            ("$${TOKEN}", Ok("$t0k")),
        ] {
            let expanded = VariableText::parse(text).unwrap().expand(known);
            let expected = expected.map(str::to_owned).map_err(|name| MissingVariable(name.to_owned()));
            assert_eq!(expanded, expected, "{text}");
        }
    }

    #[test]
    fn what_names_no_variable_is_refused() {
        for (text, told) in [
            ("${", "${"),
            ("a ${TOKEN", "${TOKEN"),
            ("${}", "${}"),
            ("${input:key}", "${input:key}"),
            ("${env:HOME}", "${env:HOME}"),
            ("${A B}", "${A B}"),
            ("${1A:-x}", "${1A:-x}"),
        ] {
            assert_eq!(VariableText::parse(text).unwrap_err(), told, "{text}");
        }
    }

    #[test]
    fn literal_text_is_not_shown_to_logs() {
        let text = VariableText::parse("hunter2 ${TOKEN}").unwrap();
        assert_eq!(format!("{text:?}"), r#"VariableText(["TOKEN"])"#);
        assert!(!text.is_literal() && VariableText::parse("$x").unwrap().is_literal());
    }

    #[test]
    fn text_is_shown_as_it_was_written() {
        for text in ["", "plain $5 {x}", "Bearer ${TOKEN}!", "${A}${B:-x y}", "${A:-}"] {
            assert_eq!(VariableText::parse(text).unwrap().as_written(), text);
        }
    }

    proptest! {
        #[test]
        fn text_without_a_variable_stays_as_it_is(text in "[^$]{0,40}") {
            prop_assert_eq!(VariableText::parse(&text).unwrap().expand(|_| None), Ok(text));
        }
    }
}
