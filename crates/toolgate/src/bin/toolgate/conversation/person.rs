//! Asks the user on the terminal, while the conversation continues around the question.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use toolgate_gate::{
    ApprovalReply, ApprovalRequest, ApprovalUnavailable, Approver, ServerAnswer, ServerQuestion,
};
use toolgate_types::CallId;

use super::stdin_approvals::StdinApprovals;
use crate::approval_prompt::prompt_approval;
use crate::approval_screen::Requester;
use crate::server_prompt::prompt_server_question;
use crate::terminal::open_terminal;

/// The remedy if there is no terminal to ask on.
pub(crate) const HOW_TO_ALLOW: &str =
    "run it in a terminal, or pass --trust autonomous if its calls need no question";

/// Whether the user could be asked whenever a call needed approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PersonPresence {
    Present,
    Absent,
}

/// The user at the terminal. There is one terminal, so questions are asked one after the other.
#[derive(Clone, Default)]
pub(crate) struct Person {
    /// The source of answers instead of the terminal.
    answers: Option<Arc<StdinApprovals>>,
    terminal_lock: Arc<Mutex<()>>,
    /// The cursor is behind an unanswered question.
    prompt_open: Arc<AtomicBool>,
    /// The calls of this turn whose cards were shown.
    seen: Arc<Mutex<HashSet<CallId>>>,
    /// A call was refused because there was no terminal to ask on.
    was_absent: Arc<AtomicBool>,
}

impl Person {
    /// A program that answers on standard input.
    pub(crate) fn with_stdin(answers: Arc<StdinApprovals>) -> Self {
        Self { answers: Some(answers), ..Self::default() }
    }

    /// An approver for the calls of one turn.
    pub(crate) fn approver_for_turn(&self, turn: CancellationToken) -> Arc<dyn Approver> {
        Arc::new(TurnApprover { person: self.clone(), turn })
    }

    /// Whether the cursor is behind a question; resets it, so the caller has to end the row.
    pub(crate) fn take_open_row(&self) -> bool {
        self.prompt_open.swap(false, Ordering::SeqCst)
    }

    /// Whether a question is on the screen, and the cursor is behind it.
    pub(crate) fn has_open_row(&self) -> bool {
        self.prompt_open.load(Ordering::SeqCst)
    }

    /// Whether the card of this call was shown at the terminal.
    pub(crate) fn has_seen(&self, call: CallId) -> bool {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).contains(&call)
    }

    /// Forgets the calls of a turn.
    pub(crate) fn forget_seen(&self) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whether the user could be asked since the last call of this method.
    pub(crate) fn take_presence(&self) -> PersonPresence {
        let by_program = self.answers.as_ref().is_some_and(|answers| answers.take_missed());
        match self.was_absent.swap(false, Ordering::SeqCst) || by_program {
            true => PersonPresence::Absent,
            false => PersonPresence::Present,
        }
    }

    /// Waits until no question reads from the terminal, so that the next input is not taken for an answer.
    pub(crate) async fn wait_idle(&self) {
        let person = self.clone();
        let waited = tokio::task::spawn_blocking(move || {
            drop(person.terminal_lock.lock().unwrap_or_else(PoisonError::into_inner));
        });
        let _ = waited.await;
    }
}

struct TurnApprover {
    person: Person,
    turn: CancellationToken,
}

impl Approver for TurnApprover {
    fn ask(&self, question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        if let Some(answers) = &self.person.answers {
            return answers.ask(&question);
        }
        Box::pin(async move {
            // Dropping this future cancels the question.
            let unwanted = self.turn.child_token();
            let _unwanted_at_the_end = unwanted.clone().drop_guard();
            let person = self.person.clone();
            let asked = tokio::task::spawn_blocking(move || person.ask(&question, &unwanted)).await;
            match asked {
                Ok(Some(reply)) => reply,
                // The timeout expired or the turn ended, which the gate reports itself: no answer is not the same as a refusal.
                Ok(None) => std::future::pending().await,
                Err(_) => ApprovalReply::Unavailable(ApprovalUnavailable::for_operator(
                    "the question could not be shown",
                )),
            }
        })
    }

    fn ask_for_server(
        &self,
        question: ServerQuestion,
    ) -> Pin<Box<dyn Future<Output = ServerAnswer> + Send + '_>> {
        Box::pin(async move {
            // A program that answers approvals on standard input is no person.
            if self.person.answers.is_some() {
                return ServerAnswer::Unavailable;
            }
            let unwanted = self.turn.child_token();
            let _unwanted_at_the_end = unwanted.clone().drop_guard();
            let person = self.person.clone();
            let asked =
                tokio::task::spawn_blocking(move || person.ask_for_server(&question, &unwanted)).await;
            asked.unwrap_or(ServerAnswer::Unavailable)
        })
    }
}

impl Person {
    fn ask_for_server(&self, question: &ServerQuestion, unwanted: &CancellationToken) -> ServerAnswer {
        let _alone = self.terminal_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(terminal) = open_terminal() else { return ServerAnswer::Unavailable };
        self.prompt_open.store(true, Ordering::SeqCst);
        let answer = prompt_server_question(&terminal, question, &|| unwanted.is_cancelled());
        self.prompt_open.store(false, Ordering::SeqCst);
        match answer {
            Ok(Some(answer)) => answer,
            Ok(None) => ServerAnswer::Cancelled,
            Err(_) => ServerAnswer::Unavailable,
        }
    }

    fn ask(&self, question: &ApprovalRequest, unwanted: &CancellationToken) -> Option<ApprovalReply> {
        let _alone = self.terminal_lock.lock().unwrap_or_else(PoisonError::into_inner);
        if unwanted.is_cancelled() {
            return None;
        }
        let Ok(terminal) = open_terminal() else {
            self.was_absent.store(true, Ordering::SeqCst);
            return Some(ApprovalReply::Unavailable(ApprovalUnavailable::for_operator(HOW_TO_ALLOW)));
        };
        self.prompt_open.store(true, Ordering::SeqCst);
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(question.call);
        match prompt_approval(&terminal, question, Requester::Model, &|| unwanted.is_cancelled()) {
            Ok(Some(reply)) => {
                // The answer ended the row.
                self.prompt_open.store(false, Ordering::SeqCst);
                Some(reply)
            }
            Ok(None) => None,
            Err(error) => Some(ApprovalReply::Unavailable(ApprovalUnavailable::for_operator(format!(
                "the terminal failed: {error}"
            )))),
        }
    }
}
