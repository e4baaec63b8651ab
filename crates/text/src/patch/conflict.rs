//! Why a patch does not fit a file.

use serde_json::Value;
use thiserror::Error;
use toolgate_types::{ErrorCode, Failure};

use super::apply::MAX_SEARCHES;
use crate::fuzzy_match::{MatchDifference, Mismatch, NearestMatch};

/// Why a patch does not fit a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HunkError {
    /// The lines that a hunk expects are not there.
    #[error("{0}")]
    Conflict(Box<Conflict>),
    /// A hunk does not fit at its line, but at several other places.
    #[error("hunk {hunk} does not fit at its line, but at lines {}", join(.lines))]
    Ambiguous {
        /// Which hunk of the file, counted from 1.
        hunk: usize,
        /// The line of the patch with its header.
        patch_line: usize,
        /// Where it would fit.
        lines: Vec<usize>,
    },
    /// The file is to be created, but has content.
    #[error("the patch creates the file, but it has content already")]
    NotEmpty,
    /// The file is to be deleted, but the patch does not contain all of its lines.
    #[error("the patch deletes the file, but {lines} lines of it are not in the patch")]
    Remains {
        /// How many lines are left.
        lines: usize,
    },
    /// A line would be added after one without a line end.
    #[error("hunk {hunk} puts a line behind one that has no line end")]
    JoinsLines {
        /// Which hunk of the file, counted from 1.
        hunk: usize,
    },
    /// So many hunks are not at their lines that searching for them costs too much.
    #[error("hunk {hunk} and more than {MAX_SEARCHES} before it are not at their lines")]
    TooManyMoved {
        /// Which hunk of the file, counted from 1.
        hunk: usize,
    },
    /// The lines before a hunk cannot be copied.
    #[error("hunk {hunk} could not be applied where it fits")]
    Internal {
        /// Which hunk of the file, counted from 1.
        hunk: usize,
    },
}

/// A hunk compared with the lines that are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Which hunk of the file, counted from 1.
    pub hunk: usize,
    /// The line of the patch with its header.
    pub patch_line: usize,
    /// The line of the file where it should fit.
    pub line: usize,
    /// How many lines the file has.
    pub total_lines: usize,
    /// The expected lines, or the first of them.
    pub expected: Vec<String>,
    /// The lines that are there.
    pub found: Vec<String>,
    /// The first line that differs.
    pub mismatch: Option<Mismatch>,
    /// The nearest match in the file.
    pub nearest: Option<NearestMatch>,
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "hunk {} does not fit at line {}", self.hunk, self.line)?;
        match &self.mismatch {
            // All other differences are visible, so the line ends differ.
            Some(Mismatch { line, found: Some(found), wanted }) if found == wanted => {
                write!(formatter, ": line {line} and the line that the hunk expects differ in their line end")
            }
            Some(Mismatch { line, found: Some(found), wanted }) => {
                write!(formatter, ": line {line} is `{found}`, but the hunk expects `{wanted}`")
            }
            _ => write!(formatter, ": the file has only {} lines", self.total_lines),
        }
    }
}

fn join(lines: &[usize]) -> String {
    lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl HunkError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Internal { .. } => ErrorCode::Internal,
            _ => ErrorCode::PatchConflict,
        }
    }

    /// Which hunk of the file, counted from 1.
    #[must_use]
    pub fn hunk(&self) -> Option<usize> {
        match self {
            Self::Conflict(conflict) => Some(conflict.hunk),
            Self::Ambiguous { hunk, .. }
            | Self::JoinsLines { hunk }
            | Self::TooManyMoved { hunk }
            | Self::Internal { hunk } => Some(*hunk),
            Self::NotEmpty | Self::Remains { .. } => None,
        }
    }

    fn help(&self) -> String {
        match self {
            Self::Conflict(conflict) => return conflict.help(),
            Self::Ambiguous { .. } => {
                "add context lines until the hunk fits only one place, or correct its line"
            }
            Self::NotEmpty => "make the patch from the file as it is, or delete the file first",
            Self::Remains { .. } => {
                "name every line of the file with `-`, or delete it with the tool for that"
            }
            Self::JoinsLines { .. } => {
                "the file ends without a line end: remove its last line and add it again, \
                 with `\\ No newline at end of file` after the old one"
            }
            Self::TooManyMoved { .. } => "make the patch from the file as it is now",
            Self::Internal { .. } => "edit or write the file instead",
        }
        .to_owned()
    }
}

impl Conflict {
    fn help(&self) -> String {
        match &self.nearest {
            Some(place) if place.difference == MatchDifference::FinalNewline => {
                "the file ends without a line end: put `\\ No newline at end of file` after its last line"
                    .into()
            }
            Some(place) => format!("{}:\n{}", place.sentence(), place.text),
            None => "read the file again and make the patch from what it says now".into(),
        }
    }
}

impl From<HunkError> for Failure {
    fn from(error: HunkError) -> Self {
        let mut failure = Self::new(error.code(), error.to_string()).help(error.help());
        if let Some(hunk) = error.hunk() {
            failure = failure.detail("hunk", hunk);
        }
        match error {
            HunkError::Conflict(conflict) => conflict_details(failure, *conflict),
            HunkError::Ambiguous { patch_line, lines, .. } => {
                failure.detail("patch_line", patch_line).detail("lines", lines)
            }
            HunkError::Remains { lines } => failure.detail("remaining_lines", lines),
            HunkError::NotEmpty
            | HunkError::JoinsLines { .. }
            | HunkError::TooManyMoved { .. }
            | HunkError::Internal { .. } => failure,
        }
    }
}

fn conflict_details(failure: Failure, conflict: Conflict) -> Failure {
    failure
        .detail("patch_line", conflict.patch_line)
        .detail("line", conflict.line)
        .detail("expected", conflict.expected)
        .detail("found", conflict.found)
        .detail("nearest", conflict.nearest.as_ref().map_or(Value::Null, NearestMatch::details))
}
