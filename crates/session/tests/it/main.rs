//! Conversations from the outside: what is stored, who may lock them, and what survives.

#![allow(clippy::disallowed_methods, reason = "tests arrange files and processes by hand")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic: that is how they fail")]
#![allow(clippy::indexing_slicing, clippy::string_slice, reason = "tests may panic: that is how they fail")]

mod support;
mod child;

mod order;
mod model;
mod summaries;
mod holding;
mod processes;
mod disk;
mod files;
mod versions;
mod deleting;
