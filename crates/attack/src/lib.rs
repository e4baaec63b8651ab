//! What the attacks on the whole gate share.
//!
//! The other crates test their own parts. This one puts them together as the binary does and attacks the result: hostile paths through every
//! profile, other processes that swap links, kills at any instant, full disks, many writers at once. It holds no product code and nothing depends
//! on it but tests.
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
