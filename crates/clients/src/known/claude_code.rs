//! Claude Code.

use super::McpClient;
use crate::remote_entry::{PLAIN, RemoteEntryFormat, TokenReference};
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "claude-code",
    title: "Claude Code",
    user: ConfigLocation::Home(".claude.json"),
    project: Some(".mcp.json"),
    file: ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::Typed },
    other_sections: &[],
    remote: Some(RemoteEntryFormat {
        kind: Some("http"),
        token: TokenReference::Header("${TOOLGATE_TOKEN}"),
        ..PLAIN
    }),
    next: "start a new session, and look with `/mcp`",
};
