//! What programs are told about an answer.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::escape::escape;

/// The structured part of an answer.
///
/// Mostly nobody looks into it between the tool and the wire. A tool whose answers have a type of their own says them as JSON at once; a value of a
/// thousand names would be a thousand allocations, made to be written down and freed.
#[derive(Clone, Debug)]
pub enum Structured {
    /// A value that can be looked into.
    Value(Value),
    /// The same, in words.
    Spelt(Spelt),
}

/// An object as JSON.
#[derive(Clone, Debug)]
pub struct Spelt(String);

/// An object that is put into words, field by field.
#[derive(Debug)]
pub struct Fields {
    json: Vec<u8>,
    /// Something could not be put into words.
    failed: bool,
}

impl Fields {
    /// An object without fields, with room for so many bytes of JSON.
    #[must_use]
    pub fn with_room(bytes: usize) -> Self {
        Self { json: Vec::with_capacity(bytes), failed: false }
    }

    /// Adds a field. A name is one of ours and needs no escape.
    #[must_use]
    pub fn and(mut self, name: &'static str, value: &impl Serialize) -> Self {
        self.name(name);
        self.failed |= serde_json::to_writer(&mut self.json, value).is_err();
        self
    }

    /// Adds a text.
    #[must_use]
    pub fn and_text(mut self, name: &'static str, text: &str) -> Self {
        self.name(name);
        self.text(text);
        self
    }

    /// Adds a list of texts.
    #[must_use]
    pub fn and_texts<'t>(mut self, name: &'static str, texts: impl IntoIterator<Item = &'t str>) -> Self {
        self.name(name);
        let begin = self.json.len();
        for text in texts {
            self.json.push(b',');
            self.text(text);
        }
        match self.json.get_mut(begin) {
            // Before the first there is no comma.
            Some(comma) => *comma = b'[',
            None => self.json.push(b'['),
        }
        self.json.push(b']');
        self
    }

    /// All of it. Whatever could not be put into words is nothing, which fits no tool's declaration.
    #[must_use]
    pub fn end(mut self) -> Structured {
        if self.json.is_empty() {
            self.json.push(b'{');
        }
        self.json.push(b'}');
        match String::from_utf8(self.json) {
            Ok(json) if !self.failed => Structured::Spelt(Spelt(json)),
            _ => Structured::Value(Value::Null),
        }
    }

    fn name(&mut self, name: &'static str) {
        self.json.extend_from_slice(if self.json.is_empty() { b"{\"" } else { b",\"" });
        self.json.extend_from_slice(name.as_bytes());
        self.json.extend_from_slice(b"\":");
    }

    fn text(&mut self, text: &str) {
        self.json.push(b'"');
        escape(text.as_bytes(), &mut self.json);
        self.json.push(b'"');
    }
}

impl Spelt {
    /// The JSON, which begins and ends with a brace.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands between the braces.
    #[must_use]
    pub fn fields(&self) -> &str {
        self.0.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default()
    }
}

impl Structured {
    /// A value to look into.
    #[must_use]
    pub fn into_value(self) -> Value {
        match self {
            Self::Value(value) => value,
            Self::Spelt(spelt) => spelt.read(),
        }
    }

    /// The same with something added.
    #[must_use]
    pub fn with(self, add: impl FnOnce(&mut Value)) -> Self {
        let mut value = self.into_value();
        add(&mut value);
        Self::Value(value)
    }

    /// In words, if it is an object.
    #[must_use]
    pub fn into_spelt(self) -> Option<Spelt> {
        match self {
            Self::Spelt(spelt) => Some(spelt),
            Self::Value(value) => value.is_object().then(|| Spelt(value.to_string())),
        }
    }

    /// The same, for whoever only looks.
    #[must_use]
    pub fn value(&self) -> Cow<'_, Value> {
        match self {
            Self::Value(value) => Cow::Borrowed(value),
            Self::Spelt(spelt) => Cow::Owned(spelt.read()),
        }
    }

    /// Whether it is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Spelt(_) | Self::Value(Value::Object(_)))
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Cow<'_, str> {
        match self {
            Self::Value(value) => Cow::Owned(value.to_string()),
            Self::Spelt(spelt) => Cow::Borrowed(&spelt.0),
        }
    }
}

impl Spelt {
    fn read(&self) -> Value {
        // It cannot fail: these are words that serde wrote.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl From<Value> for Structured {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

/// What is told is the same, however it is held.
impl PartialEq for Structured {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Spelt(one), Self::Spelt(other)) if one.0 == other.0 => true,
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
        let fields = Fields::with_room(0).and("b", &json!([1, "x\n"])).and("a", &json!({"c": null}));
        let spelt = fields.and_text("t", "\"").and_texts("n", ["a", "\\", ""]).and_texts("e", []).end();
        assert!(matches!(spelt, Structured::Spelt(_)) && spelt.is_object());
        let value = Structured::from(whole.clone());
        assert!(spelt == whole && spelt == value && spelt != json!({}));
        assert_eq!((spelt.json(), spelt.clone().into_value()), (Cow::from(whole.to_string()), whole.clone()));
        let more = spelt.with(|value| drop(value.as_object_mut().unwrap().insert("d".to_owned(), json!(1))));
        let fields = more.into_spelt().unwrap().fields().to_owned();
        assert!(fields.starts_with(r#""b":[1"#) && fields.ends_with(r#""e":[],"d":1"#), "{fields}");
        assert_eq!(Fields::with_room(9).end().into_spelt().unwrap().fields(), "");
    }

    #[test]
    fn what_cannot_be_told_is_nothing() {
        let unspeakable = std::collections::BTreeMap::from([((1, 2), 3)]);
        let nothing = Fields::with_room(9).and("a", &1).and("b", &unspeakable).end();
        assert!(nothing == Value::Null && !nothing.is_object() && nothing.into_spelt().is_none());
        assert!(Structured::from(json!("x")).into_spelt().is_none());
    }
}
