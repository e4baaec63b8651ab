//! A conversation at this machine: a model, a gate, a person, and what is kept of it.

mod model;
mod keys;
mod declared;
mod speaker;
mod asking;
mod answers;
mod listing;

use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use toolgate_agent::{Agent, AgentError, EndReason, EventSink, TurnContext, TurnOutcome};
use toolgate_gate::{BlockingStrategy, Credential};
use toolgate_llm::{ModelName, StreamRecorder};
use toolgate_session::{NewSession, Session, SessionError, SessionStore, SessionSummary};
use toolgate_tools::ProfiledGate;
use toolgate_types::{SessionId, Trust};
use toolgate_workspace::Workspace;

pub(crate) use self::answers::Answers;
pub(crate) use self::asking::{Asked, HOW_TO_ALLOW, Person};
pub(crate) use self::listing::{ProviderModels, chosen_model, list_models, tools, window};
use self::model::{Chosen, Offer, no_model};
use self::speaker::Speaker;
pub(crate) use self::speaker::{script, serve};
use crate::ambient::create_own_file;
use crate::arguments::{Common, ConversationArguments};
use crate::build::{self, Built, How};
use crate::commands::{nobody, tokens};
use crate::exit::{DENIED, DONE, Failed, INTERRUPTED, LIMIT, PROVIDER, TOOL_ERROR};
use crate::personal::warn_of_homes;
use crate::reload::{Reloader, stamps};
use crate::servers::{Servers, Which};
use crate::settings::{Settings, settle};
use crate::state_usage::session_bounds;

/// The database of conversations, in its folder.
pub(crate) const DATABASE: &str = "sessions.db";

/// A title is cut here.
const LONGEST_TITLE: usize = 60;

/// Everything that conversations of this process share.
pub(crate) struct Sitting {
    common: Common,
    arguments: ConversationArguments,
    pub(crate) settings: Settings,
    pub(crate) front: Arc<ProfiledGate>,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) servers: Option<Arc<Servers>>,
    pub(crate) store: SessionStore,
    recorder: Option<StreamRecorder>,
}

/// Whether to wait for the servers behind the gate before anything is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// One turn is held, and must have all tools.
    Yes,
    /// Tools may come later.
    No,
}

/// A conversation that is being held.
pub(crate) struct Talk {
    pub(crate) agent: Agent,
    _speaker: Speaker,
    /// What is kept of it; made with the first words.
    pub(crate) session: Option<Session>,
}

impl Sitting {
    /// Puts everything together. The second value looks after files and servers that change.
    pub(crate) fn begin(
        common: &Common,
        arguments: &ConversationArguments,
        runtime: &Runtime,
        wait: Wait,
    ) -> Result<(Self, Reloader), Failed> {
        let settings = settle(common, Trust::Guided)?;
        let recorder = arguments.record.as_ref().map(|file| recorder(file, &settings)).transpose()?;
        let seen = stamps(&settings);
        let how = How {
            approver: nobody(),
            tokens: tokens(common),
            blocking: BlockingStrategy::ThreadPool,
            servers: Some((Which::All, runtime)),
            wait: wait == Wait::Yes,
        };
        let built = build::gate(&settings, how)?;
        settings.warn_of_unknown_tools(&built.tools);
        warn_of_homes(&built.workspace);
        let reloader = Reloader::new(common, &settings, &built, seen);
        let Built { front, workspace, servers, .. } = built;
        let store = runtime.block_on(async {
            match arguments.ephemeral {
                true => SessionStore::in_memory().await,
                false => SessionStore::open(&build::sessions_folder(&settings).join(DATABASE)).await,
            }
        });
        let bounds = session_bounds(&settings.loaded.config.retention);
        let sitting = Self {
            common: common.clone(),
            arguments: arguments.clone(),
            front: Arc::new(front),
            workspace,
            servers,
            store: store.map_err(unkept)?.with_bounds(bounds),
            recorder,
            settings,
        };
        Ok((sitting, reloader))
    }

    /// Whether anything of it stays on disk.
    pub(crate) fn is_kept(&self) -> bool {
        !self.arguments.ephemeral
    }

    /// The conversation that was asked for: a kept one, or a new one. Finding a model may take a while, and can be stopped.
    pub(crate) async fn talk(&self, stop: &CancellationToken) -> Result<Talk, Failed> {
        tokio::select! {
            talk = self.find_talk() => talk,
            () = stop.cancelled() => {
                Err(Failed { code: INTERRUPTED, ..Failed::error("stopped before the conversation began") })
            }
        }
    }

    async fn find_talk(&self) -> Result<Talk, Failed> {
        let session = match self.asked_for().await? {
            Some(id) => Some(self.open(&id).await?),
            None => None,
        };
        let before = session.as_ref().map(|session| session.summary().model.to_string());
        let model = self.arguments.model.clone().or(before);
        let (agent, speaker) = self.agent(model.as_deref()).await?;
        Ok(Talk { agent, _speaker: speaker, session })
    }

    async fn asked_for(&self) -> Result<Option<SessionId>, Failed> {
        match &self.arguments.session {
            Some(name) if name != "last" => self.store.find(name).await.map(Some).map_err(unkept),
            None if !self.arguments.continue_last => Ok(None),
            _ => match self.store.last(&self.settings.workspace).await.map_err(unkept)? {
                Some(id) => Ok(Some(id)),
                None => Err(Failed::usage("there is no conversation of this workspace to go on with")
                    .help("begin one without --continue; `toolgate sessions list --all` has those of other workspaces")),
            },
        }
    }

    /// Takes up a kept conversation, where it was held: its tools meant those files, and were those of that agent.
    async fn open(&self, id: &SessionId) -> Result<Session, Failed> {
        let session = self.store.open_session(id).await.map_err(unkept)?;
        let SessionSummary { workspace, profile, agent, .. } = session.summary();
        let settings = &self.settings;
        let differs = |what: &str, then: String, option: String| {
            Err(Failed::usage(format!("session `{id}` was held {what} {then}"))
                .help(format!("pass {option}, or begin another one")))
        };
        if *workspace != settings.workspace {
            let then = workspace.display().to_string();
            return differs("in the workspace", format!("`{then}`"), format!("--workspace {then}"));
        }
        if profile != settings.profile.name() {
            return differs("in the profile", format!("`{profile}`"), format!("--profile {profile}"));
        }
        match (agent, &settings.caller.agent) {
            (Some(then), now) if now.as_ref() != Some(then) => {
                differs("as the agent", format!("`{then}`"), format!("--agent {then}"))
            }
            (None, Some(_)) => differs("as no agent", String::new(), "no --agent".to_owned()),
            _ => Ok(session),
        }
    }

    /// Somebody who holds conversations with a model: the named one, else the one that is configured or suggested.
    async fn agent(&self, name: Option<&str>) -> Result<(Agent, Speaker), Failed> {
        let declared = declared::providers(&self.settings)?;
        let offer = Offer { declared: &declared, variable: &speaker::set };
        let named = name.map(str::to_owned).or_else(|| declared::model(&self.settings));
        let chosen = match named.or_else(|| offer.suggested()) {
            Some(name) => offer.find(&name)?,
            None => running_ollama(&offer).await.ok_or_else(no_model)?,
        };
        let speaker = Speaker::find(chosen, &self.settings, self.recorder.clone()).await?;
        let settings = declared::settings(&self.settings, &self.workspace, &self.arguments, &speaker)?;
        Ok((Agent::new(Arc::clone(&self.front), Arc::clone(&speaker.provider), settings), speaker))
    }

    /// The same conversation with another model.
    pub(crate) async fn change_model(&self, talk: &mut Talk, name: &str) -> Result<(), Failed> {
        let (agent, speaker) = self.agent(Some(name)).await?;
        if let Some(session) = &mut talk.session {
            session.set_model(agent.model()).await.map_err(unkept)?;
        }
        (talk.agent, talk._speaker) = (agent, speaker);
        Ok(())
    }

    /// One turn.
    pub(crate) async fn turn(
        &self,
        talk: &mut Talk,
        prompt: &str,
        with: With,
    ) -> Result<TurnOutcome, Failed> {
        let With { person, cancelled, events } = with;
        let session = match &mut talk.session {
            Some(session) => session,
            none => none.insert(self.create(prompt, talk.agent.model()).await?),
        };
        let credential = self.credential(session.id())?;
        let approver = person.during(cancelled.clone());
        let turn = TurnContext { credential, approver, cancelled, events };
        talk.agent.run_turn(session, prompt, turn).await.map_err(|error| match error {
            AgentError::Session(error) => unkept(error),
            AgentError::Fault(fault) => Failed::error(fault.to_string()).help(fault.help()),
            AgentError::Settings { message, help } => Failed::usage(message).help(help),
            AgentError::Caller(failure) => {
                let note = failure.operator_note.map(|note| format!(": {note}")).unwrap_or_default();
                Failed { code: DENIED, ..Failed::error(format!("{}{note}", failure.message)) }
            }
        })
    }

    async fn create(&self, prompt: &str, model: &ModelName) -> Result<Session, Failed> {
        let new = NewSession {
            id: SessionStore::fresh_id().map_err(unkept)?,
            title: title(prompt),
            agent: self.settings.caller.agent.clone(),
            model: model.clone(),
            profile: self.settings.profile.name().to_owned(),
            workspace: self.settings.workspace.clone(),
        };
        self.store.create(new).await.map_err(unkept)
    }

    /// Whoever calls tools by what the model says. Its changes belong to the conversation.
    pub(crate) fn credential(&self, id: &SessionId) -> Result<Credential, Failed> {
        let mut credential = self.settings.credential(&self.common)?;
        match &mut credential {
            Credential::Known(caller) => Arc::make_mut(caller).session = id.clone(),
            Credential::Token { session, .. } => *session = id.clone(),
        }
        Ok(credential)
    }
}

/// A model of the Ollama that runs on this machine, if one does.
async fn running_ollama(offer: &Offer<'_>) -> Option<Chosen> {
    let Ok(Chosen::Route(route)) = offer.find("ollama/any") else { return None };
    let name = speaker::installed(route).await?;
    offer.find(&format!("ollama/{name}")).ok()
}

/// Who takes part in a turn beside the model.
pub(crate) struct With {
    pub(crate) person: Person,
    pub(crate) cancelled: CancellationToken,
    pub(crate) events: EventSink,
}

fn recorder(file: &std::path::Path, settings: &Settings) -> Result<StreamRecorder, Failed> {
    let path = settings.surroundings.absolute(file)?;
    let file = create_own_file(&path).map_err(|error| {
        Failed::usage(format!("`{}` cannot be written: {error}", path.display()))
            .help("name a file that does not exist yet")
    })?;
    Ok(StreamRecorder::new(file))
}

/// The first words of a conversation.
fn title(prompt: &str) -> String {
    let first = prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    match first.char_indices().nth(LONGEST_TITLE) {
        Some((end, _)) => format!("{}…", first.get(..end).unwrap_or_default().trim_end()),
        None => first.to_owned(),
    }
}

/// A conversation cannot be kept: somebody asks for one that cannot be had, or something fails.
pub(crate) fn unkept(error: SessionError) -> Failed {
    let (message, help) = (error.to_string(), error.help());
    let failed = match error {
        SessionError::Unknown { .. }
        | SessionError::Ambiguous { .. }
        | SessionError::Exists { .. }
        | SessionError::InUse { .. }
        | SessionError::Foreign { .. }
        | SessionError::Newer { .. }
        | SessionError::Untrusted { .. } => Failed::usage(message),
        SessionError::Misplaced { .. }
        | SessionError::NotKeepable { .. }
        | SessionError::Conflict { .. }
        | SessionError::Damaged { .. }
        | SessionError::Corrupt { .. }
        | SessionError::Gone { .. }
        | SessionError::Full { .. }
        | SessionError::Busy { .. }
        | SessionError::Io { .. }
        | SessionError::Database { .. } => Failed::error(message),
    };
    failed.help(help)
}

/// The code that a turn ends with, for scripts. Whoever was done without a call that nobody could be asked about was not allowed everything.
pub(crate) fn exit_code(reason: EndReason, asked: Asked) -> u8 {
    match reason {
        EndReason::Done if asked == Asked::Nobody => DENIED,
        EndReason::Done => DONE,
        EndReason::IterationLimit | EndReason::ContextLimit | EndReason::Timeout | EndReason::Loop => LIMIT,
        EndReason::Violation => DENIED,
        EndReason::ProviderError => PROVIDER,
        EndReason::Cancelled => INTERRUPTED,
        EndReason::Failed => TOOL_ERROR,
    }
}
