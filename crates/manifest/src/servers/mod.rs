//! `mcp_servers`: tools that other MCP servers bring, and what bounds them.
//!
//! The keys that MCP clients use (`command`, `args`, `env`, `cwd`, `url`, `headers`, `type`, `disabled`) mean the same
//! here. What is added is what a gate has to know: what the server's process may see and reach, and what each of its
//! tools can do to the world.

mod process;
mod read;
mod remote;
mod warnings;

use std::time::Duration;

use toolgate_types::ToolClass;

pub(crate) use read::servers;
pub(crate) use remote::headers;
pub use remote::is_reserved_header;
pub(crate) use warnings::warnings;

use crate::keyword_enum::words;
use crate::path::DeclaredPath;
use crate::problem::Located;
use crate::rates::NameGlob;
use crate::tool::{CommandMount, MountPath, PolicyRule};
use crate::variables::VariableText;

/// `mcp_servers`, one entry: a server whose tools appear as `NAME__TOOL`.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The name: one to 32 of `a-z 0-9 _ -`, without `__` and not ending in `_`, so that tools' names come apart again.
    pub name: Located<String>,
    /// How it is reached.
    pub transport: ServerTransport,
    /// `disabled`: it is not started, and its tools are not there.
    pub disabled: bool,
    /// `timeout`: time for one call of one of its tools; absent means the profile's.
    pub timeout: Option<Duration>,
    /// `startup_timeout`: time until it must have said what tools it has.
    pub startup_timeout: Option<Duration>,
    /// `pin`: what is believed about a tool that was not seen before.
    pub pin: PinMode,
    /// `class`: of tools whose entry says none.
    pub class: Option<Located<ToolClass>>,
    /// `permissions`: of tools whose entry says none.
    pub permissions: Vec<Located<String>>,
    /// `policy`: what may leave of the answers of tools whose entry says nothing about it; absent means everything.
    pub policy: Option<Vec<PolicyRule>>,
    /// `tools`: what is known about single tools, in the order of the file.
    pub tools: Vec<ServerToolConfig>,
}

impl ServerConfig {
    /// The entry for a tool: the one with exactly this name, else the first whose glob matches.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&ServerToolConfig> {
        let exact = self.tools.iter().find(|entry| entry.name.as_written().value == name);
        exact.or_else(|| self.tools.iter().find(|entry| entry.name.matches(name)))
    }
}

/// How a server is reached.
#[derive(Clone, Debug)]
pub enum ServerTransport {
    /// A process that speaks on its standard streams, in the sandbox.
    Process(Box<ServerProcessConfig>),
    /// An address that speaks streamable HTTP.
    Remote(Box<ServerRemote>),
}

/// A server's process and what it may see and reach.
#[derive(Clone, Debug)]
pub struct ServerProcessConfig {
    /// `command`: a name that is looked up in the pinned `PATH`, or an absolute path.
    pub program: Located<String>,
    /// `args`.
    pub arguments: Vec<Located<VariableText>>,
    /// `env`: all that it gets besides what the sandbox sets.
    pub environment: Vec<(Located<String>, Located<VariableText>)>,
    /// `cwd`: where it runs; absent means outside every mount.
    pub directory: Option<Located<MountPath>>,
    /// `mounts`: what it can see; absent means the mount of `cwd`, for reading.
    pub mounts: Vec<CommandMount>,
    /// `network`: hosts that it may reach through the filtering proxy; empty means no network.
    pub network: Vec<Located<String>>,
    /// `read`: further host folders and files that it can read.
    pub read: Vec<Located<DeclaredPath>>,
    /// `limits`: bounds of its processes.
    pub limits: ServerLimits,
}

/// Bounds of a server's processes; what is absent is decided by the configuration's `sandbox`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerLimits {
    /// `memory`: bytes.
    pub memory: Option<u64>,
    /// `processes`: processes and threads at a time.
    pub processes: Option<u64>,
    /// `file_size`: bytes of any file it writes.
    pub file_size: Option<u64>,
    /// `open_files`: open files of one process.
    pub open_files: Option<u64>,
    /// `cpu_time`: processor time of one process, over its whole life; absent means no bound, whatever `sandbox` says.
    pub cpu_time: Option<Duration>,
    /// `tmp_size`: bytes of the private `/tmp`.
    pub tmp_size: Option<u64>,
}

/// A server elsewhere.
#[derive(Clone, Debug)]
pub struct ServerRemote {
    /// `url`: `https`, or `http` on this machine; variables only behind the host.
    pub url: Located<VariableText>,
    /// `headers`: sent with every request.
    pub headers: Vec<(Located<String>, Located<VariableText>)>,
    /// `oauth`: a token is fetched with a name and a secret of the gate's own.
    pub oauth: Option<OauthConfig>,
}

/// `oauth`: the grant of client credentials.
#[derive(Clone, Debug)]
pub struct OauthConfig {
    /// `token_url`: where tokens are asked for.
    pub token_url: Located<String>,
    /// `client_id`.
    pub client_id: Located<VariableText>,
    /// `client_secret`.
    pub client_secret: Located<VariableText>,
    /// `scopes`: what is asked for; empty means whatever the issuer gives.
    pub scopes: Vec<String>,
    /// `resource`: whom the token is for; absent means the server's own address.
    pub resource: Option<Located<String>>,
}

/// `tools`, one entry: what is known about the tools that a name or a glob matches.
#[derive(Clone, Debug)]
pub struct ServerToolConfig {
    /// The tool's name as the server says it, or a glob.
    pub name: NameGlob,
    /// `allowed`: `true` unless said; a tool that is not allowed is not there.
    pub allowed: bool,
    /// `class`: absent means the server's.
    pub class: Option<Located<ToolClass>>,
    /// `permissions`: absent means the server's.
    pub permissions: Option<Vec<Located<String>>>,
    /// `policy`: absent means the server's.
    pub policy: Option<Vec<PolicyRule>>,
    /// `timeout`: absent means the server's.
    pub timeout: Option<Duration>,
}

words! {
    /// What is believed about a tool that was not seen before.
    PinMode, "a way to pin tools" {
        /// What a server says at the first contact is agreed to; whatever comes or changes later is not.
        FirstUse = "first_use",
        /// Nothing, until a person approved it.
        Approved = "approved",
    }
}
