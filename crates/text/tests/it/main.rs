//! The crate's public behaviour, compared with slow and obvious models.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests fail by panicking"
)]

mod arbitrary;
mod diff;
mod edit;
mod frontmatter;
mod patch;
mod line_texts;
mod line_index;
