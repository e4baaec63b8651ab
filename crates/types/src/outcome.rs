//! How a call ended.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Failure, Stage};

/// What a tool hands back when it did what was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// For the model to read.
    pub text: String,
    /// For programs; fits the tool's output schema.
    pub structured: Value,
}

/// The end of a call. A denial is an outcome like any other.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The tool did it.
    Done(ToolOutput),
    /// It was refused, or it failed; the code says which.
    Failed {
        /// Where.
        stage: Stage,
        /// Why.
        failure: Failure,
    },
}

impl Outcome {
    /// What the audit record says.
    #[must_use]
    pub fn decision(&self) -> Decision {
        match self {
            Self::Done(_) => Decision::Allowed,
            Self::Failed { failure, .. } if failure.code.is_denial() => Decision::Denied,
            Self::Failed { .. } => Decision::Error,
        }
    }
}

/// The word in the audit record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Decision {
    /// The call ran and was answered.
    Allowed,
    /// The call was refused.
    Denied,
    /// The call was let through and failed.
    Error,
}

impl Decision {
    /// The word in the audit record.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "ALLOWED",
            Self::Denied => "DENIED",
            Self::Error => "ERROR",
        }
    }
}
