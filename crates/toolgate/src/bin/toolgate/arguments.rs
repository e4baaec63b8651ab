//! The command line.

mod conversation;
mod eval;
mod mcp;
mod sessions;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use toolgate_assembly::overrides::SettingsOverrides;
use toolgate_manifest::ServeAuth;
use toolgate_types::{AgentName, Decision, RunId, ToolName, Trust};

use crate::log::{LogFormat, LogLevel};

pub(crate) use self::conversation::{AgentArguments, ConversationArguments, RunArguments};
pub(crate) use self::eval::{EvalArguments, EvalCommand, HostileArguments};
pub(crate) use self::mcp::{
    InstallScope, McpAdd, McpCommand, McpImport, McpInstall, McpInstallGate, McpLogin, McpLogout, McpUnwrap,
    McpUpdate, McpWrap,
};
pub(crate) use self::sessions::{ExportFormat, SessionsCommand};

/// The gate between an LLM agent and the machine.
#[derive(Debug, Parser)]
#[command(name = "toolgate", version, about, long_about = LONG, after_help = AFTER, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: GlobalOptions,
}

impl Cli {
    /// Parses the command line.
    ///
    /// Building clap's description of every command takes longer than the rest of the start, so only the first command that is named on the command line is
    /// built. If its arguments do not parse, all commands are built and parsed again: every error message and help text comes from there.
    pub(crate) fn from_command_line() -> Result<Self, clap::Error> {
        let mut words: Vec<OsString> = std::env::args_os().collect();
        // A person who types nothing but the name begins a chat; a program gets the usage.
        if words.len() == 1 && io::stdin().is_terminal() && io::stdout().is_terminal() {
            words.push("chat".into());
        }
        Self::for_one_command(&words).map_or_else(|| Self::try_parse_from(&words), Ok)
    }

    fn for_one_command(words: &[OsString]) -> Option<Self> {
        let (root, all) =
            (clap::Command::new("toolgate").subcommand_required(true), clap::Command::new("all"));
        let all = Command::augment_subcommands(all);
        let mut commands = words.iter().map(|word| all.find_subcommand(word).cloned()).skip(1);
        match commands.next()? {
            // The command gets the global options with `global(false)`: otherwise clap copies each of them into every nested subcommand.
            Some(command) => {
                let command = GlobalOptions::augment_args(command).mut_args(|option| option.global(false));
                let mut found = root.subcommand(command).try_get_matches_from(words).ok()?;
                let common = GlobalOptions::from_arg_matches(found.subcommand()?.1).ok()?;
                Some(Self { command: Command::from_arg_matches_mut(&mut found).ok()?, common })
            }
            None => {
                let root = GlobalOptions::augment_args(root).subcommand(commands.flatten().next()?);
                Self::from_arg_matches_mut(&mut root.try_get_matches_from(words).ok()?).ok()
            }
        }
    }
}

const LONG: &str = "The gate between an LLM agent and the machine.\n\nA model asks for a tool; Toolgate decides whether that caller may make that \
call with those arguments, asks a person where it must, does it inside the declared workspace, and writes down what happened.";

const AFTER: &str = "Examples:
  toolgate call read_file path=README.md
  toolgate call edit_file '{\"path\": \"a.txt\", \"old_text\": \"x\", \"new_text\": \"y\", \"dry_run\": true}'
  toolgate call run_command '{\"command\": \"make test\"}'
  toolgate tools new word_count -- wc -w -- {file:path}
  toolgate tools --format openai
  toolgate chat --model scripted/demo
  toolgate audit show --decision denied
  toolgate undo

Exit codes: 0 done, 1 the tool answered with an error, 2 usage or configuration, 3 denied, 4 limit (time, rate, resources, steps), 5 the model could not be asked, 130 interrupted.";

// Options of every command. No doc comment, here and on other groups of arguments: clap would show it as the description of the command.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct GlobalOptions {
    /// Configuration file [default: a toolgate.yaml found upward from the workspace or here, and agreed to with `toolgate trust`]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Common options")]
    pub(crate) config: Option<PathBuf>,
    /// Use no configuration file, whatever lies here
    #[arg(long, global = true, conflicts_with = "config", help_heading = "Common options")]
    pub(crate) no_config: bool,
    /// Names, limits and wording of the tools: native, crew, claw, proxy, sidecar, studio
    #[arg(long, global = true, value_name = "NAME", help_heading = "Common options")]
    pub(crate) profile: Option<String>,
    /// The directory that tools work in, mounted as @project; created if it is missing [default: the current directory]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Common options")]
    pub(crate) workspace: Option<PathBuf>,
    /// Another directory, as @name=DIR, or @name=DIR:ro for reading only; may be given several times
    #[arg(long = "mount", global = true, value_name = "@NAME=DIR[:ro]", help_heading = "Common options")]
    pub(crate) mounts: Vec<String>,
    /// Where the audit record, the undo journal, keys, runs and quarantined files are kept [default: $XDG_STATE_HOME/toolgate, else ~/.local/state/toolgate]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Common options")]
    pub(crate) state_dir: Option<PathBuf>,
    /// The run that calls belong to; has its own @state in profile crew
    #[arg(long = "run", global = true, value_name = "ID", help_heading = "Common options")]
    pub(crate) run: Option<RunId>,
    /// The declared agent to act as; a person acts as none
    #[arg(long, global = true, value_name = "NAME", help_heading = "Common options")]
    pub(crate) agent: Option<AgentName>,
    /// How much is asked: supervised, guided or autonomous
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Common options")]
    pub(crate) trust: Option<Trust>,
    /// Call as the subject of this token, instead of as the person at this machine
    #[arg(
        long,
        global = true,
        value_name = "JWT",
        env = "TOOLGATE_TOKEN",
        hide_env_values = true,
        help_heading = "Common options"
    )]
    pub(crate) token: Option<GivenToken>,
    /// Plain output for screen readers: no frames, no colours, nothing is redrawn
    #[arg(
        long,
        global = true,
        env = "TOOLGATE_PLAIN",
        value_parser = clap::builder::FalseyValueParser::new(),
        help_heading = "Common options"
    )]
    pub(crate) plain: bool,
    /// Answer in JSON
    #[arg(long, global = true, help_heading = "Common options")]
    pub(crate) json: bool,
    /// No notes on standard error; errors of usage are still said
    #[arg(short, long, global = true, help_heading = "Common options")]
    pub(crate) quiet: bool,
    /// Say more, on standard error: what is in use, and how a call went
    #[arg(short, long, global = true, help_heading = "Common options")]
    pub(crate) verbose: bool,
    /// One line for each call on standard error, as text or json: tool, path by its alias, result, category, duration
    #[arg(
        long,
        global = true,
        value_enum,
        hide_possible_values = true,
        value_name = "FORMAT",
        help_heading = "Common options"
    )]
    pub(crate) log: Option<LogFormat>,
    /// Which of these lines: error, warn (calls that were refused or failed), info or debug (beginnings too); without it RUST_LOG, or info
    #[arg(
        long,
        global = true,
        value_enum,
        hide_possible_values = true,
        value_name = "LEVEL",
        help_heading = "Common options"
    )]
    pub(crate) log_level: Option<LogLevel>,
}

impl GlobalOptions {
    /// The options that take precedence over the configuration.
    pub(crate) fn overrides(&self) -> SettingsOverrides {
        SettingsOverrides {
            config: self.config.clone(),
            config_text: None,
            no_config: self.no_config,
            profile: self.profile.clone(),
            workspace: self.workspace.clone(),
            mounts: self.mounts.clone(),
            state_dir: self.state_dir.clone(),
            audit_dir: None,
            run: self.run.clone(),
            agent: self.agent.clone(),
            trust: self.trust,
            token: self.token.as_ref().map(|token| token.0.clone()),
        }
    }
}

/// A token, which is never printed.
#[derive(Clone)]
pub(crate) struct GivenToken(pub(crate) String);

impl From<String> for GivenToken {
    fn from(token: String) -> Self {
        Self(token)
    }
}

impl fmt::Debug for GivenToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("GivenToken(…)")
    }
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Make one call through the whole gate; prints exactly what a model would be given
    #[command(after_help = "Examples:
  toolgate call read_file path=src/main.rs start_line=1 end_line=20
  toolgate call read_file '{\"path\": \"src/main.rs\", \"start_line\": 1, \"end_line\": 20}'
  echo '{\"pattern\": \"fn main\"}' | toolgate call search_files -
  toolgate call run_command '{\"command\": \"make test\", \"timeout_ms\": 30000}'
  toolgate call --profile crew --mount @pkg=./pkg fs.read '{\"path\": \"@pkg/workflow.md\"}'")]
    Call {
        /// The tool's name
        tool: String,
        /// Its arguments: KEY=VALUE by the types of its schema, KEY:=JSON, all of them as one JSON object, or - to read that from standard input
        #[arg(value_name = "KEY=VALUE | ARGS_JSON | -")]
        arguments: Vec<String>,
        /// End it after this time, such as 500ms, 5s or 2m, where the tool's own deadline is later
        #[arg(long, value_name = "TIME", value_parser = deadline)]
        timeout: Option<Duration>,
    },
    /// List the tools as a model would see them, or begin a new one
    #[command(after_help = "Examples:
  toolgate tools
  toolgate tools --format openai --agent reviewer
  toolgate tools new word_count -- wc -w -- {file:path}")]
    Tools {
        /// The shape to write them in
        #[arg(long, value_enum, default_value_t = ToolListFormat::Table)]
        format: ToolListFormat,
        #[command(subcommand)]
        command: Option<ToolsCommand>,
    },
    /// Check configuration, manifests and policies; every problem with file, line and remedy
    #[command(after_help = "Examples:
  toolgate check
  toolgate check tools.d/git_log.yaml policies/everybody.cedar
  toolgate check deploy/toolgate.yaml --strict --json")]
    Check {
        /// The files [default: the configuration in use, and every manifest and policy that it names]
        files: Vec<PathBuf>,
        /// Let warnings count as problems: end with 2 when there are any
        #[arg(long)]
        strict: bool,
    },
    /// Agree to a configuration that was found, after seeing what it would do
    #[command(after_help = "Examples:
  toolgate trust                    the toolgate.yaml that would be found here
  toolgate trust ~/project --yes    after it was read
  toolgate trust AGENTS.md          instructions for models
  toolgate trust --list
  toolgate trust --revoke ~/project")]
    Trust(TrustArguments),
    /// List and revoke lasting answers to approval questions
    #[command(after_help = "Examples:
  toolgate grants
  toolgate grants --json
  toolgate grants revoke g3f9a1c2b7d10
  toolgate grants revoke --all")]
    Grants {
        #[command(subcommand)]
        command: Option<GrantsCommand>,
    },
    /// Give a model one task; it works on it with the tools, and its answer is printed
    #[command(after_help = "Examples:
  toolgate run 'what is in this folder?'
  toolgate run --model ollama/qwen3 'fix the typo in README.md'
  git diff | toolgate run --json - > events.jsonl
  toolgate run --model scripted/demo 'show me'    without a key, by a script that came along")]
    Run(RunArguments),
    /// Speak with a model at the terminal, and watch and decide what it does
    #[command(after_help = "Examples:
  toolgate chat
  toolgate chat --model openrouter/auto --trust supervised
  toolgate chat --continue
  toolgate chat --model scripted/demo    without a key, by a script that came along")]
    Chat(ConversationArguments),
    /// Serve a scripted model in the wires of real ones
    #[command(after_help = "Example:
  toolgate scripted script.yaml --listen 127.0.0.1:9000")]
    Scripted {
        /// The script, or demo for the one that came along
        file: PathBuf,
        /// Where to listen; only an address of this machine, and port 0 takes any that is free
        #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = address)]
        listen: SocketAddr,
    },
    /// Serve MCP on standard input and output, for a client that starts this program
    #[command(after_help = "Examples:
  toolgate mcp --workspace ~/project
  toolgate mcp --workspace ~/project --trust autonomous    when the client asks before every call itself
  toolgate mcp install --client claude-code
  toolgate mcp import ~/.cursor/mcp.json
  toolgate mcp approve")]
    Mcp {
        #[command(subcommand)]
        command: Option<McpCommand>,
        /// Where no workspace is named: the directory that the client's roots may lie in [default: the current directory]
        #[arg(long, value_name = "DIR")]
        roots_below: Option<PathBuf>,
    },
    /// Serve MCP over HTTP, at /mcp; with /healthz, /readyz and /metrics
    #[command(after_help = "Examples:
  toolgate serve --workspace ~/project
  toolgate serve --listen 0.0.0.0:8420 --auth jwt --allow-host gate.example.com --public-url https://gate.example.com")]
    Serve(ServeArguments),
    /// Make tokens for callers on this machine
    #[command(subcommand)]
    Token(TokenCommand),
    /// Look at the record of calls
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Look at conversations that are kept, and go on with them
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// List what calls changed
    #[command(after_help = "Examples:
  toolgate changes
  toolgate changes --session run-42 --json")]
    Changes {
        /// Only what this session changed; the beginning of its id is enough
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// Also changes made in other workspaces
        #[arg(long)]
        all: bool,
    },
    /// Put back what calls changed: the last call, one call, or a whole session
    #[command(after_help = "Examples:
  toolgate undo                     the last change in this workspace
  toolgate undo --call 0199…        one call
  toolgate undo --session run-42    everything a session changed, newest first")]
    Undo {
        /// This call; the beginning of its id is enough
        #[arg(long, value_name = "ID", conflicts_with = "session")]
        call: Option<String>,
        /// Everything this session changed; the beginning of its id is enough
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// Put the old content back even over what others changed since
        #[arg(long)]
        force: bool,
    },
    /// Tell what this machine can enforce, and how MCP servers and providers of models are
    #[command(after_help = "Examples:
  toolgate doctor
  toolgate doctor --offline --json")]
    Doctor {
        /// Start and reach no server
        #[arg(long)]
        offline: bool,
    },
    /// Play hostile and honest cases against this gate, and judge what happened
    #[command(after_help = "Examples:
  toolgate eval
  toolgate eval try_path_traversal --html report.html
  toolgate eval evals/boundary --junit results.xml
  toolgate eval --model ollama/qwen3 --tries 5 --json")]
    Eval(EvalArguments),
    /// List the models that can be used, or why a provider cannot be reached
    #[command(after_help = "Examples:
  toolgate models
  toolgate models ollama
  toolgate models --json | jq -r '.[].models[] | select(.supportsTools) | .name'")]
    Models {
        /// One provider [default: all]
        #[arg(value_name = "PROVIDER")]
        provider: Option<String>,
    },
    /// Write the manual, as one page or as one page per command
    #[command(after_help = "Examples:
  toolgate man | man -l -
  toolgate man ~/.local/share/man/man1")]
    Man {
        /// The directory; created if it is missing
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Write a completion script for a shell
    #[command(after_help = "Example:
  toolgate completions bash > ~/.local/share/bash-completion/completions/toolgate")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TrustArguments {
    /// The configuration, or its directory, or AGENTS.md or CLAUDE.md [default: the toolgate.yaml that would be found]
    pub(crate) file: Option<PathBuf>,
    /// Agree without being asked, once it is shown
    #[arg(short, long, conflicts_with_all = ["list", "revoke"])]
    pub(crate) yes: bool,
    /// List what was agreed to
    #[arg(long, conflicts_with_all = ["revoke", "file"])]
    pub(crate) list: bool,
    /// Take the agreement back
    #[arg(long)]
    pub(crate) revoke: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GrantsCommand {
    /// List them, with what each covers, for whom and until when
    List,
    /// Revoke one, which counts from the next call on, also in gates that run
    Revoke {
        /// The id of the grant; the beginning of it is enough
        #[arg(required_unless_present = "all")]
        id: Option<String>,
        /// Revoke all of them, also if they cannot be read
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ServeArguments {
    /// Where to listen; port 0 takes any that is free [default: 127.0.0.1:8420]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// How callers say who they are [default: jwt where `callers:` is configured, else token]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) auth: Option<AuthArgument>,
    /// Another name that callers reach this gate by: NAME or NAME:PORT; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// Pages that may use this gate from a browser: SCHEME://HOST[:PORT]; may be given several times
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// The address that callers know, where a proxy stands before this gate
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// How long calls under way may go on after the first SIGTERM or Ctrl-C: 10s, 1m [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    pub(crate) grace: Option<Duration>,
    #[command(flatten)]
    pub(crate) agent: AgentArguments,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum AuthArgument {
    /// One token for the person, kept in the state directory
    Token,
    /// Tokens of the issuer under `callers:`, else of this machine
    Jwt,
    /// Nothing at all; only on an address of this machine
    None,
}

impl From<AuthArgument> for ServeAuth {
    fn from(argument: AuthArgument) -> Self {
        match argument {
            AuthArgument::Token => Self::Token,
            AuthArgument::Jwt => Self::Jwt,
            AuthArgument::None => Self::None,
        }
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let wrong = |_| "write an address and a port, such as 127.0.0.1:8420 or [::1]:8420".to_owned();
    local.as_deref().unwrap_or(text).parse().map_err(wrong)
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum ToolsCommand {
    /// Write a first manifest for a command, to be narrowed by hand
    #[command(after_help = "Examples:
  toolgate tools new word_count -- wc -w -- {file:path}
  toolgate tools new recent_commits --output - -- git log -n {count:integer}")]
    New {
        /// What models call the tool
        name: ToolName,
        /// The file to write, or - for standard output [default: tools.d/NAME.yaml beside the configuration]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// The command as it would be typed, with {name} or {name:type} for what varies; types: string, integer, number, boolean, path
        #[arg(last = true, required = true, value_name = "COMMAND")]
        words: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum TokenCommand {
    /// Sign a token with a secret of this machine; --agent and --trust go into it
    #[command(after_help = "Examples:
  toolgate token mint --subject alice --permission git:read
  TOOLGATE_TOKEN=$(toolgate -q token mint --subject ci --agent reviewer --lifetime 10m) toolgate tools")]
    Mint {
        /// Who calls with it; the name in the record
        #[arg(long, value_name = "NAME")]
        subject: String,
        /// What it grants; may be given several times
        #[arg(long = "permission", value_name = "P")]
        permissions: Vec<String>,
        /// How long it is good: 90s, 30m or 1h; at most 24h
        #[arg(long, value_name = "TIME", default_value = "1h", value_parser = lifetime)]
        lifetime: Duration,
        /// Who shall believe it [default: the first audience of the configuration, else toolgate]
        #[arg(long, value_name = "NAME")]
        audience: Option<String>,
    },
}

fn deadline(text: &str) -> Result<Duration, String> {
    let wrong = || "write a whole number and ms, s, m or h, such as 500ms or 5s".to_owned();
    let time = match text.strip_suffix("ms") {
        Some(count) => count.parse().map(Duration::from_millis).map_err(|_| wrong()),
        None => lifetime(text).map_err(|_| wrong()),
    };
    time.and_then(|time| if time.is_zero() { Err("no call is done in no time".to_owned()) } else { Ok(time) })
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let wrong = || "write a whole number and s, m or h, such as 30m".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        _ => return Err(wrong()),
    };
    let count: u64 = text.trim_end_matches(unit).parse().map_err(|_| wrong())?;
    count.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum AuditCommand {
    /// Check the whole record; names the first line that was changed, cut or removed
    #[command(after_help = "Exit codes:
  0  the record is whole
  1  something is wrong with it
  6  it is whole, and says itself that calls are not in it (gaps)

Examples:
  toolgate audit verify
  toolgate audit verify --public-key keys/audit.pub --checkpoints /mnt/elsewhere/checkpoints.jsonl")]
    Verify {
        /// Checkpoints that were kept elsewhere
        #[arg(long, value_name = "FILE")]
        checkpoints: Option<PathBuf>,
        /// The public key that must have signed them: 64 hexadecimal digits, or a file that holds them
        #[arg(long, value_name = "KEY")]
        public_key: Option<String>,
    },
    /// Show records, oldest first, one line each; with --call everything about one
    #[command(after_help = "Examples:
  toolgate audit show --decision denied --since 2026-11-01
  toolgate audit show --call 8e77b0a0
  toolgate audit show --tool write_file --json")]
    Show {
        #[command(flatten)]
        filter: AuditFilter,
        /// At most this many: the newest
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Times in UTC, not in the local time zone
        #[arg(long)]
        utc: bool,
    },
    /// Show the last records, and with --follow every new one
    #[command(after_help = "Examples:
  toolgate audit tail -n 3
  toolgate audit tail --follow --json")]
    Tail {
        /// How many
        #[arg(short = 'n', long, default_value_t = 10)]
        lines: usize,
        /// Go on showing new records
        #[arg(short, long)]
        follow: bool,
        /// Times in UTC, not in the local time zone
        #[arg(long)]
        utc: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct AuditFilter {
    /// Everything about this call; the beginning or the last eight digits of its id are enough
    #[arg(long, value_name = "ID")]
    pub(crate) call: Option<String>,
    /// Only this tool
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Only this caller
    #[arg(long)]
    pub(crate) caller: Option<String>,
    /// Only this session; the beginning of its id is enough
    #[arg(long)]
    pub(crate) session: Option<String>,
    /// Only this decision: allowed, denied or error
    #[arg(long, value_parser = decision)]
    pub(crate) decision: Option<Decision>,
    /// Not before this time: 2026-11-15, 2026-11-15T08:00:00Z, or an age such as 30m, 2h or 7d
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Not after this time, written the same way
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
}

fn decision(text: &str) -> Result<Decision, String> {
    match text.to_ascii_lowercase().as_str() {
        "allowed" => Ok(Decision::Allowed),
        "denied" => Ok(Decision::Denied),
        "error" => Ok(Decision::Error),
        _ => Err("use allowed, denied or error".to_owned()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolListFormat {
    /// For people
    Table,
    /// OpenAI function tools
    Openai,
    /// Anthropic tools
    Anthropic,
    /// Ollama tools
    Ollama,
    /// MCP tools/list
    Mcp,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn typed(line: &str) -> Vec<OsString> {
        std::iter::once("toolgate").chain(line.split_whitespace()).map(OsString::from).collect()
    }

    #[test]
    fn commands_are_described_without_contradiction() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_command_is_understood_alone_as_among_all_others() {
        for line in [
            "call read_file {} --json",
            "call read_file path=a.txt start_line=-3 --json lines:=[1]",
            "man pages",
            "call read_file {} --timeout 5s",
            "call --profile crew --mount @pkg=./pkg fs.read",
            "tools --format mcp --agent reviewer",
            "tools --json new word_count --output - -- wc -w",
            "check a.yaml b.yaml --strict",
            "trust --list --json",
            "trust here --yes",
            "grants",
            "grants --json revoke g1",
            "tools --no-config",
            "run --model scripted/demo hello",
            "chat --continue",
            "scripted demo --listen localhost:0",
            "mcp --workspace here --trust autonomous --state-dir there",
            "mcp --workspace here install --client cursor --dry-run",
            "mcp approve files --yes",
            "serve --auth none --grace 1m -q",
            "token --trust guided mint --subject alice --permission git:read",
            "audit --json show --decision denied --limit 3",
            "sessions list",
            "changes --all",
            "undo --force",
            "doctor --offline",
            "completions bash",
            "-q call read_file {}",
            "--json --workspace here audit show --limit 3 --state-dir there",
            "--trust guided mcp install --client cursor --workspace here",
        ] {
            let alone = Cli::for_one_command(&typed(line)).unwrap_or_else(|| panic!("{line}"));
            let among = Cli::try_parse_from(typed(line)).unwrap();
            assert_eq!(format!("{alone:?}"), format!("{among:?}"), "{line}");
        }
    }

    #[test]
    fn what_does_not_fit_one_command_is_said_by_all() {
        for line in [
            "",
            "--version",
            "mcp --version",
            "mcp --help",
            "help mcp",
            "--workspace call mcp",
            "--workspace mcp",
            "--json --help call",
            "mpc",
            "mcp instal",
            "call",
            "audit",
            "serve --no-such-option",
            "mcp install --client cursor --workspace here",
        ] {
            assert!(Cli::for_one_command(&typed(line)).is_none(), "{line}");
        }
    }
}
