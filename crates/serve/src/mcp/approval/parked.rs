//! Calls that wait for a client of the newer era to come again.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::InputRequiredResult;
use tokio::sync::{mpsc, oneshot};
use toolgate_gate::{Approver, Question, Reply};

use crate::mcp::connection::Room;
use crate::mcp::running::Running;

/// How many calls may wait at once.
const MOST: usize = 64;

/// A question, and where its answer goes.
pub(crate) struct Asked {
    pub(crate) question: Question,
    pub(crate) reply: oneshot::Sender<Reply>,
}

/// Hands the gate's question to whoever drives the call.
pub(crate) struct Parking {
    pub(crate) questions: mpsc::Sender<Asked>,
    pub(crate) room: Arc<Room>,
}

impl Approver for Parking {
    fn ask(&self, question: Question) -> Pin<Box<dyn Future<Output = Reply> + Send + '_>> {
        Box::pin(async move {
            self.room.leave();
            let (reply, answer) = oneshot::channel();
            let asked = self.questions.send(Asked { question, reply }).await;
            let answer = match asked {
                Ok(()) => answer.await.ok(),
                Err(_) => None,
            };
            match answer {
                Some(answer) => {
                    self.room.enter().await;
                    answer
                }
                // The client did not come again. Saying that the time is up is the gate's: silence is not the same as a no.
                None => std::future::pending().await,
            }
        })
    }
}

/// A call that waits for its client.
pub(crate) struct Parked {
    pub(crate) running: Running,
    pub(crate) reply: oneshot::Sender<Reply>,
    /// What is said again to a client that comes without an answer.
    pub(crate) again: InputRequiredResult,
}

/// What became of a call that a client came again for.
pub(crate) enum Found {
    /// It is here, with the person's answer; nobody else will find it.
    Answered(Box<Parked>, Reply),
    /// It is here, and still waits for the answer.
    Unanswered(Box<InputRequiredResult>),
    /// It went on already, or came to its end.
    Gone,
}

/// The calls that wait.
#[derive(Default)]
pub(crate) struct ParkedCalls(Mutex<HashMap<String, Parked>>);

impl ParkedCalls {
    /// Whether one more may wait. Those that came to their end meanwhile are forgotten first.
    pub(crate) fn has_room(&self) -> bool {
        let mut calls = self.lock();
        calls.retain(|_, parked| !parked.reply.is_closed());
        calls.len() < MOST
    }

    pub(crate) fn put(&self, id: String, parked: Parked) {
        self.lock().insert(id, parked);
    }

    /// The call of this id. With an answer it is taken out: no state is good twice.
    pub(crate) fn find(&self, id: &str, reply: Option<Reply>) -> Found {
        let mut calls = self.lock();
        match (calls.get(id), reply) {
            (None, _) => Found::Gone,
            (Some(parked), None) => Found::Unanswered(Box::new(parked.again.clone())),
            (Some(_), Some(reply)) => match calls.remove(id) {
                Some(parked) => Found::Answered(Box::new(parked), reply),
                None => Found::Gone,
            },
        }
    }

    /// Ends every call that waits: nobody will come again.
    pub(crate) fn end(&self) {
        for parked in self.lock().drain().map(|(_, parked)| parked) {
            parked.running.cancelled.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Parked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
