//! Long-running processes, such as MCP servers.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests arrange files by hand and fail by panicking"
)]

mod fixture;
mod long_running;
