//! What commands reach in a workspace and leave there, on a real filesystem.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests arrange files by hand and fail by panicking"
)]

#[path = "../../../workspace/tests/it/tree_text.rs"]
mod tree_text;
mod confine;
mod post_run_scan;
mod baselines;
