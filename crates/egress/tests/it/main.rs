//! The proxy from outside. Every byte stays on loopback: names and addresses are fake, and lead to servers of the test.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "tests panic when they fail, and run curl as a foreign client"
)]

mod fixture;

mod allowlist;
mod hosts;
mod wire;
mod http;
mod socks;
mod tls;
mod plain_tunnel;
mod addresses;
mod transfer;
mod curl;
mod upstream;
