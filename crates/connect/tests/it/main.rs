//! Servers behind the gate, honest and hostile.
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

mod fixture;
mod well_behaved_servers;
mod hostile_servers;
mod questions;
mod pins;
mod http;
mod logins;
