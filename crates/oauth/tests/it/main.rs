//! Logins at an authorization server that attacks, over real sockets of the loopback interface.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests arrange files and servers by hand and fail by panicking"
)]

mod fixture;
mod discovery;
mod browser_login;
mod refresh;
mod token_theft;
