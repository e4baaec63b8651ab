//! Why a walk fails as a whole. What could not be read during a walk is counted in the result instead.

use std::io;

use rustix::io::Errno;
use toolgate_types::{ErrorCode, Failure};

/// Why a walk did not begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pattern does not parse, would cost too much, or could never match.
    #[error("the pattern `{pattern}` cannot be searched for: {reason}")]
    InvalidPattern {
        /// The pattern, shortened.
        pattern: String,
        /// What is wrong with it.
        reason: String,
        /// A remedy.
        help: &'static str,
    },
    /// The glob does not parse, or could never match.
    #[error("the glob `{glob}` cannot be used: {reason}")]
    InvalidGlob {
        /// The glob, shortened.
        glob: String,
        /// What is wrong with it.
        reason: String,
        /// A remedy.
        help: &'static str,
    },
    /// The start is not a directory.
    #[error("not a directory")]
    NotADirectory,
    /// The one file to search is not a regular file.
    #[error("not a regular file")]
    NotAFile,
    /// The start cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] io::Error),
}

impl Error {
    pub(crate) fn pattern(pattern: &str, reason: impl Into<String>, help: &'static str) -> Self {
        Self::InvalidPattern { pattern: shortened(pattern), reason: reason.into(), help }
    }

    pub(crate) fn glob(glob: &str, reason: impl Into<String>, help: &'static str) -> Self {
        Self::InvalidGlob { glob: shortened(glob), reason: reason.into(), help }
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::InvalidPattern { .. } | Self::InvalidGlob { .. } => ErrorCode::InvalidPattern,
            Self::NotADirectory => ErrorCode::NotADirectory,
            Self::NotAFile => ErrorCode::NotAFile,
            Self::Unreadable(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
                ErrorCode::PermissionDenied
            }
            Self::Unreadable(_) => ErrorCode::IoError,
        }
    }

    /// A remedy, if one is known.
    #[must_use]
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Self::InvalidPattern { help, .. } | Self::InvalidGlob { help, .. } => Some(help),
            Self::NotADirectory => Some("name a directory"),
            Self::NotAFile => Some("name a regular file or a directory"),
            Self::Unreadable(_) => None,
        }
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        if errno == Errno::NOTDIR { Self::NotADirectory } else { Self::Unreadable(errno.into()) }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let failure = Self::new(error.code(), error.to_string());
        match error.help() {
            Some(help) => failure.help(help),
            None => failure,
        }
    }
}

/// The beginning of the pattern or glob, on one line.
fn shortened(text: &str) -> String {
    const MAX_SHOWN_CHARS: usize = 80;
    let mut short = String::new();
    for character in text.chars().take(MAX_SHOWN_CHARS) {
        if character.is_control() {
            short.extend(character.escape_default());
        } else {
            short.push(character);
        }
    }
    if text.chars().nth(MAX_SHOWN_CHARS).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_hostile_text_is_shown_short_and_on_one_line() {
        assert_eq!(shortened("a\nb\\w"), "a\\nb\\w");
        assert_eq!(shortened(&"é".repeat(81)), format!("{}…", "é".repeat(80)));
        assert_eq!(shortened(&"é".repeat(80)), "é".repeat(80));
    }

    #[test]
    fn codes_follow_the_cause() {
        assert_eq!(Error::from(Errno::NOTDIR).code(), ErrorCode::NotADirectory);
        assert_eq!(Error::from(Errno::ACCESS).code(), ErrorCode::PermissionDenied);
        assert_eq!(Error::from(Errno::IO).code(), ErrorCode::IoError);
        let failure = Failure::from(Error::glob("[", "unclosed", "close it"));
        assert_eq!((failure.code, failure.help.as_deref()), (ErrorCode::InvalidPattern, Some("close it")));
    }
}
