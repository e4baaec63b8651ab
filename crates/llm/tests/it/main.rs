//! Wires: recorded streams, and their decoding.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests read their fixtures by hand and fail by panicking"
)]

mod stream;
mod server;
mod asking;
mod transport;
mod recording;
mod floods;
mod anthropic;
mod responses;
mod chat;
mod chat_calls;
mod ollama;
mod images;
