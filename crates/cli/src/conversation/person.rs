//! Asking the person at the terminal, while the conversation goes on around the question.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use toolgate_gate::{ApprovalReply, ApprovalRequest, ApprovalUnavailable, Approver};

use super::stdin_approvals::StdinApprovals;
use crate::approval_screen::Requester;
use crate::terminal::{open_terminal, prompt_approval};

/// What helps where there is nobody to ask.
pub(crate) const HOW_TO_ALLOW: &str =
    "run it in a terminal, or pass --trust autonomous if its calls need no question";

/// Whether there was somebody to ask, whenever a call needed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PersonPresence {
    Present,
    Absent,
}

/// Who sits at the terminal. There is one, so questions come one after the other.
#[derive(Clone, Default)]
pub(crate) struct Person {
    /// Where answers come from in place of the terminal.
    answers: Option<Arc<StdinApprovals>>,
    terminal_lock: Arc<Mutex<()>>,
    /// The cursor stands behind a question that nobody answered.
    prompt_open: Arc<AtomicBool>,
    /// A call was refused because nobody is here.
    was_absent: Arc<AtomicBool>,
}

impl Person {
    /// A program that answers on standard input.
    pub(crate) fn with_stdin(answers: Arc<StdinApprovals>) -> Self {
        Self { answers: Some(answers), ..Self::default() }
    }

    /// The person, asked about calls of one turn.
    pub(crate) fn approver_for_turn(&self, turn: CancellationToken) -> Arc<dyn Approver> {
        Arc::new(TurnApprover { person: self.clone(), turn })
    }

    /// Whether the cursor stands behind a question; whoever asks takes care of it.
    pub(crate) fn take_open_row(&self) -> bool {
        self.prompt_open.swap(false, Ordering::SeqCst)
    }

    /// Whether there was somebody to ask, since this was last looked at.
    pub(crate) fn take_presence(&self) -> PersonPresence {
        let by_program = self.answers.as_ref().is_some_and(|answers| answers.take_missed());
        match self.was_absent.swap(false, Ordering::SeqCst) || by_program {
            true => PersonPresence::Absent,
            false => PersonPresence::Present,
        }
    }

    /// Waits until no question reads from the terminal any more: what is typed next is not an answer to it.
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
            // Nobody waits for the answer any more when this is dropped.
            let unwanted = self.turn.child_token();
            let _unwanted_at_the_end = unwanted.clone().drop_guard();
            let person = self.person.clone();
            let asked = tokio::task::spawn_blocking(move || person.ask(&question, &unwanted)).await;
            match asked {
                Ok(Some(reply)) => reply,
                // The time is up, or the turn is at its end, and saying so is the gate's: silence is not the same as a no.
                Ok(None) => std::future::pending().await,
                Err(_) => ApprovalReply::Unavailable(ApprovalUnavailable::for_operator(
                    "the question could not be shown",
                )),
            }
        })
    }
}

impl Person {
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
        match prompt_approval(&terminal, question, Requester::Model, &|| unwanted.is_cancelled()) {
            Ok(Some(reply)) => {
                // The answer ended with the row.
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
