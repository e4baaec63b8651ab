//! The stages of a tool call, as types.
//!
//! ```text
//! Received → looked up → caller verified → permitted → arguments valid → approved → run → output valid → answered
//!    REGISTRY      AUTH        PERMISSION    VALIDATION    APPROVAL    EXECUTION   OUTPUT
//! ```
//!
//! Each stage consumes the type that the stage before returned. A tool can only be run with an [`ApprovedCall`], and only the approval stage
//! constructs one. Every call ends in exactly one audit record. A check that cannot decide denies. The configuration ([`GateConfig`]) can be replaced
//! while calls are running: a call keeps the snapshot it started with, but a call that a person approved is checked again against the configuration
//! of that moment.
//!
//! The gate knows no wire format and no profile: it takes a [`ToolCall`](toolgate_types::ToolCall) and returns an
//! [`Outcome`](toolgate_types::Outcome).

mod tool_schema;
mod tool_search;
mod flow;
mod blocking;
mod touched;
mod tool;
mod judged_paths;
mod registry;
mod schema_check;
mod dedicated_thread;
mod caller;
mod session_calls;
mod rate_limits;
mod breaker;
mod snapshot;
mod approved_changes;
mod grants;
mod approval;
mod elicitation;
mod escalation;
mod approval_card;
mod question;
mod stages;
mod trace;
mod journal;
mod refusal_counter;
mod output;
mod audit_guard;
mod call_observer;
mod gate;
mod frontend_api;
mod undo;
mod error;

pub use approval::{ApprovalReply, ApprovalRequest, ApprovalUnavailable, Approver, NoApprover};
pub use approval_card::{ApprovalCard, CardBody, CardRow};
pub use approved_changes::ExpectedChange;
pub use blocking::BlockingStrategy;
pub use breaker::BreakerRule;
pub use call_observer::{CallObserver, EndedCall, OutputObserver};
pub use caller::{Credential, SessionCaller};
pub use elicitation::{
    AskedQuestion, CallElicitor, FieldKind, FieldOption, FormField, QuestionBody, ServerAnswer,
    ServerQuestion,
};
pub use error::GateError;
pub use escalation::{EscalationOffer, LackReporter};
pub use flow::{FlowLabelStore, FlowRule};
pub use frontend_api::ToolAccess;
pub use gate::{AuditMode, CallOptions, Clock, FinishedCall, Gate, GateOptions};
pub use grants::{GrantDuration, GrantOffer, GrantStore, GrantStoreError, LastingGrant, day_words};
pub use journal::{
    ChangeSet, ComparedChange, CurrentContent, DroppedEntries, FileChange, Journal, JournalBounds,
    JournalListing, JournalRecovery, UndoError, UndoOptions, UndoOutcome, UnrecoveredJournal,
};
pub use judged_paths::{CallPath, JudgedPaths};
pub use rate_limits::RateRule;
pub use registry::{AbsentTool, AbsentTools, FailedServer, Registry};
pub use snapshot::GateConfig;
pub use stages::ApprovedCall;
pub use tool::{
    CallContext, Effect, Fraction, LogMessage, LogSeverity, LogSink, Preview, PreviewBody, Progress,
    ProgressUpdate, ResourceRequest, Surface, Tool, ToolFuture, ToolIcon, ToolSpec,
};
pub use tool_schema::ToolSchema;
pub use tool_search::{CALL_TOOL, FIND_TOOLS, ToolSearchRule};
/// Returned by [`Gate::stale_keys`].
pub use toolgate_identity::StaleKeys;
/// For frontends that run several calls concurrently: whether a call may need a person's approval.
pub use toolgate_policy::needs_question;
pub use touched::TouchedNames;
pub use trace::SPAN_TARGET;
