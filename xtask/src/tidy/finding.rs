//! The findings of tidy.

use std::fmt;

/// One error or note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    level: Level,
    file: String,
    /// From 1; 0 is the file as a whole.
    line: usize,
    message: String,
    remedy: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Error,
    Note,
}

impl Finding {
    /// An error, which must be corrected.
    pub(super) fn error(
        file: impl Into<String>,
        line: usize,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (file, message, remedy) = (file.into(), message.into(), remedy.into());
        Self { level: Level::Error, file, line, message, remedy }
    }

    /// A note to think about.
    pub(super) fn note(
        file: impl Into<String>,
        line: usize,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Note, ..Self::error(file, line, message, remedy) }
    }

    pub(super) fn is_error(&self) -> bool {
        self.level == Level::Error
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, file, line, message, remedy } = self;
        let level = match level {
            Level::Error => "error",
            Level::Note => "note",
        };
        let line = if *line == 0 { String::new() } else { format!(":{line}") };
        write!(formatter, "{file}{line}: {level}: {message}; {remedy}")
    }
}
