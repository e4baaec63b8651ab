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
mod known_models;

// From bytes to events.
mod limits;
mod frame;
mod sse;
mod ndjson;
mod used_names;
mod wire_names;
mod call_ids;
mod message_collector;
mod arguments;
mod step_decoder;

// The way there and back.
mod vendor_error;
mod transport;
mod step_stream;
mod recording;

// The wires.
mod anthropic;
mod responses;
mod chat;
mod ollama;

// What there is to ask.
mod listed;

pub use anthropic::AnthropicProvider;
pub use backoff::Backoff;
pub use capabilities::{Capabilities, StatedCapabilities};
pub use chat::ChatProvider;
pub use endpoint::{ApiKey, Endpoint, Timeouts};
pub use error::{ErrorKind, ProviderError};
pub use event::{CallKey, FinishReason, StepEvent, Usage};
pub use known_models::default_model;
pub use limits::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_STEP_BYTES};
pub use listed::{ListedModel, list_models};
pub use message::{AssistantMessage, CallResult, Message, MessagePart, ModelCall, OpaqueProviderState};
pub use ollama::{OllamaProvider, installed_models};
pub use provider::{ModelName, Provider, StepEvents, Wire, provider};
pub use recording::{ReplayedStep, StreamRecorder, replay};
pub use request::{StepRequest, ThinkingMode, ToolChoice, ToolDefinition};
pub use responses::ResponsesProvider;
pub use sse::stream_events;
pub use step_decoder::StepDecoder;
pub use wire_names::ToolNames;
