//! Pure text processing, so that the crates that touch files only have to read, decide and write.
//!
//! Escaping and white-space folding for approval cards, exact edits, unified diffs and patches, YAML frontmatter, line ranges, the nearest known
//! name. Strings go in and strings come out. This crate does no I/O, reads no clock, and knows no paths: names found in a patch are returned as text
//! for the workspace to judge. Every text may have been written by a hostile model, so work and output are bounded and nothing panics. Line ends are
//! never normalised.

pub mod nearest_name;
pub mod glob_classes;
pub mod repair;
pub mod json_complexity;
pub mod json_len;
mod invisible_chars;
pub mod confusables;
pub mod whitespace_fold;
mod quote;
mod sanitize;
mod sgr;
mod secret;
pub mod secret_detection;
mod fuzzy_match;
pub mod line_index;
pub mod line_buffer;

pub mod edit;

pub mod common_affixes;
pub mod diff;
pub mod patch;

pub mod frontmatter;

pub use fuzzy_match::{MatchDifference, Mismatch, NearestMatch};
pub use invisible_chars::is_invisible;
pub use quote::{ELLIPSIS, cleaned_line, escape_json, escaped_line, quoted_name};
pub use sanitize::{Sanitizer, TerminalEffect, escape_control_chars, sanitize, sanitize_value};
pub use secret::without_secret;
pub use sgr::{SgrWriter, StyledText, TextStyle, sgr_boundary, styled_pieces, without_sgr};
