//! Why there is no model, or no agent with it.

use std::fmt;

use toolgate_assembly::error::{BuildError, BuildErrorKind};
use toolgate_assembly::load::LoadError;

/// What has to be corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// The configuration or an argument is wrong.
    Configuration,
    /// The machine refused something.
    Environment,
    /// The model's server refused, or could not be reached.
    Provider,
    /// The operation was cancelled.
    Cancelled,
}

/// Why there is no model, or no agent with it, and the remedy where there is one.
#[derive(Debug)]
pub struct ModelError {
    /// What has to be corrected.
    pub kind: ModelErrorKind,
    /// What is wrong.
    pub message: String,
    /// How to correct it.
    pub help: Option<String>,
}

impl ModelError {
    /// A wrong configuration or argument.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { kind: ModelErrorKind::Configuration, message: message.into(), help: None }
    }

    /// A failure of the machine.
    pub fn error(message: impl Into<String>) -> Self {
        Self { kind: ModelErrorKind::Environment, message: message.into(), help: None }
    }

    /// A failure of the model's server.
    pub fn provider(message: impl Into<String>) -> Self {
        Self { kind: ModelErrorKind::Provider, message: message.into(), help: None }
    }

    /// A cancelled operation.
    pub fn cancelled(message: impl Into<String>) -> Self {
        Self { kind: ModelErrorKind::Cancelled, message: message.into(), help: None }
    }

    /// Adds the remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The message and the remedy on one line.
    #[must_use]
    pub fn with_help(&self) -> String {
        let help = self.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
        format!("{}{help}", self.message)
    }
}

impl From<BuildError> for ModelError {
    fn from(BuildError { kind, message, help }: BuildError) -> Self {
        let kind = match kind {
            BuildErrorKind::Configuration => ModelErrorKind::Configuration,
            BuildErrorKind::Environment => ModelErrorKind::Environment,
        };
        Self { kind, message, help }
    }
}

impl From<LoadError> for ModelError {
    fn from(error: LoadError) -> Self {
        BuildError::from(error).into()
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for ModelError {}
