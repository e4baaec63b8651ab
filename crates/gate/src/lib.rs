//! The stages of a tool call, as types.
//!
//! ```text
//! Received → looked up → caller verified → permitted → arguments valid → approved → run → output valid → answered
//!    REGISTRY      AUTH        PERMISSION    VALIDATION    APPROVAL    EXECUTION   OUTPUT
//! ```
//!
//! Each arrow consumes one type and hands out the next; a tool can only be run with an [`ApprovedCall`], and only the approving stage makes one.
//! Whatever happens, a call ends in exactly one audit record. Anything that fails to decide, denies. What a gate decides by ([`Loaded`]) can be replaced while
//! calls are under way; a call ends by what it began with, unless a person was asked about it: then it is judged again after the yes.
//!
//! The gate knows no wire format and no profile: it takes a [`ToolCall`](toolgate_types::ToolCall) and answers with an
//! [`Outcome`](toolgate_types::Outcome).

mod tool_schema;
mod blocking;
mod tool;
mod located;
mod registry;
mod quick;
mod schema;
mod apart;
mod caller;
mod sessions;
mod rates;
mod breaker;
mod snapshot;
mod bound;
mod approval;
mod card;
mod stages;
mod journal;
mod refusals;
mod unsettled;
mod gate;
mod doors;
mod undoing;
mod error;

pub use approval::{Approver, Nobody, NobodyToAsk, Question, Reply};
pub use blocking::Blocking;
pub use bound::ForeseenChange;
pub use breaker::BreakerRule;
pub use caller::Credential;
pub use card::{CardBody, CardRow, QuestionCard};
pub use error::GateError;
pub use gate::{AuditMode, CallOptions, Clock, Gate, GateOptions, Settled};
pub use journal::{
    Change, ChangeSet, Dropped, Journal, JournalBounds, Listing, Recovery, UndoError, UndoOptions, Undone,
    UnrecoveredJournal,
};
pub use located::{CallPath, JudgedPaths};
pub use rates::RateRule;
pub use registry::Registry;
pub use snapshot::Loaded;
pub use stages::ApprovedCall;
pub use tool::{
    Browse, CallContext, Effect, Preview, PreviewBody, Progress, Said, Share, Tool, ToolFuture, ToolSpec,
};
pub use tool_schema::ToolSchema;
/// What doors tell of.
pub use toolgate_identity::StaleKeys;
/// What doors go by that make several calls at once.
pub use toolgate_policy::needs_question;
