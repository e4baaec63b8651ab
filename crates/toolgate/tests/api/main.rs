//! The HTTP API and the WebSocket of `toolgate serve`, from outside: real requests, real sockets, and the binary.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests arrange files by hand, run processes, and fail by panicking"
)]

#[path = "../it/fixture.rs"]
#[allow(dead_code, reason = "shared with the suite `it`, which uses all of it")]
mod fixture;
mod gate;
mod sessions;
mod approvals;
mod callers;
mod rights;
mod browser;
mod operations;
mod operators;
mod attacks;
mod sequences;
mod crowds;
mod restart;
