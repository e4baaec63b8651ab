//! The loop between a model and the gate.
//!
//! A person says something; the model answers or asks for calls; every call goes through the gate and is answered, whatever becomes of it; and so
//! on, within bounds. At each bound there is one last step without tools, so that the person gets an answer.
//!
//! What a model says counts once its message is whole, and is kept before anything follows from it. A call is made only where the wire said that the
//! message ended in order to have it made; arguments that are not one JSON object are refused. Whatever ends a turn, each call that was asked for has exactly one result.
//!
//! What this crate refuses to know: wires, terminals, and how a call is decided.

// What it is given, and what comes of it.
mod settings;
mod system_prompt;
mod event;
mod turn_outcome;

// What it goes by.
mod messages;
mod turn_deadline;
mod loop_detection;
mod context_window;

// One step of the model.
mod step;

// One call.
mod tool_catalogue;
mod arguments;
mod progress_forwarder;
mod reporting_approver;
mod call;

// One turn.
mod turn;
mod compaction;
mod agent;

pub use agent::{Agent, TurnContext};
pub use event::{
    ChatEvent, EventSink, MessageId, ResultMetadata, SequencedEvent, ToolConfirm, ToolStatus, sequenced,
};
pub use settings::{
    AgentSettings, ContextSettings, MAX_RESERVED_TOKENS, MAX_TURN_WINDOWS, TURN_TIMEOUT_WITH_TOOLS,
    TURN_TIMEOUT_WITHOUT_TOOLS,
};
pub use system_prompt::{MountSummary, PromptEnvironment};
pub use turn_outcome::{AgentError, EndReason, TurnOutcome};
