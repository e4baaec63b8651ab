//! Calls that are parked until a client of the stateless protocol repeats its request.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{InputRequiredResult, InputResponses};
use tokio::sync::{mpsc, oneshot};
use toolgate_gate::{
    ApprovalReply, ApprovalRequest, ApprovalUnavailable, Approver, ServerAnswer, ServerQuestion,
};

use super::form::{form, reply_to};
use super::server_question::{server_answer_in, server_form};
use crate::admission::ConcurrencyPermit;
use crate::mcp::running_call::RunningCall;

/// Maximum number of parked calls.
const MAX_PARKED: usize = 64;

/// Maximum of these per caller. As many again may have ended already; they are kept so that a late client learns the result.
const MAX_PARKED_PER_CALLER: usize = 16;

/// A question, and the channel for its answer.
pub(crate) enum PendingQuestion {
    /// Of the gate, about the call.
    Approval(Box<ApprovalRequest>, oneshot::Sender<ApprovalReply>),
    /// Of the server that the call runs on.
    Server(Box<ServerQuestion>, oneshot::Sender<ServerAnswer>),
}

/// What a parked call waits for.
pub(crate) enum ParkedQuestion {
    Approval(oneshot::Sender<ApprovalReply>),
    Server(Box<ServerQuestion>, oneshot::Sender<ServerAnswer>),
}

impl ParkedQuestion {
    /// Whether the gate still waits for the answer.
    fn is_waiting(&self) -> bool {
        match self {
            Self::Approval(reply) => !reply.is_closed(),
            Self::Server(_, answer) => !answer.is_closed(),
        }
    }

    /// Whether the responses contain an answer.
    fn is_answered_by(&self, responses: Option<&InputResponses>) -> bool {
        match self {
            Self::Approval(_) => reply_to(responses).is_some(),
            Self::Server(question, _) => server_answer_in(question, responses).is_some(),
        }
    }

    /// Passes the answer on. Fails if the gate stopped waiting just now; the call then reports that itself.
    pub(crate) fn answer(self, responses: Option<&InputResponses>) {
        match self {
            Self::Approval(reply) => drop(reply_to(responses).map(|answer| reply.send(answer))),
            Self::Server(question, reply) => {
                drop(server_answer_in(&question, responses).map(|answer| reply.send(answer)));
            }
        }
    }

    /// No person can be asked: too many calls wait already.
    pub(crate) fn refuse(self) {
        match self {
            Self::Approval(reply) => {
                let nobody = ApprovalUnavailable::with_reason("too many calls wait for one already")
                    .with_remedy("try again later");
                let _ = reply.send(ApprovalReply::Unavailable(nobody));
            }
            Self::Server(_, answer) => drop(answer.send(ServerAnswer::Unavailable)),
        }
    }
}

/// Passes the gate's question to the task that drives the call.
pub(crate) struct DeferredApprover {
    pub(crate) questions: mpsc::Sender<PendingQuestion>,
    pub(crate) permit: Arc<ConcurrencyPermit>,
    /// Whether there is a session that an approval can last for.
    pub(crate) may_last: bool,
    /// Whether the client can show an address.
    pub(crate) can_open: bool,
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
            let asked = self.questions.send(PendingQuestion::Approval(Box::new(question), reply)).await;
            let answer = match asked {
                Ok(()) => answer.await.ok(),
                Err(_) => None,
            };
            match answer {
                Some(answer) => answer,
                // The client did not return. The gate's own timeout ends the call: silence is not a denial.
                None => std::future::pending().await,
            }
        })
    }

    fn ask_for_server(
        &self,
        question: ServerQuestion,
    ) -> Pin<Box<dyn Future<Output = ServerAnswer> + Send + '_>> {
        Box::pin(async move {
            if server_form(&question, self.can_open).is_none() {
                return ServerAnswer::Unavailable;
            }
            self.permit.release();
            let (reply, answer) = oneshot::channel();
            let asked = self.questions.send(PendingQuestion::Server(Box::new(question), reply)).await;
            let answer = match asked {
                Ok(()) => answer.await.ok(),
                Err(_) => None,
            };
            match answer {
                Some(answer) => answer,
                // The client did not return; the question's own timeout ends it.
                None => std::future::pending().await,
            }
        })
    }
}

/// A parked call.
pub(crate) struct ParkedCall {
    /// The caller's digest.
    pub(crate) owner: [u8; 32],
    pub(crate) running: RunningCall,
    pub(crate) question: ParkedQuestion,
    /// Sent again to a client that repeats its request without an answer.
    pub(crate) response: InputRequiredResult,
}

impl ParkedCall {
    /// Whether the gate still waits for the answer.
    fn is_waiting(&self) -> bool {
        self.question.is_waiting()
    }
}

/// The result of looking up a parked call.
pub(crate) enum ParkedLookup {
    /// Found, and the request contains the person's answer; removed from the table.
    Answered(Box<ParkedCall>),
    /// Found, but the request contained no answer.
    Unanswered(Box<InputRequiredResult>),
    /// The gate stopped waiting; the call itself reports how it ended.
    Ended(Box<RunningCall>),
    /// Already taken, or forgotten.
    Gone,
}

/// The parked calls.
#[derive(Default)]
pub(crate) struct ParkedCalls(Mutex<ParkedTable>);

#[derive(Default)]
struct ParkedTable {
    parked: HashMap<String, ParkedCall>,
    /// Their ids, oldest first.
    order: VecDeque<String>,
}

impl ParkedCalls {
    /// Parks a call, or returns it if there are too many. The oldest ended calls are forgotten.
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

    /// Looks up a call. With an answer, or if it has ended, it is removed: a state works only once.
    pub(crate) fn find(&self, id: &str, responses: Option<&InputResponses>) -> ParkedLookup {
        let mut calls = self.lock();
        let Some(parked) = calls.parked.get(id) else { return ParkedLookup::Gone };
        let (is_waiting, is_answered) = (parked.is_waiting(), parked.question.is_answered_by(responses));
        if is_waiting && !is_answered {
            return ParkedLookup::Unanswered(Box::new(parked.response.clone()));
        }
        match calls.take(id) {
            None => ParkedLookup::Gone,
            Some(parked) if is_waiting => ParkedLookup::Answered(Box::new(parked)),
            Some(parked) => ParkedLookup::Ended(Box::new(parked.running)),
        }
    }

    /// Cancels all parked calls, because no client will return.
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
    /// Whether there is room for one more call of this owner, among the waiting or among the ended ones.
    fn has_room(&self, owner: [u8; 32], waiting: bool) -> bool {
        let alike = || self.parked.values().filter(|known| known.is_waiting() == waiting);
        alike().count() < MAX_PARKED
            && alike().filter(|known| known.owner == owner).count() < MAX_PARKED_PER_CALLER
    }

    /// Makes room for one more ended call of this owner.
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
            future: crate::mcp::running_call::CallFuture::new(std::future::pending()),
            tool: None,
            cancelled: CancellationToken::new(),
            questions: None,
            progress: None,
            logs: None,
            permit: ConcurrencyPermit::unlimited(),
        };
        (
            ParkedCall {
                owner: [owner; 32],
                running,
                question: ParkedQuestion::Approval(reply),
                response: InputRequiredResult::new(None, None),
            },
            answer,
        )
    }

    fn yes() -> InputResponses {
        InputResponses::from([("approval".to_owned(), serde_json::json!({"action": "accept"}))])
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
            matches!(calls.find("first", Some(&yes())), ParkedLookup::Ended(_)),
            "a yes that is too late"
        );
        assert!(matches!(calls.find("first", Some(&yes())), ParkedLookup::Gone));
        let (second, _answer) = parked(1);
        assert!(calls.try_put("second".to_owned(), second).is_ok());
        assert!(matches!(calls.find("second", None), ParkedLookup::Unanswered(_)));
        assert!(matches!(calls.find("second", Some(&yes())), ParkedLookup::Answered(_)));
        assert!(matches!(calls.find("second", Some(&yes())), ParkedLookup::Gone));
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
