//! What the gate's decisions depend on, loaded from files: tools, policies, agents, callers, rate limits.

use std::sync::Arc;

use tokio::runtime::Runtime;
use toolgate_command::CommandRunner;
use toolgate_gate::{
    BreakerRule, CALL_TOOL, FIND_TOOLS, GateConfig, GateError, RateRule, Registry, Tool, ToolSearchRule,
    ToolSpec,
};
use toolgate_manifest::{ConfigProblem, ServerConfig, ToolManifest, ToolSearchConfig};
use toolgate_policy::{PathInputs, Policies, PolicyProblem, PolicySource, PolicyTool};
use toolgate_tools::{
    BackgroundAccess, LoadedTools, ManifestContext, ToolComponents, load_manifests, tool_search_tools,
};
use toolgate_types::Sha256;
use toolgate_workspace::Workspace;

use crate::callers;
use crate::config_files::{MANIFEST_EXTENSIONS, POLICY_EXTENSIONS, SourceFile, read_all};
use crate::error::BuildError;
use crate::information_flow;
use crate::notices::warn;
use crate::protected_paths::GateOwnedPaths;
use crate::sandbox_settings;
use crate::servers::{Servers, agreed_tools};
use crate::settings::Settings;
use crate::web_search;

/// How many background commands a session may have.
const DEFAULT_BACKGROUND: u64 = 8;

/// Why something could not be loaded.
#[derive(Debug)]
pub enum LoadError {
    /// Mistakes in files, with their positions.
    Problems(Vec<ConfigProblem>),
    /// Anything else.
    Failed(BuildError),
}

impl From<Vec<ConfigProblem>> for LoadError {
    fn from(problems: Vec<ConfigProblem>) -> Self {
        Self::Problems(problems)
    }
}

impl From<BuildError> for LoadError {
    fn from(failed: BuildError) -> Self {
        Self::Failed(failed)
    }
}

impl From<LoadError> for BuildError {
    fn from(fault: LoadError) -> Self {
        match fault {
            LoadError::Failed(failed) => failed,
            LoadError::Problems(problems) => {
                let rendered: Vec<String> = problems.iter().map(ConfigProblem::render).collect();
                Self::usage(rendered.join("\n").trim_end())
                    .help("correct the file; `toolgate check` says when nothing is left")
            }
        }
    }
}

/// Whether tokens are verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenVerification {
    /// No call carries a token.
    Disabled,
    /// Calls may carry a token.
    Enabled,
}

/// The upstream servers, and whether to wait until they have listed their tools.
#[derive(Clone, Copy)]
pub struct UpstreamServers<'g> {
    /// The servers.
    pub servers: &'g Servers,
    /// The runtime to wait on; without it, only tools that are already known are loaded.
    pub wait_on: Option<&'g Runtime>,
}

/// Loads everything.
pub fn load(
    settings: &Settings,
    own: &GateOwnedPaths,
    workspace: &Arc<Workspace>,
    tokens: TokenVerification,
    behind: Option<UpstreamServers<'_>>,
) -> Result<GateConfig, LoadError> {
    let declared = declared_tools(settings)?;
    refuse_servers_where_full(settings)?;
    refuse_tool_search_where_full(settings)?;
    let runner = sandbox_settings::runner(settings, own, workspace)?;
    let mut registry = registry(settings, workspace, &declared, Arc::clone(&runner))?;
    let Some(UpstreamServers { servers, wait_on: waiting }) = behind else {
        let loaded = gate_config(settings, tokens, &declared, workspace, registry)?;
        end_outdated_commands(settings);
        return Ok(loaded);
    };
    let before = servers.configure(settings, &runner)?;
    if let Some(runtime) = waiting {
        servers.wait(runtime);
    }
    servers.register_tools(&mut registry);
    let loaded = gate_config(settings, tokens, &declared, workspace, registry);
    match &loaded {
        Ok(_) => end_outdated_commands(settings),
        Err(_) => servers.revert(before),
    }
    loaded
}

/// Ends the background commands that another configuration confines.
fn end_outdated_commands(settings: &Settings) {
    settings.supplied.background.warn_with(Arc::new(warn));
    settings.supplied.background.keep_definition(configuration_digest(settings));
}

/// Digest of everything that confines a command. Any other configuration is another one: what it changes need not be understood.
fn configuration_digest(settings: &Settings) -> Sha256 {
    let Settings { loaded, mounts, workspace, deny, .. } = settings;
    Sha256::of(format!("{:?}", (&loaded.config, mounts, workspace, deny)).as_bytes())
}

/// The configuration of the gate for these tools.
fn gate_config(
    settings: &Settings,
    tokens: TokenVerification,
    declared: &LoadedTools,
    workspace: &Arc<Workspace>,
    registry: Registry,
) -> Result<GateConfig, LoadError> {
    let config = &settings.loaded.config;
    let policies = policies(settings, &registry, &policy_files(settings)?)?;
    let own = declared.rates().map(|(tool, rate)| RateRule::of_tool(tool.as_str(), rate));
    Ok(GateConfig {
        agents: config.agents.clone(),
        policies: Arc::new(policies),
        verifier: if tokens == TokenVerification::Enabled { callers::verifier(settings)? } else { None },
        rates: config.rate_limits.iter().map(RateRule::from).chain(own).collect(),
        breaker: Some(config.breaker.map(BreakerRule::from).unwrap_or_default()),
        workspace: Some(Arc::clone(workspace)),
        grants: config.approval.grants.unwrap_or(true),
        tool_search: config.tool_search.as_ref().map(tool_search_rule),
        flow: information_flow::rule(settings, &registry),
        ..GateConfig::new(registry, settings.limits)
    })
}

fn tool_search_rule(search: &ToolSearchConfig) -> ToolSearchRule {
    ToolSearchRule {
        above: usize::try_from(search.above).unwrap_or(usize::MAX),
        always: search.always.iter().map(|name| name.value.to_string()).collect(),
    }
}

/// The manifests in use: those that the configuration names, else the ones shipped with the profile.
pub fn manifest_files(settings: &Settings) -> Result<Vec<SourceFile>, Vec<ConfigProblem>> {
    let supplied = &settings.supplied.manifests;
    if !settings.loaded.config.tools.is_empty() || !supplied.is_empty() {
        let mut files =
            read_all(&settings.tools, MANIFEST_EXTENSIONS, &settings.loaded, &settings.environment)?;
        files.extend(supplied.iter().cloned());
        return Ok(files);
    }
    let shipped = settings.profile.shipped().iter().filter(|(name, text)| is_allowed(settings, name, text));
    let content = |(name, text): &(&str, &str)| SourceFile {
        name: (*name).to_owned(),
        path: name.into(),
        bytes: text.as_bytes().to_vec(),
    };
    Ok(shipped.map(content).collect())
}

/// A shipped tool whose program is not in `allowed_commands` is left out silently: the operator did not ask for it.
fn is_allowed(settings: &Settings, name: &str, text: &str) -> bool {
    let Some(allowed) = &settings.loaded.config.allowed_commands else { return true };
    let program =
        ToolManifest::parse_bytes(name, text.as_bytes()).map(|(tool, _)| tool.command.program.value);
    program.is_ok_and(|program| allowed.iter().any(|known| known.value == program))
}

/// The tools that manifests declare.
fn declared_tools(settings: &Settings) -> Result<LoadedTools, Vec<ConfigProblem>> {
    declared_tools_in(settings, &manifest_files(settings)?)
}

/// A profile with a fixed tool set has no room for the tools of a server, so declaring one is a problem.
pub fn refuse_servers_where_full(settings: &Settings) -> Result<(), Vec<ConfigProblem>> {
    if !settings.profile.is_full() {
        return Ok(());
    }
    let config = &settings.loaded.config;
    let problem = |server: &ServerConfig| {
        let (profile, name) = (settings.profile.name(), &server.name);
        let message = format!(
            "the profile `{profile}` has all the tools that it can have, and `{}` would bring more",
            name.value
        );
        let help = "use another profile, such as `profile: native`, or say `disabled: true`".to_owned();
        config.problem_at(name, message, Some(help))
    };
    let enabled = config.mcp_servers.iter().filter(|server| !server.disabled);
    let problems: Vec<ConfigProblem> = enabled.map(problem).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// The tools of a search would be more than such a profile can have.
pub fn refuse_tool_search_where_full(settings: &Settings) -> Result<(), BuildError> {
    let config = &settings.loaded.config;
    if config.tool_search.is_none() || !settings.profile.is_full() {
        return Ok(());
    }
    let message = format!(
        "the profile `{}` has all the tools that it can have, and `tool_search` would bring two more",
        settings.profile.name()
    );
    let help = "remove `tool_search`, or use another profile, such as `profile: native`";
    Err(BuildError::usage(message).help(help))
}

/// The aliases of all mounts, each with whether it is writable.
fn aliases(settings: &Settings) -> Vec<(&str, bool)> {
    let mut mounts = vec![("@project", true)];
    mounts.extend(settings.mounts.iter().map(|mount| (mount.alias.as_str(), !mount.read_only)));
    mounts.extend(settings.profile.has_runs().then_some(("@state", true)));
    mounts
}

/// The path arguments of a tool. Tools that are only inspected have no workspace, so their mounts come from the configuration.
fn path_inputs(tool: &dyn Tool, settings: &Settings) -> PathInputs {
    let inputs = tool.path_inputs();
    let is_known = !inputs.mounts.is_empty() || settings.loaded.file().is_none();
    if is_known || inputs == *PathInputs::NONE {
        return inputs;
    }
    let mounts = aliases(settings).into_iter().map(|(alias, _)| alias.to_owned()).collect();
    PathInputs { mounts, ..inputs }
}

/// The tools that these manifests declare.
pub fn declared_tools_in(
    settings: &Settings,
    files: &[SourceFile],
) -> Result<LoadedTools, Vec<ConfigProblem>> {
    if files.is_empty() {
        return Ok(LoadedTools::default());
    }
    let named: Vec<(&str, &[u8])> = files.iter().map(|file| (file.name.as_str(), &*file.bytes)).collect();
    let mounts = aliases(settings);
    let allowed = settings.loaded.config.allowed_commands.as_ref();
    let allowed: Option<Vec<&str>> =
        allowed.map(|allowed| allowed.iter().map(|program| program.value.as_str()).collect());
    let mut taken: Vec<&str> = settings.profile.tool_names();
    taken.extend(web_search::names(settings));
    if settings.loaded.config.tool_search.is_some() {
        taken.extend([FIND_TOOLS, CALL_TOOL]);
    }
    let surroundings = ManifestContext {
        mounts: &mounts,
        allowed_commands: allowed.as_deref(),
        taken: &taken,
        says_all: settings.profile.has_strict_manifests(),
        full: settings.profile.is_full().then(|| settings.profile.name()),
    };
    load_manifests(&named, &surroundings)
}

/// The registry of all tools.
pub fn registry(
    settings: &Settings,
    workspace: &Arc<Workspace>,
    declared: &LoadedTools,
    runner: Arc<CommandRunner>,
) -> Result<Registry, LoadError> {
    let parts = ToolComponents {
        workspace: Arc::clone(workspace),
        declared: declared.tools(&runner),
        commands: Some(runner),
        background: background(settings),
        web_search: web_search::tool(settings)?,
    };
    let unusable = |error: GateError| BuildError::usage(error.to_string());
    let mut registry = settings.profile.registry(&parts).map_err(unusable)?;
    for tool in &settings.supplied.tools {
        registry.register(Arc::clone(tool)).map_err(unusable)?;
    }
    if settings.loaded.config.tool_search.is_some() {
        for tool in tool_search_tools() {
            registry.register(tool).map_err(unusable)?;
        }
    }
    Ok(registry)
}

/// Where background commands are kept; `None` where the operator wants none.
fn background(settings: &Settings) -> Option<BackgroundAccess> {
    let max_running = settings.loaded.config.sandbox.background.unwrap_or(DEFAULT_BACKGROUND);
    let max_running = usize::try_from(max_running).ok().filter(|max| *max > 0)?;
    let commands = Arc::clone(&settings.supplied.background);
    Some(BackgroundAccess { commands, max_running, definition: configuration_digest(settings) })
}

/// The policies in use.
pub fn policy_files(settings: &Settings) -> Result<Vec<SourceFile>, Vec<ConfigProblem>> {
    let mut files = read_all(&settings.policies, POLICY_EXTENSIONS, &settings.loaded, &settings.environment)?;
    files.extend(settings.supplied.policies.iter().cloned());
    Ok(files)
}

/// Policies, checked against every tool. A server's tool that awaits approval, or that its server does not list now, counts as it was agreed to: a
/// server cannot invalidate a policy by what it lists or omits.
pub fn policies(
    settings: &Settings,
    registry: &Registry,
    files: &[SourceFile],
) -> Result<Policies, Vec<ConfigProblem>> {
    if files.is_empty() {
        return Ok(Policies::default());
    }
    let mut sources = Vec::new();
    let mut problems = Vec::new();
    for SourceFile { name, bytes, .. } in files {
        match std::str::from_utf8(bytes) {
            Ok(text) => sources.push(PolicySource { file: name, text }),
            Err(_) => {
                let help = Some("save the file as UTF-8".to_owned());
                problems.push(ConfigProblem::in_text((name, ""), (1, 1), "this is not UTF-8 text", help));
            }
        }
    }
    let agreed = agreed_tools(settings, files);
    let is_agreed = |name: &str| agreed.iter().any(|tool| tool.name == name);
    let present = registry.iter().map(|tool| (tool.spec(), path_inputs(&**tool, settings)));
    let present: Vec<(&ToolSpec, PathInputs)> =
        present.filter(|(spec, _)| spec.suspended.is_none() || !is_agreed(spec.name.as_str())).collect();
    let mut tools: Vec<PolicyTool<'_>> = Vec::new();
    for (spec, paths) in &present {
        let (name, class, schema) = (spec.name.as_str(), spec.class, &spec.input_schema);
        tools.push(PolicyTool { name, class, schema, paths });
    }
    let absent = agreed.iter().filter(|tool| !tools.iter().any(|known| known.name == tool.name));
    // Only the server knows which of its arguments are paths.
    let absent = absent.map(|tool| PolicyTool {
        name: &tool.name,
        class: tool.class,
        schema: &tool.schema,
        paths: PathInputs::NONE,
    });
    let absent: Vec<PolicyTool<'_>> = absent.collect();
    tools.extend(absent);
    let loaded = Policies::load(&sources, &tools);
    problems.extend(loaded.as_ref().err().into_iter().flatten().map(|found| locate_problem(found, &sources)));
    match loaded {
        Ok(policies) if problems.is_empty() => Ok(policies),
        _ => Err(problems),
    }
}

/// A problem of a policy, with its position.
fn locate_problem(found: &PolicyProblem, sources: &[PolicySource<'_>]) -> ConfigProblem {
    let PolicyProblem { file, line, column, message, help } = found;
    let text = sources.iter().find(|source| source.file == file).map_or("", |source| source.text);
    ConfigProblem::in_text((file, text), ((*line).max(1), (*column).max(1)), message, help.clone())
}
