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
mod system;
mod event;
mod ended;

// What it goes by.
mod words;
mod patience;
mod repeat;
mod room;

// One step of the model.
mod step;

// One call.
mod offer;
mod arguments;
mod relay;
mod asking;
mod call;

// One turn.
mod conversation;
mod saving;
mod agent;

pub use agent::{Agent, Turn};
pub use ended::{AgentError, EndReason, Ended};
pub use event::{
    ChatEvent, EventSink, MessageId, Numbered, ResultMetadata, ToolConfirm, ToolStatus, numbered,
};
pub use settings::{
    AgentSettings, ContextSettings, MAX_TURN_WINDOWS, MOST_RESERVED, TIME_WITH_TOOLS, TIME_WITHOUT_TOOLS,
};
pub use system::{MountFact, Surroundings};
