//! Visual Studio Code.

use super::McpClient;
use crate::remote_entry::{PLAIN, RemoteEntryFormat};
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "vscode",
    title: "Visual Studio Code",
    user: ConfigLocation::Application("Code/User/mcp.json"),
    project: Some(".vscode/mcp.json"),
    file: ConfigFileFormat::Json { section: "servers", entry: JsonEntryFormat::Typed },
    other_sections: &[&["mcp", "servers"], &["mcp.servers"]],
    remote: Some(RemoteEntryFormat { kind: Some("http"), ..PLAIN }),
    next: "run `MCP: List Servers` from the command palette",
};
