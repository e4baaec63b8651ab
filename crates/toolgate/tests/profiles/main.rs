//! The promises of each profile, tested from outside: the binary, a model server or an MCP client, and files.
//!
//! One file per profile. `crew.txt` and its siblings list the sentences that a profile has to keep, each with the test that proves it;
//! `sentence_lists.rs` checks the lists.
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
#[allow(dead_code, reason = "profiles use different parts of it")]
mod model_server;
mod crew;
mod claw;
mod proxy;
mod sidecar;
mod studio;
mod all_profiles;
mod sentence_lists;
