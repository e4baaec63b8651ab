//! Claude Desktop.

use super::McpClient;
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "claude-desktop",
    title: "Claude Desktop",
    user: ConfigLocation::Application("Claude/claude_desktop_config.json"),
    project: None,
    file: ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::Plain },
    other_sections: &[],
    remote: None,
    next: "quit Claude Desktop and start it again",
};
