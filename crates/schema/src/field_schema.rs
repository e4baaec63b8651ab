//! A schema compiled for objects that a program writes field by field.
//!
//! Each answer of a built-in tool is checked against its output schema, by the names and types of its fields: parsing the output of a listing of 1,000
//! names would take 1,000 allocations. The schema is read once, and a check compares each field with the next declared one, because tools write their
//! fields in about the order in which they declare them. Like the other fast path it never rejects.

use serde_json::{Map, Value};
use toolgate_types::{JsonType, RawJsonField};

use crate::fast_path::only_type;

/// The fields that an object schema declares, if they can be checked by their types.
#[derive(Debug)]
pub struct FieldSchema {
    declared: Vec<DeclaredField>,
    /// A bit for each declared field that is required.
    required: u64,
    /// Whether an object may have fields that are not declared.
    is_open: bool,
}

#[derive(Debug)]
struct DeclaredField {
    name: String,
    rule: FieldRule,
}

#[derive(Debug)]
enum FieldRule {
    /// The types of the value and of the items of an array, as far as they are constrained.
    Types { value: Option<JsonType>, items: Option<JsonType> },
    /// Required and not declared as a property.
    Any,
    /// Constrained by more than types, or by nothing that is known here.
    Unprovable,
}

impl FieldSchema {
    /// The fields of a schema; `None` if it has a keyword beside those of a plain object, or too many fields.
    #[must_use]
    pub fn compile(keywords: &Map<String, Value>) -> Option<Self> {
        let mut schema = Self { declared: Vec::new(), required: 0, is_open: true };
        if let Some(properties) = keywords.get("properties") {
            let rule = |rule: &Value| FieldRule::of(rule).unwrap_or(FieldRule::Unprovable);
            let declared = properties.as_object()?.iter();
            schema.declared = declared
                .map(|(name, declared)| DeclaredField { name: name.clone(), rule: rule(declared) })
                .collect();
        }
        for (keyword, rule) in keywords {
            match keyword.as_str() {
                "title" | "description" | "properties" => {}
                "type" if rule == JsonType::Object.name() => {}
                "required" => rule.as_array()?.iter().try_for_each(|name| schema.require(name.as_str()?))?,
                "additionalProperties" => schema.is_open = rule == &Value::Bool(true),
                _ => return None,
            }
        }
        // A required field that is not declared is one more field, which is only allowed where others are.
        let is_contradictory =
            !schema.is_open && schema.declared.iter().any(|field| matches!(field.rule, FieldRule::Any));
        (!is_contradictory && schema.declared.len() <= u64::BITS as usize).then_some(schema)
    }

    fn require(&mut self, name: &str) -> Option<()> {
        let known = self.declared.iter().position(|field| field.name == name);
        let index = known.unwrap_or_else(|| {
            self.declared.push(DeclaredField { name: name.to_owned(), rule: FieldRule::Any });
            self.declared.len() - 1
        });
        self.required |= bit(index)?;
        Some(())
    }

    /// Whether an object with these fields is certainly valid, whatever their values are. `false` means: parse it and ask the full validator.
    #[must_use]
    pub fn is_certainly_valid(&self, fields: &[RawJsonField]) -> bool {
        if cfg!(toolgate_plain) {
            return false;
        }
        let (mut next, mut found) = (0, 0);
        for field in fields {
            let (before, after) = self.declared.split_at_checked(next).unwrap_or_default();
            let is_it = |declared: &DeclaredField| declared.name == field.name;
            let index = after
                .iter()
                .position(is_it)
                .map(|index| next + index)
                .or_else(|| before.iter().position(is_it));
            let Some((index, declared)) = index.and_then(|index| Some((index, self.declared.get(index)?)))
            else {
                match self.is_open {
                    true => continue,
                    false => return false,
                }
            };
            if !declared.rule.fits(field) {
                return false;
            }
            found |= bit(index).unwrap_or_default();
            next = index + 1;
        }
        found & self.required == self.required
    }
}

/// The bit of a field; `None` where there is none.
fn bit(index: usize) -> Option<u64> {
    1_u64.checked_shl(index.try_into().ok()?)
}

impl FieldRule {
    /// `None` if it constrains more than the type of a value and the type of its items.
    fn of(rule: &Value) -> Option<Self> {
        let (mut value, mut items) = (None, None);
        for (keyword, rule) in rule.as_object()? {
            match keyword.as_str() {
                "title" | "description" => {}
                "type" => value = Some(JsonType::from_name(rule.as_str()?)?),
                "items" => items = Some(JsonType::from_name(only_type(rule)?)?),
                _ => return None,
            }
        }
        Some(Self::Types { value, items })
    }

    fn fits(&self, field: &RawJsonField) -> bool {
        let has_type = |expected: JsonType, kind: JsonType| {
            expected == kind || (kind == JsonType::Integer && expected == JsonType::Number)
        };
        match self {
            Self::Types { value, items } => {
                value.is_none_or(|expected| has_type(expected, field.value))
                    // An array whose items are not known is parsed.
                    && items.is_none_or(|expected| field.items == Some(expected))
            }
            Self::Any => true,
            Self::Unprovable => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use toolgate_types::{JsonObjectWriter, Structured};

    use super::*;
    use crate::fast_path::tests::schemas;

    fn is_proved(schema: &Value, writer: JsonObjectWriter) -> (bool, Value) {
        let Structured::Raw(written) = writer.finish() else { panic!("it was written") };
        let compiled = schema.as_object().and_then(FieldSchema::compile);
        let fields = written.field_types().unwrap();
        (compiled.is_some_and(|compiled| compiled.is_certainly_valid(fields)), written.parse())
    }

    #[test]
    fn fields_are_proved_by_their_types_and_only_by_them() {
        let schema = json!({"type": "object", "additionalProperties": false, "required": ["path"], "properties": {
            "path": {"type": "string", "description": "where"}, "line": {"type": "integer"}, "share": {"type": "number"},
            "names": {"type": "array", "items": {"type": "string"}}, "least": {"type": "integer", "minimum": 1}}});
        let writer = || JsonObjectWriter::with_capacity(0).field("path", &"a");
        for (written, expected) in [
            (writer(), true),
            (writer().field("line", &1).field("share", &1).field("names", &vec!["x"]), true),
            (
                JsonObjectWriter::with_capacity(0)
                    .field("names", &vec!["x"])
                    .field("line", &1)
                    .field("path", &"a"),
                true,
            ),
            (writer().field("share", &1.5).field("names", &Vec::<&str>::new()), true),
            (writer().field("line", &1.5), false),
            (writer().field("names", &["x"]), false),
            (writer().field("least", &1), false),
            (writer().field("unknown", &1), false),
            (writer().field("path", &1), false),
            (JsonObjectWriter::with_capacity(0).field("line", &1), false),
            // The same field twice is not two fields.
            (JsonObjectWriter::with_capacity(0).field("line", &1).field("line", &1), false),
            (JsonObjectWriter::with_capacity(0), false),
        ] {
            let (proved, value) = is_proved(&schema, written);
            assert_eq!(proved, expected, "{value}");
            let full = jsonschema::draft202012::options().build(&schema).unwrap();
            assert!(!proved || full.is_valid(&value), "{value}");
        }
    }

    #[test]
    fn a_schema_of_more_than_types_is_left_to_the_validator() {
        let is_compiled = |schema: Value| FieldSchema::compile(schema.as_object().unwrap()).is_some();
        let fields = |count: usize| {
            let names = (0..count).map(|index| (index.to_string(), json!({"type": "string"})));
            json!({"properties": names.collect::<Map<_, _>>()})
        };
        assert!(is_compiled(json!({})) && is_compiled(fields(64)) && !is_compiled(fields(65)));
        for schema in [
            json!({"type": "array"}),
            json!({"minProperties": 1}),
            json!({"not": {}}),
            json!({"properties": true}),
            json!({"required": "a"}),
            json!({"required": [1]}),
            json!({"required": ["a"], "additionalProperties": false}),
        ] {
            assert!(!is_compiled(schema.clone()), "{schema}");
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        prop::collection::btree_map(
            "[a-d]",
            prop_oneof![
                any::<bool>().prop_map(Value::from),
                (-4i64..5).prop_map(Value::from),
                Just(json!(1.5)),
                Just(Value::Null),
                "[a-c]{0,3}".prop_map(Value::from),
                prop::collection::vec("[a-c]", 0..3).prop_map(Value::from),
            ],
            0..4,
        )
        .prop_map(|fields| json!(fields))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn fields_that_are_proved_are_valid(schema in schemas(), value in values(), names in Just(["a", "b", "c", "d"]).prop_shuffle()) {
            let writer = names.into_iter().fold(JsonObjectWriter::with_capacity(0), |writer, name| match &value[name] {
                Value::Array(items) => writer.field(name, &items.iter().filter_map(Value::as_str).collect::<Vec<_>>()),
                Value::String(text) => writer.field(name, text),
                other if value.get(name).is_some() => writer.field(name, other),
                _ => writer,
            });
            let (proved, written) = is_proved(&schema, writer);
            let full = jsonschema::draft202012::options().build(&schema).unwrap();
            prop_assert!(!proved || full.is_valid(&written), "{schema} {written}");
        }
    }
}
