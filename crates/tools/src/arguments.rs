//! Argument types that several profiles share.

use serde::Deserialize;
use serde_json::Value;
use toolgate_types::Failure;
use toolgate_workspace::{Hidden, ListOptions, SearchOptions, WorkspaceView};

use crate::file_tool::decode;
use crate::preview::{PreviewContent, Verb};

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
pub(crate) fn show_write(_: &WorkspaceView<'_>, arguments: Value) -> Result<PreviewContent, Failure> {
    let PathAndContent { content, .. } = decode(arguments)?;
    Ok(PreviewContent::Text(Verb::Replace, content))
}

/// The text appended to a file, for a preview.
pub(crate) fn show_append(_: &WorkspaceView<'_>, arguments: Value) -> Result<PreviewContent, Failure> {
    let PathAndContent { content, .. } = decode(arguments)?;
    Ok(PreviewContent::Text(Verb::Append, content))
}

/// What to search for, and where.
#[derive(Deserialize)]
pub(crate) struct SearchArguments {
    pub(crate) pattern: String,
    path: Option<String>,
    #[serde(default)]
    regex: bool,
    case_sensitive: Option<bool>,
    glob: Option<String>,
    #[serde(default)]
    before: usize,
    #[serde(default)]
    after: usize,
    max_matches: Option<usize>,
}

impl SearchArguments {
    /// A file or a directory; the workspace when absent.
    pub(crate) fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(".")
    }

    /// The requested search, limited to `most` matches.
    pub(crate) fn options(&self, view: &WorkspaceView<'_>, most: usize) -> SearchOptions<'_> {
        SearchOptions {
            regex: self.regex,
            case_sensitive: self.case_sensitive.unwrap_or(true),
            glob: self.glob.as_deref(),
            before: self.before,
            after: self.after,
            max_matches: self.max_matches.unwrap_or(view.limits.max_matches).min(most),
            max_bytes: usize::try_from(view.limits.max_output_bytes).unwrap_or(usize::MAX),
            hidden: Hidden::All,
            ..SearchOptions::new(&self.pattern)
        }
    }
}

/// Options that list every visible entry, up to the call's `max_entries`.
pub(crate) fn every_entry(view: &WorkspaceView<'_>, with_size: bool) -> ListOptions {
    ListOptions {
        max_entries: view.limits.max_entries,
        include_hidden: true,
        include_symlinks: true,
        with_size,
    }
}
