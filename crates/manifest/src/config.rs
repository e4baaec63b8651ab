//! The configuration file, as types.
//!
//! Every key is optional; absent values come from the profile or the command line. Values keep their position in the file if a later check,
//! with access to the disk or the registry, may have to report them.

use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use toolgate_types::{AgentName, FlowLabels, Limits, OnFull, OnViolation, ToolName, Trust};

use crate::callers::CallersConfig;
use crate::conversation::ConversationConfig;
use crate::decode::{Word, any_of, nearest_or_all};
use crate::flow::FlowConfig;
use crate::globs::Globs;
use crate::keyword_enum::words;
use crate::models::ModelServerConfig;
use crate::path::DeclaredPath;
use crate::problem::{ConfigProblem, ConfigProblems, ConfigWarning, Located, SourceText, not_text, shown};
use crate::rates::{BreakerConfig, RateLimitConfig};
use crate::retention::RetentionConfig;
use crate::sandbox::SandboxConfig;
use crate::serve::ServeConfig;
use crate::servers::ServerConfig;
use crate::telemetry::TelemetryConfig;
use crate::tool_search::ToolSearchConfig;
use crate::web_search::WebSearchConfig;

/// An example configuration file with comments that uses every key.
pub const EXAMPLE: &str = include_str!("../examples/toolgate.yaml");

/// The contents of `toolgate.yaml`.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// `profile`: which tools there are and the format of their results.
    pub profile: Option<Located<ProfileName>>,
    /// `workspace`: the directory that is mounted read-write as `@project`.
    pub workspace: Option<Located<DeclaredPath>>,
    /// `state_dir`: where runs, journals and quarantine are stored.
    pub state_dir: Option<Located<DeclaredPath>>,
    /// `mounts`: further directories by alias, in file order.
    pub mounts: Vec<MountConfig>,
    /// `deny`: globs that extend the built-in deny list for every mount.
    pub deny: Globs,
    /// `trust`: the trust level if neither the agent nor the command line sets one.
    pub trust: Option<Located<Trust>>,
    /// `on_violation`: whether a call that violates its limits only fails or ends the conversation.
    pub on_violation: Option<Located<OnViolation>>,
    /// `limits`: limits of every call, in place of the profile's.
    pub limits: LimitOverrides,
    /// `audit`: the audit log.
    pub audit: AuditConfig,
    /// `approval`: approvals by people.
    pub approval: ApprovalConfig,
    /// `tools`: files and directories of tool manifests.
    pub tools: Vec<Located<DeclaredPath>>,
    /// `policies`: files and directories of Cedar policies.
    pub policies: Vec<Located<DeclaredPath>>,
    /// `allowed_commands`: the only programs that manifests may run; absent means any.
    pub allowed_commands: Option<Vec<Located<String>>>,
    /// `sandbox`: how commands are confined.
    pub sandbox: SandboxConfig,
    /// `callers`: whose tokens are accepted.
    pub callers: Option<CallersConfig>,
    /// `rate_limits`: every entry that matches a call applies.
    pub rate_limits: Vec<RateLimitConfig>,
    /// `breaker`: the circuit breaker for failing tools.
    pub breaker: Option<BreakerConfig>,
    /// `retention`: limits of the state directory.
    pub retention: RetentionConfig,
    /// `mcp_servers`: servers whose tools the gate offers, in file order.
    pub mcp_servers: Vec<ServerConfig>,
    /// `serve`: the HTTP server.
    pub serve: ServeConfig,
    /// `model`: the default model, as `PROVIDER/NAME`; and `conversation`: the settings of conversations.
    pub conversation: ConversationConfig,
    /// `models`: model servers in addition to the built-in ones.
    pub models: Vec<ModelServerConfig>,
    /// `information_flow`: whether labels and targets are tracked.
    pub information_flow: FlowConfig,
    /// `tool_search`: when most tools are found instead of offered.
    pub tool_search: Option<ToolSearchConfig>,
    /// `web_search`: the search engine for web searches.
    pub web_search: Option<WebSearchConfig>,
    /// `telemetry`: where spans of calls are exported to.
    pub telemetry: TelemetryConfig,
    /// `agents` and `workflows`: who may do what, in file order.
    pub agents: Vec<AgentConfig>,
    pub(crate) source: SourceText,
}

/// `mounts`, one entry: a directory that paths refer to by its alias.
#[derive(Clone, Debug)]
pub struct MountConfig {
    /// The alias, such as `@docs`.
    pub alias: Located<String>,
    /// `path`: the directory; the only required key of a mount.
    pub path: Located<DeclaredPath>,
    /// `access`: `ro` by default, or `rw`.
    pub access: Access,
    /// `scope`: only matching paths are visible; absent means everything.
    pub scope: Option<Globs>,
    /// `deny`: matching paths are denied, whatever the scope says.
    pub deny: Globs,
    /// `trust` and `secret`: the labels of what is read in it.
    pub labels: FlowLabels,
}

/// `audit`: the audit log.
#[derive(Clone, Debug, Default)]
pub struct AuditConfig {
    /// `directory`: where the daily files are stored.
    pub directory: Option<Located<DeclaredPath>>,
    /// `on_failure`: whether a call that cannot be recorded may run.
    pub on_failure: Option<Located<OnAuditFailure>>,
    /// `details`: what a record says of what its call touched.
    pub details: Option<Located<AuditDetail>>,
    /// `details_storage`: whether that is in the record in clear.
    pub details_storage: Option<Located<DetailStorage>>,
    /// `checkpoints`: the file of signed checkpoints; best on another disk.
    pub checkpoints: Option<Located<DeclaredPath>>,
    /// `key`: the file with the signing key.
    pub key: Option<Located<DeclaredPath>>,
    /// `checkpoint_every`: records between two checkpoints.
    pub checkpoint_every: Option<NonZeroU64>,
    /// `reserve`: bytes that commands must leave free on the filesystem of the audit directory.
    pub reserve: Option<u64>,
}

/// `approval`: approvals by people.
#[derive(Clone, Debug, Default)]
pub struct ApprovalConfig {
    /// `timeout`: after this time a question counts as denied.
    pub timeout: Option<Duration>,
    /// `grants`: whether questions may be answered for later calls as well.
    pub grants: Option<bool>,
}

/// `agents`, one entry: what one agent may do.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The agent's name.
    pub name: Located<AgentName>,
    /// `description`: for people.
    pub description: Option<String>,
    /// `trust`: the trust level of this agent's calls.
    pub trust: Option<Located<Trust>>,
    /// `max_read_bytes`, `max_write_bytes` and `timeout` (or `tools.fs.maxReadBytes` and `tools.fs.maxWriteBytes`): limits of this agent's
    /// calls.
    pub limits: LimitOverrides,
    /// `permissions`: granted when the local user acts as this agent without a token.
    pub permissions: Vec<Located<String>>,
    /// `tool_permissions`: exactly the tools that this agent may use. Absent means the read-only ones.
    pub tool_permissions: Option<Vec<ToolPermission>>,
    /// `model`, `system` and the other keys of `conversation`: the settings of this agent's conversations.
    pub conversation: ConversationConfig,
}

/// `tool_permissions`, one entry: whether and how an agent may use one tool.
#[derive(Clone, Debug)]
pub struct ToolPermission {
    /// The tool's name in the profile.
    pub tool: Located<ToolName>,
    /// `allowed`: required; nothing defaults to allowed.
    pub allowed: bool,
    /// `paths`: globs that a call's paths must match, in every mount; absent means all paths.
    pub paths: Option<Globs>,
    /// `max_read_bytes`, `max_write_bytes` and `timeout`: limits of this agent's calls of this tool.
    pub limits: LimitOverrides,
}

/// Limits that override others where present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitOverrides {
    /// `max_read_bytes`: bytes of file content in one result.
    pub max_read_bytes: Option<u64>,
    /// `max_write_bytes`: bytes of a file after one write, append, edit or patch.
    pub max_write_bytes: Option<u64>,
    /// `max_entries`: entries in one listing.
    pub max_entries: Option<usize>,
    /// `max_matches`: default number of matches in one search.
    pub max_matches: Option<usize>,
    /// `max_output_bytes`: bytes of any result.
    pub max_output_bytes: Option<u64>,
    /// `timeout`: timeout of one call.
    pub timeout: Option<Duration>,
}

impl LimitOverrides {
    /// `base` with these overrides.
    #[must_use]
    pub fn over(self, base: Limits) -> Limits {
        Limits {
            max_read_bytes: self.max_read_bytes.unwrap_or(base.max_read_bytes),
            max_resource_bytes: self.max_read_bytes.unwrap_or(base.max_resource_bytes),
            max_write_bytes: self.max_write_bytes.unwrap_or(base.max_write_bytes),
            max_entries: self.max_entries.unwrap_or(base.max_entries),
            max_matches: self.max_matches.unwrap_or(base.max_matches),
            max_output_bytes: self.max_output_bytes.unwrap_or(base.max_output_bytes),
            timeout: self.timeout.unwrap_or(base.timeout),
        }
    }
}

words! {
    /// A set of tools with its own names, limits and wording.
    ProfileName, "a profile" {
        /// The default: every tool, text and structured results.
        Native = "native",
        /// `fs.*` tools over `@project`, `@pkg` and `@state`.
        Crew = "crew",
        /// Five text tools with `ok:` and `category:` results.
        Claw = "claw",
        /// Only what the manifests declare.
        Proxy = "proxy",
        /// Five tools with JSON observations.
        Sidecar = "sidecar",
        /// Four tools for a chat page; a violation ends the conversation.
        Studio = "studio",
    }
}

words! {
    /// Whether a mount is writable.
    Access, "an access mode" {
        /// Read-only.
        ReadOnly = "ro",
        /// Read-write.
        ReadWrite = "rw",
    }
}

words! {
    /// What a record says of what its call touched.
    AuditDetail, "a level of detail" {
        /// The names of files and hosts.
        Paths = "paths",
        /// The same, and the words of commands.
        Commands = "commands",
        /// Nothing.
        Off = "off",
    }
}

words! {
    /// How a record holds what its call touched.
    DetailStorage, "a form of storage" {
        /// In clear.
        Plain = "plain",
        /// Encrypted with a key of the state directory.
        Encrypted = "encrypted",
    }
}

words! {
    /// What to do about a call that cannot be recorded.
    OnAuditFailure, "an answer to audit failures" {
        /// The call is denied.
        Deny = "deny",
        /// A warning is printed and the call runs.
        Warn = "warn",
    }
}

impl FromStr for ProfileName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|name| name.as_str() == text);
        found.ok_or_else(|| {
            let names = any_of(Self::ALL.iter().map(|name| name.as_str()));
            format!("`{}` is not a profile; use {names}", shown(text))
        })
    }
}

impl Word for Trust {
    const WHAT: &'static str = "a trust level";
    const WORDS: &'static [(&'static str, Self)] =
        &[("supervised", Self::Supervised), ("guided", Self::Guided), ("autonomous", Self::Autonomous)];
}

impl Word for OnViolation {
    const WHAT: &'static str = "an answer to violations";
    const WORDS: &'static [(&'static str, Self)] = &[("answer", Self::Answer), ("stop", Self::Stop)];
}

impl Word for OnFull {
    const WHAT: &'static str = "an answer to a full context";
    const WORDS: &'static [(&'static str, Self)] = &[("stop", Self::Stop), ("compact", Self::Compact)];
}

impl Config {
    /// Parses a configuration file. `file` is the name for problems; nothing is opened.
    ///
    /// # Errors
    /// Every problem that was found.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigProblems> {
        crate::read::config(SourceText::new(file, text), text)
    }

    /// Parses a configuration file from bytes that may not be UTF-8.
    ///
    /// # Errors
    /// Every problem that was found.
    pub fn parse_bytes(file: &str, bytes: &[u8]) -> Result<Self, ConfigProblems> {
        std::str::from_utf8(bytes)
            .map_err(|error| not_text(file, bytes, error.valid_up_to()))
            .and_then(|text| Self::parse(file, text))
    }

    /// The agent of this name.
    #[must_use]
    pub fn agent(&self, name: &str) -> Option<&AgentConfig> {
        self.agents.iter().find(|agent| agent.name.value.as_str() == name)
    }

    /// The keys, such as `audit.on_failure` or `trust`, whose values differ between two files. Comments, order and positions are ignored.
    #[must_use]
    pub fn changed_keys(&self, other: &Self) -> Vec<String> {
        let (one, other) =
            (crate::read::values_by_key(&self.source), crate::read::values_by_key(&other.source));
        let keys: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        keys.into_iter().filter(|key| one.get(*key) != other.get(*key)).cloned().collect()
    }

    /// Warnings about what is allowed but probably not intended.
    #[must_use]
    pub fn warnings(&self) -> Vec<ConfigWarning> {
        crate::servers::warnings(self)
    }

    /// Permissions for tools that are not known.
    #[must_use]
    pub fn check_tools(&self, known: &[&str]) -> Vec<ConfigProblem> {
        let permissions = self.agents.iter().flat_map(|agent| agent.tool_permissions.iter().flatten());
        let is_known = |name: &str| known.contains(&name) || self.is_of_server(name);
        let always = self.tool_search.iter().flat_map(|search| &search.always);
        let named = permissions.map(|permission| &permission.tool).chain(always);
        let unknown = named.filter(|name| !is_known(name.value.as_str()));
        unknown.map(|name| self.unknown_tool(name, known)).collect()
    }

    /// The same configuration, if every model server speaks one of these wires. This crate does not know which there are.
    ///
    /// # Errors
    /// The wires that are not among them.
    pub fn require_wires(self, known: &[&str]) -> Result<Self, ConfigProblems> {
        let wires = self.models.iter().map(|server| &server.wire);
        let unknown = wires.filter(|wire| !known.contains(&wire.value.as_str()));
        let problem = |wire: &Located<String>| {
            let help = format!("use {}", any_of(known.iter().copied()));
            self.problem_at(wire, format!("`{}` is not a wire", shown(&wire.value)), Some(help))
        };
        let problems: Vec<ConfigProblem> = unknown.map(problem).collect();
        if problems.is_empty() { Ok(self) } else { Err(ConfigProblems(problems)) }
    }

    /// Whether a name belongs to a tool of a configured server; which tools there are is known only when the server has listed them.
    fn is_of_server(&self, name: &str) -> bool {
        self.mcp_servers.iter().any(|known| known.own_tool_name(name).is_some())
    }

    fn unknown_tool(&self, tool: &Located<ToolName>, known: &[&str]) -> ConfigProblem {
        let name = tool.value.as_str();
        let help = nearest_or_all(name, known.iter().copied());
        self.problem_at(tool, format!("unknown tool `{}`", shown(name)), Some(help))
    }

    /// A problem with a value of this file that was found by a later check.
    #[must_use]
    pub fn problem_at<T>(
        &self,
        at: &Located<T>,
        message: impl Into<String>,
        help: Option<String>,
    ) -> ConfigProblem {
        self.source.problem(at.position(), at.width, message, help)
    }

    /// The same without quoting the line, which may contain secrets.
    #[must_use]
    pub fn problem_beside_secrets<T>(
        &self,
        at: &Located<T>,
        message: impl Into<String>,
        help: Option<String>,
    ) -> ConfigProblem {
        self.problem_at(at, message, help).without_line()
    }
}
