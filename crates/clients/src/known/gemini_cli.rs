//! Gemini CLI.

use super::McpClient;
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "gemini-cli",
    title: "Gemini CLI",
    user: ConfigLocation::Home(".gemini/settings.json"),
    project: Some(".gemini/settings.json"),
    file: ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::Plain },
    other_sections: &[],
    next: "start a new session, and look with `/mcp`",
};
