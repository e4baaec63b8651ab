//! The formats of clients' files, and an entry for the gate in them.

use serde_json::Value;

use crate::jsonc::{parse_jsonc, remove_member, set_member};
use crate::merge_entry::{InstalledEntry, RemovedEntry, merge_entry};
use crate::remote_entry::RemoteEntryFormat;
use crate::{toml, yaml};

/// A gate for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateEntry {
    /// Which the client starts.
    Program(ServerEntry),
    /// Which runs already, at this address, in the client's own format.
    Address(String, RemoteEntryFormat),
}

/// A program and its arguments, which a client starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerEntry {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl From<ServerEntry> for GateEntry {
    fn from(entry: ServerEntry) -> Self {
        Self::Program(entry)
    }
}

/// How a client stores its servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigFileFormat {
    /// JSON, with the servers in an object of this name.
    Json {
        /// The name of the object.
        section: &'static str,
        /// The format of an entry.
        entry: JsonEntryFormat,
    },
    /// YAML with the keys of goose, and a map for each server in a map of this name.
    Yaml {
        /// The name of the map.
        section: &'static str,
    },
    /// TOML, with a table for each server in a table of this name.
    Toml {
        /// The name of the table.
        section: &'static str,
    },
}

/// The format of a server's JSON entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonEntryFormat {
    /// `command` and `args`.
    Plain,
    /// The same with `type: stdio`.
    Typed,
    /// `type: local`, and the program with its arguments in one list.
    CommandList,
    /// `type: local`, and which of the tools are wanted.
    WithTools,
}

impl ConfigFileFormat {
    /// The text of a file with the entry. Other keys of an existing entry stay.
    ///
    /// # Errors
    /// Why the file cannot be edited.
    pub fn install(self, text: &str, name: &str, entry: &GateEntry) -> Result<InstalledEntry, String> {
        match self {
            Self::Json { section, entry: shape } => {
                let value = match entry {
                    GateEntry::Program(program) => shape.value(program),
                    GateEntry::Address(address, format) => format.value(address),
                };
                install_json(text, section, name, &value)
            }
            Self::Toml { section } => toml::install(text, section, name, entry),
            Self::Yaml { section } => yaml::install(text, section, name, entry),
        }
    }

    /// The text of a file without the entry, and the entry; `None` if there is none.
    ///
    /// # Errors
    /// Why the file cannot be edited.
    pub fn uninstall(self, text: &str, name: &str) -> Result<Option<RemovedEntry>, String> {
        match self {
            Self::Json { section, .. } => {
                let removed = remove_member(text, section, name).map_err(|error| error.to_string())?;
                let root = parse_jsonc(text).unwrap_or_default();
                let entry = root.get(section).and_then(|servers| servers.get(name)).cloned();
                Ok(removed.zip(entry).map(|(text, entry)| RemovedEntry { text, entry }))
            }
            Self::Toml { section } => toml::uninstall(text, section, name),
            Self::Yaml { section } => yaml::uninstall(text, section, name),
        }
    }

    /// The name of the object or table with the servers.
    pub(crate) fn section(self) -> &'static str {
        match self {
            Self::Json { section, .. } | Self::Toml { section } | Self::Yaml { section } => section,
        }
    }

    /// Whether the format is JSON.
    #[must_use]
    pub fn is_json(self) -> bool {
        matches!(self, Self::Json { .. })
    }

    /// The entry on its own, to be pasted.
    ///
    /// # Errors
    /// It cannot be written in this format.
    pub fn snippet(self, name: &str, entry: &GateEntry) -> Result<String, String> {
        self.install("", name, entry).map(|installed| installed.text)
    }
}

fn install_json(text: &str, section: &str, name: &str, entry: &Value) -> Result<InstalledEntry, String> {
    // A file that cannot be parsed is reported by `set_member` below.
    let root = parse_jsonc(text).unwrap_or_default();
    let merged = merge_entry(root.get(section).and_then(|servers| servers.get(name)), entry);
    if merged.changes_nothing {
        return Ok(merged.installed(text.to_owned()));
    }
    let written = set_member(text, section, name, &merged.value).map_err(|error| error.to_string())?;
    Ok(merged.installed(written))
}

impl JsonEntryFormat {
    fn value(self, entry: &ServerEntry) -> Value {
        use serde_json::json;
        let ServerEntry { program, arguments } = entry;
        match self {
            Self::Plain => json!({"command": program, "args": arguments}),
            Self::Typed => json!({"type": "stdio", "command": program, "args": arguments}),
            Self::CommandList => {
                let words: Vec<&String> = std::iter::once(program).chain(arguments).collect();
                json!({"type": "local", "command": words, "enabled": true})
            }
            Self::WithTools => {
                json!({"type": "local", "command": program, "args": arguments, "tools": ["*"]})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_location::BaseDirectories;
    use crate::known::CLIENTS;

    fn entry() -> GateEntry {
        let words = ["mcp", "--workspace", "/home/sam/my \"project\""];
        ServerEntry { program: "/usr/bin/toolgate".to_owned(), arguments: words.map(str::to_owned).to_vec() }
            .into()
    }

    #[test]
    fn a_gate_with_an_address_is_written_as_each_client_has_it() {
        let mut told = String::new();
        for client in CLIENTS {
            let Some(format) = client.remote else {
                told.push_str(&format!("==== {}: none\n\n", client.title));
                continue;
            };
            let gate = entry();
            let entry = GateEntry::Address("http://127.0.0.1:8420/mcp".to_owned(), format);
            let shown = client.file.snippet("toolgate", &entry).unwrap();
            told.push_str(&format!("==== {}\n{shown}\n", client.title));
            // In place of a program, and a program in place of it: nothing of the other stays.
            let replaced = client.file.install(&shown, "toolgate", &gate).unwrap().text;
            assert!(!replaced.contains("8420") && !replaced.contains("TOOLGATE_TOKEN"), "{replaced}");
            let again = client.file.install(&replaced, "toolgate", &entry).unwrap().text;
            let taken = client.file.uninstall(&again, "toolgate").unwrap().unwrap();
            assert!(taken.is_gate_entry() && !again.contains("/usr/bin/toolgate"), "{again}");
        }
        insta::assert_snapshot!("addresses", told);
    }

    #[test]
    fn every_client_has_its_file_and_its_entry() {
        let folders = BaseDirectories {
            home: Some("/home/sam".into()),
            config: Some("/home/sam/.config".into()),
            application: Some("/home/sam/.config".into()),
        };
        let mut told = String::new();
        for facts in CLIENTS {
            let file = facts.user.resolve(&folders, |_| None).unwrap();
            let project = facts.project.unwrap_or("-");
            let shown = facts.file.snippet("toolgate", &entry()).unwrap();
            told.push_str(&format!(
                "==== {}: {} (project: {project})\n{shown}\n",
                facts.title,
                file.display()
            ));
        }
        insta::assert_snapshot!("clients", told);
    }

    #[test]
    fn an_entry_is_replaced_and_the_rest_is_kept() {
        let json = ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::Plain };
        let before = "{\n  // mine\n  \"mcpServers\": {\"other\": {\"command\": \"x\"}}\n}\n";
        let once = json.install(before, "toolgate", &entry()).unwrap().text;
        assert!(once.contains("// mine") && once.contains("\"other\""), "{once}");
        assert_eq!(json.install(&once, "toolgate", &entry()).unwrap().text, once);
    }

    #[test]
    fn an_entry_is_taken_out_again_and_told_from_others() {
        for client in CLIENTS {
            let file = client.file;
            let other = file.install(
                "",
                "other",
                &ServerEntry { program: "x".to_owned(), arguments: Vec::new() }.into(),
            );
            let other = other.unwrap().text;
            assert_eq!(file.uninstall(&other, "toolgate"), Ok(None), "{client:?}");
            let both = file.install(&other, "toolgate", &entry()).unwrap().text;
            let taken = file.uninstall(&both, "toolgate").unwrap().unwrap();
            assert_eq!(taken.text, other, "{client:?}");
            assert!(taken.is_gate_entry(), "{client:?}");
            assert!(!file.uninstall(&other, "other").unwrap().unwrap().is_gate_entry(), "{client:?}");
            let alone = file.install("", "toolgate", &entry()).unwrap().text;
            let nothing = file.uninstall(&alone, "toolgate").unwrap().unwrap().text;
            assert!(!nothing.contains("toolgate"), "{client:?}: {nothing}");
        }
    }

    #[test]
    fn what_somebody_added_to_an_entry_stays() {
        let json = ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::Plain };
        for (before, kept, left_out) in [
            (r#"{"command": "old", "env": {"A": "b"}, "disabled": true}"#, &["env", "disabled"][..], &[][..]),
            (r#"{"type": "http", "url": "https://a.example", "env": {}}"#, &["env"], &["type", "url"]),
            (r#"{"command": "old", "args": ["x"]}"#, &[], &[]),
            ("7", &[], &[]),
        ] {
            let text = format!("{{\"mcpServers\": {{\"toolgate\": {before}}}}}");
            let after = json.install(&text, "toolgate", &entry()).unwrap();
            assert_eq!((after.kept, after.left_out), (owned(kept), owned(left_out)), "{before}");
            let found: Value = serde_json::from_str(&after.text).unwrap();
            let found = &found["mcpServers"]["toolgate"];
            let before: Value = serde_json::from_str(before).unwrap();
            for key in kept {
                assert_eq!(found[key], before[key], "{key} in {found}");
            }
            assert!(left_out.iter().all(|key| found.get(key).is_none()), "{found}");
            assert_eq!(found["command"], "/usr/bin/toolgate");
        }
    }

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }
}
