//! JSON Schema 2020-12, compiled for schemas and values that others wrote.
//!
//! A schema comes from a manifest, from a built-in tool or from an MCP server, a value from a model. Patterns run on an engine in linear time and are bounded once
//! they are compiled. This crate decides nothing: whoever checks a value says what follows, and in which words.

mod validator;
mod fast_path;
pub mod pattern;

pub use fast_path::{fields_certainly_valid, is_certainly_valid};
pub use validator::{MAX_COMPILED_PATTERN_BYTES, schema_problem, validator, validator_within};
