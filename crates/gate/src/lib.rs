//! The stages of a tool call, as types.
//!
//! ```text
//! Received → looked up → caller verified → permitted → arguments valid → approved → run → output valid → answered
//!    REGISTRY      AUTH        PERMISSION    VALIDATION    APPROVAL    EXECUTION   OUTPUT
//! ```
//!
//! Each arrow consumes one type and hands out the next; a tool can only be run with an [`ApprovedCall`], and only the approving stage makes one.
//! Whatever happens, a call ends in exactly one audit record. Anything that fails to decide, denies. What a gate decides by ([`GateConfig`]) can be replaced while
//! calls are under way; a call ends by what it began with, unless a person was asked about it: then it is judged again after the yes.
//!
//! The gate knows no wire format and no profile: it takes a [`ToolCall`](toolgate_types::ToolCall) and answers with an
//! [`Outcome`](toolgate_types::Outcome).

mod tool_schema;
mod blocking;
mod tool;
mod judged_paths;
mod registry;
mod schema_fast_path;
mod schema_check;
mod dedicated_thread;
mod caller;
mod session_calls;
mod rate_limits;
mod breaker;
mod snapshot;
mod approved_changes;
mod approval;
mod approval_card;
mod stages;
mod journal;
mod refusal_counter;
mod audit_guard;
mod gate;
mod frontend_api;
mod undo;
mod error;

pub use approval::{ApprovalReply, ApprovalRequest, ApprovalUnavailable, Approver, NoApprover};
pub use approval_card::{ApprovalCard, CardBody, CardRow};
pub use approved_changes::ExpectedChange;
pub use blocking::BlockingStrategy;
pub use breaker::BreakerRule;
pub use caller::Credential;
pub use error::GateError;
pub use gate::{AuditMode, CallOptions, Clock, FinishedCall, Gate, GateOptions};
pub use journal::{
    ChangeSet, DroppedEntries, FileChange, Journal, JournalBounds, JournalListing, JournalRecovery,
    UndoError, UndoOptions, UndoOutcome, UnrecoveredJournal,
};
pub use judged_paths::{CallPath, JudgedPaths};
pub use rate_limits::RateRule;
pub use registry::Registry;
pub use snapshot::GateConfig;
pub use stages::ApprovedCall;
pub use tool::{
    CallContext, Effect, Fraction, Preview, PreviewBody, Progress, ProgressUpdate, ResourceRequest, Tool,
    ToolFuture, ToolSpec,
};
pub use tool_schema::ToolSchema;
/// What doors tell of.
pub use toolgate_identity::StaleKeys;
/// What doors go by that make several calls at once.
pub use toolgate_policy::needs_question;
