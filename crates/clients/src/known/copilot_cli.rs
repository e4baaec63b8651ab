//! GitHub Copilot CLI.

use super::McpClient;
use crate::remote_entry::{PLAIN, RemoteEntryFormat};
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "copilot-cli",
    title: "GitHub Copilot CLI",
    user: ConfigLocation::Variable("COPILOT_HOME", ".copilot", "mcp-config.json"),
    project: None,
    file: ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::WithTools },
    other_sections: &[],
    remote: Some(RemoteEntryFormat { kind: Some("http"), lists_tools: true, ..PLAIN }),
    next: "start a new session, and look with `/mcp show`",
};
