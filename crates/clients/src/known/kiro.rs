//! Kiro.

use super::McpClient;
use crate::remote_entry::PLAIN;
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "kiro",
    title: "Kiro",
    user: ConfigLocation::Home(".kiro/settings/mcp.json"),
    project: Some(".kiro/settings/mcp.json"),
    file: ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::Plain },
    other_sections: &[],
    remote: Some(PLAIN),
    next: "look in Kiro's panel of MCP servers",
};
