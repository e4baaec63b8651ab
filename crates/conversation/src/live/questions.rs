//! Open questions about calls. The first answer decides; a question is closed by its answer, by the end of its call, or by the gate's timeout.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{broadcast, oneshot};
use toolgate_gate::{ApprovalReply, ApprovalRequest, ApprovalUnavailable, Approver};
use toolgate_session::SessionOwner;
use toolgate_types::{CallId, Caller, SessionId};

use super::activity::{ActivityKind, SessionActivity};
use super::event::LiveEvent;
use super::event_log::EventFrame;
use super::live_conversation::LiveConversation;
use super::participant::{Participant, Principal};
use crate::approval_answer::{ApprovalScope, GivenAnswer};

/// How many questions are remembered that are no longer open, for answers that come too late.
const MAX_CLOSED: usize = 512;

/// An owner whose clients looked at its questions this recently, or listen for them, is asked about the calls of its MCP clients.
const READER_TIMEOUT: Duration = Duration::from_secs(60);

/// A question whose time is nearly up when its call gives it up was not withdrawn for another reason.
const EXPIRY_SLACK: Duration = Duration::from_millis(250);

/// Where a question comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionSource {
    /// The model of a conversation.
    Chat,
    /// A program that calls a tool itself.
    Api,
    /// An MCP client that cannot ask a person itself.
    Mcp,
}

impl QuestionSource {
    /// The word in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Api => "api",
            Self::Mcp => "mcp",
        }
    }
}

/// An open question.
#[derive(Clone, Debug)]
pub struct CallQuestion {
    /// The question.
    pub request: ApprovalRequest,
    /// Who may see and answer it.
    pub owner: SessionOwner,
    /// The conversation that it belongs to.
    pub session: Option<SessionId>,
    /// Where it comes from.
    pub source: QuestionSource,
    /// When it was asked.
    pub asked_at: SystemTime,
}

impl CallQuestion {
    /// Why it is closed, if without an answer.
    fn unanswered(&self) -> AnswerError {
        match SystemTime::now() + EXPIRY_SLACK >= self.request.expires_at {
            true => AnswerError::Expired,
            false => AnswerError::Withdrawn,
        }
    }
}

/// An answer that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredQuestion {
    /// Whether the call was approved.
    pub approved: bool,
    /// How far the approval reaches.
    pub scope: ApprovalScope,
    /// Who gave it.
    pub by: Participant,
}

/// Why an answer does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// There is no such question, or it belongs to another caller: the two are not distinguished.
    #[error("there is no question about this call")]
    Unknown,
    /// No answer came in time, and the call was denied.
    #[error("no answer to this question came in time, and its call was denied")]
    Expired,
    /// Its call ended before an answer came.
    #[error("this question was withdrawn: its call was cancelled")]
    Withdrawn,
    /// It was answered before.
    #[error("this question was answered already")]
    Answered(AnsweredQuestion),
    /// The answer contradicts itself, or chooses what was not offered.
    #[error("{0}")]
    Invalid(String),
}

/// The open questions of a process.
#[derive(Clone)]
pub(crate) struct Questions {
    state: Arc<Mutex<QuestionState>>,
    activity: broadcast::Sender<SessionActivity>,
}

#[derive(Default)]
struct QuestionState {
    open: BTreeMap<CallId, AwaitedQuestion>,
    /// Why questions are no longer open, the oldest first.
    closed: VecDeque<(CallId, SessionOwner, AnswerError)>,
    /// When each owner's clients last looked at its questions.
    readers: HashMap<SessionOwner, Instant>,
}

impl QuestionState {
    fn close(&mut self, call: CallId, owner: SessionOwner, why: AnswerError) {
        if self.closed.len() >= MAX_CLOSED {
            self.closed.pop_front();
        }
        self.closed.push_back((call, owner, why));
    }
}

struct AwaitedQuestion {
    question: Arc<CallQuestion>,
    answer: oneshot::Sender<ApprovalReply>,
    conversation: Option<Arc<LiveConversation>>,
    /// The event that asked it, to be sent again to clients that connect.
    frame: Option<EventFrame>,
}

impl Questions {
    pub(crate) fn new(activity: broadcast::Sender<SessionActivity>) -> Self {
        Self { state: Arc::default(), activity }
    }

    /// Opens a question and waits for its answer. Dropping the future closes it.
    fn ask(
        &self,
        question: CallQuestion,
        conversation: Option<Arc<LiveConversation>>,
    ) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send>> {
        let (answer, answered) = oneshot::channel();
        let (call, question) = (question.request.call, Arc::new(question));
        let kind = ActivityKind::QuestionOpened(Arc::clone(&question));
        let owner = question.owner.clone();
        let pending = AwaitedQuestion { question, answer, conversation, frame: None };
        self.lock().open.insert(call, pending);
        let closes = OpenQuestionGuard { questions: self.clone(), call, owner: owner.clone() };
        // No receiver is no problem.
        let _ = self.activity.send(SessionActivity { owner, kind });
        Box::pin(async move {
            let _closes = closes;
            answered.await.unwrap_or_else(|_| {
                ApprovalReply::Unavailable(ApprovalUnavailable::for_operator("the question was closed"))
            })
        })
    }

    /// Keeps the event that asked a question.
    pub(crate) fn set_frame(&self, call: CallId, frame: EventFrame) {
        if let Some(pending) = self.lock().open.get_mut(&call) {
            pending.frame = Some(frame);
        }
    }

    /// The events of the questions that are open in a conversation.
    pub(crate) fn frames(&self, session: &SessionId) -> Vec<EventFrame> {
        let state = self.lock();
        let of_session = |pending: &&AwaitedQuestion| pending.question.session.as_ref() == Some(session);
        state.open.values().filter(of_session).filter_map(|pending| pending.frame.clone()).collect()
    }

    /// The open questions of an owner, oldest first.
    pub(crate) fn open(&self, owner: &SessionOwner) -> Vec<Arc<CallQuestion>> {
        let state = self.lock();
        let own = |pending: &&AwaitedQuestion| pending.question.owner == *owner;
        state.open.values().filter(own).map(|pending| Arc::clone(&pending.question)).collect()
    }

    /// The open questions of all owners, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<CallQuestion>> {
        self.lock().open.values().map(|pending| Arc::clone(&pending.question)).collect()
    }

    /// A client of this owner looks at its questions.
    pub(crate) fn note_reader(&self, owner: &SessionOwner) {
        let (now, mut state) = (Instant::now(), self.lock());
        state.readers.retain(|_, at| now.saturating_duration_since(*at) < READER_TIMEOUT);
        state.readers.insert(owner.clone(), now);
    }

    /// Whether a client would see a question to this owner.
    fn has_reader(&self, owner: &SessionOwner) -> bool {
        let at = self.lock().readers.get(owner).copied();
        at.is_some_and(|at| at.elapsed() < READER_TIMEOUT)
    }

    /// How many questions are open, of all owners.
    pub(crate) fn count(&self) -> usize {
        self.lock().open.len()
    }

    /// Answers a question. The first answer counts.
    pub(crate) fn answer(
        &self,
        who: &Principal,
        call: CallId,
        answer: GivenAnswer,
    ) -> Result<AnsweredQuestion, AnswerError> {
        let invalid = |why: &str| AnswerError::Invalid(why.to_owned());
        let (approved, scope, reason) = (answer.approved, answer.scope, answer.reason.clone());
        let changed = answer.input.is_some();
        let given = AnsweredQuestion { approved, scope, by: who.participant.clone() };
        let mut state = self.lock();
        match state.open.get(&call) {
            Some(pending) if pending.question.owner == who.owner => {}
            _ => {
                let before = state.closed.iter().find(|(id, owner, _)| *id == call && *owner == who.owner);
                return Err(before.map_or(AnswerError::Unknown, |(_, _, why)| why.clone()));
            }
        }
        let reply = answer.into_reply().map_err(invalid)?;
        if let Some(pending) = state.open.get(&call) {
            check_offered(&pending.question.request, &reply).map_err(invalid)?;
        }
        let Some(pending) = state.open.remove(&call) else { return Err(AnswerError::Unknown) };
        // The gate gave up the question in this moment.
        if pending.answer.send(reply).is_err() {
            let why = pending.question.unanswered();
            state.close(call, who.owner.clone(), why.clone());
            return Err(why);
        }
        state.close(call, who.owner.clone(), AnswerError::Answered(given.clone()));
        drop(state);
        if let Some(conversation) = pending.conversation {
            let reason = reason.filter(|_| !approved);
            let event = LiveEvent::answered(call, approved, scope, &who.participant, reason, changed);
            conversation.push_event(&event);
        }
        Ok(given)
    }

    fn lock(&self) -> MutexGuard<'_, QuestionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer may choose only what the question offered.
fn check_offered(question: &ApprovalRequest, reply: &ApprovalReply) -> Result<(), &'static str> {
    match reply {
        ApprovalReply::Granted(id) if !question.grants.iter().any(|offer| offer.id == *id) => {
            Err("`grant` is not the id of a grant that was offered with this question")
        }
        ApprovalReply::Escalated(ids)
            if !ids.iter().all(|id| question.escalations.iter().any(|offer| offer.id == *id)) =>
        {
            Err("`escalate` names something that was not offered with this question")
        }
        ApprovalReply::ForSession if !question.can_grant_session => {
            Err("this call can only be approved once: `scope` `session` was not offered")
        }
        _ => Ok(()),
    }
}

/// Closes a question on drop.
struct OpenQuestionGuard {
    questions: Questions,
    call: CallId,
    owner: SessionOwner,
}

impl Drop for OpenQuestionGuard {
    fn drop(&mut self) {
        let mut state = self.questions.lock();
        // An answered question is not open any more.
        if let Some(pending) = state.open.remove(&self.call) {
            let why = pending.question.unanswered();
            state.close(self.call, self.owner.clone(), why);
        }
        drop(state);
        let kind = ActivityKind::QuestionClosed(self.call);
        let _ = self.questions.activity.send(SessionActivity { owner: self.owner.clone(), kind });
    }
}

/// Asks the clients of an owner.
pub(crate) struct ClientApprover {
    pub(crate) questions: Questions,
    pub(crate) owner: SessionOwner,
    pub(crate) session: Option<SessionId>,
    pub(crate) source: QuestionSource,
    pub(crate) conversation: Option<Arc<LiveConversation>>,
}

impl Approver for ClientApprover {
    fn ask(&self, request: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        let question = CallQuestion {
            request,
            owner: self.owner.clone(),
            session: self.session.clone(),
            source: self.source,
            asked_at: SystemTime::now(),
        };
        self.questions.ask(question, self.conversation.clone())
    }
}

/// Whose the questions about a caller's calls are.
pub type OwnerOf = Box<dyn Fn(&Caller) -> SessionOwner + Send + Sync>;

/// Asks about the calls of MCP clients that cannot ask a person themselves, if a client of the same owner would see it.
pub(crate) struct McpApprover {
    pub(crate) questions: Questions,
    pub(crate) owner_of: OwnerOf,
}

impl Approver for McpApprover {
    fn ask(&self, request: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        let owner = (self.owner_of)(&request.caller);
        if !self.questions.has_reader(&owner) {
            let remedy =
                "open the page of `toolgate serve`, or read `GET /api/v1/events`, and make the call again";
            return Box::pin(
                async move { ApprovalReply::Unavailable(ApprovalUnavailable::for_operator(remedy)) },
            );
        }
        let asked_at = SystemTime::now();
        let question = CallQuestion { request, owner, session: None, source: QuestionSource::Mcp, asked_at };
        self.questions.ask(question, None)
    }
}
