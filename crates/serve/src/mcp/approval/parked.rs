//! Calls that wait for a client of the newer era to come again.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::InputRequiredResult;
use tokio::sync::{mpsc, oneshot};
use toolgate_gate::{Approver, Question, Reply};

use super::form::form;
use crate::mcp::connection::Room;
use crate::mcp::running::Running;

/// How many calls may wait at once.
const MOST: usize = 64;

/// Of these, one caller's.
const MOST_OF_ONE: usize = 16;

/// A question, and where its answer goes.
pub(crate) struct Asked {
    pub(crate) question: Question,
    pub(crate) reply: oneshot::Sender<Reply>,
}

/// Hands the gate's question to whoever drives the call.
pub(crate) struct Parking {
    pub(crate) questions: mpsc::Sender<Asked>,
    pub(crate) room: Arc<Room>,
    /// Whether there is a session that a yes can be for.
    pub(crate) may_last: bool,
}

impl Approver for Parking {
    fn may_last(&self) -> bool {
        self.may_last
    }

    fn ask(&self, question: Question) -> Pin<Box<dyn Future<Output = Reply> + Send + '_>> {
        Box::pin(async move {
            if let Err(nobody) = form(&question) {
                return Reply::Nobody(nobody);
            }
            self.room.leave();
            let (reply, answer) = oneshot::channel();
            let asked = self.questions.send(Asked { question, reply }).await;
            let answer = match asked {
                Ok(()) => answer.await.ok(),
                Err(_) => None,
            };
            match answer {
                Some(answer) => answer,
                // The client did not come again. Saying that the time is up is the gate's: silence is not the same as a no.
                None => std::future::pending().await,
            }
        })
    }
}

/// A call that waits for its client.
pub(crate) struct Parked {
    /// Whose it is.
    pub(crate) owner: [u8; 32],
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
    /// Lets one more wait, or gives it back where too many do. Those that came to their end meanwhile are forgotten first.
    pub(crate) fn try_put(&self, id: String, parked: Parked) -> Result<(), Box<Parked>> {
        let mut calls = self.lock();
        calls.retain(|_, known| !known.reply.is_closed());
        let own = calls.values().filter(|known| known.owner == parked.owner).count();
        if calls.len() >= MOST || own >= MOST_OF_ONE {
            return Err(Box::new(parked));
        }
        calls.insert(id, parked);
        Ok(())
    }

    /// The call of this id. With an answer it is taken out: no state is good twice.
    pub(crate) fn find(&self, id: &str, reply: Option<Reply>) -> Found {
        let mut calls = self.lock();
        // One that came to its end says itself how, if it is asked for.
        calls.retain(|known, parked| known == id || !parked.reply.is_closed());
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

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn parked(owner: u8) -> (Parked, oneshot::Receiver<Reply>) {
        let (reply, answer) = oneshot::channel();
        let running = Running {
            calling: Box::pin(std::future::pending()),
            tool: None,
            cancelled: CancellationToken::new(),
            questions: None,
            relay: None,
            room: Room::unlimited(),
        };
        (Parked { owner: [owner; 32], running, reply, again: InputRequiredResult::new(None, None) }, answer)
    }

    #[test]
    fn no_caller_takes_the_places_of_all() {
        let calls = ParkedCalls::default();
        let mut answers = Vec::new();
        let mut put = |owner: u8| {
            let (call, answer) = parked(owner);
            answers.push(answer);
            calls.try_put(answers.len().to_string(), call).is_ok()
        };
        let found: Vec<bool> = (0..MOST).map(|_| put(1)).collect();
        assert_eq!(found.iter().filter(|found| **found).count(), MOST_OF_ONE);
        assert!(put(2), "others have their own");
        let of_others = (3..40).flat_map(|owner| [owner; 4]).filter(|owner| put(*owner)).count();
        assert_eq!(1 + MOST_OF_ONE + of_others, MOST);
    }

    #[test]
    fn whoever_came_to_its_end_gives_its_place_back_and_says_so_once() {
        let calls = ParkedCalls::default();
        let (first, answer) = parked(1);
        assert!(calls.try_put("first".to_owned(), first).is_ok());
        drop(answer);
        assert!(matches!(calls.find("other", None), Found::Gone));
        assert!(calls.lock().is_empty());
        let (second, answer) = parked(1);
        assert!(calls.try_put("second".to_owned(), second).is_ok());
        drop(answer);
        assert!(matches!(calls.find("second", Some(Reply::Once)), Found::Answered(..)));
        assert!(matches!(calls.find("second", Some(Reply::Once)), Found::Gone));
    }
}
