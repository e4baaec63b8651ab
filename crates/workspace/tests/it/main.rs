//! Behaviour of mounts and files, on a real filesystem.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests arrange files by hand and fail by panicking"
)]

mod resolution;
mod crossing;
mod restoring;
mod reading;
#[allow(dead_code, reason = "tests of the crate that confines commands use all of it")]
mod tree_text;
mod pathspecs;
mod writing;
