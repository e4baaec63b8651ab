//! Codex.

use super::McpClient;
use crate::remote_entry::{PLAIN, RemoteEntryFormat, TokenReference};
use crate::{ConfigFileFormat, ConfigLocation};

pub(super) const CLIENT: McpClient = McpClient {
    name: "codex",
    title: "Codex",
    user: ConfigLocation::Variable("CODEX_HOME", ".codex", "config.toml"),
    project: Some(".codex/config.toml"),
    file: ConfigFileFormat::Toml { section: "mcp_servers" },
    other_sections: &[],
    remote: Some(RemoteEntryFormat { token: TokenReference::Variable("bearer_token_env_var"), ..PLAIN }),
    next: "start a new session, and look with `/mcp`",
};
