//! Arguments that several profiles take in the same words.

use serde::Deserialize;
use serde_json::Value;
use toolgate_types::Failure;
use toolgate_workspace::{ListOptions, View};

use crate::file_tool::decode;
use crate::preview::{Shown, Verb};

/// A file, or a range of its lines.
#[derive(Deserialize)]
pub(crate) struct ReadArguments {
    pub(crate) path: String,
    pub(crate) start_line: Option<u64>,
    pub(crate) end_line: Option<u64>,
}

/// A directory; the workspace when absent.
#[derive(Deserialize)]
pub(crate) struct ListArguments {
    path: Option<String>,
}

impl ListArguments {
    pub(crate) fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(".")
    }
}

/// A file and a text for it.
#[derive(Deserialize)]
pub(crate) struct PathAndContent {
    pub(crate) path: String,
    pub(crate) content: String,
}

/// The new content of a file, for a preview.
pub(crate) fn show_write(_: &View<'_>, arguments: Value) -> Result<Shown, Failure> {
    let PathAndContent { content, .. } = decode(arguments)?;
    Ok(Shown::Text(Verb::Replace, content))
}

/// What is added to a file, for a preview.
pub(crate) fn show_append(_: &View<'_>, arguments: Value) -> Result<Shown, Failure> {
    let PathAndContent { content, .. } = decode(arguments)?;
    Ok(Shown::Text(Verb::Append, content))
}

/// Every entry that may be seen, as many as the call may list.
pub(crate) fn every_entry(view: &View<'_>, with_size: bool) -> ListOptions {
    ListOptions {
        max_entries: view.limits.max_entries,
        include_hidden: true,
        include_symlinks: true,
        with_size,
    }
}
