//! Pure text work, so that the crates that touch files only have to read, ask and write.
//!
//! Characters escaped and white space folded for approval cards, exact edits, unified diffs and patches, YAML frontmatter, windows of lines, the nearest known name.
//! Strings go in and strings come out. This crate does no input or output, asks no clock, and knows no paths:
//! names found in a patch are handed back as text for the workspace to judge. Every text that it reads may
//! have been written by a hostile model, so work and answers are bounded and nothing panics. Line ends are
//! never normalised.

pub mod nearest;
pub mod glob;
pub mod repair;
pub mod weight;
mod hidden;
pub mod visible;
pub mod fold;
mod quote;
mod secret;
mod place;
pub mod window;

pub mod edit;

pub mod ends;
pub mod diff;
pub mod patch;

pub mod frontmatter;

pub use hidden::is_hidden;
pub use place::{Difference, Mismatch, Place};
pub use quote::{escaped_line, quoted_name};
pub use secret::without_secret;
