//! Why a call did not do what was requested, in words that a person or a model can act on.

use serde_json::{Map, Value};

use crate::ErrorCode;

/// A code, a message, and what to do next.
///
/// Messages are lower-case fragments without a final period, with values in backticks. Paths in them are aliases or relative to the workspace; they
/// never contain a host path.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The stable code.
    pub code: ErrorCode,
    /// What is wrong.
    pub message: String,
    /// What would help.
    pub help: Option<String>,
    /// Machine-readable facts.
    pub details: Map<String, Value>,
    /// For the operator only, such as which permission is missing; goes to the audit record, not to the model.
    pub operator_note: Option<String>,
    /// For the operator's terminal only: in no record and no answer, because it may quote what a caller sent.
    pub terminal_note: Option<String>,
}

impl Failure {
    /// A failure with a message and nothing else.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            help: None,
            details: Map::new(),
            operator_note: None,
            terminal_note: None,
        }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds a machine-readable fact.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a note for the operator only.
    #[must_use]
    pub fn operator_note(mut self, note: impl Into<String>) -> Self {
        self.operator_note = Some(note.into());
        self
    }

    /// Adds a note that is shown on the operator's terminal and stored nowhere.
    #[must_use]
    pub fn terminal_note(mut self, aside: impl Into<String>) -> Self {
        self.terminal_note = Some(aside.into());
        self
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(formatter, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}
