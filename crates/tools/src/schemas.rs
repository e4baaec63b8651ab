//! The schemas of built-in tools, put together from their parts.
//!
//! By hand, because a macro for JSON copies what it is given and takes more room than it needs, and this is done for every tool whenever the gate starts.

use serde_json::{Map, Value};
use toolgate_gate::ToolSchema;

/// A property of a schema, or one of its keywords.
type SchemaEntry = (&'static str, Value);

/// An object that refuses unknown properties.
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

/// Anything of a type.
pub(crate) fn of_type(kind: &str) -> Value {
    Value::Object(map(&mut [("type", Value::from(kind))].into_iter()))
}

/// The same, with what a model is told about it.
pub(crate) fn described(kind: &str, what: &str) -> Value {
    let keywords = [("type", Value::from(kind)), ("description", Value::from(what))];
    Value::Object(map(&mut keywords.into_iter()))
}

/// The name under which a door repeats in the structured answer what the text says about having been cut.
pub const NOTICE: &str = "notice";

/// That property, for tools whose answers can be cut: a door tells what a tool declares, and would have to copy it to add one.
pub(crate) fn notice() -> SchemaEntry {
    (NOTICE, of_type("string"))
}

/// Any number of these.
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
