//! GitHub Copilot CLI.

use super::McpClient;
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "copilot-cli",
    title: "GitHub Copilot CLI",
    user: ConfigLocation::Variable("COPILOT_HOME", ".copilot", "mcp-config.json"),
    project: None,
    file: ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::WithTools },
    other_sections: &[],
    next: "start a new session, and look with `/mcp show`",
};
