//! Imports the JSON of an MCP client as `mcp_servers`.
//!
//! Nothing is opened or started here. A value that is named like a secret or looks like one is not copied: it becomes a
//! variable of the gate's environment. Detection is heuristic, so it replaces more than necessary. Settings without a
//! counterpart get a note instead of being dropped silently, and a server that the gate cannot use is left out, with the
//! reason.

mod arguments;
mod container_command;
mod container_entry;
mod entry;
mod insert;
mod known_servers;
mod mounts;
mod package_command;
mod secret_variables;
mod variable_name;
mod server_section;
mod variables;

use std::fmt::Write as _;

pub use insert::{InsertError, insert_servers};
use known_servers::BrowserArguments;
pub use mounts::ImportedMount;
use secret_variables::{SecretVariables, ServerImport};
use serde_json::Value;

use toolgate_manifest::{
    Config, ConfigProblems, ServerConfig, ServerProcessConfig, ServerTransport, VariableText, quoted,
};

use crate::jsonc::{JsoncEditError, parse_jsonc};
use crate::toml::read_toml;
use crate::yaml::read_servers;

/// The servers of a client's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// In file order.
    pub servers: Vec<ImportedServer>,
    /// Servers that the gate cannot use.
    pub left_out: Vec<LeftOut>,
    /// Notes about the whole file.
    pub notes: Vec<String>,
    /// Mounts of the configuration that the servers need.
    pub mounts: Vec<ImportedMount>,
}

/// A server that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name in the client's file.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedServer {
    /// Its name in `mcp_servers`.
    pub name: String,
    /// Its name in the client's file.
    pub client_name: String,
    /// Its program, without a leading `env`; `None` for a URL.
    pub program: Option<String>,
    /// The lines below the name, without indentation.
    pub lines: Vec<String>,
    /// Notes about it.
    pub notes: Vec<String>,
    /// Paths of the host among its arguments and variables.
    pub paths: Vec<String>,
    /// Of a container image: which of these paths are directories, and where the container has each.
    pub container_paths: Option<Vec<(String, String)>>,
    /// Its working directory, if that is a path of the host.
    pub directory: Option<String>,
    /// Whether it is of no use unless it may change the files that its arguments name.
    pub writes: bool,
    words: Vec<String>,
    browser: Option<&'static BrowserArguments>,
}

/// Why nothing was imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The text cannot be parsed.
    #[error(transparent)]
    Unreadable(#[from] JsoncEditError),
    /// It is neither JSON nor TOML.
    #[error("{in_json}")]
    Neither {
        /// Why it is not JSON.
        in_json: JsoncEditError,
        /// Why it is not TOML.
        in_toml: String,
    },
    /// It contains no servers.
    #[error("there are no MCP servers in it")]
    NoServers,
}

impl Imported {
    /// The servers as the key `mcp_servers` of a configuration file.
    #[must_use]
    pub fn render(&self) -> String {
        let entries: String = self.servers.iter().map(|server| server.render("  ")).collect();
        format!("{}mcp_servers:\n{entries}", self.render_mounts())
    }

    /// Leaves out every server whose program is the running gate, under any name; the caller decides that with `is_gate`.
    pub fn leave_out_gate(&mut self, is_gate: impl Fn(&str) -> bool) {
        let is_gate = |server: &mut ImportedServer| server.program.as_deref().is_some_and(&is_gate);
        self.left_out.extend(
            self.servers
                .extract_if(.., is_gate)
                .map(|server| LeftOut { name: server.client_name, reason: entry::THIS_GATE.to_owned() }),
        );
    }
}

impl ImportedServer {
    fn render(&self, indent: &str) -> String {
        let mut text = format!("{indent}{}:\n", quoted(&self.name));
        for line in &self.lines {
            let _ = writeln!(text, "{indent}{indent}{line}");
        }
        text
    }

    /// Whether a configured server is this one: the same command or URL, whatever other settings were added.
    #[must_use]
    pub fn matches(&self, declared: &ServerConfig) -> bool {
        let parsed = self.parsed().ok();
        let own = parsed.as_ref().and_then(|config| config.mcp_servers.first());
        own.is_some_and(|own| match (&own.transport, &declared.transport) {
            (ServerTransport::Process(own), ServerTransport::Process(declared)) => {
                let arguments = |process: &ServerProcessConfig| -> Vec<VariableText> {
                    process.arguments.iter().map(|argument| argument.value.clone()).collect()
                };
                let package = |process: &ServerProcessConfig| {
                    process.package.as_ref().map(|package| package.value.newest())
                };
                own.program.value == declared.program.value
                    && package(own) == package(declared)
                    && arguments(own) == arguments(declared)
            }
            (ServerTransport::Remote(own), ServerTransport::Remote(declared)) => {
                own.url.value == declared.url.value
            }
            _ => false,
        })
    }

    /// Gives a server that drives a browser this one of the system; `false` if it needs none, or has one.
    pub fn use_browser(&mut self, program: Option<&str>) -> bool {
        let Some(browser) = self.browser.take() else { return false };
        let Some(program) = program else { return true };
        self.words.extend([browser.program.to_owned(), program.to_owned()]);
        let missing = browser.more.iter().filter(|word| !self.words.iter().any(|known| known == *word));
        let missing: Vec<String> = missing.map(|word| (*word).to_owned()).collect();
        self.words.extend(missing);
        let at = self.lines.iter().position(|line| line.starts_with("args: "));
        let place = at.unwrap_or(1).min(self.lines.len());
        self.lines.retain(|line| !line.starts_with("args: "));
        self.lines.splice(place..place, entry::arguments_line(&self.words));
        true
    }

    /// The program that its entry starts as it is; `None` for a package, an image or an address.
    #[must_use]
    pub fn own_program(&self) -> Option<&str> {
        let is_own = self.lines.first().is_some_and(|line| line.starts_with("command: "));
        self.program.as_deref().filter(|program| is_own && !program.contains('$'))
    }

    /// Names the program by its path.
    pub fn name_program(&mut self, path: &str) {
        let is_named = |line: &&mut String| {
            self.program.as_deref().is_some_and(|program| **line == format!("command: {}", quoted(program)))
        };
        if let Some(line) = self.lines.first_mut().filter(is_named) {
            *line = format!("command: {}", quoted(path));
            self.program = Some(path.to_owned());
        }
    }

    /// Shows the server these paths, read-only.
    pub fn show_paths(&mut self, paths: &[String]) {
        if paths.is_empty() {
            return;
        }
        let written: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
        let is_mounts = |line: &String| line.starts_with("mounts:") || line.starts_with("# mounts:");
        let at = self.lines.iter().position(is_mounts).unwrap_or(self.lines.len());
        self.lines.insert(at, format!("read: [{}]", written.join(", ")));
    }

    fn parsed(&self) -> Result<Config, ConfigProblems> {
        Config::parse("import", &format!("mcp_servers:\n{}", self.render("  ")))
    }

    /// The first problem that a configuration with this entry has.
    fn refused(&self) -> Option<String> {
        let problems = self.parsed().err()?;
        problems.as_slice().first().map(|problem| {
            let help = problem.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
            format!("{}{help}", problem.message)
        })
    }
}

/// Imports the servers of a client's file: Claude Desktop, Claude Code, Cursor, Windsurf, Gemini, VS Code, Zed or opencode,
/// comments included.
///
/// # Errors
/// The text is not JSON, or has no servers.
pub fn import_servers(text: &str) -> Result<Imported, ImportError> {
    import_from(&parse_jsonc(text)?)
}

/// The servers of a client's file in JSON, in TOML, or in goose's YAML.
///
/// # Errors
/// The text is neither, or has no servers.
pub fn import_text(text: &str) -> Result<Imported, ImportError> {
    match import_servers(text) {
        Err(ImportError::Unreadable(in_json)) => match read_toml(text) {
            Ok(root) => import_from(&root),
            Err(in_toml) => match read_servers(text, "extensions") {
                Some(root) => import_from(&root),
                None => Err(ImportError::Neither { in_json, in_toml }),
            },
        },
        read => read,
    }
}

/// The same for a parsed file in another format: Codex has `mcp_servers` in TOML.
///
/// # Errors
/// There are no servers.
pub fn import_from(root: &Value) -> Result<Imported, ImportError> {
    let found = server_section::servers(root);
    if found.is_empty() {
        return Err(ImportError::NoServers);
    }
    let mut imported = Imported { notes: server_section::notes(root), ..Imported::default() };
    let mut secrets = SecretVariables::default();
    for (name, value) in found {
        let taken: Vec<&str> = imported.servers.iter().map(|server| server.name.as_str()).collect();
        match one(name, value, &taken, &mut secrets) {
            Ok(server) => imported.servers.push(server),
            Err(reason) => imported.left_out.push(LeftOut { name: name.to_owned(), reason }),
        }
    }
    Ok(imported)
}

fn one(
    name: &str,
    value: &Value,
    taken: &[&str],
    secrets: &mut SecretVariables,
) -> Result<ImportedServer, String> {
    let Value::Object(fields) = value else { return Err("it is not an object".to_owned()) };
    let known = entry::name(name, taken);
    let mut taking = ServerImport {
        server: &known,
        secrets,
        notes: Vec::new(),
        paths: Vec::new(),
        sees_project: false,
        container_paths: None,
        directory: None,
        words: Vec::new(),
        browser: None,
        writes: false,
    };
    if known != name {
        taking.notes.push(format!("`{name}` is called `{known}` here"));
    }
    let lines = entry::lines(fields, &mut taking)?;
    let ServerImport { notes, paths, container_paths, directory, words, browser, writes, .. } = taking;
    let program = entry::program(fields);
    let client_name = name.to_owned();
    let mut server = ImportedServer {
        name: known,
        client_name,
        program,
        lines,
        notes,
        paths,
        container_paths,
        directory,
        writes,
        words,
        browser,
    };
    server.show_project();
    match server.refused() {
        None => Ok(server),
        Some(reason) => Err(reason),
    }
}
