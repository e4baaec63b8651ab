//! Servers behind the gate, honest and otherwise.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests arrange files and processes by hand and fail by panicking"
)]

mod setting;
mod honest;
mod lying;
mod pinned;
mod http;
