//! Unified diffs over several files: parsed strictly, applied exactly.
//!
//! A patch comes from a model and is untrusted: counts must match the lines, hunks must be in order, a file may occur once, and context must match to
//! the byte. A hunk whose lines are somewhere else is applied there only if that is the only such place. Names are returned as text; this module
//! decides neither whether they may be accessed nor whether two different paths name one file.

mod apply;
mod conflict;
mod error;
mod header;
mod hunk;
pub(crate) mod quoted_name;
mod parse;

pub use apply::{Applied, MovedHunk, apply};
pub use conflict::{Conflict, HunkError};
pub use error::PatchError;
pub use parse::parse;

/// What a patch does to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePatch {
    /// How the file as a whole changes.
    pub kind: PatchKind,
    /// Its name before, without `a/`; `None` when it is created.
    pub old_path: Option<String>,
    /// Its name after, without `b/`; `None` when it is deleted.
    pub new_path: Option<String>,
    /// The changes to its lines, in order.
    pub hunks: Vec<Hunk>,
    /// The line of the patch where this file begins, counted from 1.
    pub line: usize,
    /// Whether even the header lines end with CRLF, so that the line ends of the patch do not tell those of the file.
    pub(crate) sent_with_crlf: bool,
}

impl FilePatch {
    /// The name for messages: the new one, or the old one of a deleted file.
    #[must_use]
    pub fn path(&self) -> &str {
        self.new_path.as_deref().or(self.old_path.as_deref()).unwrap_or_default()
    }
}

/// How a file as a whole changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// It must not exist before.
    Create,
    /// It keeps its name.
    Modify,
    /// The patch contains its whole content, and it is removed.
    Delete,
    /// It gets another name, and perhaps new content.
    Rename,
}

/// One run of changes with its context lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// The line of the patch that holds its header, counted from 1.
    pub line: usize,
    /// The first old line; when there are no old lines, the line before.
    pub old_start: usize,
    /// The same for the new lines. Informative only: the position follows from the old lines.
    pub new_start: usize,
    /// Its lines.
    pub lines: Vec<HunkLine>,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkLine {
    /// Whether it is kept, removed or added.
    pub sign: Sign,
    /// The line with its line end, if it has one.
    pub text: String,
}

/// How a line changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It is kept.
    Context,
    /// It is removed.
    Remove,
    /// It is added.
    Add,
}

impl Hunk {
    /// The lines that must be in the file.
    pub fn old_lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|line| line.sign != Sign::Add).map(|line| line.text.as_str())
    }

    /// The lines that replace them.
    pub fn new_lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|line| line.sign != Sign::Remove).map(|line| line.text.as_str())
    }
}
