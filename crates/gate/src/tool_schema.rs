//! The JSON Schema of a tool, shared by reference.

use std::ops::Deref;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

/// A JSON Schema as an object. Frontends, models and validators keep it as long as the tool exists, so they share one copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct ToolSchema(#[serde(serialize_with = "keywords")] Arc<Map<String, Value>>);

fn keywords<S: serde::Serializer>(schema: &Map<String, Value>, serializer: S) -> Result<S::Ok, S::Error> {
    schema.serialize(serializer)
}

fn declares(schema: &Map<String, Value>, name: &str) -> bool {
    let is_declared = schema
        .get("properties")
        .and_then(Value::as_object)
        .is_some_and(|properties| properties.contains_key(name));
    is_declared || schema.values().any(|inside| declares_inside(inside, name))
}

fn declares_inside(value: &Value, name: &str) -> bool {
    match value {
        Value::Object(schema) => declares(schema, name),
        Value::Array(items) => items.iter().any(|inside| declares_inside(inside, name)),
        _ => false,
    }
}

impl ToolSchema {
    /// Whether it declares a property of this name at any depth.
    pub(crate) fn declares(&self, name: &str) -> bool {
        declares(&self.0, name)
    }

    /// The schema by shared reference.
    #[must_use]
    pub fn share(&self) -> Arc<Map<String, Value>> {
        Arc::clone(&self.0)
    }

    /// The subschema of one property.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Value> {
        self.get("properties")?.get(name)
    }
}

impl Deref for ToolSchema {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl From<Map<String, Value>> for ToolSchema {
    fn from(keywords: Map<String, Value>) -> Self {
        Self(Arc::new(keywords))
    }
}

/// `true` becomes the empty schema. `false`, and any value that is not a schema, becomes a schema that nothing matches.
impl From<Value> for ToolSchema {
    fn from(schema: Value) -> Self {
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(true) => Map::new(),
            _ => Map::from_iter([("not".to_owned(), json!({}))]),
        };
        keywords.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_object_is_spelt_out_as_one_that_means_the_same() {
        for (given, spelt_out) in [
            (json!({"type": "object", "required": ["a"]}), json!({"type": "object", "required": ["a"]})),
            (json!(true), json!({})),
            (json!(false), json!({"not": {}})),
            (json!("object"), json!({"not": {}})),
            (json!(null), json!({"not": {}})),
        ] {
            let schema = ToolSchema::from(given.clone());
            assert_eq!(json!(schema), spelt_out, "{given}");
            let validator = toolgate_schema::validator(&spelt_out).unwrap();
            let fits = given == json!(true);
            assert!(given.is_object() || validator.is_valid(&json!(1)) == fits, "{given}");
        }
    }

    #[test]
    fn a_copy_is_the_same_schema() {
        let schema = ToolSchema::from(json!({"properties": {"a": {"type": "string"}}}));
        assert!(Arc::ptr_eq(&schema.share(), &schema.clone().share()));
        assert_eq!(schema.property("a"), Some(&json!({"type": "string"})));
        assert_eq!(schema.property("b"), None);
    }
}
