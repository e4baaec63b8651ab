//! Unified diffs over several files: read strictly, applied exactly.
//!
//! A patch comes from a model, so nothing in it is taken on trust: counts must fit the lines, hunks must be
//! in order, a file may be named once, and context must match to the byte. A hunk whose lines stand somewhere
//! else is applied there only if that is the only such place. Names are handed back as text; whether they may
//! be touched is not decided here, nor whether two spellings name one file.

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
    /// What happens to the file as a whole.
    pub kind: PatchKind,
    /// Its name before, without `a/`; `None` when it is created.
    pub old_path: Option<String>,
    /// Its name after, without `b/`; `None` when it is deleted.
    pub new_path: Option<String>,
    /// The changes to its lines, in order.
    pub hunks: Vec<Hunk>,
    /// The line of the patch where this file begins, counted from 1.
    pub line: usize,
    /// Whether even the header lines end with CRLF, so that line ends say nothing about the file.
    pub(crate) sent_with_crlf: bool,
}

impl FilePatch {
    /// The name to speak of: the new one, or the old one of a deleted file.
    #[must_use]
    pub fn path(&self) -> &str {
        self.new_path.as_deref().or(self.old_path.as_deref()).unwrap_or_default()
    }
}

/// What happens to a file as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// It must not exist, and does afterwards.
    Create,
    /// It stays where it is.
    Modify,
    /// Its whole content is named, and it is gone afterwards.
    Delete,
    /// It moves, and may change on the way.
    Rename,
}

/// One run of changes with the lines around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// The line of the patch that holds its header, counted from 1.
    pub line: usize,
    /// The first old line; when there are no old lines, the line before.
    pub old_start: usize,
    /// The same for the new lines. Informative only: where the hunk goes follows from the old lines.
    pub new_start: usize,
    /// Its lines.
    pub lines: Vec<HunkLine>,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkLine {
    /// Whether it stays, goes or comes.
    pub sign: Sign,
    /// The line with its line end, if it has one.
    pub text: String,
}

/// What happens to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It stays.
    Context,
    /// It goes.
    Remove,
    /// It comes.
    Add,
}

impl Hunk {
    /// The lines that must be in the file.
    pub fn old_lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|line| line.sign != Sign::Add).map(|line| line.text.as_str())
    }

    /// The lines that take their place.
    pub fn new_lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|line| line.sign != Sign::Remove).map(|line| line.text.as_str())
    }
}
