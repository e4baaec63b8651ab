//! The vocabulary of a tool call.
//!
//! Ids, callers, stages, stable codes, outcomes and limits: the types that every other crate uses. This crate decides nothing, does no I/O, and knows
//! no wire format: a profile or a protocol that writes a code or an answer differently keeps that to itself.

pub mod id;
pub mod tool_class;
pub mod flow;
pub mod caller;
pub mod repair;
pub mod call;
pub mod stage;
pub mod error_code;
pub mod failure;
pub mod json_escape;
pub mod json_type;
pub mod structured;
mod struct_json;
pub mod outcome;
pub mod limits;
pub mod escalation;
mod aead_key;
pub mod backoff;
pub mod deadline;
pub mod mount_overlay;
pub mod digest;
pub mod hashed_text;
pub mod time;
pub mod ownership;
pub mod state_key;
pub mod change_fate;
pub mod conversation;
pub mod retention;

pub use aead_key::AeadKey;
pub use backoff::Backoff;
pub use call::ToolCall;
pub use caller::{Caller, RESERVED_SUBJECTS, Trust};
pub use change_fate::ChangeFate;
pub use conversation::{OnFull, OnViolation};
pub use deadline::{CancellationReason, Deadline, DeadlinePause};
pub use digest::Sha256;
pub use error_code::ErrorCode;
pub use escalation::Escalation;
pub use failure::Failure;
pub use flow::{ArgumentRole, FlowDeclaration, FlowEffect, FlowLabels, FlowMounts, FlowSettings};
pub use hashed_text::HashedText;
pub use id::{AgentName, CallId, RunId, SessionId, ToolName, fresh_uuid};
pub use json_type::JsonType;
pub use limits::Limits;
pub use mount_overlay::MountOverlay;
pub use outcome::{Attachment, Decision, DocumentContent, Outcome, ResourceContent, ToolOutput};
pub use ownership::{OtherWriter, Ownership};
pub use repair::Repair;
pub use retention::RetentionBounds;
pub use stage::Stage;
pub use state_key::StateKey;
pub use structured::{JsonObjectWriter, RawJsonField, RawJsonObject, Structured};
pub use tool_class::{Category, ToolClass};
