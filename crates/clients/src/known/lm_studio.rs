//! LM Studio.

use super::McpClient;
use crate::remote_entry::PLAIN;
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "lm-studio",
    title: "LM Studio",
    user: ConfigLocation::Home(".lmstudio/mcp.json"),
    project: None,
    file: ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::Plain },
    other_sections: &[],
    remote: Some(PLAIN),
    next: "look in the program tab of LM Studio",
};
