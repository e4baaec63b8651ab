//! What comes back, in one order for all wires.

use serde::{Deserialize, Serialize};

use crate::message::AssistantMessage;

/// Something that happened in a step. Deltas are for showing; what counts is the whole message at the finish.
#[derive(Clone, Debug, PartialEq)]
pub enum StepEvent {
    /// More words for the person.
    TextDelta(String),
    /// More words of the model for itself.
    ThinkingDelta(String),
    /// A call begins.
    CallStart {
        /// Which, within this step.
        call: CallKey,
        /// The model's id for it.
        id: String,
        /// The tool, by the name that it was offered under.
        name: String,
    },
    /// More of a call's arguments.
    CallDelta {
        /// Which.
        call: CallKey,
        /// A piece of JSON.
        json: String,
    },
    /// The arguments of a call are complete, says the wire. It may still not be made before the finish.
    CallEnd {
        /// Which.
        call: CallKey,
    },
    /// What was used so far. The last one counts.
    Usage(Usage),
    /// The step is over, and the wire said so. Nothing comes after it.
    Finish {
        /// Why.
        reason: FinishReason,
        /// Everything that was said. The only place that calls may be taken from.
        message: AssistantMessage,
    },
}

/// A call within a step: numbered from nought as they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey(pub u32);

/// Why a step is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model has nothing more to say.
    Stop,
    /// It wants its calls made.
    ToolCalls,
    /// It may not say more. Calls of such a message may be cut off, and none of them is made.
    Length,
    /// It was kept from saying more, or would not.
    Refusal,
    /// The server wants to go on with the same message (`pause_turn`).
    Pause,
    /// Something else, in the wire's word.
    Other(String),
}

/// Tokens, as the server counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// What went in, with what came from a cache.
    pub input_tokens: u64,
    /// What came out, with thinking.
    pub output_tokens: u64,
    /// How many of the first came from a cache.
    pub cached_tokens: u64,
}

impl Usage {
    /// How much of the context window the conversation fills after this step.
    #[must_use]
    pub fn context_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}
