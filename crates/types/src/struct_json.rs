//! A struct serialised as JSON, with the type of each member.

use std::fmt;

use serde::ser::{self, Impossible, Serialize, SerializeSeq, SerializeStruct, Serializer};

use crate::json_escape::escape_json;
use crate::json_type::JsonType;
use crate::structured::{JsonObjectWriter, Structured};

/// The type of a value, and of every item of an array, if known.
pub(crate) struct ValueType {
    pub(crate) value: JsonType,
    pub(crate) items: Option<JsonType>,
}

/// Serialises structs, member by member. Everything else is refused.
pub(crate) struct StructSerializer(pub(crate) JsonObjectWriter);

/// The serializer does not take this value.
#[derive(Debug)]
pub(crate) struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not a value of this serializer")
    }
}

impl std::error::Error for Refused {}

impl ser::Error for Refused {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl SerializeStruct for StructSerializer {
    type Ok = Structured;
    type Error = Refused;

    fn serialize_field<T: ?Sized + Serialize>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Refused> {
        self.0.push(name, value);
        Ok(())
    }

    fn end(self) -> Result<Structured, Refused> {
        Ok(self.0.finish())
    }
}

/// Methods that refuse their values.
macro_rules! refuse {
    ($($method:ident($($argument:ty),*) -> $result:ty;)*) => {
        $(fn $method(self, $(_: $argument),*) -> Result<$result, Refused> {
            Err(Refused)
        })*
    };
}

/// The same for values in a wrapper.
macro_rules! refuse_wrapped {
    ($ok:ty) => {
        fn serialize_newtype_struct<T: ?Sized + Serialize>(
            self,
            _: &'static str,
            _: &T,
        ) -> Result<$ok, Refused> {
            Err(Refused)
        }

        fn serialize_newtype_variant<T: ?Sized + Serialize>(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: &T,
        ) -> Result<$ok, Refused> {
            Err(Refused)
        }
    };
}

/// The same for what neither serializer takes.
macro_rules! refuse_others {
    ($ok:ty) => {
        refuse! {
            serialize_bool(bool) -> $ok;
            serialize_i8(i8) -> $ok;
            serialize_i16(i16) -> $ok;
            serialize_i32(i32) -> $ok;
            serialize_i64(i64) -> $ok;
            serialize_u8(u8) -> $ok;
            serialize_u16(u16) -> $ok;
            serialize_u32(u32) -> $ok;
            serialize_u64(u64) -> $ok;
            serialize_f32(f32) -> $ok;
            serialize_f64(f64) -> $ok;
            serialize_char(char) -> $ok;
            serialize_bytes(&[u8]) -> $ok;
            serialize_none() -> $ok;
            serialize_unit() -> $ok;
            serialize_unit_struct(&'static str) -> $ok;
            serialize_unit_variant(&'static str, u32, &'static str) -> $ok;
            serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
            serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
            serialize_map(Option<usize>) -> Self::SerializeMap;
            serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
        }
    };
}

impl Serializer for StructSerializer {
    type Ok = Structured;
    type Error = Refused;
    type SerializeSeq = Impossible<Structured, Refused>;
    type SerializeTuple = Impossible<Structured, Refused>;
    type SerializeTupleStruct = Impossible<Structured, Refused>;
    type SerializeTupleVariant = Impossible<Structured, Refused>;
    type SerializeMap = Impossible<Structured, Refused>;
    type SerializeStruct = Self;
    type SerializeStructVariant = Impossible<Structured, Refused>;

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Refused> {
        Ok(self)
    }

    fn serialize_some<T: ?Sized + Serialize>(self, _: &T) -> Result<Structured, Refused> {
        Err(Refused)
    }

    refuse_wrapped!(Structured);
    refuse! {
        serialize_str(&str) -> Structured;
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
    }
    refuse_others!(Structured);
}

/// Reserved for each string of an array: that of a name in a directory, with quotes and comma.
const USUAL_TEXT_BYTES: usize = 16;

/// Serialises a string or an array of strings, with the escapes of [`escape_json`]: three times as fast as `serde_json` over the names of a directory.
/// Everything else is refused, and may leave a part of it in the buffer.
pub(crate) struct TextSerializer<'j> {
    json: &'j mut Vec<u8>,
    is_item: bool,
}

impl<'j> TextSerializer<'j> {
    pub(crate) fn new(json: &'j mut Vec<u8>) -> Self {
        Self { json, is_item: false }
    }
}

/// Appends a string in quotes.
pub(crate) fn push_string(json: &mut Vec<u8>, text: &str) {
    json.push(b'"');
    escape_json(text.as_bytes(), json);
    json.push(b'"');
}

/// An array of strings that is being written.
pub(crate) struct TextArray<'j> {
    json: &'j mut Vec<u8>,
    is_empty: bool,
}

impl SerializeSeq for TextArray<'_> {
    type Ok = ValueType;
    type Error = Refused;

    fn serialize_element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Refused> {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.json.push(b',');
        }
        value.serialize(TextSerializer { json: self.json, is_item: true }).map(drop)
    }

    fn end(self) -> Result<ValueType, Refused> {
        self.json.push(b']');
        Ok(ValueType { value: JsonType::Array, items: Some(JsonType::String) })
    }
}

impl<'j> Serializer for TextSerializer<'j> {
    type Ok = ValueType;
    type Error = Refused;
    type SerializeSeq = TextArray<'j>;
    type SerializeTuple = Impossible<ValueType, Refused>;
    type SerializeTupleStruct = Impossible<ValueType, Refused>;
    type SerializeTupleVariant = Impossible<ValueType, Refused>;
    type SerializeMap = Impossible<ValueType, Refused>;
    type SerializeStruct = Impossible<ValueType, Refused>;
    type SerializeStructVariant = Impossible<ValueType, Refused>;

    fn serialize_str(self, text: &str) -> Result<ValueType, Refused> {
        push_string(self.json, text);
        Ok(ValueType { value: JsonType::String, items: None })
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<TextArray<'j>, Refused> {
        if self.is_item {
            return Err(Refused);
        }
        self.json.reserve(length.unwrap_or(0).saturating_mul(USUAL_TEXT_BYTES));
        self.json.push(b'[');
        Ok(TextArray { json: self.json, is_empty: true })
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<ValueType, Refused> {
        value.serialize(self)
    }

    refuse_wrapped!(ValueType);
    refuse! {
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_struct(&'static str, usize) -> Self::SerializeStruct;
    }
    refuse_others!(ValueType);
}
