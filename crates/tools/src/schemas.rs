//! Builders for the schemas of built-in tools.
//!
//! Not with `json!`, which clones its operands and over-allocates: the schemas of all tools are built at every start.

use serde_json::{Map, Value};
use toolgate_gate::ToolSchema;

/// A property of a schema, or one of its keywords.
type SchemaEntry = (&'static str, Value);

/// An object schema with `additionalProperties: false`.
pub(crate) fn object<const N: usize>(properties: [SchemaEntry; N], required: &[&str]) -> ToolSchema {
    map(&mut [
        ("type", Value::from("object")),
        ("properties", Value::Object(map(&mut properties.into_iter()))),
        ("required", Value::from(required)),
        ("additionalProperties", Value::from(false)),
    ]
    .into_iter())
    .into()
}

/// A value of a type.
pub(crate) fn of_type(kind: &str) -> Value {
    Value::Object(map(&mut [("type", Value::from(kind))].into_iter()))
}

/// The same, with a description for the model.
pub(crate) fn described(kind: &str, what: &str) -> Value {
    let keywords = [("type", Value::from(kind)), ("description", Value::from(what))];
    Value::Object(map(&mut keywords.into_iter()))
}

/// The property under which a frontend repeats in the structured answer that the text was truncated.
pub const NOTICE: &str = "notice";

/// That property's schema, for tools whose answers can be truncated. It is declared here because a frontend publishes the declared schema, and would
/// have to copy it to add a property.
pub(crate) fn notice() -> SchemaEntry {
    (NOTICE, of_type("string"))
}

/// An array of these.
pub(crate) fn list_of(items: Value) -> Value {
    Value::Object(map(&mut [("type", Value::from("array")), ("items", items)].into_iter()))
}

fn map(named: &mut dyn Iterator<Item = SchemaEntry>) -> Map<String, Value> {
    named.map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_are_as_they_would_be_written_and_in_that_order() {
        let schema = object(
            [
                ("path", described("string", "Where")),
                ("lines", list_of(of_type("integer"))),
                ("any", of_type("object")),
            ],
            &["path", "any"],
        );
        let written = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Where"},
                "lines": {"type": "array", "items": {"type": "integer"}},
                "any": {"type": "object"},
            },
            "required": ["path", "any"],
            "additionalProperties": false,
        });
        assert_eq!(json!(schema).to_string(), written.to_string());
    }
}
