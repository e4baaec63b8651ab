//! Models: messages in, one sequence of events out.
//!
//! This crate speaks four wires (Anthropic Messages, OpenAI Responses, OpenAI Chat Completions, Ollama), and no other crate knows any of them: a wire is
//! a directory of `wires` and a line in its list. Over every wire the answer is a sequence of the same [`StepEvent`]s in the same order, which ends in [`StepEvent::Finish`] or in an error. Only a
//! finish contains calls that may be made: it is built after the wire's own terminator. A stream that breaks off, stalls or cannot be parsed is a
//! [`ProviderError`], never a call.
//!
//! This crate does not know how a tool is run, what a session is, or where keys come from (they are passed in).

// Requests.
mod message;
mod request;

// Events and errors.
mod event;
mod error;
mod retry_policy;

// Providers.
mod capabilities;
mod provider;
mod endpoint;
mod known_models;

// Decoding.
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

// Transport.
mod vendor_error;
mod transport;
mod step_stream;
mod recording;

// The wires.
mod wires;

// Model lists.
mod listed;

pub use capabilities::{Capabilities, StatedCapabilities};
pub use endpoint::{ApiKey, Endpoint, Timeouts};
pub use error::{ErrorKind, ProviderError};
pub use event::{CallKey, FinishReason, StepEvent, Usage};
pub use limits::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_STEP_BYTES};
pub use listed::{ListedModel, list_models};
pub use message::{
    AssistantMessage, CallResult, Message, MessagePart, ModelCall, OpaqueProviderState, RecordedOutcome,
    UserImage,
};
pub use provider::{ModelName, Provider, StepEvents, provider};
pub use recording::{ReplayedStep, StreamRecorder, replay};
pub use request::{StepRequest, ThinkingMode, ToolChoice, ToolDefinition};
pub use retry_policy::RetryPolicy;
pub use sse::stream_events;
pub use step_decoder::StepDecoder;
pub use wire_names::ToolNames;
pub use wires::{BaseUrlFormat, Listing, ModelVendor, Wire};
