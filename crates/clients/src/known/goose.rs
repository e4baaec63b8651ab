//! goose.

use super::McpClient;
use crate::{ConfigFileFormat, ConfigLocation};

pub(super) const CLIENT: McpClient = McpClient {
    name: "goose",
    title: "goose",
    user: ConfigLocation::Config("goose/config.yaml"),
    project: None,
    file: ConfigFileFormat::Yaml { section: "extensions" },
    other_sections: &[],
    next: "start a new session",
};
