//! JSON Schema 2020-12 for untrusted schemas and values.
//!
//! A schema comes from a manifest, a built-in tool or an MCP server, a value from a model. Patterns run on a linear-time engine, and their compiled size is bounded.
//! This crate decides nothing: its callers decide what an invalid value means.

mod validator;
mod fast_path;
mod field_schema;
pub mod pattern;

use serde_json::Value;

pub use fast_path::is_certainly_valid;
pub use field_schema::FieldSchema;
pub use validator::{MAX_COMPILED_PATTERN_BYTES, schema_problem, validator, validator_within};

/// The names in the keyword `required` of a schema. Anything but a list of names requires nothing.
#[must_use]
pub fn required_names(keyword: Option<&Value>) -> Vec<&str> {
    keyword.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}
