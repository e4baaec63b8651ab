//! The profiles compared with the pages that describe them, and the loading of manifests.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests arrange files by hand and fail by panicking"
)]

mod assembled;
mod resource_files;
mod error_codes;
mod definitions;
mod deny_list;
mod manifests;
mod markdown_tables;
mod profiles;
mod reads;
#[path = "../../../command/tests/it/fixture.rs"]
mod fixture;
mod web_search;
