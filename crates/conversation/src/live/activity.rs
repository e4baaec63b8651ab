//! What happens in all conversations of a caller, for clients that show more than one.

use std::sync::Arc;

use toolgate_session::SessionOwner;
use toolgate_types::{CallId, SessionId};

use super::questions::CallQuestion;

/// Something that happened.
#[derive(Clone, Debug)]
pub struct SessionActivity {
    /// Whose conversation or call it is.
    pub owner: SessionOwner,
    /// What happened.
    pub kind: ActivityKind,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum ActivityKind {
    /// A call needs an approval.
    QuestionOpened(Arc<CallQuestion>),
    /// A question is no longer open.
    QuestionClosed(CallId),
    /// A conversation is new, was changed, or began or ended a turn.
    SessionChanged(SessionId),
    /// A conversation was deleted.
    SessionDeleted(SessionId),
}
