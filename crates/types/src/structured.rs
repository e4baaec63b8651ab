//! What programs are told about an answer.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

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
    /// An answer of a type that serialises to an object, in words. Whatever cannot be put into words is nothing, which fits no tool's declaration.
    #[must_use]
    pub fn of(answer: &impl Serialize) -> Self {
        match serde_json::to_string(answer) {
            Ok(json) if json.starts_with('{') => Self::Spelt(Spelt(json)),
            Ok(json) => Self::Value(serde_json::from_str(&json).unwrap_or_default()),
            Err(_) => Self::Value(Value::Null),
        }
    }

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
        let whole = json!({"b": [1, "x\n"], "a": {"c": null}});
        let spelt = Structured::of(&whole);
        assert!(matches!(spelt, Structured::Spelt(_)) && spelt.is_object());
        assert!(spelt == whole && spelt == Structured::from(whole.clone()) && spelt != json!({}));
        assert_eq!((spelt.json(), spelt.clone().into_value()), (Cow::from(whole.to_string()), whole.clone()));
        let more = spelt.with(|value| drop(value.as_object_mut().unwrap().insert("d".to_owned(), json!(1))));
        assert_eq!(more.into_spelt().unwrap().fields(), r#""b":[1,"x\n"],"a":{"c":null},"d":1"#);
    }

    #[test]
    fn what_is_no_object_is_a_value_and_what_cannot_be_told_is_nothing() {
        assert!(matches!(Structured::of(&"x"), Structured::Value(Value::String(_))));
        let unspeakable = std::collections::BTreeMap::from([((1, 2), 3)]);
        let nothing = Structured::of(&unspeakable);
        assert!(nothing == Value::Null && !nothing.is_object() && nothing.into_spelt().is_none());
    }
}
