//! Asking the person at the terminal, while the conversation goes on around the question.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use toolgate_gate::{Approver, Nobody, Question, Reply};

use crate::question::Asker;
use crate::terminal::{ask_on, open_terminal};

/// Who sits at the terminal. There is one, so questions come one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Person(Arc<Mutex<()>>);

impl Person {
    /// The person, asked about calls of one turn.
    pub(crate) fn during(&self, turn: CancellationToken) -> Arc<dyn Approver> {
        Arc::new(Asking { person: self.clone(), turn })
    }

    /// Waits until no question reads from the terminal any more: what is typed next is not an answer to it.
    pub(crate) async fn is_free(&self) {
        let person = self.clone();
        let waited = tokio::task::spawn_blocking(move || {
            drop(person.0.lock().unwrap_or_else(PoisonError::into_inner));
        });
        let _ = waited.await;
    }
}

struct Asking {
    person: Person,
    turn: CancellationToken,
}

impl Approver for Asking {
    fn ask(&self, question: Question) -> Pin<Box<dyn Future<Output = Reply> + Send + '_>> {
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
                Err(_) => Reply::Nobody(Nobody::quietly("the question could not be shown")),
            }
        })
    }
}

impl Person {
    fn ask(&self, question: &Question, unwanted: &CancellationToken) -> Option<Reply> {
        let _alone = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if unwanted.is_cancelled() {
            return None;
        }
        let Ok(terminal) = open_terminal() else {
            let remedy = "run it in a terminal, or pass --trust autonomous if its calls need no question";
            return Some(Reply::Nobody(Nobody::quietly(remedy)));
        };
        match ask_on(&terminal, question, Asker::Model, &|| unwanted.is_cancelled()) {
            Ok(reply) => reply,
            Err(error) => Some(Reply::Nobody(Nobody::quietly(format!("the terminal failed: {error}")))),
        }
    }
}
