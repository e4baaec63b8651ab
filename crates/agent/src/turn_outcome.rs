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

            /// The stable word.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

reasons! {
    /// The model has nothing more to say.
    Done = "done";
    /// It called tools as often as it may.
    IterationLimit = "iteration_limit";
    /// The conversation no longer fits the model's context.
    ContextLimit = "context_limit";
    /// The turn took as long as it may.
    Timeout = "timeout";
    /// The person ended it.
    Cancelled = "cancelled";
    /// A call tried to leave its bounds, and that ends a conversation here.
    Violation = "violation";
    /// The model did the same again and again.
    Loop = "loop";
    /// The model could not be asked.
    ProviderError = "provider_error";
    /// It could not be held at all: see [`AgentError`]. Or whoever would hold it found no model, no key, no session.
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
    /// Why.
    pub reason: EndReason,
    /// The final answer. Where the model gave none, what happened, in our words.
    pub text: String,
    /// What all steps of the turn used together.
    pub usage: Usage,
    /// How many steps had calls.
    pub iterations: u32,
}

/// Why a turn could not be held at all. Nothing that the model said can be kept then, so nothing more is asked of it and nothing more is done.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The conversation cannot be kept.
    #[error("{0}")]
    Session(#[from] SessionError),
    /// Nobody knows who is asking.
    #[error("{0}")]
    Caller(Failure),
    /// The surroundings of the gate are such that no further call can succeed.
    #[error("{0}")]
    Fault(Fault),
    /// The settings leave the model no room.
    #[error("{message}")]
    Settings {
        /// What is wrong.
        message: String,
        /// What would help.
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
