//! The structured content of an answer.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::json_type::JsonType;
use crate::struct_json::{Refused, StructSerializer, TextSerializer, ValueType};

/// Initial capacity for fields.
const USUAL_FIELDS: usize = 8;

/// Initial capacity for their JSON.
const USUAL_BYTES: usize = 512;

/// The structured part of an answer.
///
/// Usually no code between the tool and the wire inspects it. A tool whose answers have a type of their own serialises them to JSON directly: a
/// `Value` with a thousand names would take a thousand allocations, only to be serialised and freed.
#[derive(Clone, Debug)]
pub enum Structured {
    /// A parsed value.
    Value(Value),
    /// Serialised JSON.
    Raw(RawJsonObject),
}

/// A JSON object as text.
#[derive(Clone, Debug)]
pub struct RawJsonObject {
    json: String,
    /// `None` if it was serialised as a whole.
    fields: Option<Vec<RawJsonField>>,
}

/// The name and type of a serialised field, to check the object against a schema without parsing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawJsonField {
    /// Its name.
    pub name: &'static str,
    /// The type of its value.
    pub value: JsonType,
    /// The type of every item of an array, if known.
    pub items: Option<JsonType>,
}

/// Serialises an object field by field.
#[derive(Debug)]
pub struct JsonObjectWriter {
    json: Vec<u8>,
    fields: Vec<RawJsonField>,
    /// Whether a value could not be serialised.
    failed: bool,
}

impl JsonObjectWriter {
    /// An object without fields, with capacity for so many bytes of JSON.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { json: Vec::with_capacity(bytes), fields: Vec::with_capacity(USUAL_FIELDS), failed: false }
    }

    /// Adds a field. Names are static and need no escaping.
    #[must_use]
    pub fn field(mut self, name: &'static str, value: &impl Serialize) -> Self {
        self.push(name, value);
        self
    }

    pub(crate) fn push<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) {
        self.push_key(name);
        let start = self.json.len();
        let written = value.serialize(TextSerializer::new(&mut self.json)).or_else(|Refused| {
            self.json.truncate(start);
            serde_json::to_writer(&mut self.json, value).map_err(drop)?;
            let value = self.json.get(start..).and_then(JsonType::of_json).ok_or(())?;
            Ok::<_, ()>(ValueType { value, items: None })
        });
        match written {
            Ok(ValueType { value, items }) => self.fields.push(RawJsonField { name, value, items }),
            Err(()) => self.failed = true,
        }
    }

    /// The object. If a value could not be serialised, the result is `null`, which matches no tool's schema.
    #[must_use]
    pub fn finish(mut self) -> Structured {
        if self.json.is_empty() {
            self.json.push(b'{');
        }
        self.json.push(b'}');
        match String::from_utf8(self.json) {
            Ok(json) if !self.failed => Structured::Raw(RawJsonObject { json, fields: Some(self.fields) }),
            _ => Structured::Value(Value::Null),
        }
    }

    fn push_key(&mut self, name: &'static str) {
        self.json.extend_from_slice(if self.json.is_empty() { b"{\"" } else { b",\"" });
        self.json.extend_from_slice(name.as_bytes());
        self.json.extend_from_slice(b"\":");
    }
}

impl RawJsonObject {
    /// The JSON text, which begins and ends with a brace.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.json
    }

    /// The fields in order, if they were serialised one by one.
    #[must_use]
    pub fn field_types(&self) -> Option<&[RawJsonField]> {
        self.fields.as_deref()
    }

    /// The text between the braces.
    #[must_use]
    pub fn fields(&self) -> &str {
        self.json.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default()
    }
}

impl Structured {
    /// An answer that is serialised: a struct directly to JSON, member by member, anything else to a value. What cannot be serialised becomes
    /// `null`, which matches no tool's schema.
    pub fn of<T: ?Sized + Serialize>(answer: &T) -> Self {
        let writer = JsonObjectWriter::with_capacity(USUAL_BYTES);
        match answer.serialize(StructSerializer(writer)) {
            Ok(structured) => structured,
            Err(Refused) => Self::Value(serde_json::to_value(answer).unwrap_or_default()),
        }
    }

    /// As a parsed value.
    #[must_use]
    pub fn into_value(self) -> Value {
        match self {
            Self::Value(value) => value,
            Self::Raw(spelt) => spelt.parse(),
        }
    }

    /// With a modification of the parsed value.
    #[must_use]
    pub fn with(self, add: impl FnOnce(&mut Value)) -> Self {
        let mut value = self.into_value();
        add(&mut value);
        Self::Value(value)
    }

    /// As JSON text, if it is an object.
    #[must_use]
    pub fn into_raw(self) -> Option<RawJsonObject> {
        match self {
            Self::Raw(spelt) => Some(spelt),
            Self::Value(value) => {
                value.is_object().then(|| RawJsonObject { json: value.to_string(), fields: None })
            }
        }
    }

    /// As a parsed value, borrowed if possible.
    #[must_use]
    pub fn value(&self) -> Cow<'_, Value> {
        match self {
            Self::Value(value) => Cow::Borrowed(value),
            Self::Raw(spelt) => Cow::Owned(spelt.parse()),
        }
    }

    /// Whether it is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Raw(_) | Self::Value(Value::Object(_)))
    }

    /// As JSON text.
    #[must_use]
    pub fn json(&self) -> Cow<'_, str> {
        match self {
            Self::Value(value) => Cow::Owned(value.to_string()),
            Self::Raw(spelt) => Cow::Borrowed(&spelt.json),
        }
    }
}

impl RawJsonObject {
    /// The object as a value.
    #[must_use]
    pub fn parse(&self) -> Value {
        // This cannot fail: serde wrote the text.
        serde_json::from_str(&self.json).unwrap_or_default()
    }
}

impl From<Value> for Structured {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

/// Two representations of the same content are equal.
impl PartialEq for Structured {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Raw(one), Self::Raw(other)) if one.json == other.json => true,
            _ => self.value() == other.value(),
        }
    }
}

impl PartialEq<Value> for Structured {
    fn eq(&self, other: &Value) -> bool {
        *self.value() == *other
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_and_values_say_the_same() {
        let whole = json!({"b": [1, "x\n"], "a": {"c": null}, "t": "\"", "n": ["a", "\\", ""], "e": []});
        let fields =
            JsonObjectWriter::with_capacity(0).field("b", &json!([1, "x\n"])).field("a", &json!({"c": null}));
        let spelt = fields
            .field("t", &"\"")
            .field("n", &["a", "\\", ""].as_slice())
            .field("e", &Vec::<u8>::new())
            .finish();
        assert!(matches!(spelt, Structured::Raw(_)) && spelt.is_object());
        let value = Structured::from(whole.clone());
        assert!(spelt == whole && spelt == value && spelt != json!({}));
        assert_eq!((spelt.json(), spelt.clone().into_value()), (Cow::from(whole.to_string()), whole.clone()));
        let more = spelt.with(|value| drop(value.as_object_mut().unwrap().insert("d".to_owned(), json!(1))));
        let fields = more.into_raw().unwrap().fields().to_owned();
        assert!(fields.starts_with(r#""b":[1"#) && fields.ends_with(r#""e":[],"d":1"#), "{fields}");
        assert_eq!(JsonObjectWriter::with_capacity(9).finish().into_raw().unwrap().fields(), "");
    }

    #[derive(Serialize)]
    struct Answer {
        path: &'static str,
        names: Vec<&'static str>,
        mixed: (&'static str, u8),
        nested: Vec<Vec<&'static str>>,
        keyed: Vec<std::collections::BTreeMap<&'static str, &'static str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        absent: Option<u8>,
        null: Option<u8>,
    }

    #[test]
    fn a_struct_is_its_json_with_the_type_of_each_member() {
        let answer = Answer {
            path: "a\"\u{1}\n",
            names: vec!["b", ""],
            mixed: ("c", 1),
            nested: vec![vec!["d"]],
            keyed: vec![[("e", "f")].into()],
            absent: None,
            null: None,
        };
        let Structured::Raw(raw) = Structured::of(&answer) else { panic!("a value") };
        assert_eq!(raw.as_str(), serde_json::to_string(&answer).unwrap());
        let (strings, array) = (Some(JsonType::String), JsonType::Array);
        let field = |name, value, items| RawJsonField { name, value, items };
        let expected = [
            field("path", JsonType::String, None),
            field("names", array, strings),
            field("mixed", array, None),
            field("nested", array, None),
            field("keyed", array, None),
            field("null", JsonType::Null, None),
        ];
        assert_eq!(raw.field_types(), Some(&expected[..]));
        for other in [json!("text"), json!({"a": 1}), json!(null)] {
            assert!(matches!(Structured::of(&other), Structured::Value(value) if value == other));
        }
        assert_eq!(Structured::of(&std::collections::BTreeMap::from([((1, 2), 3)])), Value::Null);
    }

    #[test]
    fn what_cannot_be_told_is_nothing() {
        let unspeakable = std::collections::BTreeMap::from([((1, 2), 3)]);
        let nothing = JsonObjectWriter::with_capacity(9).field("a", &1).field("b", &unspeakable).finish();
        assert!(nothing == Value::Null && !nothing.is_object() && nothing.into_raw().is_none());
        assert!(Structured::from(json!("x")).into_raw().is_none());
    }
}
