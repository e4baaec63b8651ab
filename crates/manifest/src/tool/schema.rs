//! The JSON Schemas of a tool: validated as schemas, and closed to unknown properties unless they say otherwise.
//!
//! JSON Schema ignores unknown keywords, so a misspelled constraint constrains nothing. Here a keyword must be part of the vocabulary or
//! start with `x-`.

use std::rc::Rc;

use jsonschema::Validator;
use serde_json::{Map, Value, json};
use toolgate_schema::{schema_problem, validator};

use super::OutputParse;
use super::property::check_extensions;
use crate::decode::{ConfigField, nearest_or_all};
use crate::json;
use crate::problem::{shown, shown_message};
use crate::problem_report::ProblemReport;
use crate::yaml_tree::{ConfigNode, NodeKind};

/// The contents of a keyword.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeywordContent {
    /// A schema that applies to a part of the value.
    Part,
    /// Schemas by name that apply to parts of the value.
    Parts,
    /// A list of schemas that apply to parts of the value.
    PartList,
    /// A schema that applies to the value itself.
    Same,
    /// A list of schemas that apply to the value itself.
    SameList,
    /// Schemas by name that apply to the value itself, or where they are referenced.
    SameMap,
    /// Something that is not a schema.
    Other,
}

const KEYWORDS: &[(&str, KeywordContent)] = &[
    ("type", KeywordContent::Other),
    ("properties", KeywordContent::Parts),
    ("required", KeywordContent::Other),
    ("additionalProperties", KeywordContent::Part),
    ("items", KeywordContent::Part),
    ("enum", KeywordContent::Other),
    ("const", KeywordContent::Other),
    ("pattern", KeywordContent::Other),
    ("minLength", KeywordContent::Other),
    ("maxLength", KeywordContent::Other),
    ("minimum", KeywordContent::Other),
    ("maximum", KeywordContent::Other),
    ("exclusiveMinimum", KeywordContent::Other),
    ("exclusiveMaximum", KeywordContent::Other),
    ("multipleOf", KeywordContent::Other),
    ("minItems", KeywordContent::Other),
    ("maxItems", KeywordContent::Other),
    ("uniqueItems", KeywordContent::Other),
    ("minProperties", KeywordContent::Other),
    ("maxProperties", KeywordContent::Other),
    ("title", KeywordContent::Other),
    ("description", KeywordContent::Other),
    ("default", KeywordContent::Other),
    ("examples", KeywordContent::Other),
    ("format", KeywordContent::Other),
    ("prefixItems", KeywordContent::PartList),
    ("contains", KeywordContent::Part),
    ("minContains", KeywordContent::Other),
    ("maxContains", KeywordContent::Other),
    ("patternProperties", KeywordContent::Parts),
    ("propertyNames", KeywordContent::Part),
    ("dependentRequired", KeywordContent::Other),
    ("dependentSchemas", KeywordContent::SameMap),
    ("unevaluatedItems", KeywordContent::Part),
    ("unevaluatedProperties", KeywordContent::Part),
    ("allOf", KeywordContent::SameList),
    ("anyOf", KeywordContent::SameList),
    ("oneOf", KeywordContent::SameList),
    ("not", KeywordContent::Same),
    ("if", KeywordContent::Same),
    ("then", KeywordContent::Same),
    ("else", KeywordContent::Same),
    ("deprecated", KeywordContent::Other),
    ("readOnly", KeywordContent::Other),
    ("writeOnly", KeywordContent::Other),
    ("contentEncoding", KeywordContent::Other),
    ("contentMediaType", KeywordContent::Other),
    ("contentSchema", KeywordContent::Other),
    ("$ref", KeywordContent::Other),
    ("$defs", KeywordContent::SameMap),
    ("$id", KeywordContent::Other),
    ("$schema", KeywordContent::Other),
    ("$anchor", KeywordContent::Other),
    ("$dynamicRef", KeywordContent::Other),
    ("$dynamicAnchor", KeywordContent::Other),
    ("$vocabulary", KeywordContent::Other),
    ("$comment", KeywordContent::Other),
    ("x-toolgate-path", KeywordContent::Other),
    ("x-toolgate-multiline", KeywordContent::Other),
    ("x-toolgate-allow", KeywordContent::Other),
    ("x-toolgate-extensions", KeywordContent::Other),
    ("x-toolgate-exists", KeywordContent::Other),
];

/// Keywords that apply further schemas to the same value, so that only all of them together know its properties.
const COMPOSING: &[&str] =
    &["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"];

pub(super) const TYPES: &[&str] = &["string", "integer", "number", "boolean", "array", "object", "null"];

/// A schema and its compiled validator.
pub(super) struct CompiledSchema {
    pub(super) schema: Value,
    pub(super) validator: Validator,
}

/// The schema of a tool's arguments.
pub(super) fn input(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<CompiledSchema> {
    let before = report.count();
    let mut schema = read(field, report)?;
    let object = schema.as_object_mut()?;
    match object.get("type") {
        None => _ = object.insert("type".to_owned(), json!("object")),
        Some(kind) if kind == "object" => {}
        Some(_) => {
            let node = field.node.at("/type");
            report.node(node, "arguments are always an object", Some("write `type: object`".to_owned()));
        }
    }
    object.entry("properties").or_insert_with(|| json!({}));
    close(&mut schema, true);
    compile(field, schema, before, report)
}

/// The schema for a tool without arguments.
pub(super) fn no_input() -> Value {
    json!({"type": "object", "properties": {}, "additionalProperties": false})
}

/// The schema of a tool's output.
pub(super) fn output(
    field: &ConfigField,
    parse: OutputParse,
    report: &mut ProblemReport<'_>,
) -> Option<Value> {
    let before = report.count();
    let mut schema = read(field, report)?;
    let (promise, given) = match parse {
        OutputParse::Text => ("string", "one text"),
        OutputParse::Lines | OutputParse::JsonLines => ("array", "a list"),
        OutputParse::Json => ("", ""),
    };
    let kinds = schema.get("type").map(kinds_of).unwrap_or_default();
    if !promise.is_empty() && !kinds.is_empty() && !kinds.contains(&promise) {
        let message = format!("`parse: {}` gives {given}, which this schema refuses", parse.as_str());
        let help = format!("write `type: {promise}`, or another `parse`");
        report.node(field.node.at("/type"), message, Some(help));
    }
    close(&mut schema, true);
    compile(field, schema, before, report).map(|checked| checked.schema)
}

/// The schema that a parse mode implies by itself.
pub(super) fn implied_schema(parse: OutputParse) -> Value {
    match parse {
        OutputParse::Text => json!({"type": "string"}),
        OutputParse::Lines => json!({"type": "array", "items": {"type": "string"}}),
        OutputParse::JsonLines => json!({"type": "array"}),
        OutputParse::Json => json!({}),
    }
}

/// The types in a `type` keyword.
pub(super) fn kinds_of(kind: &Value) -> Vec<&str> {
    match kind {
        Value::String(word) => vec![word],
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn read(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Value> {
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        field.report_expected("a JSON Schema", report);
        return None;
    }
    let before = report.count();
    check_keywords(&field.node, report);
    check_marks(&field.node, report);
    let schema = json::value(&field.node, report)?;
    if report.count() == before {
        check_meta_schema(field, &schema, report);
    }
    Some(schema)
}

fn check_meta_schema(field: &ConfigField, schema: &Value, report: &mut ProblemReport<'_>) {
    let meta = jsonschema::draft202012::meta::validator();
    for error in meta.iter_errors(schema).take(20) {
        let pointer = error.instance_path().to_string();
        let keyword = pointer.rsplit('/').next().unwrap_or_default();
        let message = format!("`{}`: {}", shown(keyword), shown_message(&error.masked().to_string()));
        report.node(field.node.at(&pointer), message, None);
    }
}

fn compile(
    field: &ConfigField,
    schema: Value,
    before: usize,
    report: &mut ProblemReport<'_>,
) -> Option<CompiledSchema> {
    if report.count() > before {
        return None;
    }
    match validator(&schema) {
        Ok(validator) => Some(CompiledSchema { schema, validator }),
        Err(error) => {
            let pointer = error.instance_path().to_string();
            let message =
                format!("{} cannot be used: {}", field.name, shown_message(&schema_problem(&error)));
            report.node(field.node.at(&pointer), message, None);
            None
        }
    }
}

/// Checks every keyword of a schema and of its subschemas.
fn check_keywords(node: &Rc<ConfigNode>, report: &mut ProblemReport<'_>) {
    let NodeKind::Map(entries) = &node.kind else { return };
    for (key, value) in entries {
        let name = key.text().unwrap_or_default();
        match KEYWORDS.iter().find(|(keyword, _)| *keyword == name) {
            Some((_, holds)) => inner(*holds, value).for_each(|inner| check_keywords(inner, report)),
            None if name.starts_with("x-") && !name.starts_with("x-toolgate") => {}
            None => {
                let help = nearest_or_all(name, KEYWORDS.iter().map(|(keyword, _)| *keyword));
                let help =
                    if help.len() > 100 { "remove it, or begin it with `x-`".to_owned() } else { help };
                report.node(key, format!("`{}` is not a keyword of JSON Schema", shown(name)), Some(help));
            }
        }
    }
    check_type(node, report);
    check_required(node, report);
    check_dialect(node, report);
    check_extensions(node, report);
}

/// The keywords for a single argument.
const MARKS: [&str; 5] = [
    "x-toolgate-path",
    "x-toolgate-multiline",
    "x-toolgate-allow",
    "x-toolgate-extensions",
    "x-toolgate-exists",
];

/// Rejects marks that would have no effect: they apply to a property and to the items of a list, through references too.
fn check_marks(root: &Rc<ConfigNode>, report: &mut ProblemReport<'_>) {
    let mut counting: Vec<*const ConfigNode> = Vec::new();
    for name in ["properties", "$defs", "definitions"] {
        let Some(NodeKind::Map(entries)) = root.get(name).map(|node| &node.kind) else { continue };
        for (_, schema) in entries {
            let items = schema.get("items");
            if items.is_none() && !is_list(schema) {
                counting.push(Rc::as_ptr(schema));
            }
            counting.extend(items.map(Rc::as_ptr));
        }
    }
    visit(root, &mut |schema| {
        if counting.contains(&std::ptr::from_ref(schema)) {
            return;
        }
        for (mark, node) in MARKS.iter().filter_map(|mark| Some((mark, schema.get(mark)?))) {
            let help = "put it on a property that is one text, or on the `items` of a list".to_owned();
            report.node(node, format!("`{mark}` does nothing here"), Some(help));
        }
    });
}

fn is_list(schema: &ConfigNode) -> bool {
    let is_array = |node: &Rc<ConfigNode>| node.text() == Some("array");
    schema.get("type").is_some_and(|kind| match &kind.kind {
        NodeKind::List(words) => words.iter().any(is_array),
        _ => is_array(kind),
    })
}

/// Visits a schema and all its subschemas.
pub(super) fn visit(schema: &Rc<ConfigNode>, see: &mut impl FnMut(&ConfigNode)) {
    let NodeKind::Map(entries) = &schema.kind else { return };
    see(schema);
    for (key, value) in entries {
        let known = KEYWORDS.iter().find(|(keyword, _)| Some(*keyword) == key.text());
        let inside: Vec<&Rc<ConfigNode>> =
            known.map(|(_, holds)| inner(*holds, value).collect()).unwrap_or_default();
        inside.into_iter().for_each(|schema| visit(schema, see));
    }
}

fn inner(holds: KeywordContent, value: &Rc<ConfigNode>) -> Box<dyn Iterator<Item = &Rc<ConfigNode>> + '_> {
    match (holds, &value.kind) {
        (KeywordContent::Part | KeywordContent::Same, _) => Box::new(std::iter::once(value)),
        (KeywordContent::PartList | KeywordContent::SameList, NodeKind::List(items)) => {
            Box::new(items.iter())
        }
        (KeywordContent::Parts | KeywordContent::SameMap, NodeKind::Map(entries)) => {
            Box::new(entries.iter().map(|(_, value)| value))
        }
        _ => Box::new(std::iter::empty()),
    }
}

fn check_type(node: &ConfigNode, report: &mut ProblemReport<'_>) {
    let Some(kind) = node.get("type") else { return };
    let words: Vec<&Rc<ConfigNode>> = match &kind.kind {
        NodeKind::List(items) => items.iter().collect(),
        _ => vec![kind],
    };
    for word in words {
        let text = word.text().unwrap_or_default();
        if !TYPES.contains(&text) {
            let help = nearest_or_all(text, TYPES.iter().copied());
            report.node(word, format!("{} is not a type", word.describe()), Some(help));
        }
    }
}

/// In a closed object, a required property that is not declared could never be passed.
fn check_required(node: &ConfigNode, report: &mut ProblemReport<'_>) {
    let open = ["additionalProperties", "unevaluatedProperties", "patternProperties"];
    if open.iter().chain(COMPOSING).any(|keyword| node.get(keyword).is_some()) {
        return;
    }
    let (Some(NodeKind::List(required)), Some(NodeKind::Map(properties))) =
        (node.get("required").map(|node| &node.kind), node.get("properties").map(|node| &node.kind))
    else {
        return;
    };
    let known: Vec<&str> = properties.iter().filter_map(|(key, _)| key.text()).collect();
    for name in required {
        let Some(text) = name.text().filter(|text| !known.contains(text)) else { continue };
        let help = nearest_or_all(text, known.iter().copied());
        report.node(name, format!("`{}` is required and not declared", shown(text)), Some(help));
    }
}

fn check_dialect(node: &ConfigNode, report: &mut ProblemReport<'_>) {
    const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
    if let Some(dialect) = node.get("$schema").filter(|dialect| dialect.text() != Some(DIALECT)) {
        let help = format!("remove `$schema`, or write `{DIALECT}`");
        report.node(dialect, "schemas are JSON Schema 2020-12", Some(help));
    }
}

/// Closes objects with declared properties, wherever a schema describes a whole value. If several schemas describe the same value, only
/// properties that none of them declares are rejected.
fn close(schema: &mut Value, whole: bool) {
    let Value::Object(keywords) = schema else { return };
    for (keyword, inner) in keywords.iter_mut() {
        let holds = KEYWORDS
            .iter()
            .find(|(name, _)| name == keyword)
            .map_or(KeywordContent::Other, |(_, holds)| *holds);
        let whole = matches!(holds, KeywordContent::Part | KeywordContent::Parts | KeywordContent::PartList);
        match (holds, inner) {
            (KeywordContent::Part | KeywordContent::Same, inner) => close(inner, whole),
            (KeywordContent::PartList | KeywordContent::SameList, Value::Array(items)) => {
                items.iter_mut().for_each(|item| close(item, whole));
            }
            (KeywordContent::Parts | KeywordContent::SameMap, Value::Object(items)) => {
                items.values_mut().for_each(|item| close(item, whole));
            }
            _ => {}
        }
    }
    if whole {
        close_object(keywords);
    }
}

fn close_object(keywords: &mut Map<String, Value>) {
    let says = |names: &[&str]| names.iter().any(|name| keywords.contains_key(*name));
    if says(&["additionalProperties", "unevaluatedProperties"]) {
        return;
    }
    if says(COMPOSING) {
        keywords.insert("unevaluatedProperties".to_owned(), Value::Bool(false));
    } else if says(&["properties", "patternProperties"]) {
        keywords.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(mut schema: Value) -> Value {
        close(&mut schema, true);
        schema
    }

    #[test]
    fn objects_are_closed_where_they_stand_for_a_whole_value() {
        for (schema, expected) in [
            (json!({"type": "object"}), json!({"type": "object"})),
            (json!({"properties": {}}), json!({"properties": {}, "additionalProperties": false})),
            (
                json!({"properties": {}, "additionalProperties": true}),
                json!({"properties": {}, "additionalProperties": true}),
            ),
            (
                json!({"items": {"properties": {"a": {"properties": {}}}}}),
                json!({"items": {
                    "properties": {"a": {"properties": {}, "additionalProperties": false}},
                    "additionalProperties": false
                }}),
            ),
            (
                json!({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}),
                json!({
                    "allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}],
                    "unevaluatedProperties": false
                }),
            ),
            (
                json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"properties": {}}}}),
                json!({
                    "properties": {"a": {"$ref": "#/$defs/a", "unevaluatedProperties": false}},
                    "$defs": {"a": {"properties": {}}},
                    "additionalProperties": false
                }),
            ),
            // A property whose name is a keyword is still a property.
            (
                json!({"properties": {"items": {"type": "string"}, "enum": {"properties": {}}}}),
                json!({
                    "properties": {
                        "items": {"type": "string"},
                        "enum": {"properties": {}, "additionalProperties": false}
                    },
                    "additionalProperties": false
                }),
            ),
        ] {
            assert_eq!(closed(schema.clone()), expected, "{schema}");
        }
    }

    #[test]
    fn a_closed_composition_knows_the_properties_of_all_its_parts() {
        let schema = closed(json!({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}));
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        assert!(validator.is_valid(&json!({"a": 1, "b": 2})));
        assert!(!validator.is_valid(&json!({"a": 1, "c": 2})));
    }
}
