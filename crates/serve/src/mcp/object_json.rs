//! The raw JSON of an object.
//!
//! Serde also takes an array for a struct, field by field: `["2.0",1,"tools/list"]` would be a request, and an array of parameters could name one
//! subject to a header check and another to the tool. So what has to be an object is one of these first.

use serde::Deserialize;

/// JSON text that begins as an object does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectJson<Json>(Json);

impl<Json: AsRef<[u8]>> ObjectJson<Json> {
    /// `None` for any other JSON.
    pub(crate) fn of(json: Json) -> Option<Self> {
        json.as_ref().trim_ascii_start().starts_with(b"{").then_some(Self(json))
    }
}

impl<'j> ObjectJson<&'j str> {
    /// Reads it as a struct; `None` if it does not fit, or is not JSON.
    pub(crate) fn parse<T: Deserialize<'j>>(self) -> Option<T> {
        serde_json::from_str(self.0).ok()
    }
}

impl<'j> ObjectJson<&'j [u8]> {
    /// The same for bytes that need not be UTF-8.
    pub(crate) fn parse<T: Deserialize<'j>>(self) -> Option<T> {
        serde_json::from_slice(self.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Named<'j> {
        name: &'j str,
    }

    #[test]
    fn only_an_object_is_read_as_a_struct() {
        let read = |json: &'static str| ObjectJson::of(json).and_then(|object| object.parse::<Named<'_>>());
        for json in [r#"{"name":"a"}"#, " \t\r\n{\"name\":\"a\"}"] {
            assert_eq!(read(json), Some(Named { name: "a" }), "{json}");
        }
        // Serde alone reads the first of these.
        assert_eq!(serde_json::from_str::<Named<'_>>(r#"["a"]"#).unwrap(), Named { name: "a" });
        for json in [r#"["a"]"#, "", "null", "\"{\"", "{", r#"{"name":7}"#, "\u{a0}{}"] {
            assert_eq!(read(json), None, "{json}");
        }
    }
}
