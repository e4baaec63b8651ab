//! `mcp_servers`: tools of other MCP servers, and their confinement.
//!
//! The keys of MCP clients (`command`, `args`, `env`, `cwd`, `url`, `headers`, `type`, `disabled`) have the same
//! meaning here. Further keys declare what a gate has to know: what the server's process may access, and the class of
//! each of its tools.

mod container;
mod image;
mod package;
mod process;
mod read;
mod remote;
mod warnings;

use std::time::Duration;

use toolgate_types::{FlowSettings, ToolClass};

pub use package::{PackageRegistry, PackageSpec, PackageSpecError};
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
    /// The name: 1 to 32 of `a-z 0-9 _ -`, without `__` and not ending in `_`, so that tool names can be split
    /// unambiguously.
    pub name: Located<String>,
    /// How to connect to it.
    pub transport: ServerTransport,
    /// `prefix: ""`: its tools keep their names. At most one server has this.
    pub is_unprefixed: bool,
    /// `elicitation`: whether it may ask the person during a call.
    pub elicitation: bool,
    /// `disabled`: it is not started, and has no tools.
    pub disabled: bool,
    /// `timeout`: timeout of a call; absent means the profile's.
    pub timeout: Option<Duration>,
    /// `startup_timeout`: timeout until it has listed its tools.
    pub startup_timeout: Option<Duration>,
    /// `pin`: how new tools are approved.
    pub pin: PinMode,
    /// `class`: of tools whose entry has none.
    pub class: Option<Located<ToolClass>>,
    /// `permissions`: of tools whose entry has none.
    pub permissions: Vec<Located<String>>,
    /// `policy`: the output policy of tools whose entry has none; absent means that everything is returned.
    pub policy: Option<Vec<PolicyRule>>,
    /// `effect`, `output_trust` and `secret`: of tools whose entry has none.
    pub flow: FlowSettings,
    /// `tools`: settings of single tools, in file order.
    pub tools: Vec<ServerToolConfig>,
}

impl ServerConfig {
    /// What the names of its tools begin with.
    #[must_use]
    pub fn tool_prefix(&self) -> String {
        if self.is_unprefixed { String::new() } else { format!("{}__", self.name.value) }
    }

    /// Its own name for the tool of this name, if it can be one of its tools.
    #[must_use]
    pub fn own_tool_name<'n>(&self, tool: &'n str) -> Option<&'n str> {
        match self.is_unprefixed {
            true => (!tool.contains("__")).then_some(tool),
            false => tool.strip_prefix(self.name.value.as_str())?.strip_prefix("__"),
        }
    }

    /// The entry for a tool: the one with exactly this name, or else the first matching glob.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&ServerToolConfig> {
        let exact = self.tools.iter().find(|entry| entry.name.as_written().value == name);
        exact.or_else(|| self.tools.iter().find(|entry| entry.name.matches(name)))
    }
}

/// How to connect to a server.
#[derive(Clone, Debug)]
pub enum ServerTransport {
    /// A sandboxed process, over its standard streams.
    Process(Box<ServerProcessConfig>),
    /// A URL, over streamable HTTP.
    Remote(Box<ServerRemote>),
}

/// A server's process and its confinement.
#[derive(Clone, Debug)]
pub struct ServerProcessConfig {
    /// `command`: a name that is looked up in the pinned `PATH`, or an absolute path; with `package`, the program of the package.
    pub program: Located<String>,
    /// `package`: the package that the program belongs to, installed apart from running.
    pub package: Option<Located<PackageSpec>>,
    /// `with`: packages that are installed beside it.
    pub with: Vec<Located<PackageSpec>>,
    /// `install_scripts`: whether scripts of the packages run while they are installed.
    pub install_scripts: bool,
    /// `ephemeral`: its home directory does not outlive it.
    pub ephemeral: bool,
    /// `host_paths`: its mounts are shown at their paths on the host, instead of below `/mnt`.
    pub host_paths: bool,
    /// `mount_paths`: where the container of an image has its mounts, by alias; absent means below `/mnt`.
    pub mount_paths: Vec<(Located<String>, Located<String>)>,
    /// `entrypoint`: the program in the container; absent means that of the image.
    pub entrypoint: Option<Located<String>>,
    /// `args`.
    pub arguments: Vec<Located<VariableText>>,
    /// `env`: its environment besides what the sandbox sets.
    pub environment: Vec<(Located<String>, Located<VariableText>)>,
    /// `cwd`: the working directory; absent means outside every mount.
    pub directory: Option<Located<MountPath>>,
    /// `mounts`: the visible mounts; absent means the mount of `cwd`, read-only.
    pub mounts: Vec<CommandMount>,
    /// `network`: hosts that it may connect to through the filtering proxy; empty means no network.
    pub network: Vec<Located<String>>,
    /// `read`: further host directories and files that it can read.
    pub read: Vec<Located<DeclaredPath>>,
    /// `limits`: resource limits of its processes.
    pub limits: ServerLimits,
}

/// Resource limits of a server's processes; absent values come from the configuration's `sandbox`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerLimits {
    /// `memory`: bytes.
    pub memory: Option<u64>,
    /// `processes`: concurrent processes and threads.
    pub processes: Option<u64>,
    /// `file_size`: bytes of any file it writes.
    pub file_size: Option<u64>,
    /// `open_files`: open files of one process.
    pub open_files: Option<u64>,
    /// `cpu_time`: CPU time of one process over its whole life; absent means unlimited, whatever `sandbox` says.
    pub cpu_time: Option<Duration>,
    /// `tmp_size`: bytes of the private `/tmp`.
    pub tmp_size: Option<u64>,
    /// `home_size`: bytes of its home directory.
    pub home_size: Option<u64>,
}

/// A server over HTTP.
#[derive(Clone, Debug)]
pub struct ServerRemote {
    /// `url`: `https`, or `http` on loopback; variables only after the host.
    pub url: Located<VariableText>,
    /// `headers`: headers of every request.
    pub headers: Vec<(Located<String>, Located<VariableText>)>,
    /// `oauth` with `token_url`: a token is fetched with the gate's own credentials.
    pub oauth: Option<OauthConfig>,
    /// `oauth` without `token_url`, or neither that nor an `Authorization` header: people log in with a browser where the server asks for it.
    pub login: Option<LoginConfig>,
}

/// `oauth` without `token_url`: the authorization code grant, with the browser of a person.
#[derive(Clone, Debug, Default)]
pub struct LoginConfig {
    /// `client_id`: absent means that the gate registers itself.
    pub client_id: Option<Located<VariableText>>,
    /// `client_secret`.
    pub client_secret: Option<Located<VariableText>>,
    /// `scopes`: empty means those that the server asks for.
    pub scopes: Vec<String>,
    /// `issuer`: the only authorization server that is accepted; absent means the server's first.
    pub issuer: Option<Located<String>>,
    /// `per_caller`: each caller with a token has a login of its own.
    pub per_caller: bool,
}

/// `oauth`: the client credentials grant (RFC 6749, section 4.4).
#[derive(Clone, Debug)]
pub struct OauthConfig {
    /// `token_url`: the token endpoint.
    pub token_url: Located<String>,
    /// `client_id`.
    pub client_id: Located<VariableText>,
    /// `client_secret`.
    pub client_secret: Located<VariableText>,
    /// `scopes`: the requested scopes; empty means the issuer's default.
    pub scopes: Vec<String>,
    /// `resource`: the resource indicator (RFC 8707); absent means the server's URL.
    pub resource: Option<Located<String>>,
}

/// `tools`, one entry: settings for the tools that a name or a glob matches.
#[derive(Clone, Debug)]
pub struct ServerToolConfig {
    /// The server's name for the tool, or a glob.
    pub name: NameGlob,
    /// `allowed`: `true` by default; a tool that is not allowed is not offered.
    pub allowed: bool,
    /// `class`: absent means the server's.
    pub class: Option<Located<ToolClass>>,
    /// `permissions`: absent means the server's.
    pub permissions: Option<Vec<Located<String>>>,
    /// `policy`: absent means the server's.
    pub policy: Option<Vec<PolicyRule>>,
    /// `effect`, `output_trust`, `secret`, `directory` and `arguments`: absent means the server's.
    pub flow: FlowSettings,
    /// `timeout`: absent means the server's.
    pub timeout: Option<Duration>,
}

words! {
    /// How new tools are approved.
    PinMode, "a way to pin tools" {
        /// What a server lists at first contact is approved; later additions and changes are not.
        FirstUse = "first_use",
        /// Nothing is approved until a person has approved it.
        Approved = "approved",
    }
}
