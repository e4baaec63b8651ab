//! The types that JSON values have, by the names of JSON Schema.

use serde_json::Value;

/// The type of a JSON value, as the keyword `type` of JSON Schema 2020-12 names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonType {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number that is written without a fraction or an exponent.
    Integer,
    /// Any other number.
    Number,
    /// A string.
    String,
    /// A list.
    Array,
    /// Members with names.
    Object,
}

impl JsonType {
    /// The type of a value.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if number.is_f64() => Self::Number,
            Value::Number(_) => Self::Integer,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }

    /// The type of a value that serde wrote; nothing where no value begins so.
    #[must_use]
    pub(crate) fn of_json(json: &[u8]) -> Option<Self> {
        Some(match json.first()? {
            b'n' => Self::Null,
            b't' | b'f' => Self::Boolean,
            b'"' => Self::String,
            b'[' => Self::Array,
            b'{' => Self::Object,
            b'-' | b'0'..=b'9' if json.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => Self::Number,
            b'-' | b'0'..=b'9' => Self::Integer,
            _ => return None,
        })
    }

    /// The type with this name in JSON Schema.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let all =
            [Self::Null, Self::Boolean, Self::Integer, Self::Number, Self::String, Self::Array, Self::Object];
        all.into_iter().find(|kind| kind.name() == name)
    }

    /// The name in JSON Schema.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    /// What a value of this type is, for a sentence to a model.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "true or false",
            Self::Integer | Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_and_its_json_have_one_type() {
        for (value, name) in [
            (json!(null), "null"),
            (json!(false), "boolean"),
            (json!(-3), "integer"),
            (json!(u64::MAX), "integer"),
            (json!(1.0), "number"),
            (json!(1e300), "number"),
            (json!(""), "string"),
            (json!([1.5]), "array"),
            (json!({"a": 1}), "object"),
        ] {
            let kind = JsonType::of(&value);
            assert_eq!(JsonType::from_name(name), Some(kind));
            assert_eq!((kind.name(), JsonType::of_json(value.to_string().as_bytes())), (name, Some(kind)));
        }
        assert_eq!((JsonType::of_json(b""), JsonType::of_json(b"x")), (None, None));
    }
}
