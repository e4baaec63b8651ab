//! opencode.

use super::McpClient;
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "opencode",
    title: "opencode",
    user: ConfigLocation::Config("opencode/opencode.json"),
    project: Some("opencode.json"),
    file: ConfigFileFormat::Json { section: "mcp", entry: JsonEntryFormat::CommandList },
    other_sections: &[],
    next: "start opencode again",
};
