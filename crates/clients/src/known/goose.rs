//! goose.

use super::McpClient;
use crate::remote_entry::{PLAIN, RemoteEntryFormat};
use crate::{ConfigFileFormat, ConfigLocation};

pub(super) const CLIENT: McpClient = McpClient {
    name: "goose",
    title: "goose",
    user: ConfigLocation::Config("goose/config.yaml"),
    project: None,
    file: ConfigFileFormat::Yaml { section: "extensions" },
    other_sections: &[],
    remote: Some(RemoteEntryFormat {
        address: "uri",
        kind: Some("streamable_http"),
        says_enabled: true,
        ..PLAIN
    }),
    next: "start a new session",
};
