//! The crate's public behaviour.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests arrange files by hand and fail by panicking"
)]

mod attack;
mod find;
mod ignore;
mod limit;
mod list;
mod model;
mod search;
mod stop;
mod survey;
mod tree;
