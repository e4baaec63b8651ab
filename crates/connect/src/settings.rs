//! What an operator declares about a server behind the gate.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use toolgate_manifest::ServerLimits;
use toolgate_policy::OutputPolicy;
use toolgate_types::digest::Sha256Hasher;
use toolgate_types::{Sha256, ToolClass};

use crate::error::ConnectError;

/// The name of a server: one to 32 of `a-z 0-9 _ -`. It begins the names of its tools and is the name of a file.
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
    /// Keeps a value from being printed.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value, for whoever must send it.
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
    /// What it is called.
    pub name: ServerName,
    /// How it is reached.
    pub transport: TransportSettings,
    /// Time for one call of a tool that does not say.
    pub timeout: Duration,
    /// Time until it must have named its tools.
    pub startup_timeout: Duration,
    /// How many of its calls are under way at once; more wait.
    pub max_calls: usize,
    /// What its tools can do to the world unless said.
    pub default_class: ToolClass,
    /// When a tool counts as agreed to.
    pub pin: PinPolicy,
    /// What is said about single tools: a name, or a glob with `*` and `?`. An exact name goes before globs, and these in their order.
    pub tools: Vec<(String, ToolSettings)>,
}

/// How many calls of one server are under way at once unless said.
pub const DEFAULT_MAX_CALLS: usize = 64;

/// How a server is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum TransportSettings {
    /// A process of this machine, spoken to over its standard input and output.
    Stdio(ProcessSettings),
    /// A server that is reached over streamable HTTP.
    Http(HttpSettings),
}

impl TransportSettings {
    /// Whether what is told to the server may become known elsewhere.
    pub(crate) fn leaves_the_machine(&self) -> bool {
        match self {
            Self::Stdio(process) => !process.network.is_empty(),
            Self::Http(_) => true,
        }
    }
}

/// A process to start, confined to what is named here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessSettings {
    /// The program: a bare name that is looked up inside the sandbox, or an absolute path.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The only variables it gets.
    pub environment: Vec<(String, SecretString)>,
    /// Where it begins, such as `@project/sub`.
    pub directory: Option<String>,
    /// The mounts that it sees, and whether it may write to them.
    pub mounts: Vec<(String, bool)>,
    /// The hosts that it may reach.
    pub network: Vec<String>,
    /// More folders of the host, to be read.
    pub read: Vec<PathBuf>,
    /// How much it may use.
    pub limits: ServerLimits,
}

/// A server elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpSettings {
    /// Its address.
    pub url: String,
    /// What is sent with every request.
    pub headers: Vec<(String, SecretString)>,
    /// Where a token comes from.
    pub oauth: Option<OAuthSettings>,
}

/// OAuth 2.1 client credentials: the gate itself is the client, and no caller's token is ever passed on.
#[derive(Clone, Debug, PartialEq)]
pub struct OAuthSettings {
    /// Where tokens are given out.
    pub token_url: String,
    /// Who the gate is there.
    pub client_id: String,
    /// How it proves that.
    pub client_secret: SecretString,
    /// What the token is to be good for.
    pub scopes: Vec<String>,
    /// Whom the token is for; the server's address unless said.
    pub resource: Option<String>,
}

/// When a tool counts as agreed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PinPolicy {
    /// What a server names at the first contact is agreed to; what it names later is not.
    #[default]
    FirstUse,
    /// Only what an operator has agreed to.
    Approved,
}

/// What is said about a tool.
#[derive(Clone, Debug, Default)]
pub struct ToolSettings {
    /// Whether it is there at all; `None` is yes.
    pub allowed: Option<bool>,
    /// What it can do to the world.
    pub class: Option<ToolClass>,
    /// What a caller must hold.
    pub permissions: Vec<String>,
    /// What of its answers may leave; `None` is all of it.
    pub policy: Option<OutputPolicy>,
    /// Time for one call.
    pub timeout: Option<Duration>,
}

impl ServerSettings {
    /// Settings with everything left out that can be.
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
            tools: Vec::new(),
        }
    }

    /// What is said about the tool of this name.
    pub(crate) fn settings_for(&self, tool: &str) -> Option<&ToolSettings> {
        let exact = self.tools.iter().find(|(name, _)| name == tool);
        exact
            .or_else(|| self.tools.iter().find(|(glob, _)| glob_matches(glob, tool)))
            .map(|(_, settings)| settings)
    }

    /// Whether a connection that was made with other settings is still the right one.
    pub(crate) fn same_connection(&self, other: &Self) -> bool {
        self.transport == other.transport
            && self.startup_timeout == other.startup_timeout
            && self.max_calls == other.max_calls
            && self.pin == other.pin
    }
}

impl TransportSettings {
    /// The digest of whom is spoken to. Two servers of one name are two servers.
    pub(crate) fn digest(&self) -> Sha256 {
        let mut hasher = Sha256Hasher::new();
        let mut part = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        };
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
            }
            Self::Http(http) => {
                part(b"http");
                part(http.url.as_bytes());
            }
        }
        hasher.finish()
    }
}

/// Whether a name matches a glob of `*` and `?`: greedy with one step back, so that the work stays bounded.
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
    glob.get(at..).unwrap_or_default().iter().all(|left| *left == '*')
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
        let elsewhere = TransportSettings::Http(HttpSettings { url, headers: Vec::new(), oauth: None });
        let leaves = [process(&[]), process(&["example.com"]), elsewhere]
            .map(|transport| transport.leaves_the_machine());
        assert_eq!(leaves, [false, true, true]);
    }
}
