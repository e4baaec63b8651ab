//! Why a patch is refused before any file is read.

use thiserror::Error;
use toolgate_types::{ErrorCode, Failure};

/// What is wrong with a patch, and in which of its lines (counted from 1).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatchError {
    /// The patch changes no file.
    #[error("the patch changes no file")]
    Empty,
    /// Another format.
    #[error("patch line {line}: this is {format}, not a unified diff")]
    OtherFormat {
        /// The line that shows it.
        line: usize,
        /// The format.
        format: &'static str,
    },
    /// A binary patch.
    #[error("patch line {line}: binary patches are not accepted")]
    Binary {
        /// The line that shows it.
        line: usize,
    },
    /// The patch changes modes, symlinks or submodules.
    #[error("patch line {line}: {what} are not accepted")]
    Mode {
        /// The line that shows it.
        line: usize,
        /// The kind of change.
        what: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
    /// The lines before the hunks do not determine the file and its change.
    #[error("patch line {line}: {problem}")]
    Header {
        /// The offending line.
        line: usize,
        /// What is wrong with it.
        problem: String,
        /// The correct form.
        remedy: &'static str,
    },
    /// An invalid line between files or inside a hunk.
    #[error("patch line {line}: `{text}` is no part of a patch here")]
    UnexpectedLine {
        /// The offending line.
        line: usize,
        /// Its beginning.
        text: String,
    },
    /// A hunk header that does not parse.
    #[error("patch line {line}: `{text}` is not a hunk header")]
    HunkHeader {
        /// The offending line.
        line: usize,
        /// Its beginning.
        text: String,
    },
    /// The counts in a hunk header do not match its lines.
    #[error(
        "patch line {line}: the hunk header says {} old and {} new lines, but {} and {} follow",
        .said.0, .said.1, .found.0, .found.1
    )]
    Counts {
        /// The line with the header.
        line: usize,
        /// Old and new lines according to the header.
        said: (usize, usize),
        /// Old and new lines that follow.
        found: (usize, usize),
        /// The header that would be correct.
        fitting: String,
    },
    /// A line without a line end that is not the last one.
    #[error("patch line {line}: `\\ No newline at end of file` stands after a line that is not the last")]
    EarlyEnd {
        /// The line with the marker.
        line: usize,
    },
    /// Hunks overlap or are out of order.
    #[error("patch line {line}: the hunk begins at old line {start}, before the one above it ends at {end}")]
    Order {
        /// The line with the header.
        line: usize,
        /// Where the hunk begins in the old file.
        start: usize,
        /// The last old line of the hunk before.
        end: usize,
    },
    /// The patch has two parts for one file.
    #[error("patch line {line}: `{path}` was already changed at patch line {first}")]
    Twice {
        /// Where the second part begins.
        line: usize,
        /// Where the first part begins.
        first: usize,
        /// The file.
        path: String,
    },
}

impl PatchError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::PatchInvalid
    }

    /// The offending line of the patch.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Empty => None,
            Self::OtherFormat { line, .. }
            | Self::Binary { line }
            | Self::Mode { line, .. }
            | Self::Header { line, .. }
            | Self::UnexpectedLine { line, .. }
            | Self::HunkHeader { line, .. }
            | Self::Counts { line, .. }
            | Self::EarlyEnd { line }
            | Self::Order { line, .. }
            | Self::Twice { line, .. } => Some(*line),
        }
    }

    fn help(&self) -> String {
        match self {
            Self::Empty | Self::OtherFormat { .. } => {
                "send a unified diff: `--- a/FILE`, `+++ b/FILE`, hunks that begin with `@@ -1,3 +1,4 @@`"
            }
            Self::Binary { .. } => "leave binary files out of the patch",
            Self::Mode { instead, .. } => instead,
            Self::Header { remedy, .. } => remedy,
            Self::UnexpectedLine { .. } => {
                "begin each line of a hunk with a space, `-` or `+`, and count them in the hunk header"
            }
            Self::HunkHeader { .. } => {
                "write `@@ -OLD_START,OLD_COUNT +NEW_START,NEW_COUNT @@` with line numbers counted from 1"
            }
            Self::Counts { found: (0, 0), .. } => "write the lines of the hunk after its header",
            Self::Counts { fitting, .. } => return format!("write `{fitting}`, or complete the hunk"),
            Self::EarlyEnd { .. } => "put the marker after the last line of the file, or leave it out",
            Self::Order { .. } => "put the hunks in the order of the file and join those that touch",
            Self::Twice { .. } => "put all hunks of a file into one part of the patch, or send two patches",
        }
        .to_owned()
    }
}

impl From<PatchError> for Failure {
    fn from(error: PatchError) -> Self {
        let failure = Self::new(error.code(), crate::escaped_line(&error.to_string())).help(error.help());
        match error.line() {
            Some(line) => failure.detail("patch_line", line),
            None => failure,
        }
    }
}
