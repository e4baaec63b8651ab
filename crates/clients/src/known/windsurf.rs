//! Windsurf.

use super::McpClient;
use crate::remote_entry::{PLAIN, RemoteEntryFormat, TokenReference};
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "windsurf",
    title: "Windsurf",
    user: ConfigLocation::Home(".codeium/windsurf/mcp_config.json"),
    project: None,
    file: ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::Plain },
    other_sections: &[],
    remote: Some(RemoteEntryFormat {
        address: "serverUrl",
        token: TokenReference::Header("${env:TOOLGATE_TOKEN}"),
        ..PLAIN
    }),
    next: "refresh the servers in Cascade",
};
