//! The `mcp_servers` section of the configuration as settings of the bridge.

use std::ffi::OsString;
use std::time::Duration;

use toolgate_connect::{
    DEFAULT_MAX_CALLS, HttpSettings, LoginSettings, OAuthSettings, PinPolicy, ProcessSettings, SecretString,
    ServerName, ServerSettings, ToolSettings, TransportSettings,
};
use toolgate_egress::NetworkAllowlist;
use toolgate_manifest::{
    self as manifest, Config, ConfigProblem, DeclaredPath, Located, PinMode, PolicyRule, ServerConfig,
    ServerTransport, Treatment, VariableText,
};
use toolgate_policy::{OutputPolicy, OutputRule};
use toolgate_sandbox::{loader_variable, refused_place};
use toolgate_types::ToolClass;

use super::container;
use super::pin_origin::pin_origin;
use super::server_login::token_binding;
use super::server_state;
use crate::ambient::real_path;
use crate::settings::Settings;

/// The default timeout for a server to list its tools.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(20);

/// A server that cannot be started because something is missing.
#[derive(Clone, Debug)]
pub struct UnusableServer {
    /// Its name in the configuration.
    pub name: String,
    /// What is missing, with its position in the file.
    pub problem: ConfigProblem,
    declared: Box<ServerConfig>,
}

impl UnusableServer {
    /// Its own name for the tool of this name.
    pub(super) fn own_tool_name<'n>(&self, tool: &'n str) -> Option<&'n str> {
        self.declared.own_tool_name(tool)
    }

    /// The names of its declared tools and of any other: the gate's, and its own. A glob stands for a name that it matches.
    pub(super) fn tool_names(&self) -> Vec<(String, String)> {
        let declared = self.declared.tools.iter().map(|tool| tool.name.as_written().value.clone());
        let names = declared.chain(["mcp.undeclared".to_owned()]);
        let prefix = if self.declared.is_unprefixed { String::new() } else { format!("{}__", self.name) };
        names.map(|name| (format!("{prefix}{name}").replace(['*', '?'], "x"), name)).collect()
    }

    /// The class and the permissions that the configuration gives a tool; `None` if it disallows it.
    pub(super) fn declared_tool(&self, tool: &str) -> Option<(ToolClass, Vec<String>)> {
        let (server, entry) = (&*self.declared, self.declared.tool(tool));
        if entry.is_some_and(|entry| !entry.allowed) {
            return None;
        }
        let class = entry.and_then(|entry| entry.class.as_ref()).or(server.class.as_ref());
        let permissions = entry.and_then(|entry| entry.permissions.as_ref()).unwrap_or(&server.permissions);
        let permissions = permissions.iter().map(|permission| permission.value.clone()).collect();
        Some((class.map_or(ToolClass::Destructive, |class| class.value), permissions))
    }
}

/// Why there are no settings for a server.
enum ServerSettingsError {
    /// Its declaration is invalid.
    Problems(Vec<ConfigProblem>),
    /// Something is missing, such as an environment variable.
    Missing(ConfigProblem),
}

/// Looks up an environment variable.
pub(crate) type VariableLookup<'e> = &'e dyn Fn(&str) -> Option<String>;

/// The declared servers that are not disabled, and those that lack something.
pub fn declared_servers(
    settings: &Settings,
    variable: VariableLookup<'_>,
) -> Result<(Vec<ServerSettings>, Vec<UnusableServer>), Vec<ConfigProblem>> {
    let (mut servers, mut unusable, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for server in &settings.loaded.config.mcp_servers {
        match server_settings(settings, server, variable) {
            Ok(_) if server.disabled => {}
            Ok(settings) => servers.push(settings),
            Err(ServerSettingsError::Problems(found)) => problems.extend(found),
            Err(ServerSettingsError::Missing(_)) if server.disabled => {}
            Err(ServerSettingsError::Missing(problem)) => {
                let (name, declared) = (server.name.value.clone(), Box::new(server.clone()));
                unusable.push(UnusableServer { name, problem, declared });
            }
        }
    }
    if problems.is_empty() { Ok((servers, unusable)) } else { Err(problems) }
}

fn server_settings(
    settings: &Settings,
    server: &ServerConfig,
    variable: VariableLookup<'_>,
) -> Result<ServerSettings, ServerSettingsError> {
    let config = &settings.loaded.config;
    let name: ServerName = server.name.value.parse().map_err(|error: toolgate_connect::ConnectError| {
        ServerSettingsError::Problems(vec![config.problem_at(&server.name, error.to_string(), None)])
    })?;
    let mut problems = Vec::new();
    let tools = tools(config, server, &mut problems);
    if let ServerTransport::Process(process) = &server.transport {
        problems.extend(process_problems(settings, process));
    }
    if !problems.is_empty() {
        return Err(ServerSettingsError::Problems(problems));
    }
    let transport = match &server.transport {
        ServerTransport::Process(process) => {
            TransportSettings::Stdio(self::process(settings, &server.name.value, process, variable)?)
        }
        ServerTransport::Remote(remote) => {
            TransportSettings::Http(self::remote(settings, &server.name.value, remote, variable)?)
        }
    };
    Ok(ServerSettings {
        name,
        transport,
        timeout: server.timeout.unwrap_or(settings.limits.timeout),
        startup_timeout: server.startup_timeout.unwrap_or(STARTUP_TIMEOUT),
        max_calls: DEFAULT_MAX_CALLS,
        default_class: server.class.as_ref().map_or(ToolClass::Destructive, |class| class.value),
        pin: match server.pin {
            PinMode::FirstUse => PinPolicy::FirstUse,
            PinMode::Approved => PinPolicy::Approved,
        },
        pin_origin: pin_origin(settings, server),
        is_unprefixed: server.is_unprefixed,
        elicitation: server.elicitation,
        tools,
    })
}

/// Problems that the file alone does not show: unknown mounts, hosts that the proxy cannot allow, paths that the sandbox does not show.
fn process_problems(settings: &Settings, process: &manifest::ServerProcessConfig) -> Vec<ConfigProblem> {
    let config = &settings.loaded.config;
    let mut mounts = vec![("@project", true)];
    mounts.extend(settings.mounts.iter().map(|mount| (mount.alias.as_str(), !mount.read_only)));
    mounts.extend(settings.profile.has_runs().then_some(("@state", true)));
    let unknown = process.mounts.iter().filter_map(|mount| {
        let alias = mount.alias.value.as_str();
        let (message, help) = match mounts.iter().find(|(known, _)| *known == alias) {
            None => {
                let known: Vec<&str> = mounts.iter().map(|(known, _)| *known).collect();
                (format!("`{alias}` is not mounted"), format!("mounted are {}", known.join(", ")))
            }
            Some((_, false)) if mount.writable => (
                format!("`{alias}` is mounted read-only"),
                format!("mount it with `access: rw`, or write `\"{alias}\"`"),
            ),
            Some(_) => return None,
        };
        Some(config.problem_at(&mount.alias, message, Some(help)))
    });
    let is_image = container::is_image(process);
    let hosts = process.network.iter().filter(|_| !is_image).filter_map(|host| {
        let error = NetworkAllowlist::parse(&[host.value.as_str()]).err()?;
        Some(config.problem_at(host, error.to_string(), Some(error.help())))
    });
    let variables = process.environment.iter().filter_map(|(name, _)| {
        let reason = loader_variable(&name.value)?;
        let help = Some("remove it: the sandbox sets what a server needs".to_owned());
        Some(config.problem_at(name, format!("`{}` {reason}", name.value), help))
    });
    let places = process.read.iter().filter_map(|path| {
        let reason = refused_place(&settings.resolve(&path.value).ok()?)?;
        let message = format!("a server cannot be shown `{}`: it {reason}", path.value.as_str());
        Some(config.problem_at(
            path,
            message,
            Some("name the folders below it that the server needs".to_owned()),
        ))
    });
    let shared = process.read.iter().filter_map(|path| mount_overlap_problem(settings, path));
    let named = |alias: &Located<String>| process.mounts.iter().any(|mount| mount.alias.value == alias.value);
    let places_of_none = process.mount_paths.iter().filter(|(alias, _)| !named(alias)).map(|(alias, _)| {
        let help = format!("add `\"{}\"` to `mounts`", alias.value);
        config.problem_at(alias, format!("`mounts` does not name `{}`", alias.value), Some(help))
    });
    unknown.chain(hosts).chain(variables).chain(places).chain(shared).chain(places_of_none).collect()
}

/// A `read` directory that overlaps a mount is refused: the deny rules of the mount would not apply to it.
fn mount_overlap_problem(settings: &Settings, path: &Located<DeclaredPath>) -> Option<ConfigProblem> {
    let place = real_path(&settings.resolve(&path.value).ok()?);
    let project = ("@project", settings.workspace.clone());
    let others = settings.mounts.iter().map(|mount| (mount.alias.as_str(), mount.path.clone()));
    let (alias, _) = std::iter::once(project).chain(others).find(|(_, root)| {
        let root = real_path(root);
        root.starts_with(&place) || place.starts_with(&root)
    })?;
    let message = format!("`{}` has something of the mount `{alias}` in it", path.value.as_str());
    let help = format!("give the server `{alias}` under `mounts`, and name other folders under `read`");
    Some(settings.loaded.config.problem_at(path, message, Some(help)))
}

fn process(
    settings: &Settings,
    server: &str,
    process: &manifest::ServerProcessConfig,
    variable: VariableLookup<'_>,
) -> Result<ProcessSettings, ServerSettingsError> {
    let config = &settings.loaded.config;
    let arguments = process.arguments.iter().map(|text| expand(config, text, variable).map(OsString::from));
    let environment = process
        .environment
        .iter()
        .map(|(name, text)| Ok((name.value.clone(), SecretString::new(expand(config, text, variable)?))));
    let read = process.read.iter().map(|path| {
        settings.resolve(&path.value).map_err(|failed| {
            ServerSettingsError::Missing(config.problem_at(path, failed.message, failed.help))
        })
    });
    let directory = process.directory.as_ref().map(|directory| match directory.value.path.as_str() {
        "" => directory.value.alias.clone(),
        path => format!("{}/{path}", directory.value.alias),
    });
    Ok(ProcessSettings {
        program: OsString::from(&process.program.value),
        arguments: arguments.collect::<Result<_, _>>()?,
        environment: environment.collect::<Result<_, _>>()?,
        directory,
        mounts: process.mounts.iter().map(|mount| (mount.alias.value.clone(), mount.writable)).collect(),
        network: process.network.iter().map(|host| host.value.clone()).collect(),
        read: read.collect::<Result<_, _>>()?,
        limits: process.limits,
        package: server_state::package(settings, server, process),
        home: server_state::home(settings, server, process),
        host_paths: process.host_paths,
        mount_paths: process
            .mount_paths
            .iter()
            .map(|(alias, path)| (alias.value.clone(), path.value.clone()))
            .collect(),
        entrypoint: process.entrypoint.as_ref().map(|program| program.value.clone()),
        log: Some(server_state::log(settings, server, process)),
    })
}

fn remote(
    settings: &Settings,
    server: &str,
    remote: &manifest::ServerRemote,
    variable: VariableLookup<'_>,
) -> Result<HttpSettings, ServerSettingsError> {
    let config = &settings.loaded.config;
    let headers = remote
        .headers
        .iter()
        .map(|(name, text)| Ok((name.value.clone(), SecretString::new(expand(config, text, variable)?))));
    let oauth = remote.oauth.as_ref().map(|oauth| -> Result<OAuthSettings, ServerSettingsError> {
        Ok(OAuthSettings {
            token_url: oauth.token_url.value.clone(),
            client_id: expand(config, &oauth.client_id, variable)?,
            client_secret: SecretString::new(expand(config, &oauth.client_secret, variable)?),
            scopes: oauth.scopes.clone(),
            resource: oauth.resource.as_ref().map(|resource| resource.value.clone()),
        })
    });
    let url = expand(config, &remote.url, variable)?;
    let login = remote.login.as_ref().map(|login| LoginSettings {
        binding: token_binding(settings, server, &url),
        per_caller: login.per_caller,
    });
    Ok(HttpSettings {
        headers: headers.collect::<Result<_, ServerSettingsError>>()?,
        oauth: oauth.transpose()?,
        login,
        url,
    })
}

/// Expands the environment variables in a text.
fn expand(
    config: &Config,
    text: &Located<VariableText>,
    variable: VariableLookup<'_>,
) -> Result<String, ServerSettingsError> {
    text.value.expand(variable).map_err(|missing| {
        let name = &missing.0;
        let help = format!("set it for the gate, or write `${{{name}:-text}}` where it may be unset");
        ServerSettingsError::Missing(config.problem_beside_secrets(text, missing.to_string(), Some(help)))
    })
}

/// The settings of each tool, with the server's values where an entry has none; last the default for tools without an entry.
fn tools(
    config: &Config,
    server: &ServerConfig,
    problems: &mut Vec<ConfigProblem>,
) -> Vec<(String, ToolSettings)> {
    let texts = |permissions: &[Located<String>]| permissions.iter().map(|one| one.value.clone()).collect();
    let mut policy =
        |rules: Option<&Vec<PolicyRule>>| rules.and_then(|rules| output_policy(config, rules, problems));
    let usual = policy(server.policy.as_ref());
    let class = server.class.as_ref().map(|class| class.value);
    let mut tools: Vec<(String, ToolSettings)> = Vec::new();
    for entry in &server.tools {
        let own = policy(entry.policy.as_ref());
        let settings = ToolSettings {
            allowed: Some(entry.allowed),
            class: entry.class.as_ref().map(|class| class.value).or(class),
            permissions: texts(entry.permissions.as_ref().unwrap_or(&server.permissions)),
            policy: own.or_else(|| usual.clone()),
            flow: entry.flow.or(&server.flow),
            timeout: entry.timeout.or(server.timeout),
        };
        tools.push((entry.name.as_written().value.clone(), settings));
    }
    let rest = ToolSettings {
        allowed: None,
        class,
        permissions: texts(&server.permissions),
        policy: usual,
        flow: server.flow.clone(),
        timeout: server.timeout,
    };
    tools.push(("*".to_owned(), rest));
    tools
}

fn output_policy(
    config: &Config,
    rules: &[PolicyRule],
    problems: &mut Vec<ConfigProblem>,
) -> Option<OutputPolicy> {
    let rule = |treatment| match treatment {
        Treatment::Allow => OutputRule::Allow,
        Treatment::Mask => OutputRule::Mask,
        Treatment::Redact => OutputRule::Redact,
    };
    let pairs: Vec<(&str, OutputRule)> =
        rules.iter().map(|entry| (entry.path.value.as_str(), rule(entry.treatment))).collect();
    let error = match OutputPolicy::compile(&pairs) {
        Ok(policy) => return Some(policy),
        Err(error) => error,
    };
    let alone = |path: &str| OutputPolicy::compile(&[(path, OutputRule::Allow)]).is_err();
    let culprit = rules.iter().find(|entry| alone(&entry.path.value)).or(rules.first());
    problems.extend(culprit.map(|entry| config.problem_at(&entry.path, error.to_string(), None)));
    None
}
