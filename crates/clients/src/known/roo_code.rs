//! Roo Code.

use super::McpClient;
use crate::remote_entry::{PLAIN, RemoteEntryFormat};
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "roo-code",
    title: "Roo Code",
    user: ConfigLocation::Application(
        "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
    ),
    project: Some(".roo/mcp.json"),
    file: ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::Plain },
    other_sections: &[],
    remote: Some(RemoteEntryFormat { kind: Some("streamable-http"), ..PLAIN }),
    next: "look in Roo Code's list of MCP servers",
};
