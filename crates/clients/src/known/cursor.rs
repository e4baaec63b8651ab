//! Cursor.

use super::McpClient;
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "cursor",
    title: "Cursor",
    user: ConfigLocation::Home(".cursor/mcp.json"),
    project: Some(".cursor/mcp.json"),
    file: ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::Plain },
    other_sections: &[],
    next: "look in Cursor's settings under MCP",
};
