//! What a tool call is made of.
//!
//! Ids, callers, stages, stable codes, outcomes and limits: the words that every other crate speaks.
//! This crate decides nothing, does no input or output but locking what others opened, and knows no wire format: a
//! profile or a protocol that wants another spelling of a code or an answer keeps that spelling to itself.

pub mod id;
pub mod class;
pub mod caller;
pub mod repair;
pub mod call;
pub mod stage;
pub mod code;
pub mod failure;
pub mod escape;
pub mod structured;
pub mod outcome;
pub mod limits;
pub mod stop;
pub mod cover;
pub mod digest;
pub mod time;
mod holder;
pub mod locked;
pub mod ownership;
pub mod state_key;
pub mod change_fate;

pub use call::ToolCall;
pub use caller::{Caller, RESERVED_SUBJECTS, Trust};
pub use change_fate::ChangeFate;
pub use class::{Category, ToolClass};
pub use code::ErrorCode;
pub use cover::Cover;
pub use digest::Sha256;
pub use failure::Failure;
pub use holder::Holder;
pub use id::{AgentName, CallId, RunId, SessionId, ToolName, fresh_uuid};
pub use limits::Limits;
pub use locked::{Locked, NotLocked};
pub use outcome::{Attachment, Browsed, Decision, DocumentContent, Outcome, ToolOutput};
pub use ownership::{OtherWriter, Ownership};
pub use repair::Repair;
pub use stage::Stage;
pub use state_key::StateKey;
pub use stop::{Stop, StopReason};
pub use structured::{Fields, Spelt, Structured};
