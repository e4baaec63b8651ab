//! The clients: one file and one line of the list for each.

mod claude_desktop;
mod claude_code;
mod cursor;
mod vscode;
mod windsurf;
mod zed;
mod codex;
mod gemini_cli;
mod opencode;
mod copilot_cli;
mod cline;
mod lm_studio;
mod continue_dev;
mod junie;
mod amp;
mod roo_code;
mod kiro;
mod goose;

use crate::config_file::ConfigFileFormat;
use crate::config_location::ConfigLocation;
use crate::remote_entry::RemoteEntryFormat;

/// Every client, in the order of lists.
pub const CLIENTS: &[McpClient] = &[
    claude_desktop::CLIENT,
    claude_code::CLIENT,
    cursor::CLIENT,
    vscode::CLIENT,
    windsurf::CLIENT,
    zed::CLIENT,
    codex::CLIENT,
    gemini_cli::CLIENT,
    opencode::CLIENT,
    copilot_cli::CLIENT,
    cline::CLIENT,
    lm_studio::CLIENT,
    continue_dev::CLIENT,
    junie::CLIENT,
    amp::CLIENT,
    roo_code::CLIENT,
    kiro::CLIENT,
    goose::CLIENT,
];

/// A program that speaks MCP as a client.
#[derive(Clone, Copy, Debug)]
pub struct McpClient {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its display name.
    pub title: &'static str,
    /// Its file for all sessions of a user.
    pub user: ConfigLocation,
    /// Its file in a project, if it supports one.
    pub project: Option<&'static str>,
    /// The format of the file.
    pub file: ConfigFileFormat,
    /// Other places of servers in its files, as paths from the root: they are imported, and nothing is installed there.
    pub other_sections: &'static [&'static [&'static str]],
    /// How it writes a server with an address; `None` if it takes none from this file, or it is not known how.
    pub remote: Option<RemoteEntryFormat>,
    /// What makes it reload the file.
    pub next: &'static str,
}

impl McpClient {
    /// The client of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        CLIENTS.iter().find(|client| client.name == name)
    }

    /// The places of servers in its files, most specific first.
    pub(crate) fn sections(&self) -> impl Iterator<Item = Vec<&'static str>> {
        let section = self.file.section();
        self.other_sections.iter().map(|path| path.to_vec()).chain([vec![section]])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_client_has_a_name_of_its_own() {
        let names: BTreeSet<_> = CLIENTS.iter().map(|client| client.name).collect();
        assert_eq!(names.len(), CLIENTS.len());
        assert!(CLIENTS.iter().all(|client| McpClient::named(client.name).is_some()));
        assert!(McpClient::named("telex").is_none());
    }
}
