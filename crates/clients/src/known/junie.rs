//! JetBrains Junie.

use super::McpClient;
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "junie",
    title: "JetBrains Junie",
    user: ConfigLocation::Home(".junie/mcp/mcp.json"),
    project: Some(".junie/mcp/mcp.json"),
    file: ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::Plain },
    other_sections: &[],
    remote: None,
    next: "look in the settings of Junie under MCP",
};
