//! Cursor.

use super::McpClient;
use crate::remote_entry::{PLAIN, RemoteEntryFormat, TokenReference};
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "cursor",
    title: "Cursor",
    user: ConfigLocation::Home(".cursor/mcp.json"),
    project: Some(".cursor/mcp.json"),
    file: ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::Plain },
    other_sections: &[],
    remote: Some(RemoteEntryFormat { token: TokenReference::Header("${env:TOOLGATE_TOKEN}"), ..PLAIN }),
    next: "look in Cursor's settings under MCP",
};
