//! A conversation in the terminal: an agent, a user, and the stored session.

mod person;
mod stdin_approvals;
mod model_rows;
mod project_instructions;

use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use toolgate_agent::{AgentError, Compaction, EndReason, EventSink, TurnContext, TurnOutcome};
use toolgate_assembly::ambient::create_private_file;
use toolgate_assembly::gate_builder::{self, AssembledGate, GateBuildOptions};
use toolgate_assembly::personal_paths::warn_of_homes;
use toolgate_assembly::reload::{Reloader, fingerprints};
use toolgate_assembly::servers::{ServerSelection, Servers};
use toolgate_assembly::settings::Settings;
use toolgate_assembly::trust::ProjectInstructions;
use toolgate_conversation::{AgentOverrides, AgentSource, ReadyAgent, session_title};
use toolgate_gate::{BlockingStrategy, Credential};
use toolgate_llm::{ModelName, StreamRecorder, UserImage};
use toolgate_session::{NewSession, Session, SessionError, SessionOwner, SessionStore, SessionSummary};
use toolgate_tools::ProfiledGate;
use toolgate_types::{SessionId, Trust};
use toolgate_workspace::Workspace;

pub(crate) use self::model_rows::{rows, tools_label, window_label};
pub(crate) use self::person::{HOW_TO_ALLOW, Person, PersonPresence};
pub(crate) use self::project_instructions::INSTRUCTIONS_QUESTION;
pub(crate) use self::project_instructions::{InstructionPrompt, agreed_instructions};
pub(crate) use self::stdin_approvals::StdinApprovals;
use crate::arguments::{ConversationArguments, GlobalOptions};
use crate::commands::{no_approver, token_verification};
use crate::exit::{CliError, DENIED, INTERRUPTED, LIMIT, PROVIDER, SUCCESS, TOOL_ERROR};
use crate::startup::resolve_settings;
use crate::state_usage::session_bounds;

/// The file name of the conversation database.
pub(crate) const DATABASE: &str = "sessions.db";

/// What all conversations of this process share.
pub(crate) struct ChatContext {
    common: GlobalOptions,
    arguments: ConversationArguments,
    pub(crate) settings: Settings,
    pub(crate) gate: Arc<ProfiledGate>,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) servers: Option<Arc<Servers>>,
    pub(crate) store: SessionStore,
    /// The project's instructions that the user agreed to.
    pub(crate) instructions: Vec<ProjectInstructions>,
    recorder: Option<StreamRecorder>,
}

/// Whether to wait for the upstream servers before the first turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitForServers {
    /// There is only one turn, which needs all tools.
    Yes,
    /// Tools may be added later.
    No,
}

/// The current conversation.
pub(crate) struct ActiveConversation {
    pub(crate) ready: ReadyAgent,
    /// Its stored session; created with the first message.
    pub(crate) session: Option<Session>,
}

impl ChatContext {
    /// Builds the gate and the store. The second value watches files and servers for changes.
    pub(crate) fn start(
        common: &GlobalOptions,
        arguments: &ConversationArguments,
        runtime: &Runtime,
        wait: WaitForServers,
    ) -> Result<(Self, Reloader), CliError> {
        let settings = resolve_settings(common, Trust::Guided)?;
        let recorder = arguments.record.as_ref().map(|file| recorder(file, &settings)).transpose()?;
        let seen = fingerprints(&settings);
        let how = GateBuildOptions {
            blocking: BlockingStrategy::ThreadPool,
            servers: Some((ServerSelection::All, runtime.handle().clone())),
            wait_on: (wait == WaitForServers::Yes).then_some(runtime),
            ..GateBuildOptions::without_servers(no_approver(), token_verification(common))
        };
        let built = gate_builder::build_gate(&settings, how)?;
        settings.warn_of_unknown_tools(&built.tools);
        warn_of_homes(&built.workspace);
        let reloader = Reloader::new(&common.overrides(), &settings, &built, seen);
        let AssembledGate { gate: front, workspace, servers, .. } = built;
        let store = runtime.block_on(async {
            match arguments.ephemeral {
                true => SessionStore::in_memory().await,
                false => {
                    SessionStore::open(&gate_builder::sessions_directory(&settings).join(DATABASE)).await
                }
            }
        });
        let prompt = match wait {
            WaitForServers::Yes => InstructionPrompt::Never,
            WaitForServers::No => InstructionPrompt::Ask,
        };
        let instructions = agreed_instructions(&settings, &workspace, prompt)?;
        let bounds = session_bounds(&settings.loaded.config.retention);
        let sitting = Self {
            common: common.clone(),
            arguments: arguments.clone(),
            gate: Arc::new(front),
            workspace,
            servers,
            store: store.map_err(session_failure)?.with_bounds(bounds),
            instructions,
            recorder,
            settings,
        };
        Ok((sitting, reloader))
    }

    /// Whether conversations are stored.
    pub(crate) fn is_persistent(&self) -> bool {
        !self.arguments.ephemeral
    }

    /// The requested conversation: a stored one, or a new one. Finding a model may take a while, and can be cancelled.
    pub(crate) async fn open_conversation(
        &self,
        stop: &CancellationToken,
    ) -> Result<ActiveConversation, CliError> {
        tokio::select! {
            talk = self.find_conversation() => talk,
            () = stop.cancelled() => {
                Err(CliError { code: INTERRUPTED, ..CliError::error("stopped before the conversation began") })
            }
        }
    }

    async fn find_conversation(&self) -> Result<ActiveConversation, CliError> {
        let session = match self.requested_session().await? {
            Some(id) => Some(self.open_session(&id).await?),
            None => None,
        };
        let before = session.as_ref().map(|session| session.summary().model.to_string());
        let model = self.arguments.agent.model.clone().or(before);
        let ready = self.build_agent(model.as_deref()).await?;
        Ok(ActiveConversation { ready, session })
    }

    async fn requested_session(&self) -> Result<Option<SessionId>, CliError> {
        match &self.arguments.session {
            Some(name) if name != "last" => self.store.find(name).await.map(Some).map_err(session_failure),
            None if !self.arguments.continue_last => Ok(None),
            _ => match self.store.last(&self.settings.workspace).await.map_err(session_failure)? {
                Some(id) => Ok(Some(id)),
                None => Err(CliError::usage("there is no conversation of this workspace to go on with")
                    .help("begin one without --continue; `toolgate sessions list --all` has those of other workspaces")),
            },
        }
    }

    /// Resumes a stored conversation, but only with its workspace, profile and agent: its calls refer to those files and permissions.
    async fn open_session(&self, id: &SessionId) -> Result<Session, CliError> {
        let session = self.store.open_session(id).await.map_err(session_failure)?;
        let SessionSummary { workspace, profile, agent, .. } = session.summary();
        let settings = &self.settings;
        let differs = |what: &str, then: String, option: String| {
            Err(CliError::usage(format!("session `{id}` was held {what} {then}"))
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

    /// What the agent of this conversation is built from.
    fn agent_source<'a>(&'a self, overrides: &'a AgentOverrides) -> AgentSource<'a> {
        AgentSource {
            gate: &self.gate,
            workspace: &self.workspace,
            settings: &self.settings,
            overrides,
            instructions: &self.instructions,
            recorder: self.recorder.as_ref(),
            agent: self.settings.caller.agent.as_ref(),
        }
    }

    async fn build_agent(&self, model: Option<&str>) -> Result<ReadyAgent, CliError> {
        Ok(self.agent_source(&self.arguments.agent.overrides()).build(model).await?)
    }

    /// Continues the conversation with another model.
    pub(crate) async fn change_model(
        &self,
        talk: &mut ActiveConversation,
        name: &str,
    ) -> Result<(), CliError> {
        let ready = self.build_agent(Some(name)).await?;
        if let Some(session) = &mut talk.session {
            session.set_model(ready.agent.model()).await.map_err(session_failure)?;
        }
        talk.ready = ready;
        Ok(())
    }

    /// Runs one turn.
    pub(crate) async fn run_turn(
        &self,
        talk: &mut ActiveConversation,
        prompt: &str,
        with: TurnOptions,
    ) -> Result<TurnOutcome, CliError> {
        let session = self.ensure_session(talk, prompt).await?.id().clone();
        let turn = self.turn_context(&session, with)?;
        let ActiveConversation { ready, session: Some(session) } = talk else {
            return Err(CliError::error("the conversation is not stored"));
        };
        ready.agent.run_turn(session, prompt, turn).await.map_err(agent_failure)
    }

    /// Summarises the conversation, and continues from the summary.
    pub(crate) async fn compact(
        &self,
        talk: &mut ActiveConversation,
        with: TurnOptions,
    ) -> Result<Compaction, CliError> {
        let Some(session) = &mut talk.session else { return Ok(Compaction::NothingSaved) };
        let turn = self.turn_context(session.id(), with)?;
        talk.ready.agent.compact(session, turn).await.map_err(agent_failure)
    }

    /// The session of the conversation, which begins with these words if there is none.
    pub(crate) async fn ensure_session<'t>(
        &self,
        talk: &'t mut ActiveConversation,
        words: &str,
    ) -> Result<&'t mut Session, CliError> {
        match &mut talk.session {
            Some(session) => Ok(session),
            none => Ok(none.insert(self.create_session(words, talk.ready.agent.model()).await?)),
        }
    }

    fn turn_context(&self, session: &SessionId, with: TurnOptions) -> Result<TurnContext, CliError> {
        let TurnOptions { person, cancelled, events, images, words } = with;
        self.gate.gate().hear(session, &words);
        let credential = self.credential(session)?;
        let approver = person.approver_for_turn(cancelled.clone());
        Ok(TurnContext { credential, approver, cancelled, events, images, prompt_stored: None })
    }

    async fn create_session(&self, prompt: &str, model: &ModelName) -> Result<Session, CliError> {
        let new = NewSession {
            id: SessionStore::fresh_id().map_err(session_failure)?,
            title: session_title(prompt),
            agent: self.settings.caller.agent.clone(),
            model: model.clone(),
            profile: self.settings.profile.name().to_owned(),
            workspace: self.settings.workspace.clone(),
            owner: SessionOwner::Person,
            trust: None,
        };
        self.store.create(new).await.map_err(session_failure)
    }

    /// The credential of the model's calls. Their changes belong to the session of the conversation.
    pub(crate) fn credential(&self, id: &SessionId) -> Result<Credential, CliError> {
        let mut credential = self.settings.credential(&self.common.overrides())?;
        match &mut credential {
            Credential::Known(caller) => Arc::make_mut(caller).session = id.clone(),
            Credential::Token { session, .. } => *session = id.clone(),
        }
        Ok(credential)
    }
}

fn agent_failure(error: AgentError) -> CliError {
    match error {
        AgentError::Session(error) => session_failure(error),
        AgentError::Fault(fault) => CliError::error(fault.to_string()).help(fault.help()),
        AgentError::Settings { message, help } => CliError::usage(message).help(help),
        AgentError::Caller(failure) => {
            let note = failure.operator_note.map(|note| format!(": {note}")).unwrap_or_default();
            CliError { code: DENIED, ..CliError::error(format!("{}{note}", failure.message)) }
        }
    }
}

/// The approver, the cancellation and the event sink of a turn.
pub(crate) struct TurnOptions {
    pub(crate) person: Person,
    pub(crate) cancelled: CancellationToken,
    pub(crate) events: EventSink,
    /// Images that come with the prompt.
    pub(crate) images: Vec<UserImage>,
    /// What the person wrote of the prompt, without what is attached to it.
    pub(crate) words: String,
}

fn recorder(file: &std::path::Path, settings: &Settings) -> Result<StreamRecorder, CliError> {
    let path = settings.environment.absolute(file)?;
    let file = create_private_file(&path).map_err(|error| {
        CliError::usage(format!("`{}` cannot be written: {error}", path.display()))
            .help("name a file that does not exist yet")
    })?;
    Ok(StreamRecorder::new(file))
}

/// The error of a session operation: wrong usage or a failure of the store.
pub(crate) fn session_failure(error: SessionError) -> CliError {
    let (message, help) = (error.to_string(), error.help());
    let failed = match error {
        SessionError::Unknown { .. }
        | SessionError::Ambiguous { .. }
        | SessionError::Exists { .. }
        | SessionError::InUse { .. }
        | SessionError::Foreign { .. }
        | SessionError::Newer { .. }
        | SessionError::Untrusted { .. } => CliError::usage(message),
        SessionError::Misplaced { .. }
        | SessionError::NotKeepable { .. }
        | SessionError::Conflict { .. }
        | SessionError::Damaged { .. }
        | SessionError::Corrupt { .. }
        | SessionError::Gone { .. }
        | SessionError::Full { .. }
        | SessionError::Busy { .. }
        | SessionError::Io { .. }
        | SessionError::Database { .. } => CliError::error(message),
    };
    failed.help(help)
}

/// The exit code of a turn, for scripts. A turn that was done, but in which a call could not be approved for lack of a terminal, is `DENIED`.
pub(crate) fn exit_code(reason: EndReason, asked: PersonPresence) -> u8 {
    match reason {
        EndReason::Done if asked == PersonPresence::Absent => DENIED,
        EndReason::Done => SUCCESS,
        EndReason::IterationLimit | EndReason::ContextLimit | EndReason::Timeout | EndReason::Loop => LIMIT,
        EndReason::Violation => DENIED,
        EndReason::ProviderError => PROVIDER,
        EndReason::Cancelled => INTERRUPTED,
        EndReason::Failed => TOOL_ERROR,
    }
}
