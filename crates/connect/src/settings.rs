//! The settings of a server behind the gate.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use toolgate_manifest::{PackageSpec, ServerLimits};
use toolgate_oauth::TokenBinding;
use toolgate_policy::OutputPolicy;
use toolgate_types::digest::Sha256Hasher;
use toolgate_types::{FlowSettings, Sha256, ToolClass};

use crate::error::ConnectError;
use crate::pins::{PinKey, PinOrigin};

/// The name of a server: 1 to 32 of `a-z 0-9 _ -`. It is the prefix of its tools' names and part of a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(String);

impl ServerName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ServerName {
    type Err = ConnectError;

    fn from_str(text: &str) -> Result<Self, ConnectError> {
        let fits =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
        if (1..=32).contains(&text.len()) && text.bytes().all(fits) {
            return Ok(Self(text.to_owned()));
        }
        Err(ConnectError::Name { name: text.chars().take(60).collect::<String>().escape_debug().to_string() })
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A value that is never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretString(String);

impl SecretString {
    /// Wraps a value.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value, to send it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(secret)")
    }
}

/// One server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Its name.
    pub name: ServerName,
    /// How to connect to it.
    pub transport: TransportSettings,
    /// The timeout of a call, if the tool has none of its own.
    pub timeout: Duration,
    /// The timeout until it has listed its tools.
    pub startup_timeout: Duration,
    /// Maximum calls in flight; more are queued.
    pub max_calls: usize,
    /// The class of tools without one of their own.
    pub default_class: ToolClass,
    /// When a tool counts as approved.
    pub pin: PinPolicy,
    /// Where it is declared, and its command; without one its pins belong to its name alone.
    pub pin_origin: Option<PinOrigin>,
    /// Whether its tools keep their names.
    pub is_unprefixed: bool,
    /// Whether it may ask the person during a call.
    pub elicitation: bool,
    /// Settings of single tools: a name, or a glob with `*` and `?`. An exact name takes precedence, then the first matching glob.
    pub tools: Vec<(String, ToolSettings)>,
}

/// The default maximum of calls in flight per server.
pub const DEFAULT_MAX_CALLS: usize = 64;

/// How to connect to a server.
#[expect(clippy::large_enum_variant, reason = "there are as many as there are servers in a configuration")]
#[derive(Clone, Debug, PartialEq)]
pub enum TransportSettings {
    /// A process on this machine, over its standard input and output.
    Stdio(ProcessSettings),
    /// A server over streamable HTTP.
    Http(HttpSettings),
}

impl TransportSettings {
    /// The mounts that the server's process reads.
    pub(crate) fn mounts(&self) -> Vec<String> {
        match self {
            Self::Stdio(process) => process.mounts.iter().map(|(alias, _)| alias.clone()).collect(),
            Self::Http(_) => Vec::new(),
        }
    }

    /// Whether data sent to the server may leave the machine.
    pub(crate) fn leaves_the_machine(&self) -> bool {
        match self {
            Self::Stdio(process) => !process.network.is_empty(),
            Self::Http(_) => true,
        }
    }
}

/// A process to start, and what its sandbox allows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessSettings {
    /// The program: a bare name that is looked up inside the sandbox, or an absolute path.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: Vec<(String, SecretString)>,
    /// Its working directory, such as `@project/sub`.
    pub directory: Option<String>,
    /// The mounts that it sees, and whether they are writable.
    pub mounts: Vec<(String, bool)>,
    /// The hosts that it may connect to.
    pub network: Vec<String>,
    /// Further host directories, read-only.
    pub read: Vec<PathBuf>,
    /// Its resource limits.
    pub limits: ServerLimits,
    /// The package that its program belongs to.
    pub package: Option<PackageSettings>,
    /// Its home directory; `None` for one that ends with the process.
    pub home: Option<HomeSettings>,
    /// Whether its mounts are shown at their paths on the host.
    pub host_paths: bool,
    /// Where the container of an image has its mounts, by alias.
    pub mount_paths: Vec<(String, String)>,
    /// The program in the container of an image; `None` for the image's own.
    pub entrypoint: Option<String>,
    /// The file that its standard error is appended to.
    pub log: Option<PathBuf>,
}

/// An installed package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageSettings {
    /// The server that it belongs to.
    pub server: String,
    /// What is installed.
    pub spec: PackageSpec,
    /// What is installed beside it.
    pub with: Vec<PackageSpec>,
    /// Whether scripts of the packages run while they are installed.
    pub install_scripts: bool,
    /// The directory of its installations.
    pub directory: PathBuf,
}

/// The home directory of a server, which outlives its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeSettings {
    /// Where it is.
    pub directory: PathBuf,
    /// How many bytes it may hold.
    pub max_bytes: u64,
}

/// A server over HTTP.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpSettings {
    /// Its URL.
    pub url: String,
    /// Headers of every request.
    pub headers: Vec<(String, SecretString)>,
    /// How to get an access token.
    pub oauth: Option<OAuthSettings>,
    /// Whose logins are used, if people log in.
    pub login: Option<LoginSettings>,
}

/// Tokens that people got with a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginSettings {
    /// What the operator's token belongs to.
    pub binding: TokenBinding,
    /// Whether each caller has a login, and a connection, of its own.
    pub per_caller: bool,
}

/// OAuth 2.1 client credentials: the gate itself is the client, and no caller's token is ever passed on.
#[derive(Clone, Debug, PartialEq)]
pub struct OAuthSettings {
    /// The token endpoint.
    pub token_url: String,
    /// The client id of the gate.
    pub client_id: String,
    /// The client secret.
    pub client_secret: SecretString,
    /// The requested scopes.
    pub scopes: Vec<String>,
    /// The resource indicator (RFC 8707); by default the server's URL.
    pub resource: Option<String>,
}

/// When a tool counts as approved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PinPolicy {
    /// Everything that a server lists at first contact is approved; what it lists later is not.
    #[default]
    FirstUse,
    /// Only what an operator has approved.
    Approved,
}

/// The settings of a tool.
#[derive(Clone, Debug, Default)]
pub struct ToolSettings {
    /// Whether it is offered at all; `None` is yes.
    pub allowed: Option<bool>,
    /// Its class.
    pub class: Option<ToolClass>,
    /// The permissions that a caller needs.
    pub permissions: Vec<String>,
    /// What of its results may be returned; `None` is all of it.
    pub policy: Option<OutputPolicy>,
    /// What is declared about information flow.
    pub flow: FlowSettings,
    /// The timeout of a call.
    pub timeout: Option<Duration>,
}

impl ServerSettings {
    /// Settings with all defaults.
    #[must_use]
    pub fn new(name: ServerName, transport: TransportSettings) -> Self {
        Self {
            name,
            transport,
            timeout: Duration::from_secs(60),
            startup_timeout: Duration::from_secs(20),
            max_calls: DEFAULT_MAX_CALLS,
            default_class: ToolClass::Destructive,
            pin: PinPolicy::FirstUse,
            pin_origin: None,
            is_unprefixed: false,
            elicitation: false,
            tools: Vec::new(),
        }
    }

    /// The gate's name for a tool of the server.
    #[must_use]
    pub fn tool_name(&self, own_name: &str) -> String {
        if self.is_unprefixed { own_name.to_owned() } else { format!("{}__{own_name}", self.name) }
    }

    /// The server's own name for the tool of this name, if it can be one of its tools.
    #[must_use]
    pub fn own_tool_name<'n>(&self, tool: &'n str) -> Option<&'n str> {
        match self.is_unprefixed {
            // Names with `__` belong to servers with a prefix.
            true => (!tool.contains("__")).then_some(tool),
            false => tool.strip_prefix(self.name.as_str())?.strip_prefix("__"),
        }
    }

    /// Whose pins it has.
    #[must_use]
    pub fn pin_key(&self) -> PinKey {
        PinKey::new(self.name.clone(), self.pin_origin.clone())
    }

    /// Starts it from another installation of its package, without its home directory.
    pub fn use_installation(&mut self, directory: &Path) {
        if let TransportSettings::Stdio(process) = &mut self.transport {
            process.home = None;
            process.log = None;
            if let Some(package) = &mut process.package {
                package.directory = directory.to_path_buf();
            }
        }
    }

    /// The settings for the tool of this name.
    pub(crate) fn settings_for(&self, tool: &str) -> Option<&ToolSettings> {
        let exact = self.tools.iter().find(|(name, _)| name == tool);
        exact
            .or_else(|| self.tools.iter().find(|(glob, _)| glob_matches(glob, tool)))
            .map(|(_, settings)| settings)
    }

    /// Whether a connection with the other settings can be kept.
    pub(crate) fn same_connection(&self, other: &Self) -> bool {
        self.transport == other.transport
            && self.startup_timeout == other.startup_timeout
            && self.max_calls == other.max_calls
            && self.pin == other.pin
            && self.elicitation == other.elicitation
            && self.is_unprefixed == other.is_unprefixed
            && self.pin_origin == other.pin_origin
    }
}

impl TransportSettings {
    /// A digest of the connection: two servers with the same name but other commands or URLs differ.
    pub(crate) fn digest(&self) -> Sha256 {
        let mut hasher = Sha256Hasher::new();
        let mut part = |bytes: &[u8]| hasher.update_prefixed(bytes);
        match self {
            Self::Stdio(process) => {
                part(b"stdio");
                part(process.program.as_encoded_bytes());
                process.arguments.iter().for_each(|argument| part(argument.as_encoded_bytes()));
                process.environment.iter().for_each(|(name, value)| {
                    part(name.as_bytes());
                    part(value.expose().as_bytes());
                });
                part(
                    format!("{:?}", (&process.directory, &process.mounts, &process.network, &process.read))
                        .as_bytes(),
                );
                if let Some(package) = &process.package {
                    // A package without its version: an update has its own question.
                    part(package.spec.newest().to_string().as_bytes());
                }
                if let Some(entrypoint) = &process.entrypoint {
                    part(entrypoint.as_bytes());
                }
            }
            Self::Http(http) => {
                part(b"http");
                part(http.url.as_bytes());
            }
        }
        hasher.finish()
    }
}

/// Whether a name matches a glob of `*` and `?`. Backtracks only to the last `*`, so that the work is at most quadratic.
fn glob_matches(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    let (mut at, mut here) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(character) = name.get(here) {
        match (glob.get(at), star) {
            (Some('*'), _) => {
                star = Some((at, here));
                at += 1;
            }
            (Some(wanted), _) if *wanted == '?' || wanted == character => {
                at += 1;
                here += 1;
            }
            (_, Some((back, taken))) => {
                star = Some((back, taken + 1));
                at = back + 1;
                here = taken + 1;
            }
            (_, None) => return false,
        }
    }
    glob.get(at..).is_some_and(|rest| rest.iter().all(|left| *left == '*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_names() {
        for (glob, name, wanted) in [
            ("read", "read", true),
            ("read", "read_file", false),
            ("delete_*", "delete_file", true),
            ("delete_*", "undelete_file", false),
            ("*", "", true),
            ("*_*_x", "a_b_c_x", true),
            ("?at", "cat", true),
            ("?at", "at", false),
            ("a*b*c", "aXbYbZ", false),
        ] {
            assert_eq!(glob_matches(glob, name), wanted, "{glob} {name}");
        }
    }

    #[test]
    fn exact_names_go_before_globs() {
        let class = |class| ToolSettings { class: Some(class), ..ToolSettings::default() };
        let mut settings =
            ServerSettings::new("s".parse().unwrap(), TransportSettings::Stdio(ProcessSettings::default()));
        settings.tools = vec![
            ("read_*".to_owned(), class(ToolClass::Write)),
            ("read_file".to_owned(), class(ToolClass::Read)),
            ("*".to_owned(), class(ToolClass::Destructive)),
        ];
        let found = |name: &str| settings.settings_for(name).and_then(|about| about.class);
        assert_eq!(found("read_file"), Some(ToolClass::Read));
        assert_eq!(found("read_tree"), Some(ToolClass::Write));
        assert_eq!(found("other"), Some(ToolClass::Destructive));
    }

    #[test]
    fn names_of_servers_are_names_of_files() {
        for bad in ["", "A", "a/b", "..", "a.b", "é", &"x".repeat(33)] {
            assert!(bad.parse::<ServerName>().is_err(), "{bad:?}");
        }
        assert_eq!("git-hub_2".parse::<ServerName>().unwrap().as_str(), "git-hub_2");
    }

    #[test]
    fn secrets_are_never_printed() {
        let http = HttpSettings {
            url: "https://a.example".to_owned(),
            headers: vec![("Authorization".to_owned(), SecretString::new("hunter2"))],
            oauth: Some(OAuthSettings {
                token_url: "https://b.example".to_owned(),
                client_id: "me".to_owned(),
                client_secret: SecretString::new("hunter2"),
                scopes: Vec::new(),
                resource: None,
            }),
            login: None,
        };
        assert!(!format!("{:?}", TransportSettings::Http(http)).contains("hunter2"));
    }

    #[test]
    fn only_a_process_without_network_keeps_calls_on_this_machine() {
        let process = |network: &[&str]| {
            let network = network.iter().map(|host| (*host).to_owned()).collect();
            TransportSettings::Stdio(ProcessSettings { network, ..ProcessSettings::default() })
        };
        let url = "http://127.0.0.1:9/mcp".to_owned();
        let elsewhere =
            TransportSettings::Http(HttpSettings { url, headers: Vec::new(), oauth: None, login: None });
        let leaves = [process(&[]), process(&["example.com"]), elsewhere]
            .map(|transport| transport.leaves_the_machine());
        assert_eq!(leaves, [false, true, true]);
    }
}
