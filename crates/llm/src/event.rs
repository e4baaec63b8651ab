//! The events of a step, in one order for all wires.

use serde::{Deserialize, Serialize};

use crate::message::AssistantMessage;

/// An event of a step. Deltas are for display; only the complete message of the finish event counts.
#[derive(Clone, Debug, PartialEq)]
pub enum StepEvent {
    /// A piece of text for the user.
    TextDelta(String),
    /// A piece of the model's thinking.
    ThinkingDelta(String),
    /// A call begins.
    CallStart {
        /// The call, within this step.
        call: CallKey,
        /// The model's id for it.
        id: String,
        /// The tool, by the name under which it was offered.
        name: String,
    },
    /// A piece of a call's arguments.
    CallDelta {
        /// The call.
        call: CallKey,
        /// A piece of JSON.
        json: String,
    },
    /// The wire marked the arguments of a call as complete. The call must not be made before the finish event.
    CallEnd {
        /// The call.
        call: CallKey,
    },
    /// The usage so far. The last one counts.
    Usage(Usage),
    /// The step is complete by the wire's own terminator. No event follows.
    Finish {
        /// The reason.
        reason: FinishReason,
        /// The complete message. The only place that calls may be taken from.
        message: AssistantMessage,
    },
}

/// A call within a step: numbered from 0 in the order of their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey(pub u32);

/// Why a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model is done.
    Stop,
    /// The model requests its calls.
    ToolCalls,
    /// The output limit was reached. Calls of such a message may be truncated, and none of them is made.
    Length,
    /// The model or a filter refused.
    Refusal,
    /// The server wants to continue the same message (`pause_turn`).
    Pause,
    /// Another reason, by the wire's name.
    Other(String),
}

/// Token usage, as the server reported it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Input tokens, including cached ones.
    pub input_tokens: u64,
    /// Output tokens, including thinking.
    pub output_tokens: u64,
    /// How many of the input tokens came from a cache.
    pub cached_tokens: u64,
}

impl Usage {
    /// The tokens of the conversation after this step.
    #[must_use]
    pub fn context_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}
