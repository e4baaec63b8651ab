//! A client's file gets its servers back, where the client or a person changed the rest of it in between.

use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item};

use crate::config_file::ConfigFileFormat;
use crate::jsonc::{parse_jsonc, set_member};
use crate::merge_entry::RemovedEntry;
use crate::{toml, yaml};

/// A file with its servers back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredServers {
    /// The text.
    pub text: String,
    /// The servers that were put back.
    pub names: Vec<String>,
}

impl ConfigFileFormat {
    /// The text of `now` without the entry `gate`, if that starts a gate by its name or by `is_gate`, and with those servers of `before` that are missing in it. A server that was added or changed in between
    /// stays as it is.
    ///
    /// # Errors
    /// Why the file cannot be edited.
    pub fn restore(
        self,
        now: &str,
        before: &str,
        gate: &str,
        is_gate: impl Fn(&str) -> bool,
    ) -> Result<RestoredServers, String> {
        let starts_gate = |removed: &RemovedEntry| {
            removed.is_gate_entry() || removed.command_line().first().is_some_and(|program| is_gate(program))
        };
        let removed = self.uninstall(now, gate)?.filter(starts_gate);
        let text = removed.map_or_else(|| now.to_owned(), |removed| removed.text);
        match self {
            Self::Json { section, .. } => restore_json(text, before, section),
            Self::Toml { section } => restore_toml(&text, before, section),
            Self::Yaml { section } => yaml::restore(&text, before, section),
        }
    }
}

fn restore_json(mut text: String, before: &str, section: &str) -> Result<RestoredServers, String> {
    let servers = |text: &str| -> Result<Map<String, Value>, String> {
        let root = parse_jsonc(text).map_err(|error| error.to_string())?;
        Ok(root.get(section).and_then(Value::as_object).cloned().unwrap_or_default())
    };
    let (had, has) = (servers(before)?, servers(&text)?);
    let mut names = Vec::new();
    for (name, entry) in had.iter().filter(|(name, _)| !has.contains_key(*name)) {
        text = set_member(&text, section, name, entry).map_err(|error| error.to_string())?;
        names.push(name.clone());
    }
    Ok(RestoredServers { text, names })
}

fn restore_toml(text: &str, before: &str, section: &str) -> Result<RestoredServers, String> {
    let parse = |text: &str| text.parse::<DocumentMut>().map_err(|_| "it is not TOML".to_owned());
    let (mut document, had) = (parse(text)?, parse(before)?);
    let mut names = Vec::new();
    let had = had.get(section).and_then(Item::as_table_like);
    for (name, entry) in had.into_iter().flat_map(|servers| servers.iter()) {
        let servers = document.entry(section).or_insert_with(|| Item::Table(toml::implicit_table()));
        let servers = servers.as_table_like_mut().ok_or_else(|| format!("`{section}` is no table in it"))?;
        if servers.get(name).is_none() {
            servers.insert(name, entry.clone());
            names.push(name.to_owned());
        }
    }
    let text = toml::restore_line_ends(text, document.to_string());
    parse(&text)?;
    Ok(RestoredServers { text, names })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::CLIENTS;
    use crate::{GateEntry, JsonEntryFormat, ServerEntry};

    #[test]
    fn what_changed_in_between_stays() {
        let json = ConfigFileFormat::Json { section: "mcpServers", entry: JsonEntryFormat::Plain };
        let before = "{\n  \"mcpServers\": {\"a\": {\"command\": \"x\"}, \"b\": {\"command\": \"y\", \"env\": {}}}\n}\n";
        let now = "{\n  // mine\n  \"starts\": 7,\n  \"mcpServers\": {\n    \"toolgate\": {\"command\": \"/bin/toolgate\", \"args\": [\"mcp\"]},\n    \"b\": {\"command\": \"new\"}\n  }\n}\n";
        let restored = json.restore(now, before, "toolgate", |_| false).unwrap();
        assert_eq!(restored.names, ["a"]);
        let found = parse_jsonc(&restored.text).unwrap();
        assert!(restored.text.contains("// mine") && found["starts"] == 7, "{}", restored.text);
        assert_eq!(found["mcpServers"]["a"]["command"], "x");
        assert_eq!(found["mcpServers"]["b"]["command"], "new");
        assert!(found["mcpServers"].get("toolgate").is_none());
        // An entry of that name which is no gate's is a person's.
        let other = "{\"mcpServers\": {\"toolgate\": {\"command\": \"mine\"}}}";
        assert!(json.restore(other, before, "toolgate", |_| false).unwrap().text.contains("mine"));
        let renamed = json.restore(other, before, "toolgate", |program| program == "mine").unwrap().text;
        assert!(!renamed.contains("mine"), "{renamed}");
    }

    #[test]
    fn every_format_gets_its_servers_back() {
        let entry = |program: &str, arguments: &[&str]| {
            GateEntry::from(ServerEntry {
                program: program.to_owned(),
                arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            })
        };
        for client in CLIENTS {
            let file = client.file;
            let before = file.install("", "a", &entry("x", &["1"])).unwrap().text;
            let without = file.uninstall(&before, "a").unwrap().unwrap().text;
            let now = file.install(&without, "toolgate", &entry("/bin/toolgate", &["mcp"])).unwrap().text;
            let restored = file.restore(&now, &before, "toolgate", |_| false).unwrap();
            assert_eq!(restored.names, ["a"], "{client:?}");
            assert!(file.uninstall(&restored.text, "a").unwrap().is_some(), "{client:?}");
            assert_eq!(file.uninstall(&restored.text, "toolgate"), Ok(None), "{client:?}");
        }
    }
}
