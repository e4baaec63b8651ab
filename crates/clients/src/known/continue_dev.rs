//! Continue.

use super::McpClient;
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "continue",
    title: "Continue",
    user: ConfigLocation::Home(".continue/mcpServers/mcp.json"),
    project: Some(".continue/mcpServers/mcp.json"),
    file: ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::Plain },
    other_sections: &[],
    remote: None,
    next: "reload the configuration of Continue",
};
