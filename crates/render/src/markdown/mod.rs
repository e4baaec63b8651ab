//! Markdown as rows of a terminal.

mod render;
mod table;
mod blocks;

pub(crate) use blocks::{Fence, split_complete};
pub(crate) use render::{code_rows, render};

use pulldown_cmark::Options;

/// What is understood besides CommonMark: what models write.
fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}
