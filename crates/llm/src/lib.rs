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
mod backoff;

// Who is asked.
mod capabilities;
mod provider;
mod endpoint;
mod table;

// From bytes to events.
mod bounds;
mod frame;
mod sse;
mod ndjson;
mod spelling;
mod names;
mod ids;
mod collect;
mod arguments;
mod decode;

// The way there and back.
mod failure;
mod transport;
mod incoming;
mod record;

// The wires.
mod anthropic;
mod responses;
mod chat;
mod ollama;

// What there is to ask.
mod listed;

pub use anthropic::AnthropicProvider;
pub use backoff::Backoff;
pub use bounds::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_STEP_BYTES};
pub use capabilities::{Capabilities, Stated};
pub use chat::ChatProvider;
pub use decode::StepDecoder;
pub use endpoint::{Endpoint, Key, Timeouts};
pub use error::{ErrorKind, ProviderError};
pub use event::{CallKey, Event, FinishReason, Usage};
pub use listed::{ListedModel, list_models};
pub use message::{AssistantMessage, CallResult, Message, ModelCall, Part, Seal};
pub use names::ToolNames;
pub use ollama::{OllamaProvider, installed_models};
pub use provider::{Events, ModelName, Provider, Wire, provider};
pub use record::{Recorder, ReplayedStep, replay};
pub use request::{Request, Thinking, ToolChoice, ToolDefinition};
pub use responses::ResponsesProvider;
pub use sse::stream_events;
pub use table::default_model;
