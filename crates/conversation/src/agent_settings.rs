//! The conversation settings of the configuration, joined with those that take precedence.

use std::time::Duration;

use jiff::Timestamp;
use toolgate_agent::{AgentSettings, InstructionText, MountSummary, PromptEnvironment};
use toolgate_assembly::ambient::read_file;
use toolgate_assembly::config_files::unreadable;
use toolgate_assembly::load::LoadError;
use toolgate_assembly::settings::Settings;
use toolgate_assembly::trust::ProjectInstructions;
use toolgate_llm::{StatedCapabilities, Timeouts, ToolNames, Wire};
use toolgate_manifest::{ConversationConfig, ModelKey, ModelServerConfig};
use toolgate_types::AgentName;
use toolgate_workspace::{Mount, MountAccess, PathStyle, Workspace};

use crate::agent_source::AgentSource;
use crate::model_error::ModelError;
use crate::models::{DeclaredProvider, KeyLocation, ModelHandle};

/// What takes precedence over the configuration.
#[derive(Clone, Debug, Default)]
pub struct AgentOverrides {
    /// The system prompt; with `@`, the file that holds it.
    pub system: Option<String>,
    /// How many steps of a turn may call tools; 0 and less select the profile's default.
    pub max_iterations: Option<i64>,
    /// The timeout of a turn.
    pub time_limit: Option<Duration>,
    /// Whether read-only calls of one step run concurrently.
    pub parallel_reads: bool,
}

/// The providers of the configuration.
pub(crate) fn providers(settings: &Settings) -> Result<Vec<DeclaredProvider>, ModelError> {
    settings.loaded.config.models.iter().map(|server| provider(server, settings)).collect()
}

fn provider(server: &ModelServerConfig, settings: &Settings) -> Result<DeclaredProvider, ModelError> {
    let key = match &server.key {
        Some(ModelKey::Variable(name)) => Some(KeyLocation::Variable(name.value.clone())),
        Some(ModelKey::File(path)) => Some(KeyLocation::File(settings.resolve(&path.value)?)),
        None => None,
    };
    Ok(DeclaredProvider {
        name: server.name.value.clone(),
        wire: Wire::named(&server.wire.value)
            .ok_or_else(|| ModelError::usage(format!("`{}` speaks no known wire", server.name.value)))?,
        base_url: server.base_url.as_ref().map(|url| url.value.clone()),
        key,
        headers: server.headers.iter().map(|(name, text)| (name.value.clone(), text.value.clone())).collect(),
        stated: StatedCapabilities {
            supports_tools: server.supports_tools,
            supports_images: server.supports_images,
            context_window: server.context_window,
            max_output_tokens: server.max_output_tokens,
        },
        tool_names: if server.exact_tool_names { ToolNames::Exact } else { ToolNames::Restricted },
    })
}

/// The model of the configuration, for this agent or the default.
pub(crate) fn model(settings: &Settings, agent: Option<&AgentName>) -> Option<String> {
    declared(settings, agent).model.map(|model| model.value)
}

/// The timeouts of the model's stream.
pub(crate) fn timeouts(settings: &Settings, agent: Option<&AgentName>) -> Timeouts {
    let usual = Timeouts::default();
    let silence = declared(settings, agent).stream_timeout;
    Timeouts { first_byte: silence.unwrap_or(usual.first_byte), idle: silence.unwrap_or(usual.idle), ..usual }
}

/// The conversation settings of an agent, over the default ones.
fn declared(settings: &Settings, agent: Option<&AgentName>) -> ConversationConfig {
    let config = &settings.loaded.config;
    let agent = agent.and_then(|name| config.agent(name.as_str()));
    agent.map_or_else(
        || config.conversation.clone(),
        |agent| agent.conversation.clone().over(&config.conversation),
    )
}

/// The settings of the agent loop.
pub(crate) fn agent_settings(
    source: &AgentSource<'_>,
    model: &ModelHandle,
) -> Result<AgentSettings, ModelError> {
    let AgentSource { settings, workspace, overrides, instructions, agent, .. } = *source;
    let declared = declared(settings, agent);
    let mut agent = AgentSettings::for_profile(settings.profile);
    agent.environment = prompt_environment(settings, workspace, instructions);
    agent.max_output_tokens = model.max_output_tokens;
    agent.system = match &overrides.system {
        Some(system) => Some(system_prompt(system, settings)?),
        None => configured_system_prompt(&declared, settings)?,
    };
    // At least one step is needed: 0 or less selects the profile's default.
    let asked = overrides.max_iterations.map(|most| u32::try_from(most.max(0)).unwrap_or(u32::MAX));
    let most = asked.or(declared.max_tool_iterations);
    agent.max_tool_iterations = most.filter(|most| *most > 0).unwrap_or(agent.max_tool_iterations);
    agent.time_limit = overrides.time_limit.or(declared.time_limit);
    agent.parallel_reads =
        overrides.parallel_reads || declared.parallel_reads.unwrap_or(agent.parallel_reads);
    agent.repair = declared.repair_calls.unwrap_or(agent.repair);
    agent.context.window = declared.window;
    agent.context.reserve_tokens = declared.reserve_tokens;
    agent.context.on_full = declared.on_full.unwrap_or(agent.context.on_full);
    agent.context.max_turn_tokens = declared.max_turn_tokens;
    agent.context.warn_at = declared.warn_at.unwrap_or(agent.context.warn_at);
    let violation = settings.loaded.config.on_violation.as_ref().map(|what| what.value);
    agent.on_violation = violation.unwrap_or(agent.on_violation);
    Ok(agent)
}

/// The system prompt of the configuration, inline or from the named file.
fn configured_system_prompt(
    declared: &ConversationConfig,
    settings: &Settings,
) -> Result<Option<String>, ModelError> {
    let Some(file) = &declared.system_file else { return Ok(declared.system.clone()) };
    let not_text = |_| std::io::Error::other("it is not UTF-8 text");
    let read = settings.loaded.file_source.read(&settings.resolve(&file.value)?);
    let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(not_text));
    let failed = |error: std::io::Error| {
        LoadError::from(vec![unreadable(&settings.loaded.config, file, &error)]).into()
    };
    text.map(Some).map_err(failed)
}

/// The environment in the system prompt: the date, and the mounts by the aliases that the model can use.
fn prompt_environment(
    settings: &Settings,
    workspace: &Workspace,
    instructions: &[ProjectInstructions],
) -> PromptEnvironment {
    let instructed = |found: &ProjectInstructions| InstructionText {
        name: found.name.to_owned(),
        text: found.text.clone(),
    };
    let told = |mount: &Mount| MountSummary {
        alias: mount.alias().to_owned(),
        writable: mount.access() == MountAccess::ReadWrite,
    };
    PromptEnvironment {
        date: Some(Timestamp::now().to_string().chars().take(10).collect()),
        mounts: workspace.mounts().iter().map(told).collect(),
        alias_required: settings.profile.path_style() == PathStyle::AliasOnly,
        instructions: instructions.iter().map(instructed).collect(),
    }
}

/// A literal text, or with `@` the content of a file.
fn system_prompt(text: &str, settings: &Settings) -> Result<String, ModelError> {
    let Some(file) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let path = settings.environment.absolute(file.as_ref())?;
    let unreadable = |reason: String| {
        ModelError::usage(format!("`{file}` cannot be read: {reason}"))
            .help("name an existing file of text behind the @, or write the words themselves")
    };
    let bytes = read_file(&path).map_err(|error| unreadable(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8 text".to_owned()))
}
