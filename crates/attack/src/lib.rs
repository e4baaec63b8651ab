//! Shared parts of the attacks on the whole gate.
//!
//! The other crates test their own parts. This one attacks what the composition root assembles, as the binary does: hostile paths through every profile,
//! other processes that swap symlinks, kills at any instant, full disks, concurrent writers. It contains no product code, and only tests depend on
//! it.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "this crate is only ever used by tests, which arrange files by hand and fail by panicking"
)]

mod scratch;
mod tree;
mod bench;
mod spread;
mod diary;
mod order;
mod unfinished;

pub use bench::{Bench, BenchOptions, code_of, person, widened};
pub use diary::{CHANGES, Change, Diary};
pub use order::{Bounds, Covered, HELD, Order, Place, Report};
pub use scratch::{Scratch, is_litter, litter_below};
pub use spread::spread;
pub use tree::{Node, Tree};
pub use unfinished::unfinish;
