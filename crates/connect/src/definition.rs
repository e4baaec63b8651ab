//! A server's definition of a tool: exactly what is approved, compared and shown.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_gate::ToolSchema;
use toolgate_text::{escape_control_chars, sanitize};
use toolgate_types::{Sha256, ToolClass};

use crate::icon::{DefinitionIcon, usable_icons};
use crate::untrusted_schema::{PatternBudget, sanitize_schema};

/// The schemas of a tool's arguments and, if declared, of its results.
pub(crate) type Schemas = (ToolSchema, Option<ToolSchema>);

/// Maximum length of a description for a model.
const MAX_DESCRIPTION_BYTES: usize = 8 * 1024;

/// Maximum length of a title, or of the first line of a description.
const MAX_LINE_BYTES: usize = 200;

/// A tool as its server defines it, unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The server's name for it.
    pub name: String,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The server's description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The schema of its arguments.
    pub input_schema: Value,
    /// The schema of its structured results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The server's hints. Nothing is decided by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    /// Its icons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<DefinitionIcon>,
}

impl Definition {
    pub(crate) fn of(tool: rmcp::model::Tool) -> Self {
        let annotations =
            tool.annotations.map(|annotations| serde_json::to_value(annotations).unwrap_or_default());
        Self {
            name: tool.name.into_owned(),
            title: tool.title,
            description: tool.description.map(std::borrow::Cow::into_owned),
            input_schema: Value::Object(Arc::unwrap_or_clone(tool.input_schema)),
            output_schema: tool.output_schema.map(|schema| Value::Object(Arc::unwrap_or_clone(schema))),
            annotations,
            icons: usable_icons(tool.icons),
        }
    }

    /// The bytes of its icons.
    pub(crate) fn icon_bytes(&self) -> usize {
        self.icons.iter().map(|icon| icon.src.len()).sum()
    }

    /// The digest of the whole definition. The order of object members does not matter.
    #[must_use]
    pub fn digest(&self) -> Sha256 {
        let whole = serde_json::to_value(self).unwrap_or_default();
        let canonical = serde_json::json!(["toolgate.mcp.tool.v1", sorted(whole)]);
        Sha256::of(canonical.to_string().as_bytes())
    }

    /// The class that the server's own hints suggest, if they say that the tool is not destructive. Offered to an operator; nothing is decided by it.
    #[must_use]
    pub fn suggested_class(&self) -> Option<ToolClass> {
        let hint = |name: &str| self.annotations.as_ref()?.get(name)?.as_bool();
        match (hint("readOnlyHint"), hint("destructiveHint")) {
            (Some(true), _) => Some(ToolClass::Read),
            (_, Some(false)) => Some(ToolClass::Write),
            _ => None,
        }
    }

    /// Whether a tool can be built from it.
    ///
    /// # Errors
    /// What is wrong with its schemas.
    pub fn check(&self) -> Result<(), String> {
        self.schemas(&mut PatternBudget::for_server().for_tool()).map(|_| ())
    }

    /// The sanitised schemas of its arguments and, if declared, of its results.
    pub(crate) fn schemas(&self, room: &mut PatternBudget) -> Result<Schemas, String> {
        let input = sanitize_schema(&self.input_schema, true, room)
            .map_err(|reason| format!("its input schema cannot be used: {reason}"))?;
        let output =
            self.output_schema.as_ref().map(|schema| sanitize_schema(schema, false, room)).transpose();
        let output = output.map_err(|reason| format!("its output schema cannot be used: {reason}"))?;
        Ok((input.into(), output.map(ToolSchema::from)))
    }

    /// The definition as shown to an operator: one field per line, with hidden characters escaped.
    #[must_use]
    pub fn escaped(&self) -> String {
        let mut shown = self.clone();
        shown.icons.iter_mut().for_each(|icon| icon.src = icon.summary());
        let whole = sorted(serde_json::to_value(shown).unwrap_or_default());
        let mut text = escape_control_chars(&serde_json::to_string_pretty(&whole).unwrap_or_default());
        text.push('\n');
        text
    }

    /// The description as shown to an operator, with hidden characters escaped.
    #[must_use]
    pub fn escaped_description(&self) -> String {
        escape_control_chars(self.description.as_deref().unwrap_or_default())
    }

    /// Its first line, for approval questions.
    pub(crate) fn escaped_first_line(&self) -> String {
        let description = self.description.as_deref().unwrap_or_default();
        escape_control_chars(&truncate(description.lines().next().unwrap_or_default(), MAX_LINE_BYTES))
    }

    /// The description for a model: sanitised and truncated.
    pub(crate) fn description_for_models(&self) -> String {
        truncate(&sanitize(self.description.as_deref().unwrap_or_default()), MAX_DESCRIPTION_BYTES)
    }

    /// The sanitised display name.
    pub(crate) fn title_for_people(&self) -> String {
        let hinted = self.annotations.as_ref().and_then(|hints| hints.get("title")).and_then(Value::as_str);
        let title = self.title.as_deref().or(hinted).unwrap_or(&self.name);
        truncate(&sanitize(title).replace('\n', " "), MAX_LINE_BYTES)
    }
}

/// A key that is equal for names that are easily confused: case, `-`, `.` and `_` are folded.
#[must_use]
pub fn confusable_key(name: &str) -> String {
    let fold = |character: char| if matches!(character, '-' | '.') { '_' } else { character };
    name.chars().flat_map(char::to_lowercase).map(fold).collect()
}

/// Sorts object members by name, recursively.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> =
                fields.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            Value::Object(Map::from_iter(fields))
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        plain => plain,
    }
}

/// The first `most` bytes of a text, with an ellipsis if truncated.
pub(crate) fn truncate(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn definition() -> Definition {
        Definition {
            name: "add".to_owned(),
            title: Some("Add".to_owned()),
            description: Some("Adds.".to_owned()),
            input_schema: json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}}),
            output_schema: Some(json!({"type": "object"})),
            annotations: Some(json!({"readOnlyHint": true})),
            icons: Vec::new(),
        }
    }

    #[test]
    fn every_part_counts() {
        let base = definition();
        let changes: [fn(&mut Definition); 8] = [
            |it| it.name.push('x'),
            |it| it.title = None,
            |it| it.description = Some("Adds. ".to_owned()),
            |it| it.description = Some("Adds.\u{200b}".to_owned()),
            |it| it.input_schema = json!({"type": "object"}),
            |it| it.output_schema = None,
            |it| it.annotations = Some(json!({"readOnlyHint": false})),
            |it| it.icons = vec![DefinitionIcon { src: "data:".to_owned(), sizes: Vec::new(), theme: None }],
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut other = definition();
            change(&mut other);
            assert_ne!(other.digest(), base.digest(), "change {index}");
        }
    }

    #[test]
    fn the_order_of_fields_does_not_count() {
        let mut other = definition();
        other.input_schema = json!({"properties": {"b": {}, "a": {"type": "integer"}}, "type": "object"});
        assert_eq!(other.digest(), definition().digest());
    }

    #[test]
    fn models_are_shown_nothing_hidden_and_operators_everything() {
        let mut it = definition();
        it.description = Some("Adds\u{e0041}\u{202e} numbers\u{1b}[8m and reads ~/.ssh\u{1b}[0m".to_owned());
        assert_eq!(it.description_for_models(), "Adds numbers and reads ~/.ssh");
        assert_eq!(
            it.escaped_description(),
            "Adds\\u{e0041}\\u{202e} numbers\\u{1b}[8m and reads ~/.ssh\\u{1b}[0m"
        );
        assert!(it.escaped().contains("\\u{e0041}") || it.escaped().contains("\\\\u{e0041}"));
    }

    proptest! {
        #[test]
        fn cutting_never_breaks_a_character(text in "\\PC{0,40}", most in 0usize..50) {
            let cut = truncate(&text, most);
            prop_assert!(cut.len() <= most + '…'.len_utf8());
            prop_assert!(text.starts_with(cut.trim_end_matches('…')) || cut == text);
        }
    }
}
