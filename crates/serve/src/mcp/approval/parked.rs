//! Calls that wait for a client of the newer era to come again.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::InputRequiredResult;
use tokio::sync::{mpsc, oneshot};
use toolgate_gate::{ApprovalReply, ApprovalRequest, Approver};

use super::form::form;
use crate::mcp::connection::Room;
use crate::mcp::running::Running;

/// How many calls may wait at once.
const MOST: usize = 64;

/// Of these, one caller's. As many of each again may have come to their end by themselves, for clients that come too late to be told so.
const MOST_OF_ONE: usize = 16;

/// A question, and where its answer goes.
pub(crate) struct Asked {
    pub(crate) question: ApprovalRequest,
    pub(crate) reply: oneshot::Sender<ApprovalReply>,
}

/// Hands the gate's question to whoever drives the call.
pub(crate) struct Parking {
    pub(crate) questions: mpsc::Sender<Asked>,
    pub(crate) room: Arc<Room>,
    /// Whether there is a session that a yes can be for.
    pub(crate) may_last: bool,
}

impl Approver for Parking {
    fn can_grant_session(&self) -> bool {
        self.may_last
    }

    fn ask(&self, question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        Box::pin(async move {
            if let Err(nobody) = form(&question) {
                return ApprovalReply::Unavailable(nobody);
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
    pub(crate) reply: oneshot::Sender<ApprovalReply>,
    /// What is said again to a client that comes without an answer.
    pub(crate) again: InputRequiredResult,
}

impl Parked {
    /// Whether the gate still waits for the answer.
    fn is_waiting(&self) -> bool {
        !self.reply.is_closed()
    }
}

/// What became of a call that a client came again for.
pub(crate) enum Found {
    /// It is here, with the person's answer; nobody else will find it.
    Answered(Box<Parked>, ApprovalReply),
    /// It is here, and still waits for the answer.
    Unanswered(Box<InputRequiredResult>),
    /// It did not wait so long, and says itself how it ended.
    Ended(Box<Running>),
    /// Somebody came for it already, or it ended long ago.
    Gone,
}

/// The calls that wait.
#[derive(Default)]
pub(crate) struct ParkedCalls(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    parked: HashMap<String, Parked>,
    /// Their names, oldest first.
    order: VecDeque<String>,
}

impl ParkedCalls {
    /// Lets one more wait, or gives it back where too many do. Of those that came to their end meanwhile, the oldest are forgotten.
    pub(crate) fn try_put(&self, id: String, parked: Parked) -> Result<(), Box<Parked>> {
        let mut calls = self.lock();
        if !calls.has_room(parked.owner, true) {
            return Err(Box::new(parked));
        }
        calls.forget(parked.owner);
        calls.order.push_back(id.clone());
        calls.parked.insert(id, parked);
        Ok(())
    }

    /// The call of this id. With an answer, or at its end, it is taken out: no state is good twice.
    pub(crate) fn find(&self, id: &str, reply: Option<ApprovalReply>) -> Found {
        let mut calls = self.lock();
        match (calls.parked.get(id), reply) {
            (Some(parked), None) if parked.is_waiting() => Found::Unanswered(Box::new(parked.again.clone())),
            (_, reply) => match (calls.take(id), reply) {
                (None, _) => Found::Gone,
                (Some(parked), Some(reply)) if parked.is_waiting() => {
                    Found::Answered(Box::new(parked), reply)
                }
                (Some(parked), _) => Found::Ended(Box::new(parked.running)),
            },
        }
    }

    /// Ends every call that waits: nobody will come again.
    pub(crate) fn end(&self) {
        let Calls { parked, .. } = std::mem::take(&mut *self.lock());
        for parked in parked.into_values() {
            parked.running.cancelled.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Calls {
    /// Whether one more of this owner may be here, among those that wait or among those that ended.
    fn has_room(&self, owner: [u8; 32], waiting: bool) -> bool {
        let alike = || self.parked.values().filter(|known| known.is_waiting() == waiting);
        alike().count() < MOST && alike().filter(|known| known.owner == owner).count() < MOST_OF_ONE
    }

    /// Makes room for one more of this owner to come to its end.
    fn forget(&mut self, owner: [u8; 32]) {
        while !self.has_room(owner, false) {
            let ended = |id: &&String| self.parked.get(*id).is_some_and(|known| !known.is_waiting());
            let own = |id: &&String| self.parked.get(*id).is_some_and(|known| known.owner == owner);
            let oldest = self.order.iter().filter(ended).find(own);
            let Some(oldest) = oldest.or_else(|| self.order.iter().find(ended)).cloned() else { return };
            self.take(&oldest);
        }
    }

    fn take(&mut self, id: &str) -> Option<Parked> {
        self.order.retain(|known| known != id);
        self.parked.remove(id)
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn parked(owner: u8) -> (Parked, oneshot::Receiver<ApprovalReply>) {
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
        assert!(
            matches!(calls.find("first", Some(ApprovalReply::Once)), Found::Ended(_)),
            "a yes that is too late"
        );
        assert!(matches!(calls.find("first", Some(ApprovalReply::Once)), Found::Gone));
        let (second, _answer) = parked(1);
        assert!(calls.try_put("second".to_owned(), second).is_ok());
        assert!(matches!(calls.find("second", None), Found::Unanswered(_)));
        assert!(matches!(calls.find("second", Some(ApprovalReply::Once)), Found::Answered(..)));
        assert!(matches!(calls.find("second", Some(ApprovalReply::Once)), Found::Gone));
        assert!(calls.lock().parked.is_empty() && calls.lock().order.is_empty());
    }

    #[test]
    fn of_those_that_ended_the_newest_are_known_and_nobody_waits_for_their_places() {
        let calls = ParkedCalls::default();
        let names: Vec<String> = (0..40).map(|number| number.to_string()).collect();
        for name in &names {
            let (call, answer) = parked(1);
            assert!(calls.try_put(name.clone(), call).is_ok());
            drop(answer);
        }
        assert!(calls.lock().parked.len() <= 2 * MOST_OF_ONE);
        let known = |name: &String| matches!(calls.find(name, None), Found::Ended(_));
        assert!(names.iter().rev().take(MOST_OF_ONE).all(known), "the newest");
        assert!(!known(&names[0]));
        let of_others: Vec<bool> = (2..200)
            .map(|owner| {
                let (call, answer) = parked(owner);
                drop(answer);
                calls.try_put(format!("of {owner}"), call).is_ok()
            })
            .collect();
        assert!(of_others.iter().all(|found| *found) && calls.lock().parked.len() <= 2 * MOST);
    }
}
