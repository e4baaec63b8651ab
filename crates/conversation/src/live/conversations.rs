//! The conversations of a process.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_assembly::settings::Settings;
use toolgate_assembly::trust::ProjectInstructions;
use toolgate_gate::Approver;
use toolgate_llm::ModelName;
use toolgate_manifest::{AgentConfig, TokenPrice};
use toolgate_session::{
    ListFilter, NewSession, SessionError, SessionOwner, SessionStore, SessionSummary, Transcript,
};
use toolgate_tools::ProfiledGate;
use toolgate_types::{AgentName, CallId, SessionId, Trust, fresh_uuid};
use toolgate_workspace::Workspace;

use super::activity::{ActivityKind, SessionActivity};
use super::error::ConversationError;
use super::event::LiveEvent;
use super::live_conversation::{CachedAgent, LiveConversation, MessageSnapshot};
use super::participant::{Principal, stricter};
use super::questions::{
    AnswerError, AnsweredQuestion, CallQuestion, ClientApprover, McpApprover, OwnerOf, QuestionSource,
    Questions,
};
use super::subscription::Subscription;
use super::turn::{OutgoingMessage, PreparedTurn, TurnGuard};
use crate::agent_settings::AgentOverrides;
use crate::agent_source::{AgentSource, ReadyAgent};
use crate::approval_answer::GivenAnswer;
use crate::models::{DEMO_SCRIPT, SCRIPTED};
use crate::title::session_title;

/// How many conversations without readers stay in memory.
const MAX_IDLE: usize = 64;

/// How many numbers are reserved for the events of a conversation each time that its log is made.
const RESERVED_EVENTS: u32 = 10_000_000;

/// How many events of all conversations are kept for a reader of [`Conversations::activity`] that is behind.
const MAX_ACTIVITY: usize = 256;

/// A shorter query is looked for in titles alone: almost every conversation has each letter.
const MIN_SEARCHED_CHARS: usize = 3;

/// The longest title.
const MAX_TITLE_CHARS: usize = 200;

/// What conversations are built from.
pub struct ConversationParts {
    /// The gate.
    pub gate: Arc<ProfiledGate>,
    /// The mounts.
    pub workspace: Arc<Workspace>,
    /// The configuration.
    pub settings: Arc<Settings>,
    /// What takes precedence over it.
    pub overrides: AgentOverrides,
    /// The project's instructions that the user agreed to.
    pub instructions: Vec<ProjectInstructions>,
    /// Where they are stored.
    pub store: SessionStore,
    /// The model of new conversations, if the operator named one.
    pub default_model: Option<String>,
    /// The agents that the configuration declares now.
    pub agents: watch::Receiver<Vec<AgentConfig>>,
}

/// The conversations of a process. Clones share them.
#[derive(Clone)]
pub struct Conversations {
    shared: Arc<Shared>,
}

struct Shared {
    parts: ConversationParts,
    questions: Questions,
    activity: broadcast::Sender<SessionActivity>,
    live: Mutex<HashMap<SessionId, Arc<LiveConversation>>>,
    turns: TaskTracker,
    ending: CancellationToken,
}

/// A conversation to be created.
#[derive(Clone, Debug, Default)]
pub struct NewConversation {
    /// The declared agent that its model runs as.
    pub agent: Option<AgentName>,
    /// The model; else the default one.
    pub model: Option<String>,
    /// The trust level; else that of the caller.
    pub trust: Option<Trust>,
    /// The title; else the beginning of its first message.
    pub title: Option<String>,
}

/// A message that was sent.
#[derive(Debug)]
pub struct SentMessage {
    /// The id that its event carries.
    pub id: String,
    stored: Arc<Notify>,
    turn: JoinHandle<()>,
}

impl SentMessage {
    /// Waits until the message is stored, so that a crash does not lose it, or its turn ended without that: its events have the reason.
    pub async fn stored(self) -> String {
        tokio::select! {
            () = self.stored.notified() => {}
            _ = self.turn => {}
        }
        self.id
    }
}

/// What is to be changed of a conversation.
#[derive(Clone, Debug, Default)]
pub struct ConversationUpdate {
    /// The title.
    pub title: Option<String>,
    /// The model, from the next turn on.
    pub model: Option<String>,
    /// The trust level, from the next turn on.
    pub trust: Option<Trust>,
}

/// A conversation, as its owner sees it.
#[derive(Clone, Debug)]
pub struct ConversationState {
    /// What is stored of it.
    pub summary: SessionSummary,
    /// The trust level of its next turn.
    pub trust: Trust,
    /// Whether a turn runs.
    pub running: bool,
    /// How many questions are open.
    pub open_questions: usize,
    /// What the tokens of its model cost, if the configuration says so.
    pub price: Option<TokenPrice>,
}

/// A part of a list of conversations.
#[derive(Clone, Debug)]
pub struct SessionPage {
    /// The conversations, the most recently used first.
    pub items: Vec<ConversationState>,
    /// Where the next part begins, if there is one.
    pub next: Option<String>,
}

impl Conversations {
    /// The conversations of this process.
    #[must_use]
    pub fn new(parts: ConversationParts) -> Self {
        let activity = broadcast::Sender::new(MAX_ACTIVITY);
        let shared = Shared {
            questions: Questions::new(activity.clone()),
            parts,
            activity,
            live: Mutex::default(),
            turns: TaskTracker::new(),
            ending: CancellationToken::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The configuration.
    #[must_use]
    pub fn settings(&self) -> &Arc<Settings> {
        &self.shared.parts.settings
    }

    /// The model of new conversations, if the operator named one.
    #[must_use]
    pub fn default_model(&self) -> Option<&str> {
        self.shared.parts.default_model.as_deref()
    }

    /// How many turns run, of all owners.
    #[must_use]
    pub fn running_turns(&self) -> usize {
        self.shared.turns.len()
    }

    /// How many questions are open, of all owners.
    #[must_use]
    pub fn open_question_count(&self) -> usize {
        self.shared.questions.count()
    }

    /// What happens from now on, of all owners. A reader passes on only what belongs to its caller.
    #[must_use]
    pub fn activity(&self) -> broadcast::Receiver<SessionActivity> {
        self.shared.activity.subscribe()
    }

    /// Creates a conversation.
    ///
    /// # Errors
    /// There is no such model or agent, or it cannot be stored.
    pub async fn create(
        &self,
        who: &Principal,
        new: NewConversation,
    ) -> Result<ConversationState, ConversationError> {
        let agent = self.agent_of(who, new.agent)?;
        let model = self.model_name(new.model.as_deref(), agent.as_ref()).await?;
        let settings = &self.shared.parts.settings;
        let id = SessionStore::fresh_id()?;
        let session = self.shared.parts.store.create(NewSession {
            id: id.clone(),
            title: checked_title(new.title.as_deref().unwrap_or_default())?,
            agent,
            model,
            profile: settings.profile.name().to_owned(),
            workspace: settings.workspace.clone(),
            owner: who.owner.clone(),
            trust: new.trust,
        });
        drop(session.await?);
        self.tell(&who.owner, ActivityKind::SessionChanged(id.clone()));
        self.get(who, &id).await
    }

    /// The declared agent of a new conversation. A token names its own.
    fn agent_of(
        &self,
        who: &Principal,
        asked: Option<AgentName>,
    ) -> Result<Option<AgentName>, ConversationError> {
        let own = who.caller.agent.clone();
        let Some(asked) = asked.filter(|asked| own.as_ref() != Some(asked)) else { return Ok(own) };
        if matches!(who.owner, SessionOwner::Caller(_)) || own.is_some() {
            let message = format!("this caller cannot act as the agent `{asked}`");
            return Err(ConversationError::invalid(message, "leave `agent` out"));
        }
        match self.agents().iter().any(|agent| agent.name.value == asked) {
            true => Ok(Some(asked)),
            false => Err(ConversationError::invalid(
                format!("there is no agent `{asked}`"),
                "declare it under `agents:`, or leave `agent` out",
            )),
        }
    }

    async fn model_name(
        &self,
        asked: Option<&str>,
        agent: Option<&AgentName>,
    ) -> Result<ModelName, ConversationError> {
        let asked = asked.or(self.default_model());
        if let Some(name) = asked {
            self.check_script(name, agent)?;
        }
        Ok(self.source(agent).model_name(asked).await?)
    }

    /// A script is a file of this machine, so only one that the operator named is played for a client.
    fn check_script(&self, name: &str, agent: Option<&AgentName>) -> Result<(), ConversationError> {
        let Some((provider, script)) = name.split_once('/') else { return Ok(()) };
        let file = script.split_once('?').map_or(script, |(file, _)| file);
        let is_named = || {
            let configured = crate::agent_settings::model(&self.shared.parts.settings, agent);
            self.default_model() == Some(name) || configured.as_deref() == Some(name)
        };
        if provider != SCRIPTED || file == DEMO_SCRIPT || is_named() {
            return Ok(());
        }
        let help = "pass --model to `toolgate serve`, or use scripted/demo";
        Err(ConversationError::invalid("only a script that the operator named is played here", help))
    }

    fn source<'a>(&'a self, agent: Option<&'a AgentName>) -> AgentSource<'a> {
        let ConversationParts { gate, workspace, settings, overrides, instructions, .. } = &self.shared.parts;
        AgentSource { gate, workspace, settings, overrides, instructions, recorder: None, agent }
    }

    /// The conversations of a caller in whose title or messages the query is, the most recently used first.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn list(
        &self,
        who: &Principal,
        query: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<SessionPage, ConversationError> {
        let filter = ListFilter {
            workspace: Some(self.shared.parts.settings.workspace.clone()),
            limit: None,
            owner: Some(who.owner.clone()),
        };
        let said = match query.chars().count() >= MIN_SEARCHED_CHARS {
            true => self.shared.parts.store.mentioning(&filter, query).await?,
            false => BTreeSet::new(),
        };
        let query = query.to_lowercase();
        let mut summaries = self.shared.parts.store.list(&filter).await?;
        // Of those used in the same millisecond, by id: the order that cursors name.
        summaries.sort_by(|one, other| (other.changed_at, &other.id).cmp(&(one.changed_at, &one.id)));
        let is_wanted = |one: &SessionSummary| {
            one.title.to_lowercase().contains(&query) || said.contains(one.id.as_str())
        };
        let wanted = summaries.into_iter().filter(is_wanted);
        let after = cursor.map(parse_cursor).transpose()?;
        let mut rest = wanted.skip_while(|one| after.as_ref().is_some_and(|after| !is_after(one, after)));
        let page: Vec<SessionSummary> = rest.by_ref().take(limit.max(1)).collect();
        let next = rest.next().and_then(|_| page.last().map(cursor_of));
        Ok(SessionPage { items: page.into_iter().map(|one| self.state_of(who, one)).collect(), next })
    }

    /// A conversation of this caller.
    ///
    /// # Errors
    /// There is none with this id, or it is another caller's.
    pub async fn get(&self, who: &Principal, id: &SessionId) -> Result<ConversationState, ConversationError> {
        let summary = self.summary(who, id).await?;
        Ok(self.state_of(who, summary))
    }

    async fn summary(&self, who: &Principal, id: &SessionId) -> Result<SessionSummary, ConversationError> {
        let unknown = || ConversationError::Unknown(id.clone());
        let summary = self.shared.parts.store.summary(id).await.map_err(|error| match error {
            SessionError::Unknown { .. } => unknown(),
            other => other.into(),
        })?;
        let settings = &self.shared.parts.settings;
        // A conversation of another workspace or profile refers to other files and tools.
        let is_here = summary.workspace == settings.workspace && summary.profile == settings.profile.name();
        if summary.owner != who.owner || !is_here { Err(unknown()) } else { Ok(summary) }
    }

    fn state_of(&self, who: &Principal, summary: SessionSummary) -> ConversationState {
        let running = self.live_now(&summary.id).is_some_and(|live| live.is_running());
        let of_this = |question: &&Arc<CallQuestion>| question.session.as_ref() == Some(&summary.id);
        let open_questions = self.shared.questions.open(&who.owner).iter().filter(of_this).count();
        let trust = who.trust_in(&summary, self.declared_trust(summary.agent.as_ref()));
        let price = self.price(&summary.model);
        ConversationState { trust, summary, running, open_questions, price }
    }

    /// The agents that the configuration declares now.
    #[must_use]
    pub fn agents(&self) -> Vec<AgentConfig> {
        self.shared.parts.agents.borrow().clone()
    }

    /// The trust level that a declared agent has. A stricter one counts as soon as it is declared, a laxer one from the next start on.
    #[must_use]
    pub fn declared_trust(&self, agent: Option<&AgentName>) -> Option<Trust> {
        let (agent, settings) = (agent?, self.settings());
        let level = |declared: &AgentConfig| {
            declared.trust.as_ref().map_or(settings.caller.trust, |trust| trust.value)
        };
        let now = self.shared.parts.agents.borrow().iter().find(|one| one.name.value == *agent).map(level)?;
        let begun = settings.loaded.config.agent(agent.as_str()).map_or(settings.caller.trust, level);
        Some(stricter(now, begun))
    }

    /// What the tokens of a model cost, if its provider declares a price.
    fn price(&self, model: &ModelName) -> Option<TokenPrice> {
        let servers = &self.settings().loaded.config.models;
        servers.iter().find(|server| server.name.value == model.provider)?.price.clone()
    }

    /// Changes the title, the model or the trust level.
    ///
    /// # Errors
    /// There is no such conversation or model, or it cannot be stored.
    pub async fn update(
        &self,
        who: &Principal,
        id: &SessionId,
        update: ConversationUpdate,
    ) -> Result<ConversationState, ConversationError> {
        let summary = self.summary(who, id).await?;
        let store = &self.shared.parts.store;
        let title = update.title.as_deref().map(checked_title).transpose()?;
        let model = match update.model.as_deref() {
            Some(model) => Some(self.model_name(Some(model), summary.agent.as_ref()).await?),
            None => None,
        };
        if let Some(title) = &title {
            store.rename(id, title).await?;
        }
        if let Some(trust) = update.trust {
            store.set_trust(id, trust).await?;
        }
        if let Some(model) = &model {
            store.set_model(id, model).await?;
        }
        if let Some(live) = self.live_now(id) {
            let model = model.map(|model| model.to_string());
            live.push_event(&LiveEvent::Session { title, model, trust: update.trust });
        }
        self.tell(&who.owner, ActivityKind::SessionChanged(id.clone()));
        self.get(who, id).await
    }

    /// Deletes a conversation.
    ///
    /// # Errors
    /// There is none with this id, a turn of it runs, or it cannot be deleted.
    pub async fn delete(&self, who: &Principal, id: &SessionId) -> Result<(), ConversationError> {
        self.summary(who, id).await?;
        let live = self.live_now(id);
        if let Some(live) = &live {
            live.mark_deleted()?;
        }
        if let Err(error) = self.shared.parts.store.delete(id).await {
            live.inspect(|live| live.unmark_deleted());
            return Err(error.into());
        }
        self.lock().remove(id);
        // No call can ask about them any more.
        self.settings().supplied.background.end_session(id);
        self.tell(&who.owner, ActivityKind::SessionDeleted(id.clone()));
        Ok(())
    }

    /// What was said before the running turn, and where its events begin.
    ///
    /// # Errors
    /// There is no such conversation, or it cannot be read.
    pub async fn messages(
        &self,
        who: &Principal,
        id: &SessionId,
    ) -> Result<MessageSnapshot, ConversationError> {
        self.live(who, id).await?.snapshot(&self.shared.parts.store).await
    }

    /// The whole conversation.
    ///
    /// # Errors
    /// There is no such conversation, or it cannot be read.
    pub async fn transcript(&self, who: &Principal, id: &SessionId) -> Result<Transcript, ConversationError> {
        self.summary(who, id).await?;
        Ok(self.shared.parts.store.transcript(id).await?)
    }

    /// Sends a message, and returns its id. The turn runs on without the sender.
    ///
    /// # Errors
    /// There is no such conversation, a turn of it runs, another process uses it, or there is no model for it.
    pub async fn send(
        &self,
        who: &Principal,
        id: &SessionId,
        message: OutgoingMessage,
    ) -> Result<SentMessage, ConversationError> {
        let prompt = message.prompt()?;
        let conversation = self.live(who, id).await?;
        let cancelled = self.shared.ending.child_token();
        if cancelled.is_cancelled() {
            return Err(ConversationError::Closing);
        }
        conversation.reserve_turn(cancelled.clone())?;
        let releases = TurnGuard::new(&conversation);
        let mut session = self.shared.parts.store.open_session(id).await?;
        let (model, agent) = (session.summary().model.to_string(), session.summary().agent.clone());
        if who.caller.agent.is_some() && who.caller.agent != agent {
            let message = "this session acts as another agent, or as none";
            return Err(ConversationError::invalid(message, "begin a session of your own agent"));
        }
        let ready = self.agent(&conversation, &model, agent.as_ref()).await?;
        if session.summary().title.is_empty() {
            session.set_title(&session_title(&message.text)).await?;
        }
        let message_id = fresh_uuid().to_string();
        let event = LiveEvent::UserMessage {
            message_id: message_id.clone(),
            text: message.text.clone(),
            by: who.participant.clone(),
            attachments: message.names(),
        };
        let credential = who.credential_in(session.summary(), self.declared_trust(agent.as_ref()));
        let approver = self.approver(who, Some(id.clone()), QuestionSource::Chat, Some(&conversation));
        self.shared.parts.gate.gate().hear(id, &message.text);
        let stored = Arc::new(Notify::new());
        conversation.begin_turn(session.next_position(), &event);
        releases.disarm();
        let turn = PreparedTurn {
            session,
            ready,
            prompt,
            credential,
            approver,
            questions: self.shared.questions.clone(),
            cancelled,
            conversation,
            stored: Arc::clone(&stored),
        };
        self.tell(&who.owner, ActivityKind::SessionChanged(id.clone()));
        let (conversations, owner, id) = (self.clone(), who.owner.clone(), id.clone());
        let turn = self.shared.turns.spawn(async move {
            turn.run().await;
            conversations.tell(&owner, ActivityKind::SessionChanged(id));
        });
        Ok(SentMessage { id: message_id, stored, turn })
    }

    /// The agent of a conversation, which is kept between turns.
    async fn agent(
        &self,
        conversation: &LiveConversation,
        model: &str,
        agent: Option<&AgentName>,
    ) -> Result<Arc<ReadyAgent>, ConversationError> {
        let mut cached = conversation.agent.lock().await;
        match &*cached {
            Some(known) if known.model == model => Ok(Arc::clone(&known.ready)),
            _ => {
                let ready = Arc::new(self.source(agent).build(Some(model)).await?);
                *cached = Some(CachedAgent { model: model.to_owned(), ready: Arc::clone(&ready) });
                Ok(ready)
            }
        }
    }

    /// Cancels the running turn; whether there was one.
    ///
    /// # Errors
    /// There is no such conversation.
    pub async fn cancel(&self, who: &Principal, id: &SessionId) -> Result<bool, ConversationError> {
        self.summary(who, id).await?;
        Ok(self.live_now(id).is_some_and(|live| live.cancel()))
    }

    /// A place in a conversation, after the event with this number; zero for the beginning of what is there.
    ///
    /// # Errors
    /// There is no such conversation.
    pub async fn subscribe(
        &self,
        who: &Principal,
        id: &SessionId,
        after: u64,
    ) -> Result<Subscription, ConversationError> {
        let conversation = self.live(who, id).await?;
        Ok(Subscription::new(conversation, after, self.shared.questions.frames(id)))
    }

    /// The open questions of a caller, oldest first.
    #[must_use]
    pub fn questions(&self, who: &Principal) -> Vec<Arc<CallQuestion>> {
        self.shared.questions.open(&who.owner)
    }

    /// The open questions of all owners, oldest first. For operators: it names callers.
    #[must_use]
    pub fn all_questions(&self) -> Vec<Arc<CallQuestion>> {
        self.shared.questions.all()
    }

    /// Answers a question. The first answer counts.
    ///
    /// # Errors
    /// It is not open, was answered already, or the answer is none.
    pub fn answer(
        &self,
        who: &Principal,
        call: CallId,
        answer: GivenAnswer,
    ) -> Result<AnsweredQuestion, AnswerError> {
        self.shared.questions.answer(who, call, answer)
    }

    /// An approver that asks the clients of a caller about a call that is not of a model.
    #[must_use]
    pub fn call_approver(&self, who: &Principal, session: Option<SessionId>) -> Arc<dyn Approver> {
        self.approver(who, session, QuestionSource::Api, None)
    }

    /// An approver for the calls of MCP clients that cannot ask a person themselves: it asks the other clients of the same owner.
    #[must_use]
    pub fn mcp_approver(&self, owner_of: OwnerOf) -> Arc<dyn Approver> {
        Arc::new(McpApprover { questions: self.shared.questions.clone(), owner_of })
    }

    /// A client looks at the open questions of its owner, or listens for them. An owner whose clients do so within a minute is asked about calls of MCP clients.
    pub fn note_reader(&self, who: &Principal) {
        self.shared.questions.note_reader(&who.owner);
    }

    fn approver(
        &self,
        who: &Principal,
        session: Option<SessionId>,
        source: QuestionSource,
        conversation: Option<&Arc<LiveConversation>>,
    ) -> Arc<dyn Approver> {
        Arc::new(ClientApprover {
            questions: self.shared.questions.clone(),
            owner: who.owner.clone(),
            session,
            source,
            conversation: conversation.cloned(),
        })
    }

    /// Ends: running turns are cancelled, and what they did is stored.
    pub async fn close(&self) {
        self.shared.ending.cancel();
        self.shared.turns.close();
        self.shared.turns.wait().await;
    }

    /// A conversation of this caller, in memory.
    async fn live(
        &self,
        who: &Principal,
        id: &SessionId,
    ) -> Result<Arc<LiveConversation>, ConversationError> {
        self.summary(who, id).await?;
        if let Some(live) = self.live_now(id) {
            return Ok(live);
        }
        // Zero stands for the beginning of any log: a client that has seen nothing of this one has to be distinguishable after a restart.
        let base = self.shared.parts.store.reserve_events(id, RESERVED_EVENTS).await? + 1;
        let mut all = self.lock();
        // Another request may have made it since.
        let fresh = || Arc::new(LiveConversation::new(id.clone(), base));
        let live = Arc::clone(all.entry(id.clone()).or_insert_with(fresh));
        if all.len() > MAX_IDLE {
            all.retain(|known, live| known == id || live.is_running() || live.readers() > 0);
        }
        Ok(live)
    }

    fn live_now(&self, id: &SessionId) -> Option<Arc<LiveConversation>> {
        self.lock().get(id).cloned()
    }

    fn tell(&self, owner: &SessionOwner, kind: ActivityKind) {
        // Without a reader there is nothing to tell.
        let _ = self.shared.activity.send(SessionActivity { owner: owner.clone(), kind });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<LiveConversation>>> {
        self.shared.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn checked_title(title: &str) -> Result<String, ConversationError> {
    let title = title.trim();
    match title.chars().count() <= MAX_TITLE_CHARS && !title.chars().any(char::is_control) {
        true => Ok(title.to_owned()),
        false => Err(ConversationError::invalid(
            "the title is too long, or has control characters",
            format!("write at most {MAX_TITLE_CHARS} characters on one line"),
        )),
    }
}

/// Where a list goes on: when the last conversation was used, and its id.
type ListCursor = (i64, String);

fn cursor_of(summary: &SessionSummary) -> String {
    format!("{}.{}", summary.changed_at.as_millisecond(), summary.id)
}

fn parse_cursor(text: &str) -> Result<ListCursor, ConversationError> {
    let parts = text.split_once('.').and_then(|(at, id)| Some((at.parse().ok()?, id.to_owned())));
    parts.ok_or_else(|| ConversationError::invalid("this is no cursor", "pass on what `nextCursor` was"))
}

/// Whether a conversation comes after the one that a cursor names. That one itself does not; of those used in the same millisecond, the ones with
/// smaller ids do.
fn is_after(summary: &SessionSummary, (at, id): &ListCursor) -> bool {
    let used = summary.changed_at.as_millisecond();
    used < *at || (used == *at && summary.id.as_str() < id.as_str())
}
