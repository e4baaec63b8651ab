//! A fast path for valid values.
//!
//! Compiling a schema costs more than reading a file. Most calls are plainly valid under a schema with only common keywords, which can be checked
//! without compiling. The fast path never rejects: whatever it cannot prove valid goes to the full validator, which also explains what is wrong.
//!
//! - **Plain way**: `jsonschema`, compiled on the first use.
//! - **Gain** (arguments of `read_file`): 0.045 µs, where the first use compiles for 4.3 µs. It is one of the first call of a tool alone, as on the
//!   command line: once compiled, the validator takes 0.013 µs.
//! - **Switch**: `--cfg toolgate_plain` proves nothing valid.
//! - **Compared** by `what_is_proved_is_valid`.

use serde_json::{Map, Value};

/// Whether the value is certainly valid. `false` means: ask the full validator.
#[must_use]
pub fn is_certainly_valid(keywords: &Map<String, Value>, value: &Value) -> bool {
    !cfg!(toolgate_plain)
        && keywords.iter().all(|(keyword, rule)| keyword_certainly_holds(keyword, rule, keywords, value))
}

/// The same for a subschema, which may be a boolean.
fn subschema_certainly_valid(schema: &Value, value: &Value) -> bool {
    match schema {
        Value::Bool(allowed) => *allowed,
        Value::Object(keywords) => is_certainly_valid(keywords, value),
        _ => false,
    }
}

/// Whether one keyword certainly holds. An unknown keyword does not.
fn keyword_certainly_holds(
    keyword: &str,
    rule: &Value,
    keywords: &Map<String, Value>,
    value: &Value,
) -> bool {
    match (keyword, value) {
        ("title" | "description", _) => true,
        ("type", _) => rule.as_str().and_then(type_check).is_some_and(|has_type| has_type(value)),
        ("enum", _) => rule.as_array().is_some_and(|allowed| allowed.contains(value)),
        ("const", _) => rule == value,
        ("properties", Value::Object(fields)) => rule.as_object().is_some_and(|rules| {
            fields.iter().all(|(name, field)| {
                find(rules, name).is_none_or(|rule| subschema_certainly_valid(rule, field))
            })
        }),
        ("required", Value::Object(fields)) => rule.as_array().is_some_and(|names| {
            names.iter().all(|name| name.as_str().is_some_and(|name| find(fields, name).is_some()))
        }),
        ("additionalProperties", Value::Object(fields)) => {
            let known = keywords.get("properties").and_then(Value::as_object);
            fields.iter().all(|(name, field)| {
                known.is_some_and(|known| find(known, name).is_some())
                    || subschema_certainly_valid(rule, field)
            })
        }
        ("items", Value::Array(items)) => match only_type(rule).and_then(type_check) {
            Some(has_type) => items.iter().all(has_type),
            None => items.iter().all(|item| subschema_certainly_valid(rule, item)),
        },
        ("minItems", Value::Array(items)) => rule.as_u64().is_some_and(|least| items.len() as u64 >= least),
        ("maxItems", Value::Array(items)) => rule.as_u64().is_some_and(|most| items.len() as u64 <= most),
        ("minLength", Value::String(text)) => {
            rule.as_u64().is_some_and(|least| text.chars().count() as u64 >= least)
        }
        ("minimum", Value::Number(number)) => at_least(number.as_i64(), rule.as_i64()),
        ("maximum", Value::Number(number)) => at_least(rule.as_i64(), number.as_i64()),
        // A keyword for another type does not constrain this value.
        (
            "properties"
            | "required"
            | "additionalProperties"
            | "items"
            | "minItems"
            | "maxItems"
            | "minLength"
            | "minimum"
            | "maximum",
            _,
        ) => true,
        _ => false,
    }
}

/// Looks up a field. In a small object, comparing names is cheaper than hashing.
fn find<'m>(fields: &'m Map<String, Value>, name: &str) -> Option<&'m Value> {
    const MAX_LINEAR_FIELDS: usize = 16;
    match fields.len() <= MAX_LINEAR_FIELDS {
        true => fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value),
        false => fields.get(name),
    }
}

/// The type that a schema requires, if it has no other keyword.
pub(crate) fn only_type(schema: &Value) -> Option<&str> {
    let keywords = schema.as_object().filter(|keywords| keywords.len() == 1)?;
    keywords.get("type")?.as_str()
}

/// A predicate for values that certainly have this type; `None` for unknown types.
fn type_check(kind: &str) -> Option<fn(&Value) -> bool> {
    match kind {
        "object" => Some(Value::is_object),
        "array" => Some(Value::is_array),
        "string" => Some(Value::is_string),
        "boolean" => Some(Value::is_boolean),
        "null" => Some(Value::is_null),
        // `1.0` is an integer too; that is left to the full validator.
        "integer" => Some(|value| value.is_i64() || value.is_u64()),
        "number" => Some(Value::is_number),
        _ => None,
    }
}

fn at_least(larger: Option<i64>, smaller: Option<i64>) -> bool {
    matches!((larger, smaller), (Some(larger), Some(smaller)) if larger >= smaller)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[cfg(not(toolgate_plain))]
    #[test]
    fn plain_calls_are_proved_and_everything_else_is_not() {
        let schema = json!({"type": "object", "additionalProperties": false, "required": ["path"], "properties": {
            "path": {"type": "string"}, "line": {"type": "integer", "minimum": 1}, "digest": {"type": "string", "pattern": "^[0-9a-f]$"}}});
        assert!(subschema_certainly_valid(&schema, &json!({"path": "a"})));
        assert!(subschema_certainly_valid(&schema, &json!({"path": "a", "line": 1})));
        for doubtful in [
            json!({}),
            json!({"path": 1}),
            json!({"path": "a", "line": 0}),
            json!({"path": "a", "x": 1}),
            json!([]),
            json!({"path": "a", "line": 1.0}),
            json!({"path": "a", "digest": "a"}),
        ] {
            assert!(!subschema_certainly_valid(&schema, &doubtful), "{doubtful}");
        }
    }

    pub(crate) fn schemas() -> impl Strategy<Value = Value> {
        let number = -3i64..4;
        let leaf = prop_oneof![
            Just(json!(true)),
            Just(json!(false)),
            Just(json!({})),
            prop::sample::select(vec!["object", "array", "string", "boolean", "null", "integer", "number"])
                .prop_map(|kind| json!({"type": kind})),
            number.clone().prop_map(|bound| json!({"minimum": bound})),
            number.clone().prop_map(|bound| json!({"maximum": bound, "type": "integer"})),
            (0u64..4).prop_map(|least| json!({"minLength": least})),
            number.prop_map(|only| json!({"const": only})),
            Just(json!({"enum": ["a", 1, null]})),
            Just(json!({"pattern": "^a+$"})),
            Just(json!({"not": {"type": "string"}})),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                (prop::collection::btree_map("[a-c]", inner.clone(), 0..3), prop::sample::subsequence(vec!["a", "b", "c"], 0..3), inner.clone())
                    .prop_map(|(properties, required, rest)| {
                        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": rest})
                    }),
                (inner, 0u64..3, 0u64..4).prop_map(|(items, least, most)| {
                    json!({"items": items, "minItems": least, "maxItems": most})
                }),
            ]
        })
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-4i64..5).prop_map(Value::from),
            Just(json!(1.0)),
            Just(json!(u64::MAX)),
            "[a-c]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn what_is_proved_is_valid(schema in schemas(), value in values()) {
            let full = jsonschema::draft202012::options().build(&schema).unwrap();
            prop_assert!(!subschema_certainly_valid(&schema, &value) || full.is_valid(&value), "{schema} {value}");
        }
    }
}
