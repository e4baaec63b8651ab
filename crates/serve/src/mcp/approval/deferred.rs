//! Calls that wait for a client of the newer era to come again.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::InputRequiredResult;
use tokio::sync::{mpsc, oneshot};
use toolgate_gate::{ApprovalReply, ApprovalRequest, Approver};

use super::form::form;
use crate::mcp::connection::ConcurrencyPermit;
use crate::mcp::running_call::RunningCall;

/// How many calls may wait at once.
const MAX_PARKED: usize = 64;

/// Of these, one caller's. As many of each again may have come to their end by themselves, for clients that come too late to be told so.
const MAX_PARKED_PER_CALLER: usize = 16;

/// A question, and where its answer goes.
pub(crate) struct PendingQuestion {
    pub(crate) question: ApprovalRequest,
    pub(crate) reply: oneshot::Sender<ApprovalReply>,
}

/// Hands the gate's question to whoever drives the call.
pub(crate) struct DeferredApprover {
    pub(crate) questions: mpsc::Sender<PendingQuestion>,
    pub(crate) permit: Arc<ConcurrencyPermit>,
    /// Whether there is a session that a yes can be for.
    pub(crate) may_last: bool,
}

impl Approver for DeferredApprover {
    fn can_grant_session(&self) -> bool {
        self.may_last
    }

    fn ask(&self, question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        Box::pin(async move {
            if let Err(nobody) = form(&question) {
                return ApprovalReply::Unavailable(nobody);
            }
            self.permit.release();
            let (reply, answer) = oneshot::channel();
            let asked = self.questions.send(PendingQuestion { question, reply }).await;
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
pub(crate) struct ParkedCall {
    /// Whose it is.
    pub(crate) owner: [u8; 32],
    pub(crate) running: RunningCall,
    pub(crate) reply: oneshot::Sender<ApprovalReply>,
    /// What is said again to a client that comes without an answer.
    pub(crate) response: InputRequiredResult,
}

impl ParkedCall {
    /// Whether the gate still waits for the answer.
    fn is_waiting(&self) -> bool {
        !self.reply.is_closed()
    }
}

/// What became of a call that a client came again for.
pub(crate) enum ParkedLookup {
    /// It is here, with the person's answer; nobody else will find it.
    Answered(Box<ParkedCall>, ApprovalReply),
    /// It is here, and still waits for the answer.
    Unanswered(Box<InputRequiredResult>),
    /// It did not wait so long, and says itself how it ended.
    Ended(Box<RunningCall>),
    /// Somebody came for it already, or it ended long ago.
    Gone,
}

/// The calls that wait.
#[derive(Default)]
pub(crate) struct ParkedCalls(Mutex<ParkedTable>);

#[derive(Default)]
struct ParkedTable {
    parked: HashMap<String, ParkedCall>,
    /// Their names, oldest first.
    order: VecDeque<String>,
}

impl ParkedCalls {
    /// Lets one more wait, or gives it back where too many do. Of those that came to their end meanwhile, the oldest are forgotten.
    pub(crate) fn try_put(&self, id: String, parked: ParkedCall) -> Result<(), Box<ParkedCall>> {
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
    pub(crate) fn find(&self, id: &str, reply: Option<ApprovalReply>) -> ParkedLookup {
        let mut calls = self.lock();
        match (calls.parked.get(id), reply) {
            (Some(parked), None) if parked.is_waiting() => {
                ParkedLookup::Unanswered(Box::new(parked.response.clone()))
            }
            (_, reply) => match (calls.take(id), reply) {
                (None, _) => ParkedLookup::Gone,
                (Some(parked), Some(reply)) if parked.is_waiting() => {
                    ParkedLookup::Answered(Box::new(parked), reply)
                }
                (Some(parked), _) => ParkedLookup::Ended(Box::new(parked.running)),
            },
        }
    }

    /// Ends every call that waits: nobody will come again.
    pub(crate) fn end(&self) {
        let ParkedTable { parked, .. } = std::mem::take(&mut *self.lock());
        for parked in parked.into_values() {
            parked.running.cancelled.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, ParkedTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ParkedTable {
    /// Whether one more of this owner may be here, among those that wait or among those that ended.
    fn has_room(&self, owner: [u8; 32], waiting: bool) -> bool {
        let alike = || self.parked.values().filter(|known| known.is_waiting() == waiting);
        alike().count() < MAX_PARKED
            && alike().filter(|known| known.owner == owner).count() < MAX_PARKED_PER_CALLER
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

    fn take(&mut self, id: &str) -> Option<ParkedCall> {
        self.order.retain(|known| known != id);
        self.parked.remove(id)
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn parked(owner: u8) -> (ParkedCall, oneshot::Receiver<ApprovalReply>) {
        let (reply, answer) = oneshot::channel();
        let running = RunningCall {
            future: Box::pin(std::future::pending()),
            tool: None,
            cancelled: CancellationToken::new(),
            questions: None,
            progress: None,
            permit: ConcurrencyPermit::unlimited(),
        };
        (
            ParkedCall { owner: [owner; 32], running, reply, response: InputRequiredResult::new(None, None) },
            answer,
        )
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
        let found: Vec<bool> = (0..MAX_PARKED).map(|_| put(1)).collect();
        assert_eq!(found.iter().filter(|found| **found).count(), MAX_PARKED_PER_CALLER);
        assert!(put(2), "others have their own");
        let of_others = (3..40).flat_map(|owner| [owner; 4]).filter(|owner| put(*owner)).count();
        assert_eq!(1 + MAX_PARKED_PER_CALLER + of_others, MAX_PARKED);
    }

    #[test]
    fn whoever_came_to_its_end_gives_its_place_back_and_says_so_once() {
        let calls = ParkedCalls::default();
        let (first, answer) = parked(1);
        assert!(calls.try_put("first".to_owned(), first).is_ok());
        drop(answer);
        assert!(matches!(calls.find("other", None), ParkedLookup::Gone));
        assert!(
            matches!(calls.find("first", Some(ApprovalReply::Once)), ParkedLookup::Ended(_)),
            "a yes that is too late"
        );
        assert!(matches!(calls.find("first", Some(ApprovalReply::Once)), ParkedLookup::Gone));
        let (second, _answer) = parked(1);
        assert!(calls.try_put("second".to_owned(), second).is_ok());
        assert!(matches!(calls.find("second", None), ParkedLookup::Unanswered(_)));
        assert!(matches!(calls.find("second", Some(ApprovalReply::Once)), ParkedLookup::Answered(..)));
        assert!(matches!(calls.find("second", Some(ApprovalReply::Once)), ParkedLookup::Gone));
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
        assert!(calls.lock().parked.len() <= 2 * MAX_PARKED_PER_CALLER);
        let known = |name: &String| matches!(calls.find(name, None), ParkedLookup::Ended(_));
        assert!(names.iter().rev().take(MAX_PARKED_PER_CALLER).all(known), "the newest");
        assert!(!known(&names[0]));
        let of_others: Vec<bool> = (2..200)
            .map(|owner| {
                let (call, answer) = parked(owner);
                drop(answer);
                calls.try_put(format!("of {owner}"), call).is_ok()
            })
            .collect();
        assert!(of_others.iter().all(|found| *found) && calls.lock().parked.len() <= 2 * MAX_PARKED);
    }
}
