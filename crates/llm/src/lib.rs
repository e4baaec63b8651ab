//! Models: messages in, one sequence of events out.
//!
//! Four wires are spoken here (Anthropic Messages, OpenAI Responses, OpenAI Chat Completions, Ollama), and nobody else knows any of them.
//! Whatever a model is asked by, the answer is the same [`Event`]s in the same order, and it ends in [`Event::Finish`] or in an error. Only a finish
//! holds calls that may be made: it is built after the wire's own terminator. A stream that breaks off, goes silent or says what nobody can
//! read is a [`ProviderError`], never a call.
//!
//! What this crate refuses to know: how a tool is run, what a session is, and where keys come from (they are handed in).

// What is said.
mod message;
mod request;

// What comes back.
mod event;
mod error;

// Who is asked.
mod capabilities;
mod provider;

pub use capabilities::Capabilities;
pub use error::{ErrorKind, ProviderError};
pub use event::{CallKey, Event, FinishReason, Usage};
pub use message::{AssistantMessage, CallResult, Message, ModelCall, Part, Seal};
pub use provider::{Events, ModelName, Provider, Wire};
pub use request::{Request, Thinking, ToolChoice, ToolDefinition};
