//! How a turn ends.

use std::fmt;

use serde::{Serialize, Serializer};
use toolgate_llm::Usage;
use toolgate_session::SessionError;
use toolgate_tools::Fault;
use toolgate_types::Failure;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// Why a turn is over.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EndReason {
            $($(#[$doc])* $name,)*
        }

        impl EndReason {
            /// Every reason, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The stable name.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

reasons! {
    /// The model is done.
    Done = "done";
    /// The maximum number of steps with calls was reached.
    IterationLimit = "iteration_limit";
    /// The conversation no longer fits the model's context.
    ContextLimit = "context_limit";
    /// The turn's timeout has passed.
    Timeout = "timeout";
    /// The user cancelled it.
    Cancelled = "cancelled";
    /// A call tried to leave its bounds, and that ends a conversation here.
    Violation = "violation";
    /// The model repeated itself.
    Loop = "loop";
    /// The model could not be reached.
    ProviderError = "provider_error";
    /// The turn could not run: see [`AgentError`]. Or the frontend found no model, key or session.
    Failed = "failed";
}

impl fmt::Display for EndReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Serialize for EndReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcome {
    /// The reason.
    pub reason: EndReason,
    /// The final answer. If the model gave none, a text of ours that says what happened.
    pub text: String,
    /// The total usage of all steps.
    pub usage: Usage,
    /// The number of steps with calls.
    pub iterations: u32,
}

/// Why a turn could not run. Nothing that the model says could be persisted, so no step and no call is made.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The conversation cannot be persisted.
    #[error("{0}")]
    Session(#[from] SessionError),
    /// The caller cannot be identified.
    #[error("{0}")]
    Caller(Failure),
    /// The gate's environment is such that no further call can succeed.
    #[error("{0}")]
    Fault(Fault),
    /// The settings leave the model no room.
    #[error("{message}")]
    Settings {
        /// What is wrong.
        message: String,
        /// What helps.
        help: String,
    },
}

impl AgentError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Session(_) => "session",
            Self::Caller(failure) => failure.code.as_str(),
            Self::Fault(fault) => fault.code(),
            Self::Settings { .. } => "configuration",
        }
    }
}
