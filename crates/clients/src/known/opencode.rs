//! opencode.

use super::McpClient;
use crate::remote_entry::{PLAIN, RemoteEntryFormat, TokenReference};
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "opencode",
    title: "opencode",
    user: ConfigLocation::Config("opencode/opencode.json"),
    project: Some("opencode.json"),
    file: ConfigFileFormat::Json { section: "mcp", entry: JsonEntryFormat::CommandList },
    other_sections: &[],
    remote: Some(RemoteEntryFormat {
        kind: Some("remote"),
        token: TokenReference::Header("{env:TOOLGATE_TOKEN}"),
        says_enabled: true,
        ..PLAIN
    }),
    next: "start opencode again",
};
