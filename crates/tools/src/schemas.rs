//! The JSON Schemas of built-in tools, made from the types that their arguments are parsed into and their answers are written from.
//!
//! The doc comment of a member is its description for the model. A type that is the type of a member is commented with `//`: its doc comment would be
//! the description of every member without one.

use std::borrow::Cow;

use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use toolgate_gate::ToolSchema;

/// The property under which a frontend repeats in the structured answer that the text was truncated. A tool whose answers can be truncated declares
/// it, because a frontend publishes the declared schema, and would have to copy it to add a property.
pub const NOTICE: &str = "notice";

/// The order in which a schema's keywords are written. Others follow.
const KEYWORDS: [&str; 15] = [
    "type",
    "const",
    "enum",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "description",
    "properties",
    "items",
    "required",
    "additionalProperties",
];

/// The schema of a tool's arguments.
pub(crate) fn of_arguments<Arguments: JsonSchema>() -> ToolSchema {
    schema::<Arguments>(Contract::Deserialize)
}

/// The schema of a tool's answers.
pub(crate) fn of_answer<Data: JsonSchema>() -> ToolSchema {
    schema::<Data>(Contract::Serialize)
}

fn schema<T: JsonSchema>(contract: Contract) -> ToolSchema {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.contract = contract.clone();
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Value::Object(keywords) = &mut schema {
        // The description of the type, which is for readers of the code.
        keywords.shift_remove("description");
        normalize(keywords, &contract);
    }
    schema.into()
}

/// Removes what a model need not read, such as titles and Rust's integer formats, and orders the keywords.
fn normalize(keywords: &mut Map<String, Value>, contract: &Contract) {
    for name in ["title", "default", "format"] {
        keywords.shift_remove(name);
    }
    // Of unsigned numbers. What a tool answers with is not a bound that a caller has to keep.
    if matches!(contract, Contract::Serialize) && keywords.get("minimum") == Some(&json!(0)) {
        keywords.shift_remove("minimum");
    }
    if keywords.contains_key("const") || keywords.contains_key("enum") {
        keywords.shift_remove("type");
    }
    match keywords.get("additionalProperties") {
        Some(Value::Bool(true)) if !keywords.contains_key("properties") => {
            keywords.shift_remove("additionalProperties");
        }
        Some(Value::Bool(false)) => {
            keywords.entry("required").or_insert_with(|| json!([]));
        }
        _ => {}
    }
    let required = keywords.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(Value::Object(properties)) = keywords.get_mut("properties") {
        for (name, property) in properties {
            let Value::Object(property) = property else { continue };
            if !required.iter().any(|required| required == name) {
                remove_null(property);
            }
            normalize(property, contract);
        }
    }
    if let Some(Value::Object(items)) = keywords.get_mut("items") {
        normalize(items, contract);
    }
    let mut ordered: Vec<(String, Value)> = std::mem::take(keywords).into_iter().collect();
    ordered
        .sort_by_key(|(name, _)| KEYWORDS.iter().position(|known| known == name).unwrap_or(KEYWORDS.len()));
    keywords.extend(ordered);
}

/// An optional property is left out rather than `null`.
fn remove_null(property: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            property.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(words)) = property.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
}

/// Moves these properties to the front, in this order: published schemas keep theirs, whatever the order of the members in an answer.
pub(crate) fn leading(names: &'static [&'static str]) -> impl FnMut(&mut Schema) {
    move |schema| {
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        let Some(properties) = properties else { return };
        let leading = names.iter().filter_map(|name| properties.shift_remove_entry(*name)).collect();
        let others = std::mem::replace(properties, leading);
        properties.extend(others);
    }
}

/// The same schema with a description of a property that is known only at run time.
pub(crate) fn describe(schema: ToolSchema, property: &str, description: &str) -> ToolSchema {
    let mut keywords = Map::clone(&schema);
    let found = keywords.get_mut("properties").and_then(|properties| properties.get_mut(property));
    if let Some(Value::Object(found)) = found {
        found.insert("description".to_owned(), json!(description));
    }
    keywords.into()
}

/// `true`, and nothing else.
pub(crate) struct True;

impl Serialize for True {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

impl JsonSchema for True {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "True".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"const": true})
    }
}

/// An object whose members are not declared: the profile wraps it in an envelope of its own, which no schema describes.
#[derive(Serialize)]
pub(crate) struct Undeclared<Data>(pub(crate) Data);

impl<Data> JsonSchema for Undeclared<Data> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Undeclared".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object"})
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is read")]
    struct Arguments {
        /// Where
        path: String,
        #[schemars(length(min = 1))]
        pattern: Option<String>,
        #[schemars(range(min = 1, max = 9))]
        most: Option<u64>,
        least: Option<usize>,
        #[serde(default)]
        all: bool,
        #[schemars(length(min = 1, max = 3))]
        edits: Option<Vec<Edit>>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is read")]
    struct Edit {
        #[serde(default)]
        once: bool,
    }

    #[derive(Serialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[expect(dead_code, reason = "only its schema is read")]
    enum Word {
        One,
        Other,
    }

    #[derive(Serialize, JsonSchema)]
    #[schemars(transform = leading(&["b"]))]
    struct Answer {
        a: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        b: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        word: Option<Word>,
        ok: True,
        any: Undeclared<u8>,
        fields: Map<String, Value>,
    }

    #[test]
    fn schemas_are_as_a_person_would_write_them() {
        let arguments = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Where"},
                "pattern": {"type": "string", "minLength": 1},
                "most": {"type": "integer", "minimum": 1, "maximum": 9},
                "least": {"type": "integer", "minimum": 0},
                "all": {"type": "boolean"},
                "edits": {"type": "array", "minItems": 1, "maxItems": 3, "items": {
                    "type": "object", "properties": {"once": {"type": "boolean"}}, "required": [], "additionalProperties": false,
                }},
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        assert_eq!(json!(of_arguments::<Arguments>()).to_string(), arguments.to_string());
        let answer = json!({
            "type": "object",
            "properties": {
                "b": {"type": "integer"}, "a": {"type": ["integer", "null"]},
                "word": {"enum": ["one", "other"]}, "ok": {"const": true},
                "any": {"type": "object"}, "fields": {"type": "object"},
            },
            "required": ["a", "ok", "any", "fields"],
        });
        assert_eq!(json!(of_answer::<Answer>()).to_string(), answer.to_string());
        assert_eq!(json!(of_answer::<String>()), json!({"type": "string"}));
    }
}
