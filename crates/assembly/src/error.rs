//! Why no gate could be built.

use std::fmt;

/// What has to be corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildErrorKind {
    /// The configuration or an argument is wrong.
    Configuration,
    /// The machine refused something that the configuration asks for.
    Environment,
}

/// Why no gate could be built, with the remedy where there is one.
#[derive(Debug)]
pub struct BuildError {
    /// What has to be corrected.
    pub kind: BuildErrorKind,
    /// What is wrong.
    pub message: String,
    /// How to correct it.
    pub help: Option<String>,
}

impl BuildError {
    /// A wrong configuration or argument.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { kind: BuildErrorKind::Configuration, message: message.into(), help: None }
    }

    /// A failure of the machine.
    pub fn error(message: impl Into<String>) -> Self {
        Self { kind: BuildErrorKind::Environment, message: message.into(), help: None }
    }

    /// Adds the remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(formatter, " ({help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for BuildError {}
