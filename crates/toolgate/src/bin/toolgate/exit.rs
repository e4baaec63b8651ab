//! Exit codes, a stable interface for scripts.

use toolgate_assembly::error::{BuildError, BuildErrorKind};
use toolgate_assembly::load::LoadError;
use toolgate_conversation::{ModelError, ModelErrorKind};

/// Success.
pub(crate) const SUCCESS: u8 = 0;
/// The tool returned an error.
pub(crate) const TOOL_ERROR: u8 = 1;
/// Wrong usage or configuration.
pub(crate) const USAGE: u8 = 2;
/// Denied, or approval was needed and there was no terminal to ask on.
pub(crate) const DENIED: u8 = 3;
/// A limit, a budget or a loop.
pub(crate) const LIMIT: u8 = 4;
/// The model provider failed.
pub(crate) const PROVIDER: u8 = 5;
/// The audit log is intact, and records itself that calls are missing from it.
pub(crate) const GAPS: u8 = 6;
/// Interrupted.
pub(crate) const INTERRUPTED: u8 = 130;

/// The name of the exit code of a failed command, in errors as JSON.
pub(crate) fn name(code: u8) -> &'static str {
    match code {
        USAGE => "usage",
        DENIED => "denied",
        LIMIT => "limit",
        PROVIDER => "provider",
        INTERRUPTED => "interrupted",
        _ => "failed",
    }
}

/// The message of a failed command, and its exit code.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) code: u8,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

impl From<BuildError> for CliError {
    fn from(BuildError { kind, message, help }: BuildError) -> Self {
        let code = match kind {
            BuildErrorKind::Configuration => USAGE,
            BuildErrorKind::Environment => TOOL_ERROR,
        };
        Self { code, message, help }
    }
}

impl From<LoadError> for CliError {
    fn from(error: LoadError) -> Self {
        BuildError::from(error).into()
    }
}

impl From<ModelError> for CliError {
    fn from(ModelError { kind, message, help }: ModelError) -> Self {
        let code = match kind {
            ModelErrorKind::Configuration => USAGE,
            ModelErrorKind::Environment => TOOL_ERROR,
            ModelErrorKind::Provider => PROVIDER,
            ModelErrorKind::Cancelled => INTERRUPTED,
        };
        Self { code, message, help }
    }
}

impl CliError {
    /// Wrong usage or configuration.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into(), help: None }
    }

    /// Any other failure.
    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self { code: TOOL_ERROR, message: message.into(), help: None }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
