//! The wires, each in a directory of its own.

pub(crate) mod anthropic;
pub(crate) mod responses;
pub(crate) mod chat;
pub(crate) mod ollama;
