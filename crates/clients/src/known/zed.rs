//! Zed.

use super::McpClient;
use crate::remote_entry::PLAIN;
use crate::{ConfigFileFormat, ConfigLocation, JsonEntryFormat};

pub(super) const CLIENT: McpClient = McpClient {
    name: "zed",
    title: "Zed",
    user: ConfigLocation::Config("zed/settings.json"),
    project: Some(".zed/settings.json"),
    file: ConfigFileFormat::Json { section: "context_servers", entry: JsonEntryFormat::Plain },
    other_sections: &[],
    remote: Some(PLAIN),
    next: "look in the settings of the agent panel",
};
