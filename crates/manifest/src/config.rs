//! The configuration file, as types.
//!
//! Every key is optional; what is absent here is decided by the profile or by the command line. Values keep their
//! place in the file where a later check, by someone who can see the disk or the registry, may have to point at them.

use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use toolgate_types::{AgentName, Limits, ToolName, Trust};

use crate::callers::CallersConfig;
use crate::conversation::ConversationConfig;
use crate::decode::{Word, any_of, nearest_or_all};
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
use crate::web_search::WebSearchConfig;

/// A fully commented configuration file that uses every key.
pub const EXAMPLE: &str = include_str!("../examples/toolgate.yaml");

/// What `toolgate.yaml` declares.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// `profile`: which tools there are and how they answer.
    pub profile: Option<Located<ProfileName>>,
    /// `workspace`: the folder that is mounted read-write as `@project`.
    pub workspace: Option<Located<DeclaredPath>>,
    /// `state_dir`: where runs, journals and quarantine are kept.
    pub state_dir: Option<Located<DeclaredPath>>,
    /// `mounts`: further folders by alias, in the order of the file.
    pub mounts: Vec<MountConfig>,
    /// `deny`: globs that extend the built-in deny list for every mount.
    pub deny: Globs,
    /// `trust`: how much is asked when neither the agent nor the command line says.
    pub trust: Option<Located<Trust>>,
    /// `on_violation`: whether a call that tried to leave its bounds is answered or ends the conversation.
    pub on_violation: Option<Located<OnViolation>>,
    /// `limits`: bounds of every call, in place of the profile's.
    pub limits: LimitOverrides,
    /// `audit`: the record of calls.
    pub audit: AuditConfig,
    /// `approval`: questions to people.
    pub approval: ApprovalConfig,
    /// `tools`: files and folders of tool manifests.
    pub tools: Vec<Located<DeclaredPath>>,
    /// `policies`: files and folders of Cedar policies.
    pub policies: Vec<Located<DeclaredPath>>,
    /// `allowed_commands`: the only programs that manifests may run; absent means whatever they declare.
    pub allowed_commands: Option<Vec<Located<String>>>,
    /// `sandbox`: how far commands are confined.
    pub sandbox: SandboxConfig,
    /// `callers`: whose tokens are believed.
    pub callers: Option<CallersConfig>,
    /// `rate_limits`: how often; every entry that matches a call counts.
    pub rate_limits: Vec<RateLimitConfig>,
    /// `breaker`: a tool that keeps failing rests for a while.
    pub breaker: Option<BreakerConfig>,
    /// `retention`: how much is kept in the state directory, and for how long.
    pub retention: RetentionConfig,
    /// `mcp_servers`: servers whose tools the gate offers, in the order of the file.
    pub mcp_servers: Vec<ServerConfig>,
    /// `serve`: the door for callers that come over HTTP.
    pub serve: ServeConfig,
    /// `model`: whom conversations are held with, as `PROVIDER/NAME`; and `conversation`: how.
    pub conversation: ConversationConfig,
    /// `models`: servers of models besides the well-known ones.
    pub models: Vec<ModelServerConfig>,
    /// `web_search`: who is asked when a model searches the web.
    pub web_search: Option<WebSearchConfig>,
    /// `agents` and `workflows`: who may do what, in the order of the file.
    pub agents: Vec<AgentConfig>,
    pub(crate) source: SourceText,
}

/// `mounts`, one entry: a folder that paths may begin with by alias.
#[derive(Clone, Debug)]
pub struct MountConfig {
    /// The alias, such as `@docs`.
    pub alias: Located<String>,
    /// `path`: the folder; the one key that a mount must have.
    pub path: Located<DeclaredPath>,
    /// `access`: `ro` unless it says `rw`.
    pub access: Access,
    /// `scope`: only what matches is visible; absent means everything.
    pub scope: Option<Globs>,
    /// `deny`: what matches is denied, whatever the scope says.
    pub deny: Globs,
}

/// `audit`: the record of calls.
#[derive(Clone, Debug, Default)]
pub struct AuditConfig {
    /// `directory`: where the daily files lie.
    pub directory: Option<Located<DeclaredPath>>,
    /// `on_failure`: whether a call that cannot be recorded may run.
    pub on_failure: Option<Located<OnAuditFailure>>,
    /// `checkpoints`: the file of signed checkpoints; best kept on another disk.
    pub checkpoints: Option<Located<DeclaredPath>>,
    /// `key`: the file that holds the signing key.
    pub key: Option<Located<DeclaredPath>>,
    /// `checkpoint_every`: how many records between two checkpoints.
    pub checkpoint_every: Option<NonZeroU64>,
    /// `reserve`: what commands must leave free on the filesystem of the audit directory, in bytes.
    pub reserve: Option<u64>,
}

/// `approval`: questions to people.
#[derive(Clone, Debug, Default)]
pub struct ApprovalConfig {
    /// `timeout`: how long a question waits before it counts as no.
    pub timeout: Option<Duration>,
}

/// `agents`, one entry: what one agent may do.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The agent's name.
    pub name: Located<AgentName>,
    /// `description`: for people.
    pub description: Option<String>,
    /// `trust`: how much is asked about this agent's calls.
    pub trust: Option<Located<Trust>>,
    /// `max_read_bytes`, `max_write_bytes` and `timeout` (or `tools.fs.maxReadBytes` and `tools.fs.maxWriteBytes`):
    /// bounds of this agent's calls.
    pub limits: LimitOverrides,
    /// `permissions`: what it is granted when a person at this machine acts as it, without a token.
    pub permissions: Vec<Located<String>>,
    /// `tool_permissions`: exactly the tools that this agent may use. Absent means those that only read.
    pub tool_permissions: Option<Vec<ToolPermission>>,
    /// `model`, `system` and the other keys of `conversation`: how conversations of this agent are held.
    pub conversation: ConversationConfig,
}

/// `tool_permissions`, one entry: whether and how an agent may use one tool.
#[derive(Clone, Debug)]
pub struct ToolPermission {
    /// The tool's name in the profile.
    pub tool: Located<ToolName>,
    /// `allowed`: must be said; nothing defaults to allowed.
    pub allowed: bool,
    /// `paths`: globs that a call's paths must match, in every mount; absent means all paths.
    pub paths: Option<Globs>,
    /// `max_read_bytes`, `max_write_bytes` and `timeout`: bounds of this agent's calls of this tool.
    pub limits: LimitOverrides,
}

/// Bounds that replace others where they are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitOverrides {
    /// `max_read_bytes`: bytes of file content in one answer.
    pub max_read_bytes: Option<u64>,
    /// `max_write_bytes`: bytes of a file after one write, append, edit or patch.
    pub max_write_bytes: Option<u64>,
    /// `max_entries`: entries in one listing.
    pub max_entries: Option<usize>,
    /// `max_matches`: matches in one search when the call does not say.
    pub max_matches: Option<usize>,
    /// `max_output_bytes`: bytes of any answer.
    pub max_output_bytes: Option<u64>,
    /// `timeout`: time for one call.
    pub timeout: Option<Duration>,
}

impl LimitOverrides {
    /// `base`, with what is given here in its place.
    #[must_use]
    pub fn over(self, base: Limits) -> Limits {
        Limits {
            max_read_bytes: self.max_read_bytes.unwrap_or(base.max_read_bytes),
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
        /// The default: every tool, text and structured answers.
        Native = "native",
        /// `fs.*` tools over `@project`, `@pkg` and `@state`.
        Crew = "crew",
        /// Five text tools with `ok:` and `category:` answers.
        Claw = "claw",
        /// What the manifests declare, and nothing else.
        Proxy = "proxy",
        /// Five tools with JSON observations.
        Sidecar = "sidecar",
        /// Four tools for a chat page; a violation ends the conversation.
        Studio = "studio",
    }
}

words! {
    /// Whether files of a mount may be changed.
    Access, "an access mode" {
        /// Read-only.
        ReadOnly = "ro",
        /// Read-write.
        ReadWrite = "rw",
    }
}

words! {
    /// What follows when a call tries to leave what was declared.
    OnViolation, "an answer to violations" {
        /// The model is told, and goes on.
        Answer = "answer",
        /// The conversation ends.
        Stop = "stop",
    }
}

words! {
    /// What follows when a conversation nearly fills the model's context.
    OnFull, "an answer to a full context" {
        /// The turn ends with an answer.
        Stop = "stop",
        /// Old tool output is left out and older messages are summarised.
        Compact = "compact",
    }
}

words! {
    /// What follows when a call cannot be recorded.
    OnAuditFailure, "an answer to audit failures" {
        /// The call is denied.
        Deny = "deny",
        /// A warning is printed and the call goes on.
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

impl Config {
    /// Reads a configuration file. `file` is what problems call it; nothing is opened.
    ///
    /// # Errors
    /// Every problem that was found.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigProblems> {
        crate::read::config(SourceText::new(file, text), text)
    }

    /// Reads a configuration file from bytes that may not be text.
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

    /// The keys, such as `audit.on_failure` or `trust`, under which two files say different things. Comments, order and places are nothing.
    #[must_use]
    pub fn changed_keys(&self, other: &Self) -> Vec<String> {
        let (one, other) =
            (crate::read::values_by_key(&self.source), crate::read::values_by_key(&other.source));
        let keys: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        keys.into_iter().filter(|key| one.get(*key) != other.get(*key)).cloned().collect()
    }

    /// What this file allows and its author probably does not mean.
    #[must_use]
    pub fn warnings(&self) -> Vec<ConfigWarning> {
        crate::servers::warnings(self)
    }

    /// Permissions that name a tool which is not among the known ones.
    #[must_use]
    pub fn check_tools(&self, known: &[&str]) -> Vec<ConfigProblem> {
        let permissions = self.agents.iter().flat_map(|agent| agent.tool_permissions.iter().flatten());
        let is_known = |name: &str| known.contains(&name) || self.is_of_server(name);
        let unknown = permissions.filter(|permission| !is_known(permission.tool.value.as_str()));
        unknown.map(|permission| self.unknown_tool(&permission.tool, known)).collect()
    }

    /// Whether a name is that of a declared server's tool; which tools there are is known when the server has said so.
    fn is_of_server(&self, name: &str) -> bool {
        let server = name.split_once("__").map(|(server, _)| server);
        server.is_some_and(|server| self.mcp_servers.iter().any(|known| known.name.value == server))
    }

    fn unknown_tool(&self, tool: &Located<ToolName>, known: &[&str]) -> ConfigProblem {
        let name = tool.value.as_str();
        let help = nearest_or_all(name, known.iter().copied());
        self.problem_at(tool, format!("unknown tool `{}`", shown(name)), Some(help))
    }

    /// A problem with something that this file declared, found by someone who knows more than the file says.
    #[must_use]
    pub fn problem_at<T>(
        &self,
        at: &Located<T>,
        message: impl Into<String>,
        help: Option<String>,
    ) -> ConfigProblem {
        self.source.problem(at.position(), at.width, message, help)
    }

    /// The same without the line, where secrets may stand beside it.
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
