//! Many concurrent conversations, compared with a model of plain lists.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Waker};

use proptest::prelude::*;
use toolgate_llm::{CallResult, Message};
use toolgate_session::{Session, SessionStore, TranscriptEntry};

use crate::support::{Place, assistant, id, new, result, user, wait, waiting};

const NAMES: [&str; 4] = ["a", "ab", "b", "ba"];
const CALLS: [&str; 3] = ["x", "y", "z"];

#[derive(Clone, Debug)]
enum Step {
    /// Creates, opens or drops a conversation, through one of two stores.
    Create(usize, usize),
    Open(usize, usize),
    Close(usize),
    Delete(usize, usize),
    /// Appends a message to it.
    User(usize),
    Assistant(usize, usize),
    Settle(usize, usize),
    Together(usize, usize),
    Interrupt(usize),
    Front(usize, usize),
    /// Starts an append and drops its future before it is known to be stored.
    Abandon(usize, usize, usize),
    /// Reopens the database.
    Reopen(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (name, store) = (0..NAMES.len(), 0..2_usize);
    prop_oneof![
        3 => (name.clone(), store.clone()).prop_map(|(name, store)| Step::Create(name, store)),
        3 => (name.clone(), store.clone()).prop_map(|(name, store)| Step::Open(name, store)),
        2 => name.clone().prop_map(Step::Close),
        1 => (name.clone(), store.clone()).prop_map(|(name, store)| Step::Delete(name, store)),
        4 => name.clone().prop_map(Step::User),
        5 => (name.clone(), 0..=CALLS.len()).prop_map(|(name, calls)| Step::Assistant(name, calls)),
        8 => (name.clone(), 0..CALLS.len()).prop_map(|(name, call)| Step::Settle(name, call)),
        2 => (name.clone(), 0..=CALLS.len()).prop_map(|(name, calls)| Step::Together(name, calls)),
        1 => name.clone().prop_map(Step::Interrupt),
        2 => (name.clone(), 0..6_usize).prop_map(|(name, count)| Step::Front(name, count)),
        2 => (name, 0..3_usize, 1..4_usize).prop_map(|(name, what, polls)| Step::Abandon(name, what, polls)),
        1 => store.prop_map(Step::Reopen),
    ]
}

/// The obvious reference model of a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
struct Plain {
    /// Every message ever appended.
    all: Vec<Message>,
    /// What a model is shown.
    shown: Vec<Message>,
    /// Calls without a complete set of results, and the results so far.
    asked: Vec<String>,
    known: BTreeMap<String, CallResult>,
}

impl Plain {
    fn add(&mut self, message: Message) {
        self.all.push(message.clone());
        self.shown.push(message);
    }

    fn say(&mut self, message: Message) -> bool {
        if !self.asked.is_empty() {
            return false;
        }
        if let Message::Assistant(said) = &message {
            self.asked = said.calls().map(|call| call.id.clone()).collect();
        }
        self.add(message);
        true
    }

    fn settle(&mut self, result: CallResult) -> bool {
        if !self.asked.contains(&result.call) || self.known.contains_key(&result.call) {
            return false;
        }
        self.known.insert(result.call.clone(), result);
        if self.known.len() == self.asked.len() {
            let mut known = std::mem::take(&mut self.known);
            let results = self.asked.drain(..).map(|call| known.remove(&call).unwrap()).collect();
            self.add(Message::Results { results });
        }
        true
    }

    fn together(&mut self, results: Vec<CallResult>) -> bool {
        let calls: Vec<String> = results.iter().map(|result| result.call.clone()).collect();
        let fits = !calls.is_empty() && self.known.is_empty() && calls == self.asked;
        fits && results.into_iter().all(|result| self.settle(result))
    }

    fn waiting(&self) -> Vec<String> {
        self.asked.iter().filter(|call| !self.known.contains_key(*call)).cloned().collect()
    }

    fn front(&mut self, count: usize, front: Message) -> bool {
        let parts = matches!(self.shown.get(count), Some(Message::Results { .. }))
            || (count == self.shown.len() && !self.asked.is_empty());
        if count == 0 || count > self.shown.len() || parts {
            return false;
        }
        self.shown = [front].into_iter().chain(self.shown.drain(count..)).collect();
        true
    }
}

struct World {
    place: Place,
    stores: [SessionStore; 2],
    held: BTreeMap<usize, Session>,
    plain: BTreeMap<usize, Plain>,
    count: usize,
}

impl World {
    async fn new() -> Self {
        let place = Place::new();
        let stores = [place.open().await, place.open().await];
        Self { place, stores, held: BTreeMap::new(), plain: BTreeMap::new(), count: 0 }
    }

    /// Text that was never used before.
    fn words(&mut self, name: usize) -> String {
        self.count += 1;
        format!("{} says {}", NAMES[name], self.count)
    }

    async fn take(&mut self, step: Step) {
        let words = match &step {
            Step::User(name)
            | Step::Assistant(name, _)
            | Step::Settle(name, _)
            | Step::Together(name, _)
            | Step::Front(name, _)
            | Step::Abandon(name, _, _) => self.words(*name),
            _ => String::new(),
        };
        match step {
            Step::Create(name, store) => {
                let created = self.stores[store].create(new(NAMES[name])).await;
                assert_eq!(created.is_ok(), !self.plain.contains_key(&name));
                if let Ok(session) = created {
                    self.held.insert(name, session);
                    self.plain.insert(name, Plain::default());
                }
            }
            Step::Open(name, store) => {
                let opened = self.stores[store].open_session(&id(NAMES[name])).await;
                let free = self.plain.contains_key(&name) && !self.held.contains_key(&name);
                assert_eq!(opened.is_ok(), free);
                if let Ok(session) = opened {
                    self.held.insert(name, session);
                }
            }
            Step::Close(name) => drop(self.held.remove(&name)),
            Step::Delete(name, store) => {
                let deleted = self.stores[store].delete(&id(NAMES[name])).await;
                let free = self.plain.contains_key(&name) && !self.held.contains_key(&name);
                assert_eq!(deleted.is_ok(), free);
                if deleted.is_ok() {
                    self.plain.remove(&name);
                }
            }
            Step::Reopen(store) => self.stores[store] = self.place.open().await,
            Step::User(name) => self.say(name, user(&words)).await,
            Step::Assistant(name, calls) => self.say(name, assistant(&words, &CALLS[..calls])).await,
            Step::Settle(name, call) => {
                let Some((session, plain)) = self.both(name) else { return };
                let result = result(CALLS[call], &words);
                assert_eq!(session.add_result(result.clone()).await.is_ok(), plain.settle(result));
            }
            Step::Together(name, calls) => {
                let Some((session, plain)) = self.both(name) else { return };
                let results: Vec<CallResult> =
                    CALLS[..calls].iter().map(|call| result(call, &words)).collect();
                let message = Message::Results { results: results.clone() };
                assert_eq!(session.append(message).await.is_ok(), plain.together(results));
            }
            Step::Interrupt(name) => {
                let Some((session, plain)) = self.both(name) else { return };
                for answer in session.interrupt("interrupted").await.unwrap() {
                    assert!(plain.settle(answer));
                }
                assert_eq!(plain.waiting(), Vec::<String>::new());
            }
            Step::Front(name, count) => {
                let Some((session, plain)) = self.both(name) else { return };
                let done = session.replace_front(count, user(&words)).await.is_ok();
                assert_eq!(done, plain.front(count, user(&words)));
            }
            Step::Abandon(name, what, polls) => self.abandon(name, what, polls, words).await,
        }
    }

    fn both(&mut self, name: usize) -> Option<(&mut Session, &mut Plain)> {
        self.held.get_mut(&name).zip(self.plain.get_mut(&name))
    }

    async fn say(&mut self, name: usize, message: Message) {
        let Some((session, plain)) = self.both(name) else { return };
        assert_eq!(session.append(message.clone()).await.is_ok(), plain.say(message));
    }

    /// A dropped future leaves the change complete or absent.
    async fn abandon(&mut self, name: usize, what: usize, polls: usize, words: String) {
        let Some((session, plain)) = self.both(name) else { return };
        let mut after = plain.clone();
        match what {
            0 => {
                after.say(user(&words));
                poll_a_little(session.append(user(&words)), polls).await;
            }
            1 => {
                after.settle(result("x", &words));
                poll_a_little(session.add_result(result("x", &words)), polls).await;
            }
            _ => {
                for call in after.waiting() {
                    let result = CallResult { is_error: true, ..result(&call, &words) };
                    after.settle(result);
                }
                poll_a_little(session.interrupt(&words), polls).await;
            }
        }
        session.refresh().await.unwrap();
        let is = |plain: &Plain| session.messages() == plain.shown && waiting(session) == plain.waiting();
        assert!(is(plain) || is(&after), "{:?}", session.messages());
        if is(&after) {
            *plain = after;
        }
    }

    async fn check(&self) {
        for (name, session) in &self.held {
            let plain = &self.plain[name];
            assert_eq!(session.messages(), plain.shown);
            assert_eq!(waiting(session), plain.waiting());
        }
        for (name, plain) in &self.plain {
            let transcript = self.stores[name % 2].transcript(&id(NAMES[*name])).await.unwrap();
            let mut all = Vec::new();
            let mut known = Vec::new();
            for entry in transcript.entries {
                match entry {
                    TranscriptEntry::Message { position, message, .. } => {
                        assert_eq!(position, all.len() as u64);
                        all.push(message);
                    }
                    TranscriptEntry::PartialResults { results, .. } => known = results,
                    TranscriptEntry::Front { .. } => {}
                }
            }
            assert_eq!(all, plain.all);
            let expected = plain.asked.iter().filter_map(|call| plain.known.get(call));
            assert!(known.iter().eq(expected), "{known:?}");
        }
        let all = self.stores[0].list(&Default::default()).await.unwrap();
        assert_eq!(all.len(), self.plain.len());
    }
}

/// Polls a few times, with time in between for the database to progress, and drops it.
async fn poll_a_little<F: Future>(future: F, polls: usize) {
    let mut future = pin!(future);
    for _ in 0..polls {
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        std::thread::yield_now();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sessions_are_what_plain_lists_would_be(steps in prop::collection::vec(step(), 1..80)) {
        wait(async {
            let mut world = World::new().await;
            for step in steps {
                world.take(step).await;
            }
            world.check().await;
            world.held.clear();
            for name in world.plain.keys().copied().collect::<Vec<_>>() {
                world.take(Step::Open(name, 0)).await;
            }
            world.check().await;
        });
    }
}
