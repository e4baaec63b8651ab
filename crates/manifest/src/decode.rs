//! Decodes located nodes into typed values, reporting a problem for every mismatch.

use std::rc::Rc;
use std::time::Duration;

use toolgate_text::glob_classes::{letter_left_out_in_one_case, other_case};
use toolgate_text::nearest_name::nearest_name;

use crate::globs::Globs;
use crate::path::DeclaredPath;
use crate::problem::{Located, shown};
use crate::problem_report::ProblemReport;
use crate::quantity::{self, InvalidQuantity};
use crate::yaml_tree::{ConfigNode, NodeKind};

/// A key of a mapping, and an example of its use.
pub(crate) struct KeySpec {
    pub(crate) name: &'static str,
    pub(crate) example: &'static str,
}

pub(crate) const fn key(name: &'static str, example: &'static str) -> KeySpec {
    KeySpec { name, example }
}

/// A value, with its name and an example for messages.
pub(crate) struct ConfigField {
    /// The name in messages, such as `` `limits` ``.
    pub(crate) name: String,
    pub(crate) example: &'static str,
    pub(crate) node: Rc<ConfigNode>,
}

impl ConfigField {
    /// Reports what was expected instead.
    pub(crate) fn report_expected(&self, expected: &str, report: &mut ProblemReport<'_>) {
        let message = format!("{} must be {expected}, not {}", self.name, self.node.describe());
        report.node(&self.node, message, Some(format!("for example `{}`", self.example)));
    }

    /// The value's text, if it is a scalar.
    pub(crate) fn scalar(&self, expected: &str, report: &mut ProblemReport<'_>) -> Option<&str> {
        let text = self.node.text();
        if text.is_none() {
            self.report_expected(expected, report);
        }
        text
    }

    pub(crate) fn locate<T>(&self, value: T) -> Located<T> {
        Located::new(value, &self.node)
    }
}

/// A mapping with known keys.
pub(crate) struct Section {
    fields: Vec<(&'static str, ConfigField)>,
    /// Whether a key was rejected: then a missing one may only be misspelled.
    refused: bool,
}

impl Section {
    /// Reads a mapping, reporting unknown keys and keys without a value.
    pub(crate) fn read(
        field: &ConfigField,
        keys: &'static [KeySpec],
        report: &mut ProblemReport<'_>,
    ) -> Option<Self> {
        let entries = mapping(field, report)?;
        let fields: Vec<_> =
            entries.iter().filter_map(|(name, value)| known(name, value, keys, report)).collect();
        Some(Self { refused: fields.len() < entries.len(), fields })
    }

    /// The decoded value of a key; `None` if it is absent or invalid.
    pub(crate) fn get<T>(
        &self,
        name: &str,
        report: &mut ProblemReport<'_>,
        decode: impl FnOnce(&ConfigField, &mut ProblemReport<'_>) -> Option<T>,
    ) -> Option<T> {
        self.field(name).and_then(|field| decode(field, report))
    }

    /// Whether a key is certainly missing.
    pub(crate) fn lacks(&self, name: &str) -> bool {
        !self.refused && self.field(name).is_none()
    }

    /// The raw value of a key.
    pub(crate) fn field(&self, name: &str) -> Option<&ConfigField> {
        self.fields.iter().find(|(key, _)| *key == name).map(|(_, field)| field)
    }
}

fn known(
    name: &ConfigNode,
    value: &Rc<ConfigNode>,
    keys: &'static [KeySpec],
    report: &mut ProblemReport<'_>,
) -> Option<(&'static str, ConfigField)> {
    let text = name.text()?;
    let Some(key) = keys.iter().find(|key| key.name == text) else {
        let help = nearest_or_all(text, keys.iter().map(|key| key.name));
        report.node(name, format!("unknown key `{}`", shown(text)), Some(help));
        return None;
    };
    let field = ConfigField { name: format!("`{}`", key.name), example: key.example, node: Rc::clone(value) };
    has_value(name, &field, report).then_some((key.name, field))
}

/// A key without a value is an error: whether it means none or the default would be a guess.
fn has_value(name: &ConfigNode, field: &ConfigField, report: &mut ProblemReport<'_>) -> bool {
    let missing = field.node.is_null();
    if missing {
        let help = format!("remove the key, or write for example `{}`", field.example);
        report.node(name, format!("{} has no value", field.name), Some(help));
    }
    !missing
}

pub(crate) fn mapping<'f>(
    field: &'f ConfigField,
    report: &mut ProblemReport<'_>,
) -> Option<&'f [(Rc<ConfigNode>, Rc<ConfigNode>)]> {
    match &field.node.kind {
        NodeKind::Map(entries) => Some(entries),
        NodeKind::Scalar { .. } | NodeKind::List(_) => {
            field.report_expected("a mapping", report);
            None
        }
    }
}

/// A mapping from names that the operator chose; `what` describes them in messages.
pub(crate) fn named(
    field: &ConfigField,
    what: &str,
    report: &mut ProblemReport<'_>,
) -> Option<Vec<(Located<String>, ConfigField)>> {
    let entries = mapping(field, report)?;
    let named = |(key, value): &(Rc<ConfigNode>, Rc<ConfigNode>)| {
        let text = key.text()?;
        let name = format!("{what} `{}`", shown(text));
        let field = ConfigField { name, example: field.example, node: Rc::clone(value) };
        let located = Located::new(text.to_owned(), key);
        has_value(key, &field, report).then_some((located, field))
    };
    Some(entries.iter().filter_map(named).collect())
}

/// A name that the operator chose, parsed.
pub(crate) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    name: &Located<String>,
    report: &mut ProblemReport<'_>,
) -> Option<Located<T>> {
    match name.value.parse() {
        Ok(value) => Some(name.with(value)),
        Err(error) => {
            report.located(name, error.to_string(), None);
            None
        }
    }
}

/// One of a fixed set of words.
pub(crate) trait Word: Copy + 'static {
    /// What the words stand for, with its article.
    const WHAT: &'static str;
    /// The words and their values.
    const WORDS: &'static [(&'static str, Self)];
}

pub(crate) fn word<T: Word>(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<T>> {
    let text = field.scalar(T::WHAT, report)?;
    let found = T::WORDS.iter().find(|(word, _)| *word == text);
    if found.is_none() {
        let help = format!("use {}", any_of(T::WORDS.iter().map(|(word, _)| *word)));
        report.node(&field.node, format!("`{}` is not {}", shown(text), T::WHAT), Some(help));
    }
    found.map(|(_, value)| field.locate(*value))
}

pub(crate) fn text(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<String> {
    field.scalar("text", report).map(str::to_owned)
}

pub(crate) fn flag(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<bool> {
    match &field.node.kind {
        NodeKind::Scalar { text, plain: true } if text == "true" => Some(true),
        NodeKind::Scalar { text, plain: true } if text == "false" => Some(false),
        _ => {
            field.report_expected("`true` or `false`", report);
            None
        }
    }
}

pub(crate) fn duration(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Duration> {
    quantity(field, "a time", quantity::duration, report)
}

/// A duration that may be `0s`.
pub(crate) fn duration_or_none(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Duration> {
    quantity(field, "a time", quantity::duration_or_none, report)
}

pub(crate) fn size(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<u64> {
    quantity(field, "a size", quantity::size, report)
}

pub(crate) fn count(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<u64> {
    quantity(field, "a count", quantity::count, report)
}

fn quantity<T>(
    field: &ConfigField,
    what: &str,
    read: fn(&str) -> Result<T, InvalidQuantity>,
    report: &mut ProblemReport<'_>,
) -> Option<T> {
    match read(field.scalar(what, report)?) {
        Ok(quantity) => Some(quantity),
        Err(InvalidQuantity { message, help }) => {
            report.node(&field.node, format!("{}: {message}", field.name), Some(help));
            None
        }
    }
}

pub(crate) fn path(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<DeclaredPath>> {
    match DeclaredPath::new(field.scalar("a path", report)?) {
        Ok(path) => Some(field.locate(path)),
        Err((message, help)) => {
            report.node(&field.node, format!("{}: {message}", field.name), Some(help.to_owned()));
            None
        }
    }
}

/// A list of globs. Each is checked by itself first, so that every bad one is reported at its position.
pub(crate) fn globs(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Globs> {
    let NodeKind::List(items) = &field.node.kind else {
        field.report_expected("a list of globs", report);
        return None;
    };
    let texts: Vec<Option<&str>> = items.iter().map(|item| glob(field, item, report)).collect();
    let texts: Vec<&str> = texts.into_iter().collect::<Option<_>>()?;
    Globs::compile(texts).map_err(|error| report.node(&field.node, error.to_string(), None)).ok()
}

/// Deny globs. They are matched case-insensitively, so a class must not exclude a letter in one case only.
pub(crate) fn denials(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Globs> {
    let globs = globs(field, report);
    let NodeKind::List(items) = &field.node.kind else { return None };
    let unclear: Vec<_> =
        items.iter().filter_map(|item| Some((item, letter_left_out_in_one_case(item.text()?)?))).collect();
    for (item, letter) in &unclear {
        let (glob, other) = (shown(item.text().unwrap_or_default()), other_case(*letter));
        let message =
            format!("the glob `{glob}` leaves out `{letter}` and not `{other}`, but denials ignore case");
        report.node(item, message, Some(format!("name both, as in `[!{letter}{other}]`")));
    }
    globs.filter(|_| unclear.is_empty())
}

fn glob<'i>(
    field: &ConfigField,
    item: &'i Rc<ConfigNode>,
    report: &mut ProblemReport<'_>,
) -> Option<&'i str> {
    let Some(text) = item.text().filter(|_| !item.is_null()) else {
        let name = format!("each glob of {}", field.name);
        ConfigField { name, example: field.example, node: Rc::clone(item) }.report_expected("text", report);
        return None;
    };
    Globs::compile([text]).map_err(|error| report.node(item, error.to_string(), None)).ok()?;
    Some(text)
}

/// A list whose items are decoded one by one, so that every bad one is reported at its position. `what` describes an item in
/// messages.
pub(crate) fn list<T>(
    field: &ConfigField,
    what: &str,
    report: &mut ProblemReport<'_>,
    mut decode: impl FnMut(&ConfigField, &mut ProblemReport<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let NodeKind::List(items) = &field.node.kind else {
        field.report_expected("a list", report);
        return None;
    };
    let item = |node: &Rc<ConfigNode>| {
        let name = format!("each {what} of {}", field.name);
        let item = ConfigField { name, example: field.example, node: Rc::clone(node) };
        if node.is_null() {
            item.report_expected("a value", report);
            return None;
        }
        decode(&item, report)
    };
    Some(items.iter().filter_map(item).collect())
}

/// A text with its position.
pub(crate) fn located_text(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<String>> {
    text(field, report).map(|text| field.locate(text))
}

/// The name that was probably meant, or all names.
pub(crate) fn nearest_or_all<'w>(name: &str, known: impl Iterator<Item = &'w str> + Clone) -> String {
    match nearest_name(name, known.clone()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("use {}", any_of(known)),
    }
}

/// `` `a`, `b` or `c` ``.
pub(crate) fn any_of<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let mut quoted: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    match quoted.pop() {
        Some(last) if quoted.is_empty() => last,
        Some(last) => format!("{} or {last}", quoted.join(", ")),
        None => String::new(),
    }
}
