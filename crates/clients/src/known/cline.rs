//! Cline.

use super::McpClient;
use crate::remote_entry::{PLAIN, RemoteEntryFormat};
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "cline",
    title: "Cline",
    user: ConfigLocation::Application(
        "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
    ),
    project: None,
    file: ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::Plain },
    other_sections: &[],
    remote: Some(RemoteEntryFormat { kind: Some("streamableHttp"), ..PLAIN }),
    next: "look in Cline's list of MCP servers",
};
