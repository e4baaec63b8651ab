//! What there is: the caller, models, agents, servers, pins, and how the gate is.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use tokio_util::sync::CancellationToken;
use toolgate_connect::{PinState, PinnedTool, ServerName};
use toolgate_conversation::models::{chosen_model, list_models};
use toolgate_llm::ListedModel;
use toolgate_types::Sha256;

use crate::client::Client;
use crate::dto::{
    AgentDto, CallCount, Health, MeDto, ModelDto, ModelList, Page, PinBody, PinDto, ProviderDto,
    RefusalCountDto, ServerDto,
};
use crate::failure::{ApiResult, conflict, internal, invalid, not_found, not_permitted, unavailable};
use crate::input::JsonBody;
use crate::state::ApiState;

/// How long an answer waits until the gate uses what was agreed to. It compares its pins every second.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// The version of the gate.
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) async fn me(State(state): State<Arc<ApiState>>, client: Client) -> Json<MeDto> {
    let caller = &client.http.caller;
    Json(MeDto {
        subject: caller.subject.clone(),
        auth: state.auth,
        agent: caller.agent.as_ref().map(ToString::to_string),
        trust: caller.trust.into(),
        version: VERSION,
        profile: state.settings.profile.name(),
        workspace: workspace_id(&state.settings.workspace),
        mounts: state.workspace.mounts().iter().map(|mount| mount.alias().to_owned()).collect(),
        default_model: default_model(&state),
    })
}

/// The beginning of a digest of its path.
fn workspace_id(path: &std::path::Path) -> String {
    let digest = Sha256::of(path.as_os_str().as_encoded_bytes()).to_string();
    digest.chars().take(16).collect()
}

fn default_model(state: &ApiState) -> Option<String> {
    let named = state.conversations.default_model().map(str::to_owned);
    named.or_else(|| chosen_model(&state.settings))
}

pub(crate) async fn models(State(state): State<Arc<ApiState>>, _: Client) -> ApiResult<Json<ModelList>> {
    let listed = list_models(&state.settings, None, &CancellationToken::new()).await;
    let listed = listed.map_err(|_| internal("listing the models"))?;
    let default = default_model(&state);
    let mut list = ModelList { items: Vec::new(), providers: Vec::new() };
    for provider in listed {
        let reason = provider.models.as_ref().err().map(|error| error.message.clone());
        for ListedModel { name, capabilities } in provider.models.iter().flatten() {
            let model = format!("{}/{name}", provider.name);
            list.items.push(ModelDto {
                provider: provider.name.clone(),
                name: name.clone(),
                default: default.as_ref() == Some(&model),
                model,
                supports_tools: capabilities.supports_tools,
                context_window: capabilities.context_window,
            });
        }
        list.providers.push(ProviderDto {
            name: provider.name,
            configured: provider.is_set_up,
            reachable: reason.is_none(),
            reason,
        });
    }
    add_unlisted(&mut list, default);
    Ok(Json(list))
}

/// The demonstration, and the default model, which its provider may not list.
fn add_unlisted(list: &mut ModelList, default: Option<String>) {
    let demo = "scripted/demo".to_owned();
    for model in [Some(demo), default.clone()].into_iter().flatten() {
        if list.items.iter().any(|known| known.model == model) {
            continue;
        }
        let (provider, name) = model.split_once('/').unwrap_or(("", &model));
        list.items.push(ModelDto {
            provider: provider.to_owned(),
            name: name.to_owned(),
            default: default.as_ref() == Some(&model),
            supports_tools: true,
            context_window: None,
            model,
        });
    }
}

pub(crate) async fn agents(State(state): State<Arc<ApiState>>, _: Client) -> Json<Page<AgentDto>> {
    let agent = |agent: &toolgate_manifest::AgentConfig| AgentDto {
        name: agent.name.value.to_string(),
        trust: state.conversations.declared_trust(Some(&agent.name.value)).map(Into::into),
        model: agent.conversation.model.as_ref().map(|model| model.value.clone()),
        tools: agent
            .tool_permissions
            .iter()
            .flatten()
            .filter(|tool| tool.allowed)
            .map(|tool| tool.tool.value.to_string())
            .collect(),
    };
    Json(Page::whole(state.conversations.agents().iter().map(agent).collect()))
}

pub(crate) async fn servers(
    State(state): State<Arc<ApiState>>,
    client: Client,
) -> ApiResult<Json<Page<ServerDto>>> {
    let shows_errors = client.sees_everyone();
    let health = state.servers.iter().flat_map(|servers| servers.health());
    let server = |health: toolgate_connect::ServerHealth| ServerDto {
        name: health.name.to_string(),
        state: health.state.as_str().to_owned(),
        protocol: health.protocol,
        tools: health.tools,
        suspended: health.suspended,
        restarts: health.restarts,
        error: health.last_error.filter(|_| shows_errors),
    };
    Ok(Json(Page::whole(health.map(server).collect())))
}

pub(crate) async fn pins(
    State(state): State<Arc<ApiState>>,
    client: Client,
) -> ApiResult<Json<Page<PinDto>>> {
    operator_only(&client)?;
    let Some(servers) = &state.servers else { return Ok(Json(Page::whole(Vec::new()))) };
    let mut pins = Vec::new();
    for server in servers.names() {
        let Some(key) = servers.pin_key(&server) else { continue };
        let file = servers.pins().for_server(&key).map_err(|_| internal("reading the pins"))?;
        pins.extend(file.tools().map(|(name, pinned)| pin_dto(&server, name, pinned)));
    }
    Ok(Json(Page::whole(pins)))
}

fn pin_dto(server: &ServerName, name: &str, pinned: &PinnedTool) -> PinDto {
    let (state, offered) = (pinned.state(), pinned.offered());
    let diff = match state {
        PinState::New => offered.map(|offered| offered.escaped()),
        PinState::Changed => Some(pinned.diff()),
        PinState::Agreed | PinState::Gone => None,
    };
    let advice = |finding: &toolgate_connect::Finding| serde_json::json!({"place": finding.place, "what": finding.what, "words": finding.words});
    PinDto {
        server: server.to_string(),
        tool: name.to_owned(),
        status: state.as_str().to_owned(),
        digest: offered.map(|offered| offered.digest().to_string()),
        description: offered.map(|offered| offered.escaped_description()),
        diff,
        advice: offered.map(|offered| offered.advice().iter().map(advice).collect()).unwrap_or_default(),
    }
}

pub(crate) async fn agree(
    State(state): State<Arc<ApiState>>,
    client: Client,
    Path((server, tool)): Path<(String, String)>,
    JsonBody(PinBody { digest }): JsonBody<PinBody>,
) -> ApiResult<StatusCode> {
    operator_only(&client)?;
    let unknown = || not_found("there is no such tool of a server");
    let digest: Sha256 = digest.parse().map_err(|_| invalid("`digest` is not a SHA-256 in hexadecimal"))?;
    let servers = state.servers.as_ref().ok_or_else(unknown)?;
    let server = servers.names().into_iter().find(|name| name.as_str() == server).ok_or_else(unknown)?;
    let key = servers.pin_key(&server).ok_or_else(unknown)?;
    let file = servers.pins().for_server(&key).map_err(|_| internal("reading the pins"))?;
    let pinned = file.get(&tool).ok_or_else(unknown)?;
    if pinned.offered().is_none_or(|offered| offered.digest() != digest) {
        return Err(conflict("conflict", "the server offers another definition now")
            .help("look at it again: `GET pins` has what is offered"));
    }
    servers.pins().approve(&key, &tool, digest).map_err(|_| unavailable("the agreement was not stored"))?;
    // The agreement is stored, also if the server has ended since.
    if let Some(name) = servers.tool_name(&server, &tool) {
        let _ = tokio::time::timeout(AGREEMENT_TIMEOUT, in_effect(&state, &name)).await;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Waits until the tool can be called, so that a client that calls it next does not find it suspended.
async fn in_effect(state: &ApiState, tool: &str) {
    let gate = state.service.front().gate();
    let mut changes = gate.config_changes();
    while gate.tool(tool).is_none_or(|tool| tool.spec().suspended.is_some()) {
        if changes.changed().await.is_err() {
            return;
        }
    }
}

fn operator_only(client: &Client) -> ApiResult<()> {
    match client.is_person() {
        true => Ok(()),
        false => {
            let help = "use `toolgate mcp approve` on the machine of the gate";
            Err(not_permitted("pins are agreed to by the operator", help))
        }
    }
}

pub(crate) async fn health(State(state): State<Arc<ApiState>>, client: Client) -> Json<Health> {
    let counters = state.service.counters();
    let recording = counters.can_record && state.service.front().gate().record_problem().is_none();
    let shown = client.sees_everyone();
    let call = |(class, decision, count): (&str, &str, u64)| CallCount {
        class: class.to_owned(),
        decision: decision.to_owned(),
        count,
    };
    let refusal = |(stage, code, count): (&str, &str, u64)| RefusalCountDto {
        stage: stage.to_owned(),
        code: code.to_owned(),
        count,
    };
    Json(Health {
        status: if recording { "ok" } else { "degraded" },
        version: VERSION,
        uptime_seconds: state.started.elapsed().as_secs(),
        recording,
        calls_in_flight: counters.in_flight,
        connections: client.http.connections(),
        open_approvals: match shown {
            true => state.conversations.open_question_count(),
            false => state.conversations.questions(&client.principal).len(),
        },
        sessions_running: state.conversations.running_turns(),
        calls: if shown { counters.calls.into_iter().map(call).collect() } else { Vec::new() },
        refusals: if shown { counters.refusals.into_iter().map(refusal).collect() } else { Vec::new() },
    })
}
