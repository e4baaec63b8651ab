//! `toolgate mcp`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use toolgate_clients::{CLIENTS, McpClient};
use toolgate_types::Sha256;

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum McpCommand {
    /// Make a client of MCP start this gate: shows the entry, asks, and writes it into the client's file
    #[command(after_help = "Examples:
  toolgate mcp install --client claude-code --workspace ~/project
  toolgate mcp install --client vscode --scope project --trust guided
  toolgate mcp install --client cursor --dry-run")]
    Install(McpInstallGate),
    /// Take the entry for this gate out of a client's file again: shows it, asks, and touches nothing else
    #[command(after_help = "Examples:
  toolgate mcp uninstall --client claude-code
  toolgate mcp uninstall --client vscode --scope project --dry-run")]
    Uninstall(McpInstall),
    /// Turn the servers of a client's file into `mcp_servers`, so that they run behind the gate
    #[command(after_help = "Examples:
  toolgate mcp import ~/.cursor/mcp.json
  toolgate mcp import ~/.codex/config.toml tracker
  toolgate mcp import .vscode/mcp.json --write")]
    Import(McpImport),
    /// Put the servers of a client behind the gate, and the gate in their place: shows all of it, asks, and keeps the client's file as it was
    #[command(after_help = "Examples:
  toolgate mcp wrap --client claude-code
  toolgate mcp wrap --client cursor --rw ~/notes
  toolgate mcp wrap --client codex --dry-run")]
    Wrap(McpWrap),
    /// Put the file of a client back as it was before `mcp wrap`: byte for byte, or only its servers where it was changed since
    #[command(after_help = "Example:
  toolgate mcp unwrap --client claude-code")]
    Unwrap(McpUnwrap),
    /// Put one server behind the gate, by the command that starts it
    #[command(after_help = "Examples:
  toolgate mcp add memory -- npx -y @modelcontextprotocol/server-memory
  toolgate mcp add git --yes -- uvx mcp-server-git --repository ~/project")]
    Add(McpAdd),
    /// Install packages of servers anew: shows versions and what changes in their tools, and asks
    #[command(after_help = "Examples:
  toolgate mcp update
  toolgate mcp update memory --yes")]
    Update(McpUpdate),
    /// Log in at a hosted server with a browser (OAuth): says where and for what, and keeps the token encrypted
    #[command(after_help = "Examples:
  toolgate mcp login tracker
  toolgate mcp login tracker --scope issues:write
  toolgate mcp login tracker --paste
  toolgate mcp login tracker --caller alice@example.com")]
    Login(McpLogin),
    /// Forget a login, and withdraw its token where the authorization server offers that
    #[command(after_help = "Example:
  toolgate mcp logout tracker")]
    Logout(McpLogout),
    /// Show what a server wrote to standard error
    Logs {
        /// The server
        server: String,
        /// Wait for more
        #[arg(short, long)]
        follow: bool,
    },
    /// List the servers behind the gate: how they are, their tools, and what was agreed about these
    List {
        /// Only this server
        server: Option<String>,
    },
    /// Agree to tools of servers that are new or changed: shows each, and asks
    #[command(after_help = "Examples:
  toolgate mcp approve
  toolgate mcp approve --all
  toolgate mcp approve files read_text_file --yes --digest SHA256")]
    Approve {
        /// Only this server
        server: Option<String>,
        /// Only this tool, as the server calls it
        tool: Option<String>,
        /// All of them on one page with one question
        #[arg(long, conflicts_with = "tool")]
        all: bool,
        /// Do not ask; alone, this agrees to whatever is offered now, which may not be what was shown before
        #[arg(short, long)]
        yes: bool,
        /// Agree only to the definition with this digest, as it was shown, or with --all to the page with this digest; can be given several times
        #[arg(long = "digest", value_name = "SHA256", requires = "yes")]
        digests: Vec<Sha256>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct McpImport {
    /// The client's file, in JSON or TOML, or - for standard input
    #[arg(value_name = "FILE | -")]
    pub(crate) file: Option<PathBuf>,
    /// The file of this client, for all of your sessions
    #[arg(long, value_name = "NAME", value_parser = known_client(), conflicts_with = "file")]
    pub(crate) client: Option<&'static McpClient>,
    /// Only these servers, as the client or the gate calls them
    #[arg(value_name = "SERVER")]
    pub(crate) servers: Vec<String>,
    /// Add those that are not declared yet to the configuration in use, instead of printing them
    #[arg(long)]
    pub(crate) write: bool,
    /// Do not ask: install their packages, agree to the configuration, and start each server once
    #[arg(short, long, requires = "write")]
    pub(crate) yes: bool,
    /// A directory of theirs that they may change; can be given several times
    #[arg(long, value_name = "DIR")]
    pub(crate) rw: Vec<PathBuf>,
}

// `toolgate mcp wrap`.
#[derive(Args, Debug)]
pub(crate) struct McpWrap {
    #[command(flatten)]
    pub(crate) install: McpInstall,
    /// A directory of theirs that they may change; can be given several times
    #[arg(long, value_name = "DIR")]
    pub(crate) rw: Vec<PathBuf>,
}

// `toolgate mcp unwrap`.
#[derive(Args, Debug)]
pub(crate) struct McpUnwrap {
    #[command(flatten)]
    pub(crate) install: McpInstall,
    /// Put it back byte for byte also if it was changed since; otherwise what was changed stays
    #[arg(long)]
    pub(crate) force: bool,
}

// `toolgate mcp add`.
#[derive(Args, Debug)]
pub(crate) struct McpAdd {
    /// Its name
    pub(crate) name: String,
    /// A variable of its environment; can be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// A directory among its arguments that it may change; can be given several times
    #[arg(long, value_name = "DIR")]
    pub(crate) rw: Vec<PathBuf>,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// The command that starts it
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

// `toolgate mcp login`.
#[derive(Args, Debug)]
pub(crate) struct McpLogin {
    /// The server
    pub(crate) server: String,
    /// The login of this caller, for a server with `oauth: {per_caller: true}`
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) caller: Option<String>,
    /// A scope to ask for besides; can be given several times
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// Only print the address, and wait for a browser of this machine
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Log in with a browser elsewhere, and paste the address of its last page
    #[arg(long, conflicts_with = "no_browser")]
    pub(crate) paste: bool,
    /// How many seconds to wait for the browser
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,
}

// `toolgate mcp logout`.
#[derive(Args, Debug)]
pub(crate) struct McpLogout {
    /// The server
    pub(crate) server: String,
    /// The login of this caller
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) caller: Option<String>,
}

// `toolgate mcp update`.
#[derive(Args, Debug)]
pub(crate) struct McpUpdate {
    /// Only this server
    pub(crate) server: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Install it also if it is up to date, or was changed since it was installed
    #[arg(long)]
    pub(crate) reinstall: bool,
}

// `toolgate mcp install`.
#[derive(Args, Debug)]
pub(crate) struct McpInstallGate {
    #[command(flatten)]
    pub(crate) install: McpInstall,
    /// The address of a running `toolgate serve` in place of a command; without one, the address that the configuration in use listens on
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = address)]
    pub(crate) http: Option<String>,
    /// The workspace of a session is the directory that the client has open, if it lies in this one
    #[arg(long, value_name = "DIR", conflicts_with = "http")]
    pub(crate) roots_below: Option<PathBuf>,
}

// `toolgate mcp install` and `toolgate mcp uninstall`.
#[derive(Args, Debug)]
pub(crate) struct McpInstall {
    /// The client
    #[arg(long, value_name = "NAME", value_parser = known_client())]
    pub(crate) client: &'static McpClient,
    /// What the client calls the gate
    #[arg(long, default_value = "toolgate", value_name = "NAME", value_parser = entry_name)]
    pub(crate) name: String,
    /// Whose sessions it is for
    #[arg(long, value_enum, default_value_t = InstallScope::User)]
    pub(crate) scope: InstallScope,
    /// The client's file, where it is not the usual one
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Only show it
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
}

/// Whose sessions an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InstallScope {
    /// All of yours
    User,
    /// Those in this directory
    Project,
}

/// One of the clients, by its name.
fn known_client() -> impl TypedValueParser<Value = &'static McpClient> {
    let names = CLIENTS.iter().map(|client| PossibleValue::new(client.name).help(client.title));
    PossibleValuesParser::new(names).try_map(|name| McpClient::named(&name).ok_or("there is no such client"))
}

/// The address of a gate.
fn address(text: &str) -> Result<String, String> {
    let plain = |one: char| one.is_ascii_alphanumeric() || "-._~:/[]%".contains(one);
    let is_address = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    match text.is_empty() || (is_address && text.chars().all(plain)) {
        true => Ok(text.to_owned()),
        false => Err("write an address such as http://127.0.0.1:8420/mcp, without a token".to_owned()),
    }
}

/// A name that every client accepts.
fn entry_name(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    match (1..=64).contains(&text.len()) && text.bytes().all(allowed) {
        true => Ok(text.to_owned()),
        false => Err("use 1 to 64 of A-Z a-z 0-9 _ -".to_owned()),
    }
}
