//! `toolgate mcp list`: the upstream servers, and the pins of their tools.

use std::fmt::Write as _;

use serde_json::{Value, json};
use toolgate_assembly::servers::{ServerSelection, ServerStatePaths, Servers, last_lines};
use toolgate_assembly::settings::Settings;
use toolgate_connect::{Finding, HealthState, PinState, ServerHealth};
use toolgate_manifest::ServerConfig;
use toolgate_types::{ToolClass, Trust};

use super::{close_servers, mcp_login, named_servers, print, print_json, serving_runtime};
use crate::arguments::GlobalOptions;
use crate::exit::{CliError, SUCCESS, TOOL_ERROR};
use crate::startup::resolve_settings;
use crate::terminal::{escape_line, warn};

pub(crate) fn run(common: &GlobalOptions, server: Option<&str>) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided)?;
    let which = named_servers(&settings, server)?;
    let rows = rows(&settings, which, |name| server.is_none_or(|server| server == name))?;
    match common.json {
        true => print_json(&Value::Array(rows.iter().map(ServerRow::json).collect()))?,
        false => print(&rows.iter().map(ServerRow::text).collect::<String>())?,
    };
    if rows.is_empty() {
        warn(
            "no server is declared: write `mcp_servers:` in toolgate.yaml, or run `toolgate mcp import FILE`",
        );
    }
    // For scripts: a server that was declared, and cannot be used.
    let failed = rows.iter().any(|row| !row.is_fine());
    Ok(if failed { TOOL_ERROR } else { SUCCESS })
}

/// Starts these servers once, shows how they are, and returns those that are ready, or disabled on purpose.
pub(super) fn ready_servers(
    common: &GlobalOptions,
    settings: &Settings,
    names: &[String],
) -> Result<Vec<String>, CliError> {
    let rows = rows(settings, ServerSelection::All, |name| names.iter().any(|known| known == name))?;
    if !common.json {
        print(&rows.iter().map(ServerRow::text).collect::<String>())?;
    }
    for row in rows.iter().filter(|row| mcp_login::is_waiting_for_login(&row.state)) {
        warn(&format!("`{0}` needs a login; run `toolgate mcp login {0}`", row.name));
    }
    Ok(rows.into_iter().filter(ServerRow::is_fine).map(|row| row.name).collect())
}

fn rows(
    settings: &Settings,
    which: ServerSelection,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<ServerRow>, CliError> {
    let runtime = serving_runtime()?;
    let servers = Servers::start(settings, &runtime, which)?;
    let health = servers.health();
    let declared = settings.loaded.config.mcp_servers.iter().filter(|known| is_wanted(&known.name.value));
    let rows = declared.map(|config| ServerRow::of(settings, config, &health, &servers)).collect();
    runtime.block_on(close_servers(Some(&servers)));
    Ok(rows)
}

/// One server.
struct ServerRow {
    name: String,
    /// What the names of its tools begin with.
    prefix: String,
    state: String,
    detail: String,
    tools: Vec<ToolRow>,
    errors: String,
    /// The state of its login, as text and for programs.
    login: (Option<String>, Value),
    /// What it lists that cannot become a tool.
    left_out: Vec<String>,
}

/// One of its tools.
struct ToolRow {
    /// Its name on the server.
    name: String,
    class: ToolClass,
    allowed: bool,
    pin: PinState,
    description: String,
    /// Findings in the definition that an operator should review.
    advice: Vec<Finding>,
}

impl ServerRow {
    fn of(settings: &Settings, config: &ServerConfig, health: &[ServerHealth], servers: &Servers) -> Self {
        let name = config.name.value.clone();
        let (tools, unreadable) = match tools(config, servers) {
            Ok(tools) => (tools, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let found = health.iter().find(|health| health.name.as_str() == name);
        let lacking = servers.unusable().into_iter().find(|server| server.name == name);
        let (state, detail) = match (found, lacking) {
            _ if config.disabled => ("disabled".to_owned(), String::new()),
            (_, Some(lacking)) => ("not started".to_owned(), lacking.problem.message),
            // A restart after an error is shown as back-off.
            (Some(found), None) if found.state == HealthState::Starting && found.last_error.is_some() => {
                (HealthState::BackingOff.as_str().to_owned(), detail(found))
            }
            (Some(found), None) => (found.state.as_str().to_owned(), detail(found)),
            (None, None) => ("not started".to_owned(), String::new()),
        };
        let detail = unreadable.unwrap_or(detail);
        Self {
            prefix: config.tool_prefix(),
            name,
            state,
            detail,
            tools,
            errors: errors(settings, config, found),
            login: (mcp_login::login_line(settings, config), mcp_login::login_value(settings, config)),
            left_out: found.map(|found| found.rejected_tools.clone()).unwrap_or_default(),
        }
    }

    /// Whether it is ready, or disabled on purpose.
    fn is_fine(&self) -> bool {
        self.state == HealthState::Ready.as_str() || self.state == "disabled"
    }

    fn text(&self) -> String {
        let mut text = format!("{:<16} {:<12} {}", self.name, self.state, escape_line(&self.detail));
        text.truncate(text.trim_end().len());
        text.push('\n');
        if let Some(login) = &self.login.0 {
            let _ = writeln!(text, "    login: {}", escape_line(login));
        }
        for tool in &self.tools {
            let allowed = if tool.allowed { "" } else { ", not allowed" };
            let (name, class) = (escape_line(&tool.name), tool.class.as_str());
            let _ = writeln!(text, "    {name:<28} {class:<12} {}{allowed}", tool.pin.as_str());
            tool.advice
                .iter()
                .for_each(|finding| text.push_str(&format!("        {}\n", advice_line(finding))));
        }
        for words in &self.left_out {
            let _ = writeln!(text, "    {}", escape_line(words));
        }
        // Of a server that runs, only what it was denied.
        let is_ready = self.state == HealthState::Ready.as_str();
        for line in self.errors.lines().filter(|line| !is_ready || line.contains(" denied: ")) {
            let _ = writeln!(text, "    stderr: {}", escape_line(line));
        }
        text
    }

    fn json(&self) -> Value {
        let tool = |tool: &ToolRow| {
            json!({
                "name": tool.name, "tool": format!("{}{}", self.prefix, tool.name), "class": tool.class,
                "allowed": tool.allowed, "pin": tool.pin.as_str(), "description": tool.description,
                "advice": tool.advice.iter().map(advice_json).collect::<Vec<_>>(),
            })
        };
        let tools: Vec<Value> = self.tools.iter().map(tool).collect();
        json!({"server": self.name, "state": self.state, "detail": self.detail, "tools": tools, "leftOut": self.left_out, "stderr": self.errors, "login": self.login.1})
    }
}

/// The end of a server's standard error; of one that is gone, from its log.
fn errors(settings: &Settings, config: &ServerConfig, found: Option<&ServerHealth>) -> String {
    match found.map(|found| found.stderr_tail.clone()) {
        Some(tail) if !tail.is_empty() => tail,
        Some(_) if !config.disabled => {
            let log =
                ServerStatePaths::of(settings, config).map(|state| last_lines(&state.log, MAX_ERROR_LINES));
            log.unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// How much of a log is shown for a server that does not run.
const MAX_ERROR_LINES: usize = 12;

/// A finding on one line. It quotes the server's text, so it is escaped.
pub(crate) fn advice_line(finding: &Finding) -> String {
    let Finding { place, what, words } = finding;
    escape_line(&format!("look at its {place}, it {what}: \"{words}\""))
}

pub(crate) fn advice_json(finding: &Finding) -> Value {
    json!({"place": finding.place, "what": finding.what, "words": finding.words})
}

/// The details of a server beside its state.
fn detail(health: &ServerHealth) -> String {
    if let (Some(error), false) = (&health.last_error, health.state == HealthState::Ready) {
        return error.clone();
    }
    let waiting = match health.suspended {
        0 => String::new(),
        suspended => format!(", {suspended} wait for `toolgate mcp approve {}`", health.name),
    };
    let protocol = health.protocol.as_ref().map(|protocol| format!(", MCP {protocol}")).unwrap_or_default();
    let tools = if health.tools == 1 { "tool" } else { "tools" };
    format!("{} {tools}{waiting}{protocol}", health.tools)
}

fn tools(config: &ServerConfig, servers: &Servers) -> Result<Vec<ToolRow>, String> {
    let name =
        config.name.value.parse().map_err(|error: toolgate_connect::ConnectError| error.to_string())?;
    let Some(key) = servers.pin_key(&name) else { return Ok(Vec::new()) };
    let pins = servers.pins().for_server(&key).map_err(|error| error.to_string())?;
    let row = |(name, pinned): (&str, &toolgate_connect::PinnedTool)| {
        let entry = config.tool(name);
        let class = entry.and_then(|entry| entry.class.as_ref()).or(config.class.as_ref());
        ToolRow {
            name: name.to_owned(),
            class: class.map_or(ToolClass::Destructive, |class| class.value),
            allowed: entry.is_none_or(|entry| entry.allowed),
            pin: pinned.state(),
            description: pinned.offered().map(|offered| offered.escaped_description()).unwrap_or_default(),
            advice: pinned.offered().map(|offered| offered.advice()).unwrap_or_default(),
        }
    };
    Ok(pins.tools().map(row).collect())
}
