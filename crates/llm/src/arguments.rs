//! Call arguments between wires: some carry them as a string, some as an object.

use std::borrow::Cow;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::error::ProviderError;
use crate::message::ModelCall;
use crate::message_collector::malformed;

/// Arguments as text, from a field that holds a string or, with some servers, the object itself. The text of an object is kept verbatim, with every
/// digit.
pub(crate) fn text_of(field: &RawValue) -> Result<Cow<'_, str>, ProviderError> {
    let field = field.get();
    match field.as_bytes().first() {
        Some(b'"') => {
            let text = serde_json::from_str::<String>(field);
            text.map(Cow::Owned).map_err(|_| malformed("the arguments of a call cannot be read"))
        }
        Some(b'{') => Ok(Cow::Borrowed(field)),
        _ => Err(malformed("the arguments of a call are neither text nor an object")),
    }
}

/// The arguments of an earlier call as the text of an object, for wires and templates that accept nothing else. Text that is not an object is quoted
/// in one.
pub(crate) fn object_text(call: &ModelCall) -> Cow<'_, str> {
    match serde_json::from_str::<Map<String, Value>>(&call.arguments) {
        Ok(_) => Cow::Borrowed(&call.arguments),
        Err(_) => Cow::Owned(json!({ "not_json": call.arguments }).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_objects_are_read_and_nothing_else() {
        for (field, expected) in [
            (r#""""#, Some("")),
            (r#""{\"a\":1}""#, Some(r#"{"a":1}"#)),
            (r#""{\"a\": tru""#, Some(r#"{"a": tru"#)),
            (
                r#"{"a": 12345678901234567890123, "b":1.10}"#,
                Some(r#"{"a": 12345678901234567890123, "b":1.10}"#),
            ),
            ("[1]", None),
            ("7", None),
            ("true", None),
        ] {
            let raw: Box<RawValue> = serde_json::from_str(field).unwrap();
            assert_eq!(text_of(&raw).ok().as_deref(), expected, "{field}");
        }
    }

    #[test]
    fn what_is_no_object_is_quoted_in_one() {
        for (arguments, expected) in [
            (r#"{"a": 1.10}"#, r#"{"a": 1.10}"#),
            ("{}", "{}"),
            ("[1]", r#"{"not_json":"[1]"}"#),
            (r#"{"a":"#, r#"{"not_json":"{\"a\":"}"#),
            ("{}{}", r#"{"not_json":"{}{}"}"#),
        ] {
            let call = ModelCall { id: "1".into(), name: "read".into(), arguments: arguments.into() };
            assert_eq!(object_text(&call), expected, "{arguments}");
        }
    }
}
