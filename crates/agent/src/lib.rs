//! The loop between a model and the gate.
//!
//! The user sends a prompt; the model answers or requests calls; every call goes through the gate and gets a result; and so on, within limits. At
//! each limit there is one final step without tools, so that the user gets an answer.
//!
//! A model's message counts once it is complete, and is persisted before anything follows from it. A call is made only if the provider's finish
//! reason says that the message ended with tool calls; arguments that are not one JSON object are rejected. However a turn ends, each requested call
//! has exactly one result.
//!
//! This crate knows nothing of provider APIs, terminals, or how a call is decided.

// Inputs and outputs.
mod settings;
mod system_prompt;
mod event;
mod turn_outcome;

// Limits and messages.
mod messages;
mod trace;
mod loop_detection;
mod context_window;

// One step of the model.
mod step;

// One call.
mod tool_catalogue;
mod arguments;
mod coloured_lines;
mod progress_forwarder;
mod reporting_approver;
mod call;

// One turn.
mod turn;
mod compaction;
mod agent;

pub use agent::{Agent, TurnContext};
pub use compaction::Compaction;
pub use event::{
    ChatEvent, EscalationChoice, EventSink, MessageId, ResultMetadata, SequencedEvent, ToolConfirm,
    ToolStatus, sequenced,
};
pub use settings::{
    AgentSettings, ContextSettings, MAX_RESERVED_TOKENS, MAX_TURN_WINDOWS, TURN_TIMEOUT_WITH_TOOLS,
    TURN_TIMEOUT_WITHOUT_TOOLS,
};
pub use system_prompt::{InstructionText, MountSummary, PromptEnvironment};
pub use turn_outcome::{AgentError, EndReason, TurnOutcome};
