//! The configuration file, from text to types and problems.

#![allow(clippy::disallowed_methods, reason = "tests read their cases from files")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

mod accepted;
mod arbitrary;
mod manifests;
mod problems;
mod skeletons;
mod templates;
