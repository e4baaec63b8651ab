//! What a configuration would do, the dangerous effects first. Every item is text of the file: the caller sanitises it before showing it.

use std::path::{Path, PathBuf};

use toolgate_gate::JournalBounds;
use toolgate_manifest::{
    Access, AuditDetail, CommandMount, Config, ConfigProblem, DeclaredPath, KeySourceConfig, Located,
    ModelKey, OnAuditFailure, PackageRegistry, PinMode, SandboxLayer, ServeAuth, ServerConfig,
    ServerProcessConfig, ServerRemote, ServerTransport, ToolManifest, VariableText,
};
use toolgate_tools::default_key_variable;
use toolgate_types::{OnViolation, ToolClass, Trust};
use toolgate_workspace::USUAL_RESERVE_BYTES;

use super::covered_config::CoveredConfig;
use crate::ambient::HostEnvironment;
use crate::settings::resolve;

/// Effects of one kind.
#[derive(Debug)]
pub struct EffectGroup {
    /// Its key in JSON output.
    pub key: &'static str,
    /// What the items have in common.
    pub title: &'static str,
    /// The noun in singular and plural.
    pub count: [&'static str; 2],
    /// One line for each effect.
    pub items: Vec<String>,
}

/// Programs that execute arbitrary text.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "env", "xargs", "eval"];

/// The effects of the configuration, or the mistakes in its manifests.
pub fn effects(
    covered: &CoveredConfig,
    surroundings: &HostEnvironment,
) -> Result<Vec<EffectGroup>, Vec<ConfigProblem>> {
    let tools = manifests(covered, surroundings)?;
    let config = &covered.config;
    let group = |key, title, count, items| EffectGroup { key, title, count, items };
    let places = PathEffects { directory: &covered.directory, environment: surroundings };
    let groups = vec![
        group("programs", "start programs", ["program", "programs"], programs(config)),
        group("tools", "offer tools that run programs", ["tool", "tools"], tools_that_run(&tools)),
        group("hosts", "connect to", ["address", "addresses"], hosts(config, &tools)),
        group(
            "variables",
            "hand on variables of your environment",
            ["variable", "variables"],
            variables(config),
        ),
        group("places", "use these files and directories", ["place", "places"], places.all(config)),
        group("less", "ask or protect less", ["relaxation", "relaxations"], weakened_protections(config)),
        group("words", "tell models", ["text", "texts"], prompt_texts(config)),
    ];
    Ok(groups.into_iter().filter(|group| !group.items.is_empty()).collect())
}

fn manifests(
    covered: &CoveredConfig,
    surroundings: &HostEnvironment,
) -> Result<Vec<ToolManifest>, Vec<ConfigProblem>> {
    let (mut tools, mut problems) = (Vec::new(), Vec::new());
    for (path, bytes) in covered.manifests(surroundings) {
        match ToolManifest::parse_all_bytes(&surroundings.display_path(path), bytes) {
            Ok((found, _)) => tools.extend(found),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() { Ok(tools) } else { Err(problems) }
}

fn programs(config: &Config) -> Vec<String> {
    let process = |server: &ServerConfig| match &server.transport {
        ServerTransport::Process(process) => Some(program(server, process)),
        ServerTransport::Remote(_) => None,
    };
    config.mcp_servers.iter().filter_map(process).collect()
}

fn program(server: &ServerConfig, process: &ServerProcessConfig) -> String {
    let arguments = process.arguments.iter().map(|text| text.value.as_written());
    let words: Vec<String> = std::iter::once(program_or_package(process)).chain(arguments).collect();
    let disabled = if server.disabled { " (disabled)" } else { "" };
    let bounds = bounds(&process.mounts, &process.network);
    format!("server {}{disabled}: {}{bounds}", server.name.value, words.join(" "))
}

/// Whose code runs: a package is more than the name of its program.
fn program_or_package(process: &ServerProcessConfig) -> String {
    let Some(package) = process.package.as_ref().map(|package| &package.value) else {
        return process.program.value.clone();
    };
    let beside: Vec<String> = process.with.iter().map(|other| format!("with {}", other.value)).collect();
    let program = process.entrypoint.as_ref().unwrap_or(&process.program);
    let named = (program.value != package.program()).then(|| format!("program {}", program.value));
    let scripts = process.install_scripts.then(|| "its install scripts run".to_owned());
    let image = (package.registry() == PackageRegistry::Image)
        .then(|| "in a container of the engine of this machine".to_owned());
    let more: Vec<String> = beside.into_iter().chain(named).chain(scripts).chain(image).collect();
    if more.is_empty() { package.to_string() } else { format!("{package} ({})", more.join(", ")) }
}

/// The mounts and hosts that a program can access.
fn bounds(mounts: &[CommandMount], network: &[Located<String>]) -> String {
    let list = |before: &str, names: Vec<&str>| match names.is_empty() {
        true => String::new(),
        false => format!("; {before} {}", names.join(", ")),
    };
    let (writable, readable): (Vec<_>, Vec<_>) = mounts.iter().partition(|mount| mount.writable);
    list("may change", aliases(&writable))
        + &list("reads", aliases(&readable))
        + &list("reaches", network.iter().map(|host| host.value.as_str()).collect())
}

fn aliases<'m>(mounts: &[&'m CommandMount]) -> Vec<&'m str> {
    mounts.iter().map(|mount| mount.alias.value.as_str()).collect()
}

fn tools_that_run(tools: &[ToolManifest]) -> Vec<String> {
    let one = |tool: &ToolManifest| {
        let command = &tool.command;
        let program = Path::new(command.template.program());
        let name = program.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let shell = if SHELLS.contains(&&*name) { ", a shell" } else { "" };
        let asked = if tool.class.value == ToolClass::Read { ", not asked about" } else { "" };
        let (class, words) = (tool.class.value.as_str(), command.template.words().join(" "));
        let bounds = bounds(&command.mounts, &command.network);
        format!("{} ({class}{asked}{shell}): {words}{bounds}", tool.name.value)
    };
    tools.iter().map(one).collect()
}

fn remotes(config: &Config) -> impl Iterator<Item = (&ServerConfig, &ServerRemote)> {
    config.mcp_servers.iter().filter_map(|server| match &server.transport {
        ServerTransport::Remote(remote) => Some((server, &**remote)),
        ServerTransport::Process(_) => None,
    })
}

fn processes(config: &Config) -> impl Iterator<Item = (&ServerConfig, &ServerProcessConfig)> {
    config.mcp_servers.iter().filter_map(|server| match &server.transport {
        ServerTransport::Process(process) => Some((server, &**process)),
        ServerTransport::Remote(_) => None,
    })
}

fn hosts(config: &Config, tools: &[ToolManifest]) -> Vec<String> {
    let mut hosts = Vec::new();
    for (server, remote) in remotes(config) {
        hosts.push(format!("{} (server {})", remote.url.value.as_written(), server.name.value));
        let oauth = remote.oauth.as_ref().map(|oauth| &oauth.token_url.value);
        hosts.extend(oauth.map(|url| format!("{url} (tokens for server {})", server.name.value)));
    }
    for model in &config.models {
        let url = model.base_url.as_ref().map(|url| url.value.as_str());
        let url = url.unwrap_or("the usual address of its wire");
        hosts.push(format!("{url} (models of {})", model.name.value));
    }
    let agents = config.agents.iter().map(|agent| &agent.conversation);
    let chosen = agents.chain([&config.conversation]).filter_map(|one| one.model.as_ref());
    hosts.extend(chosen.map(|model| format!("{} (the model that is spoken with)", model.value)));
    if let Some(search) = &config.web_search {
        let url = search.url.as_ref().map_or(search.backend.value.as_str(), |url| url.value.as_str());
        hosts.push(format!("{url} (web search)"));
    }
    let collector = config.telemetry.endpoint.as_ref();
    hosts.extend(collector.map(|url| format!("{} (spans of calls: tools, callers, outcomes)", url.value)));
    for key in config.callers.iter().flat_map(|callers| &callers.keys) {
        if let KeySourceConfig::KeySetUrl(url) = &key.source {
            hosts.push(format!("{} (keys of callers)", url.value));
        }
    }
    let listed = |who: &str, network: &[Located<String>]| {
        network.iter().map(|host| format!("{} ({who})", host.value)).collect::<Vec<_>>()
    };
    hosts.extend(listed("commands of models", &config.sandbox.network));
    for (server, process) in processes(config) {
        hosts.extend(listed(&format!("server {}", server.name.value), &process.network));
    }
    for tool in tools {
        hosts.extend(listed(&format!("tool {}", tool.name.value), &tool.command.network));
    }
    hosts
}

fn variables(config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |text: &VariableText, to: &str| {
        found.extend(text.names().map(|name| format!("{name} to {to}")));
    };
    for (server, remote) in remotes(config) {
        let to = format!("{} (server {})", remote.url.value.as_written(), server.name.value);
        add(&remote.url.value, &to);
        remote.headers.iter().for_each(|(_, text)| add(&text.value, &to));
        if let Some(oauth) = &remote.oauth {
            let to = format!("{} (tokens for server {})", oauth.token_url.value, server.name.value);
            [&oauth.client_id, &oauth.client_secret].into_iter().for_each(|text| add(&text.value, &to));
        }
        if let Some(login) = &remote.login {
            let to = format!("the authorization server of {}", server.name.value);
            [&login.client_id, &login.client_secret]
                .into_iter()
                .flatten()
                .for_each(|text| add(&text.value, &to));
        }
    }
    for (server, process) in processes(config) {
        let to = format!("the program of server {}", server.name.value);
        process.arguments.iter().for_each(|text| add(&text.value, &to));
        process.environment.iter().for_each(|(_, text)| add(&text.value, &to));
    }
    for model in &config.models {
        let url = model.base_url.as_ref().map(|url| url.value.as_str());
        let to = format!("{} (models of {})", url.unwrap_or("its usual address"), model.name.value);
        model.headers.iter().for_each(|(_, text)| add(&text.value, &to));
    }
    for model in &config.models {
        if let Some(ModelKey::Variable(name)) = &model.key {
            let url = model.base_url.as_ref().map_or("its usual address", |url| url.value.as_str());
            found.push(format!("{} to {url} (the key for models of {})", name.value, model.name.value));
        }
    }
    if let Some(search) = &config.web_search {
        let named = search.key_env.as_ref().map(|name| name.value.as_str());
        let to = search.url.as_ref().map_or(search.backend.value.as_str(), |url| url.value.as_str());
        let key = named.or(default_key_variable(search.backend.value));
        found.extend(key.map(|name| format!("{name} to {to} (web search)")));
    }
    let passed = &config.sandbox.environment;
    found.extend(passed.iter().map(|name| format!("{} to commands of models", name.value)));
    found.dedup();
    found
}

/// The effects of files and directories that a configuration names.
struct PathEffects<'p> {
    directory: &'p Path,
    environment: &'p HostEnvironment,
}

impl PathEffects<'_> {
    fn all(&self, config: &Config) -> Vec<String> {
        let mut places = Vec::new();
        for mount in &config.mounts {
            let access = match mount.access {
                Access::ReadWrite => "read and written",
                Access::ReadOnly => "read",
            };
            places.push(self.always(&mount.path, &format!("{access} by tools as {}", mount.alias.value)));
        }
        let optional =
            |at: &Option<Located<DeclaredPath>>, what: &str| at.as_ref().map(|at| self.always(at, what));
        places.extend(optional(&config.state_dir, "state of the gate: undo journal, keys, pins"));
        places.extend(optional(&config.audit.directory, "the audit record"));
        places.extend(optional(&config.audit.checkpoints, "checkpoints of the audit record"));
        places.extend(optional(&config.audit.key, "the key that signs the audit record"));
        let elsewhere = |at: &Located<DeclaredPath>, what: &str| self.elsewhere(at, what);
        places.extend(config.workspace.iter().filter_map(|at| elsewhere(at, "the workspace")));
        for (server, process) in processes(config) {
            let what = format!("read by the program of server {}", server.name.value);
            places.extend(process.read.iter().map(|at| self.always(at, &what)));
        }
        places.extend(config.sandbox.read.iter().map(|at| self.always(at, "read by commands of models")));
        let path = config.sandbox.path.iter().flatten();
        places.extend(path.map(|at| self.always(at, "where programs are looked for")));
        let agents = config.agents.iter().map(|agent| &agent.conversation);
        let told = agents.chain([&config.conversation]).filter_map(|one| one.system_file.as_ref());
        places.extend(told.filter_map(|at| elsewhere(at, "sent to the model as its first words")));
        for model in &config.models {
            if let Some(ModelKey::File(at)) = &model.key {
                places
                    .push(self.always(at, &format!("the key that models of {} are sent", model.name.value)));
            }
        }
        for key in config.callers.iter().flat_map(|callers| &callers.keys) {
            if let KeySourceConfig::PublicKey(at)
            | KeySourceConfig::Secret(at)
            | KeySourceConfig::KeySetFile(at) = &key.source
            {
                places.push(self.always(at, "a key that callers' tokens are checked with"));
            }
        }
        places.extend(config.tools.iter().filter_map(|at| elsewhere(at, "manifests of tools")));
        places.extend(config.policies.iter().filter_map(|at| elsewhere(at, "policies")));
        places
    }

    fn resolved(&self, at: &Located<DeclaredPath>) -> PathBuf {
        resolve(&at.value, self.directory, self.environment)
            .unwrap_or_else(|_| PathBuf::from(at.value.as_str()))
    }

    fn always(&self, at: &Located<DeclaredPath>, what: &str) -> String {
        format!("{} ({what})", self.resolved(at).display())
    }

    /// Only paths outside of the configuration's directory are listed: those inside came with it.
    fn elsewhere(&self, at: &Located<DeclaredPath>, what: &str) -> Option<String> {
        (!self.resolved(at).starts_with(self.directory)).then(|| self.always(at, what))
    }
}

/// Settings that ask the user less often, or protect less, than the defaults.
fn weakened_protections(config: &Config) -> Vec<String> {
    let mut less = Vec::new();
    let is_autonomous =
        |trust: &Option<Located<Trust>>| trust.as_ref().is_some_and(|trust| trust.value == Trust::Autonomous);
    if is_autonomous(&config.trust) {
        less.push("trust: autonomous; no call is asked about".to_owned());
    }
    for agent in &config.agents {
        if is_autonomous(&agent.trust) {
            less.push(format!("agent {}: trust: autonomous; no call of it is asked about", agent.name.value));
        }
    }
    for server in &config.mcp_servers {
        let name = &server.name.value;
        let only_reads = |class: &Option<Located<ToolClass>>| {
            class.as_ref().is_some_and(|class| class.value == ToolClass::Read)
        };
        if only_reads(&server.class) {
            less.push(format!("tools of server {name} count as reading, and are not asked about"));
        }
        for tool in server.tools.iter().filter(|tool| only_reads(&tool.class)) {
            let tool = &tool.name.as_written().value;
            less.push(format!("tool {tool} of server {name} counts as reading, and is not asked about"));
        }
        if server.elicitation && !server.disabled {
            less.push(format!("server {name} may ask you questions in its own words"));
        }
        if server.is_unprefixed && !server.disabled {
            less.push(format!("tools of server {name} have no prefix that shows whose they are"));
        }
        if server.pin == PinMode::FirstUse && !server.disabled {
            less.push(format!("tools that server {name} offers at the first contact are agreed to"));
        }
    }
    if let Some(require) = &config.sandbox.require {
        let has = |layer: &SandboxLayer| require.iter().any(|named| named.value == *layer);
        let missing = SandboxLayer::ALL.iter().filter(|layer| **layer != SandboxLayer::Cgroup && !has(layer));
        let missing: Vec<&str> = missing.map(|layer| layer.as_str()).collect();
        if !missing.is_empty() {
            less.push(format!(
                "commands may run without these layers of the sandbox: {}",
                missing.join(", ")
            ));
        }
    }
    let standard = JournalBounds::default();
    let undo = JournalBounds::from(config.retention.undo);
    if undo.max_bytes < standard.max_bytes
        || undo.max_entries < standard.max_entries
        || undo.max_age < standard.max_age
    {
        less.push("retention.undo: less is kept for undo than usual".to_owned());
    }
    if config.audit.on_failure.as_ref().is_some_and(|mode| mode.value == OnAuditFailure::Warn) {
        less.push("audit.on_failure: warn; calls go on when they cannot be recorded".to_owned());
    }
    if config.audit.details.as_ref().is_some_and(|detail| detail.value == AuditDetail::Off) {
        less.push("audit.details: off; the record does not say which files calls touched".to_owned());
    }
    if let Some(reserve) = config.audit.reserve.filter(|reserve| *reserve < USUAL_RESERVE_BYTES) {
        less.push(format!(
            "audit.reserve: {reserve} bytes; a command may come closer to filling the disk that the record lies on"
        ));
    }
    if config.on_violation.as_ref().is_some_and(|what| what.value == OnViolation::Answer) {
        less.push(
            "on_violation: answer; a call that leaves its bounds does not end the conversation".to_owned(),
        );
    }
    let serve = &config.serve;
    if serve.auth.as_ref().is_some_and(|auth| auth.value == ServeAuth::None) {
        less.push("serve.auth: none; any program of this machine may call".to_owned());
    }
    if let Some(listen) = serve.listen.as_ref().filter(|listen| !listen.value.ip().is_loopback()) {
        less.push(format!("serve.listen: {}; other machines can connect", listen.value));
    }
    let names = serve.allowed_hosts.iter().chain(&serve.allowed_origins);
    less.extend(names.map(|name| format!("serve answers to {}", name.value)));
    if let Some(callers) = &config.callers {
        less.push(format!("tokens of {} are believed", callers.issuer.value));
    }
    less
}

/// System prompts: text that models take for the operator's.
fn prompt_texts(config: &Config) -> Vec<String> {
    let agents = config.agents.iter().map(|agent| &agent.conversation);
    let told = agents.chain([&config.conversation]).filter_map(|one| one.system.clone());
    told.collect()
}
