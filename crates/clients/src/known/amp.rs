//! Amp.

use super::McpClient;
use crate::remote_entry::PLAIN;
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "amp",
    title: "Amp",
    user: ConfigLocation::Config("amp/settings.json"),
    project: Some(".amp/settings.json"),
    file: ConfigFileFormat::Json { section: "amp.mcpServers", entry: JsonEntryFormat::Plain },
    other_sections: &[],
    remote: Some(PLAIN),
    next: "start a new session",
};
