//! A gate over a small workspace, a session store, and turns with a model.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use toolgate_agent::{Agent, AgentSettings, ChatEvent, EventSink, TurnContext, TurnOutcome};
use toolgate_attack::{Bench, BenchOptions, Scratch, person};
use toolgate_gate::{Approver, BlockingStrategy, NoApprover};
use toolgate_llm::{Message, ModelName, Provider, RetryPolicy};
use toolgate_session::{NewSession, Session, SessionStore};
use toolgate_tools::Profile;
use toolgate_types::{Backoff, Caller, Trust};

use crate::event_log;

/// The timeout of every wait in these tests.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) struct AgentFixture {
    pub(crate) bench: Bench,
    pub(crate) workspace: PathBuf,
    pub(crate) store: SessionStore,
    pub(crate) runtime: Runtime,
    pub(crate) profile: Profile,
    _scratch: Scratch,
}

/// The setup of a turn.
pub(crate) struct TurnSetup {
    pub(crate) settings: AgentSettings,
    pub(crate) caller: Caller,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) cancelled: CancellationToken,
    /// Also receives every event.
    pub(crate) watch: EventSink,
    /// Images that come with the prompt.
    pub(crate) images: Vec<toolgate_llm::UserImage>,
}

/// A completed turn.
pub(crate) struct TurnRecord {
    pub(crate) ended: TurnOutcome,
    pub(crate) events: Vec<ChatEvent>,
    pub(crate) messages: Vec<Message>,
    /// The server's address, if there is one.
    pub(crate) address: Option<String>,
}

impl AgentFixture {
    pub(crate) fn new() -> Self {
        Self::of(Profile::NATIVE, |options| options)
    }

    pub(crate) fn of(profile: Profile, change: impl FnOnce(BenchOptions) -> BenchOptions) -> Self {
        let scratch = Scratch::new();
        let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
        std::fs::write(workspace.join("a.txt"), "hello\n").unwrap();
        std::fs::write(workspace.join("b.txt"), "goodbye\n").unwrap();
        let options = BenchOptions::new(profile, &workspace, &state).blocking(BlockingStrategy::ThreadPool);
        let bench = change(options).open();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let store = runtime.block_on(SessionStore::in_memory()).unwrap();
        Self { bench, workspace, store, runtime, profile, _scratch: scratch }
    }

    /// The default setup: short backoff, no approvals.
    pub(crate) fn how(&self) -> TurnSetup {
        let backoff =
            Backoff { initial_delay: Duration::from_millis(1), max_delay: Duration::from_millis(2) };
        let retry = RetryPolicy { backoff, ..RetryPolicy::default() };
        TurnSetup {
            settings: AgentSettings { retry, ..AgentSettings::for_profile(self.profile) },
            caller: person("talk"),
            approver: Arc::new(NoApprover { remedy: "ask in a test".to_owned() }),
            cancelled: CancellationToken::new(),
            watch: Arc::new(|_| {}),
            images: Vec::new(),
        }
    }

    /// A new conversation.
    pub(crate) async fn session(&self, name: &str) -> Session {
        let new = NewSession {
            id: name.parse().unwrap(),
            title: name.to_owned(),
            agent: None,
            model: ModelName { provider: "played".to_owned(), name: "model".to_owned() },
            profile: self.profile.name().to_owned(),
            workspace: self.workspace.clone(),
            owner: toolgate_session::SessionOwner::Person,
            trust: None,
        };
        self.store.create(new).await.unwrap()
    }

    /// One turn of a new conversation with the default setup.
    pub(crate) fn turn(&self, provider: Arc<dyn Provider>, prompt: &str) -> TurnRecord {
        self.turn_as(provider, prompt, self.how())
    }

    /// One turn of a new conversation.
    pub(crate) fn turn_as(&self, provider: Arc<dyn Provider>, prompt: &str, how: TurnSetup) -> TurnRecord {
        self.runtime.block_on(async {
            let mut session = self.session("talk").await;
            let held = self.hold(provider, &mut session, prompt, how).await;
            self.check_records(&held.events);
            held
        })
    }

    /// One turn. Checks that every call is answered once, and that every started call is audited once.
    pub(crate) async fn hold(
        &self,
        provider: Arc<dyn Provider>,
        session: &mut Session,
        prompt: &str,
        how: TurnSetup,
    ) -> TurnRecord {
        let (events, sink) = gather(how.watch);
        let agent = Agent::new(Arc::clone(self.bench.front()), provider, how.settings);
        let turn = TurnContext {
            credential: how.caller.into(),
            approver: how.approver,
            cancelled: how.cancelled,
            events: sink,
            images: how.images,
            prompt_stored: None,
        };
        let ended = tokio::time::timeout(TEST_TIMEOUT, agent.run_turn(session, prompt, turn)).await;
        let ended = ended.expect("the turn did not end").unwrap();
        let events = std::mem::take(&mut *events.lock().unwrap());
        assert!(session.unanswered().is_empty(), "a call was not answered");
        check_pairs(session.messages());
        check_events(&events);
        TurnRecord { ended, events, messages: session.messages().to_vec(), address: None }
    }

    /// Every started call has exactly one audit record.
    pub(crate) fn check_records(&self, events: &[ChatEvent]) {
        let records = self.bench.records();
        let calls: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                ChatEvent::ToolStart { tool_id, .. } => Some(*tool_id),
                _ => None,
            })
            .collect();
        assert_eq!(records.len(), calls.len(), "records and calls");
        for call in calls {
            assert_eq!(records.get(&call).map(Vec::len), Some(1), "records of {call}");
        }
    }
}

impl TurnRecord {
    /// The events and the persisted messages as text.
    pub(crate) fn story(&self) -> String {
        let story = format!("{}\n{}", event_log::told(&self.events), event_log::kept(&self.messages));
        match &self.address {
            Some(address) => story.replace(address, "the server"),
            None => story,
        }
    }
}

impl TurnSetup {
    pub(crate) fn settings(mut self, change: impl FnOnce(&mut AgentSettings)) -> Self {
        change(&mut self.settings);
        self
    }

    pub(crate) fn trust(mut self, trust: Trust) -> Self {
        self.caller.trust = trust;
        self
    }

    pub(crate) fn asking(mut self, approver: impl Approver + 'static) -> Self {
        self.approver = Arc::new(approver);
        self
    }

    /// Cancels the turn after a certain event.
    pub(crate) fn cancel_when(
        mut self,
        is_time: impl Fn(&ChatEvent) -> bool + Send + Sync + 'static,
    ) -> Self {
        let cancelled = self.cancelled.clone();
        self.watch = Arc::new(move |event| {
            if is_time(&event) {
                cancelled.cancel();
            }
        });
        self
    }
}

/// Collects events, and forwards them.
pub(crate) fn gather(watch: EventSink) -> (Arc<Mutex<Vec<ChatEvent>>>, EventSink) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&events);
    let sink: EventSink = Arc::new(move |event: ChatEvent| {
        all.lock().unwrap().push(event.clone());
        watch(event);
    });
    (events, sink)
}

/// Every message with calls is followed by their results in order, and there are no other results.
fn check_pairs(messages: &[Message]) {
    for (place, message) in messages.iter().enumerate() {
        match message {
            Message::Assistant(said) if said.calls().next().is_some() => {
                let Some(Message::Results { results }) = messages.get(place + 1) else {
                    panic!("calls without results: {messages:?}");
                };
                let asked: Vec<_> = said.calls().map(|call| &call.id).collect();
                let answered: Vec<_> = results.iter().map(|result| &result.call).collect();
                assert_eq!(asked, answered);
            }
            Message::Results { .. } => {
                let before = place.checked_sub(1).and_then(|place| messages.get(place));
                let Some(Message::Assistant(said)) = before else { panic!("results without calls") };
                assert!(said.calls().next().is_some(), "results without calls");
            }
            _ => {}
        }
    }
}

/// Every started call has one result event, and the last event is the end.
fn check_events(events: &[ChatEvent]) {
    let mut open = BTreeMap::new();
    for (place, event) in events.iter().enumerate() {
        match event {
            ChatEvent::ToolStart { tool_id, .. } => {
                assert!(open.insert(*tool_id, true).is_none(), "an id was used twice");
            }
            ChatEvent::ToolResult { tool_id, .. } => {
                assert_eq!(open.insert(*tool_id, false), Some(true), "a result without a call");
            }
            ChatEvent::ToolDelta { tool_id, .. } => {
                assert_eq!(open.get(tool_id), Some(&true), "output of a call that is not running");
            }
            ChatEvent::StreamEnd { .. } => assert_eq!(place + 1, events.len(), "something after the end"),
            _ => {}
        }
    }
    assert!(open.values().all(|is_open| !is_open), "a call was not told to have ended");
    assert!(matches!(events.last(), Some(ChatEvent::StreamEnd { .. })), "no end");
}
