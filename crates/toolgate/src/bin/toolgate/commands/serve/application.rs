//! The API, the conversations and the page of `toolgate serve`.

use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::sync::watch;
use toolgate_api::ApiParts;
use toolgate_assembly::gate_builder;
use toolgate_assembly::servers::Servers;
use toolgate_assembly::settings::Settings;
use toolgate_conversation::{ConversationParts, Conversations, OwnerOf};
use toolgate_manifest::{AgentConfig, ServeAuth};
use toolgate_serve::{Application, ClientOwner, PageFile, PageSource, Service};
use toolgate_session::{SessionOwner, SessionStore};
use toolgate_workspace::Workspace;

use crate::arguments::AgentArguments;
use crate::conversation::{DATABASE, InstructionPrompt, agreed_instructions, session_failure};
use crate::exit::CliError;
use crate::state_usage::session_bounds;

/// What the application is built from.
pub(super) struct ApplicationParts<'a> {
    pub(super) service: &'a Arc<Service>,
    pub(super) settings: Arc<Settings>,
    pub(super) workspace: Arc<Workspace>,
    pub(super) servers: Option<Arc<Servers>>,
    pub(super) agent: &'a AgentArguments,
    pub(super) agents: watch::Receiver<Vec<AgentConfig>>,
    pub(super) auth: &'static str,
}

/// The conversations, and what is served of them.
pub(super) fn application(
    parts: ApplicationParts<'_>,
    runtime: &Runtime,
) -> Result<(Conversations, Application), CliError> {
    let ApplicationParts { service, settings, workspace, servers, agent, agents, auth } = parts;
    let database = gate_builder::sessions_directory(&settings).join(DATABASE);
    let store = runtime.block_on(SessionStore::open(&database)).map_err(session_failure)?;
    let store = store.with_bounds(session_bounds(&settings.loaded.config.retention));
    let conversations = Conversations::new(ConversationParts {
        gate: Arc::clone(service.front()),
        workspace: Arc::clone(&workspace),
        overrides: agent.overrides(),
        instructions: agreed_instructions(&settings, &workspace, InstructionPrompt::Never)?,
        store,
        default_model: agent.model.clone(),
        settings: Arc::clone(&settings),
        agents,
    });
    service.front().gate().set_fallback_approver(conversations.mcp_approver(owner_of(auth)));
    let routes = toolgate_api::router(ApiParts {
        service: Arc::clone(service),
        conversations: conversations.clone(),
        settings,
        workspace,
        servers,
        auth,
    });
    Ok((conversations, Application { routes: Some(routes), page: Some(Arc::new(EmbeddedPage)) }))
}

/// Whose the questions about a caller's calls are: where each caller has a token of its own, that caller's.
fn owner_of(auth: &str) -> OwnerOf {
    match auth == ServeAuth::Jwt.as_str() {
        true => Box::new(|caller| match ClientOwner::of_token(caller) {
            ClientOwner::Person => SessionOwner::Person,
            ClientOwner::Caller(identity) => SessionOwner::Caller(identity),
        }),
        false => Box::new(|_| SessionOwner::Person),
    }
}

/// The page that is embedded in this program.
struct EmbeddedPage;

impl PageSource for EmbeddedPage {
    fn file(&self, path: &str, accept_encoding: &str) -> Option<PageFile> {
        let asset = toolgate_web::find(path)?;
        let body = asset.body(accept_encoding);
        Some(PageFile {
            bytes: body.bytes,
            encoding: body.encoding,
            content_type: asset.content_type(),
            etag: asset.etag(),
            cache_control: asset.cache_control(),
        })
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        toolgate_web::SECURITY_HEADERS
    }

    fn fallback(&self) -> &'static str {
        toolgate_web::NOT_BUILT
    }
}
