//! Converts a tool's JSON Schema to Cedar types.
//!
//! | JSON Schema | Cedar |
//! |---|---|
//! | `string`, an `enum` of strings | `String` |
//! | `integer` | `Long` (beyond 64 bits: does not evaluate) |
//! | `boolean` | `Bool` |
//! | `number` | `decimal` (more than four decimal places: does not evaluate) |
//! | `array` with `items` | `Set`: order and duplicates are lost |
//! | an argument that the tool declares as a path | `Path`, an entity |
//! | `object` with `properties` | `Record`; what is not `required` is optional and needs `has` |
//! | anything else | no attribute: an expression that uses it does not load |
//!
//! Keywords besides `type` can only narrow what a schema accepts, so they can be ignored.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use toolgate_schema::required_names;
use toolgate_types::JsonType;

use super::path::{PATH, PathInput, PathInputs};

/// Maximum depth to which a schema is followed; deeper parts have no type. This also ends cyclic references.
const MAX_SCHEMA_DEPTH: usize = 12;

/// The type of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CedarType {
    String,
    Long,
    Boolean,
    Decimal,
    /// A path of the workspace: a resolved location, not text.
    Path,
    Set(Box<CedarType>),
    Record(RecordType),
}

/// The typed fields of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordType {
    pub(crate) named: BTreeMap<String, RecordField>,
    /// Whether an object can have other fields.
    pub(crate) open: bool,
}

/// One field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordField {
    pub(crate) kind: CedarType,
    pub(crate) required: bool,
}

impl RecordField {
    pub(crate) fn required(kind: CedarType) -> Self {
        Self { kind, required: true }
    }

    pub(crate) fn optional(kind: CedarType) -> Self {
        Self { kind, required: false }
    }
}

impl CedarType {
    /// The type's name in messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Long => "an integer of at most 64 bits",
            Self::Boolean => "a boolean",
            Self::Decimal => "a number with at most four decimal places",
            Self::Path => "a path that can be resolved",
            Self::Set(_) => "an array",
            Self::Record(_) => "an object",
        }
    }

    /// Whether it is a path or a list of paths.
    pub(crate) fn is_path(&self) -> bool {
        match self {
            Self::Path => true,
            Self::Set(item) => item.is_path(),
            _ => false,
        }
    }

    /// Whether an expression sees the whole value; otherwise comparing it would be misleading.
    pub(crate) fn is_exact(&self) -> bool {
        match self {
            Self::Set(item) => item.is_exact(),
            Self::Record(fields) => fields.is_exact(),
            _ => true,
        }
    }

    /// The type in Cedar's JSON schema format.
    pub(crate) fn to_cedar(&self) -> Value {
        match self {
            Self::String => json!({"type": "String"}),
            Self::Long => json!({"type": "Long"}),
            Self::Boolean => json!({"type": "Boolean"}),
            Self::Decimal => json!({"type": "Extension", "name": "decimal"}),
            Self::Path => json!({"type": "Entity", "name": PATH}),
            Self::Set(item) => json!({"type": "Set", "element": item.to_cedar()}),
            Self::Record(fields) => fields.to_cedar(),
        }
    }
}

impl RecordType {
    pub(crate) fn new<const N: usize>(fields: [(&str, RecordField); N]) -> Self {
        let named = fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect();
        Self { named, open: false }
    }

    pub(crate) fn to_cedar(&self) -> Value {
        let attributes: Map<String, Value> = self
            .named
            .iter()
            .map(|(name, field)| {
                let mut attribute = field.kind.to_cedar();
                if let Some(attribute) = attribute.as_object_mut() {
                    attribute.insert("required".to_owned(), Value::Bool(field.required));
                }
                (name.clone(), attribute)
            })
            .collect();
        json!({"type": "Record", "attributes": attributes})
    }

    pub(crate) fn is_exact(&self) -> bool {
        !self.open && self.named.values().all(|field| field.kind.is_exact())
    }

    /// The type at a path of names.
    pub(crate) fn at<'n>(&self, mut path: impl Iterator<Item = &'n str>) -> Option<&CedarType> {
        let mut kind = &self.named.get(path.next()?)?.kind;
        for name in path {
            let CedarType::Record(fields) = kind else { return None };
            kind = &fields.named.get(name)?.kind;
        }
        Some(kind)
    }
}

/// The Cedar types of a tool's arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolTyping {
    pub(crate) input: RecordType,
    pub(crate) paths: PathInputs,
    left_out: BTreeMap<String, &'static str>,
}

impl ToolTyping {
    /// Types the arguments of this schema.
    #[must_use]
    pub fn of(schema: &Value) -> Self {
        let mut reading = SchemaTyper { whole: schema, left_out: BTreeMap::new() };
        let input = match reading.object(schema, "", MAX_SCHEMA_DEPTH) {
            Ok(fields) => fields,
            Err(_) => RecordType { open: true, ..RecordType::default() },
        };
        Self { input, paths: PathInputs::default(), left_out: reading.left_out }
    }

    /// The same with these arguments as paths of the workspace. One without a type in the schema still counts among the paths of a call.
    #[must_use]
    pub fn with_paths(mut self, paths: &PathInputs) -> Self {
        for PathInput { name, has_default, .. } in &paths.arguments {
            let Some(field) = self.input.named.get_mut(name) else { continue };
            let kind = match &field.kind {
                CedarType::Set(_) => CedarType::Set(Box::new(CedarType::Path)),
                _ => CedarType::Path,
            };
            *field = RecordField { kind, required: field.required || *has_default };
        }
        self.paths = paths.clone();
        self
    }

    /// The aliases that its paths can start with, if known.
    pub(crate) fn mounts(&self) -> impl Iterator<Item = &str> {
        self.paths.mounts.iter().map(String::as_str)
    }

    /// Whether every call has a path.
    pub(crate) fn always_has_path(&self) -> bool {
        let certain = |input: &PathInput| {
            let field = self.input.named.get(&input.name);
            field.is_some_and(|field| field.required && field.kind == CedarType::Path)
        };
        self.paths.is_certain() || self.paths.arguments.iter().any(certain)
    }

    /// The declared arguments that no expression can use, by path, each with the reason.
    pub fn left_out(&self) -> impl Iterator<Item = (&str, &str)> {
        self.left_out.iter().map(|(path, reason)| (path.as_str(), *reason))
    }

    /// Why an argument of this name has no type, at any depth.
    pub(crate) fn why_left_out(&self, name: &str) -> Option<String> {
        let suffix = format!(".{name}");
        self.left_out()
            .find(|(path, _)| *path == name || path.ends_with(&suffix))
            .map(|(path, reason)| format!("the argument `{path}` cannot be used in an expression: {reason}"))
    }
}

struct SchemaTyper<'s> {
    whole: &'s Value,
    left_out: BTreeMap<String, &'static str>,
}

impl<'s> SchemaTyper<'s> {
    fn kind(&mut self, schema: &'s Value, path: &str, depth: usize) -> Result<CedarType, &'static str> {
        let depth = depth.checked_sub(1).ok_or("it lies too deep, or refers to itself")?;
        match declared_type(schema)? {
            Some("string") => Ok(CedarType::String),
            Some("integer") => Ok(CedarType::Long),
            Some("boolean") => Ok(CedarType::Boolean),
            Some("number") => Ok(CedarType::Decimal),
            Some("array") => {
                let items = schema.get("items").ok_or("its `items` have no schema")?;
                if schema.get("prefixItems").is_some() {
                    return Err("its items have different schemas");
                }
                Ok(CedarType::Set(Box::new(self.kind(items, &format!("{path}[]"), depth)?)))
            }
            Some("object") => self.object(schema, path, depth).map(CedarType::Record),
            Some(_) => Err("its type has no counterpart in Cedar"),
            None => self.kind(self.referred(schema)?, path, depth),
        }
    }

    /// The target of a `$ref` into the same schema.
    fn referred(&self, schema: &Value) -> Result<&'s Value, &'static str> {
        let target = schema.get("$ref").and_then(Value::as_str).ok_or("its schema names no single type")?;
        let pointer = target.strip_prefix('#').ok_or("its schema lies elsewhere")?;
        self.whole.pointer(pointer).ok_or("its `$ref` leads nowhere")
    }

    fn object(&mut self, schema: &'s Value, path: &str, depth: usize) -> Result<RecordType, &'static str> {
        let required = required_names(schema.get("required"));
        let properties = schema.get("properties").and_then(Value::as_object);
        let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        let Some(properties) = properties else {
            // An empty record would make every `has` on it false, whatever a call contains.
            let nothing = RecordType { named: BTreeMap::new(), open: !closed };
            return if closed || path.is_empty() { Ok(nothing) } else { Err("its fields are not declared") };
        };
        let mut fields = RecordType { named: BTreeMap::new(), open: !closed };
        for (name, property) in properties {
            let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match self.kind(property, &inner, depth) {
                Ok(kind) => {
                    let required = required.contains(&name.as_str());
                    fields.named.insert(name.clone(), RecordField { kind, required });
                }
                Err(reason) => {
                    fields.open = true;
                    self.left_out.insert(inner, reason);
                }
            }
        }
        Ok(fields)
    }
}

/// The single type that a schema names, or that its enumerated values share.
fn declared_type(schema: &Value) -> Result<Option<&str>, &'static str> {
    match schema.get("type") {
        Some(Value::String(name)) => return Ok(Some(name)),
        Some(Value::Array(names)) => {
            return match names.as_slice() {
                [Value::String(name)] => Ok(Some(name)),
                _ => Err("it may be of several types"),
            };
        }
        Some(_) => return Err("its type is not a name"),
        None => {}
    }
    if let Some(value) = schema.get("const") {
        return type_of_value(value).map(Some);
    }
    let Some(values) = schema.get("enum").and_then(Value::as_array) else { return Ok(None) };
    let mut types = values.iter().map(type_of_value);
    let first = types.next().ok_or("its `enum` is empty")??;
    for other in types {
        if other? != first {
            return Err("its `enum` mixes types");
        }
    }
    Ok(Some(first))
}

fn type_of_value(value: &Value) -> Result<&'static str, &'static str> {
    match JsonType::of(value) {
        JsonType::Null | JsonType::Array | JsonType::Object => Err("its listed values are not plain"),
        plain => Ok(plain.name()),
    }
}
