//! From the JSON of an MCP client to `mcp_servers`.
//!
//! Nothing is opened here and nothing is started. What is named like a secret, or looks like one, is not copied: it becomes
//! a variable of the gate's own environment. Nobody can tell every secret, so that more is replaced than has to be. What
//! has no counterpart is said in a note rather than dropped without a word, and a server that the gate could not use is
//! left out, with the reason.

mod arguments;
mod entry;
mod insert;
mod secret_variables;
mod secret;
mod server_section;
mod variables;

use std::fmt::Write as _;

pub use insert::{InsertError, insert_servers};
use secret_variables::{SecretVariables, ServerImport};
use serde_json::Value;

use crate::config::Config;
use crate::jsonc::{JsoncEditError, parse_jsonc};
use crate::problem::ConfigProblems;
use crate::servers::{ServerConfig, ServerProcessConfig, ServerTransport};
use crate::tool::quoted;
use crate::variables::VariableText;

/// Servers that were found in a client's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// In the order of the file.
    pub servers: Vec<ImportedServer>,
    /// What the gate could not use.
    pub left_out: Vec<LeftOut>,
    /// What is to be said about the file as a whole.
    pub notes: Vec<String>,
}

/// A server that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name in the client's file.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedServer {
    /// Its name here.
    pub name: String,
    /// Its name in the client's file.
    pub client_name: String,
    /// The program that it is, without an `env` before it; `None` where it is reached at an address.
    pub program: Option<String>,
    /// What stands below the name: lines without indentation.
    pub lines: Vec<String>,
    /// What is to be said about it.
    pub notes: Vec<String>,
}

/// Why nothing was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The text cannot be read.
    #[error(transparent)]
    Unreadable(#[from] JsoncEditError),
    /// There are no servers in it.
    #[error("there are no MCP servers in it")]
    NoServers,
}

impl Imported {
    /// The servers as the key `mcp_servers` of a configuration file.
    #[must_use]
    pub fn render(&self) -> String {
        let entries: String = self.servers.iter().map(|server| server.render("  ")).collect();
        format!("mcp_servers:\n{entries}")
    }

    /// Leaves out every server whose program is the gate that runs, under whatever name: that is for the caller to tell.
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

    /// Whether a declared server is this one: it is started or reached in the same way, whatever else was said about it since.
    #[must_use]
    pub fn matches(&self, declared: &ServerConfig) -> bool {
        let parsed = self.parsed().ok();
        let own = parsed.as_ref().and_then(|config| config.mcp_servers.first());
        own.is_some_and(|own| match (&own.transport, &declared.transport) {
            (ServerTransport::Process(own), ServerTransport::Process(declared)) => {
                let arguments = |process: &ServerProcessConfig| -> Vec<VariableText> {
                    process.arguments.iter().map(|argument| argument.value.clone()).collect()
                };
                own.program.value == declared.program.value && arguments(own) == arguments(declared)
            }
            (ServerTransport::Remote(own), ServerTransport::Remote(declared)) => {
                own.url.value == declared.url.value
            }
            _ => false,
        })
    }

    fn parsed(&self) -> Result<Config, ConfigProblems> {
        Config::parse("import", &format!("mcp_servers:\n{}", self.render("  ")))
    }

    /// The first reason why a configuration could not have this.
    fn refused(&self) -> Option<String> {
        let problems = self.parsed().err()?;
        problems.as_slice().first().map(|problem| {
            let help = problem.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
            format!("{}{help}", problem.message)
        })
    }
}

/// Reads the servers of a client's file: those of Claude Desktop, Claude Code, Cursor, Windsurf, Gemini, VS Code, Zed or
/// opencode, comments included.
///
/// # Errors
/// The text is not JSON, or has no servers.
pub fn import_servers(text: &str) -> Result<Imported, ImportError> {
    import_from(&parse_jsonc(text)?)
}

/// The same for a file that is not written in JSON and was read by somebody else: Codex has `mcp_servers` in TOML.
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
    let mut taking = ServerImport { server: &known, secrets, notes: Vec::new(), sees_project: false };
    if known != name {
        taking.notes.push(format!("`{name}` is called `{known}` here"));
    }
    let lines = entry::lines(fields, &mut taking)?;
    let notes = taking.notes;
    let program = entry::program(fields);
    let server = ImportedServer { name: known, client_name: name.to_owned(), program, lines, notes };
    match server.refused() {
        None => Ok(server),
        Some(reason) => Err(reason),
    }
}
