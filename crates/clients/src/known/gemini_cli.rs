//! Gemini CLI.

use super::McpClient;
use crate::remote_entry::{PLAIN, RemoteEntryFormat, TokenReference};
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "gemini-cli",
    title: "Gemini CLI",
    user: ConfigLocation::Home(".gemini/settings.json"),
    project: Some(".gemini/settings.json"),
    file: ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::Plain },
    other_sections: &[],
    remote: Some(RemoteEntryFormat {
        address: "httpUrl",
        token: TokenReference::Header("${TOOLGATE_TOKEN}"),
        ..PLAIN
    }),
    next: "start a new session, and look with `/mcp`",
};
