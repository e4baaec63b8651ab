//! An entry in the YAML of goose. It is edited line by line, and left alone if its parsed content would change by more than the entry.

use serde_json::{Map, Value, json};
use toolgate_manifest::quoted;

use crate::config_file::GateEntry;
use crate::merge_entry::{InstalledEntry, RemovedEntry, merge_entry};
use crate::restore::RestoredServers;

const UNCLEAR: &str = "it is laid out in a way that is not understood";

/// The text with an entry in the map `section`.
pub(crate) fn install(
    text: &str,
    section: &str,
    name: &str,
    entry: &GateEntry,
) -> Result<InstalledEntry, String> {
    let mut value = match entry {
        GateEntry::Program(entry) => json!({
            "enabled": true, "type": "stdio", "name": name, "cmd": entry.program, "args": entry.arguments,
            "timeout": 300,
        }),
        GateEntry::Address(address, format) => format.value(address),
    };
    if let (GateEntry::Address(..), Some(members)) = (entry, value.as_object_mut()) {
        members.insert("name".to_owned(), name.into());
        members.insert("timeout".to_owned(), 300.into());
    }
    set(text, section, name, &value)
}

/// Sets an entry. Other keys of an existing one stay.
fn set(text: &str, section: &str, name: &str, value: &Value) -> Result<InstalledEntry, String> {
    let mut expected = read(text)?;
    let merged = merge_entry(expected.get(section).and_then(|entries| entries.get(name)), value);
    if merged.changes_nothing {
        return Ok(merged.installed(text.to_owned()));
    }
    let without = match uninstall(text, section, name)? {
        Some(removed) => removed.text,
        None => text.to_owned(),
    };
    let members = expected.entry(section).or_insert_with(|| Value::Object(Map::new()));
    if members.is_null() {
        *members = Value::Object(Map::new());
    }
    let members = members.as_object_mut().ok_or_else(|| format!("`{section}` is no map in it"))?;
    members.shift_remove(name);
    members.insert(name.to_owned(), merged.value.clone());
    let lines: Vec<&str> = without.split_inclusive('\n').collect();
    let found = YamlSection::find(&lines, section)?;
    let indent = found.as_ref().map_or("  ", |found| found.indent);
    let rendered: String = rendered(name, &merged.value, indent);
    let rendered = if without.contains("\r\n") { rendered.replace('\n', "\r\n") } else { rendered };
    let written = match found {
        Some(found) => {
            let (before, after) = lines.split_at_checked(found.end).unwrap_or((&lines, &[]));
            let mut before = before.concat();
            if found.is_empty_map {
                before = replace_last_line(&before, &format!("{section}:"));
            }
            let gap = if before.ends_with('\n') { "" } else { "\n" };
            format!("{before}{gap}{rendered}{}", after.concat())
        }
        None => {
            let gap = if without.is_empty() || without.ends_with('\n') { "" } else { "\n" };
            format!("{without}{gap}{section}:\n{rendered}")
        }
    };
    match read(&written) {
        Ok(found) if found == expected => Ok(merged.installed(written)),
        _ => Err(UNCLEAR.to_owned()),
    }
}

/// The text without the entry, and the entry with the keys that other clients have.
pub(crate) fn uninstall(text: &str, section: &str, name: &str) -> Result<Option<RemovedEntry>, String> {
    let mut expected = read(text)?;
    let members = expected.get_mut(section).and_then(Value::as_object_mut);
    let Some(entry) = members.and_then(|members| members.shift_remove(name)) else { return Ok(None) };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let found = YamlSection::find(&lines, section)?.ok_or(UNCLEAR)?;
    let block = found.entry(&lines, name).ok_or(UNCLEAR)?;
    let kept = lines.iter().enumerate().filter(|(at, _)| !block.contains(at)).map(|(_, line)| *line);
    let mut written: String = kept.collect();
    let is_last = expected.get(section).and_then(Value::as_object).is_some_and(Map::is_empty);
    if is_last {
        // A key without a value would be null.
        let key = lines.get(found.key).copied().unwrap_or_default();
        let end = if key.ends_with("\r\n") { "\r\n" } else { "\n" };
        written = written.replacen(key, &format!("{section}: {{}}{end}"), 1);
    }
    match read(&written) {
        Ok(found) if found == expected => Ok(Some(RemovedEntry { text: written, entry: plain(&entry) })),
        _ => Err(UNCLEAR.to_owned()),
    }
}

/// See [`crate::ConfigFileFormat::restore`].
pub(crate) fn restore(text: &str, before: &str, section: &str) -> Result<RestoredServers, String> {
    let (had, has) = (read(before)?, read(text)?);
    let missing = |name: &str| has.get(section).is_none_or(|entries| entries.get(name).is_none());
    let (mut text, mut names) = (text.to_owned(), Vec::new());
    let had = had.get(section).and_then(Value::as_object);
    for (name, entry) in had.into_iter().flatten().filter(|(name, _)| missing(name)) {
        text = set(&text, section, name, entry)?.text;
        names.push(name.clone());
    }
    Ok(RestoredServers { text, names })
}

/// The content of a file; an empty one is an empty map.
fn read(text: &str) -> Result<Map<String, Value>, String> {
    match serde_saphyr::from_str::<Option<Value>>(text) {
        Ok(None) => Ok(Map::new()),
        Ok(Some(Value::Object(members))) => Ok(members),
        Ok(Some(_)) => Err("it is no map".to_owned()),
        // Without the text at the mistake, which may be a secret.
        Err(_) => Err("it is not YAML".to_owned()),
    }
}

/// The servers of a file of goose, with the keys that other clients have; `None` if there are none. What is built in is no server.
pub(crate) fn read_servers(text: &str, section: &str) -> Option<Value> {
    let root = read(text).ok()?;
    let entries = root.get(section)?.as_object()?;
    let is_server = |entry: &&Value| ["cmd", "uri"].iter().any(|key| entry.get(key).is_some());
    let servers = entries.iter().filter(|(_, entry)| is_server(entry));
    let servers: Map<String, Value> = servers.map(|(name, entry)| (name.clone(), plain(entry))).collect();
    Some(json!({ "mcpServers": servers }))
}

/// An entry with the names of keys that most clients use. What only the client itself needs is left out.
fn plain(entry: &Value) -> Value {
    let Value::Object(members) = entry else { return entry.clone() };
    let own = ["name", "description", "display_name", "bundled", "timeout", "available_tools"];
    let renamed = members.iter().filter(|(key, value)| !own.contains(&key.as_str()) && !value.is_null());
    let renamed = renamed.map(|(key, value)| match (key.as_str(), value.as_str()) {
        ("cmd", _) => ("command".to_owned(), value.clone()),
        ("envs", _) => ("env".to_owned(), value.clone()),
        ("env_keys", _) => ("env_vars".to_owned(), value.clone()),
        ("uri", _) => ("url".to_owned(), value.clone()),
        ("type", Some("streamable_http")) => ("type".to_owned(), json!("http")),
        _ => (key.clone(), value.clone()),
    });
    Value::Object(renamed.collect())
}

/// The lines of an entry. JSON is YAML, so that a value needs no rules of its own.
fn rendered(name: &str, value: &Value, indent: &str) -> String {
    let mut text = format!("{indent}{}:\n", quoted(name));
    for (key, value) in value.as_object().into_iter().flatten() {
        let written = value.as_str().map_or_else(|| value.to_string(), quoted);
        text.push_str(&format!("{indent}{indent}{key}: {written}\n"));
    }
    text
}

fn replace_last_line(text: &str, line: &str) -> String {
    let last = text.split_inclusive('\n').next_back().unwrap_or_default();
    let end = if last.ends_with("\r\n") { "\r\n" } else { "\n" };
    format!("{}{line}{end}", text.strip_suffix(last).unwrap_or_default())
}

/// A map at the root, in the block style.
struct YamlSection<'l> {
    /// The line of its key.
    key: usize,
    /// The line after its last one.
    end: usize,
    /// The indentation of its entries.
    indent: &'l str,
    /// Whether it is written as `{}`.
    is_empty_map: bool,
}

impl<'l> YamlSection<'l> {
    fn find(lines: &[&'l str], section: &str) -> Result<Option<Self>, String> {
        let value =
            |line: &&str| line.strip_prefix(section)?.strip_prefix(':').map(|rest| rest.trim().to_owned());
        let Some(key) = lines.iter().position(|line| value(line).is_some()) else { return Ok(None) };
        let written = lines.get(key).and_then(value).unwrap_or_default();
        let is_empty_map = written == "{}";
        if !(written.is_empty() || written.starts_with('#') || is_empty_map) {
            return Err(UNCLEAR.to_owned());
        }
        let below = lines.get(key + 1..).unwrap_or_default();
        let is_content = |line: &&&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let block = below.iter().take_while(|line| !is_content(line) || line.starts_with(' ')).count();
        let block = below.get(..block).unwrap_or_default();
        let first = block.iter().find(|line| is_content(line)).copied().unwrap_or("  ");
        let indent = first.get(..first.len() - first.trim_start_matches(' ').len()).unwrap_or("  ");
        let last = block.iter().rposition(|line| is_content(&line)).map_or(0, |at| at + 1);
        Ok(Some(Self {
            key,
            end: key + 1 + last,
            indent: if indent.is_empty() { "  " } else { indent },
            is_empty_map,
        }))
    }

    /// The lines of an entry.
    fn entry(&self, lines: &[&str], name: &str) -> Option<std::ops::Range<usize>> {
        let is_key = |line: &&str| {
            let rest = line.strip_prefix(self.indent).filter(|rest| !rest.starts_with([' ', '#']));
            let key = rest.and_then(|rest| rest.trim_end().strip_suffix(':'));
            key.is_some_and(|key| key == name || key == quoted(name) || key.trim_matches(['"', '\'']) == name)
        };
        let own = lines.get(self.key + 1..self.end)?;
        let at = own.iter().position(is_key)?;
        let deeper = |line: &&&str| {
            let indent = line.len() - line.trim_start_matches(' ').len();
            line.trim().is_empty() || indent > self.indent.len()
        };
        let length = own.get(at + 1..)?.iter().take_while(deeper).count();
        let block = own.get(at..at + 1 + length)?;
        let last = block.iter().rposition(|line| !line.trim().is_empty()).unwrap_or(0);
        let start = self.key + 1 + at;
        Some(start..start + last + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_file::ServerEntry;

    const FILE: &str = "# mine\nGOOSE_MODEL: some\nextensions:\n  developer:\n    type: builtin\n    enabled: true\n    bundled: true\n\n  # notes\n  memory:\n    type: stdio\n    cmd: npx\n    args:\n    - -y\n    - \"@modelcontextprotocol/server-memory\"\n    envs: {A: b}\n    env_keys: [TOKEN]\n    enabled: true\nlast: 1\n";

    #[test]
    fn an_entry_is_added_and_taken_out_and_nothing_else_is_touched() {
        let entry = ServerEntry {
            program: "/bin/toolgate".to_owned(),
            arguments: vec!["mcp".to_owned(), "--config".to_owned()],
        };
        let entry = GateEntry::from(entry);
        for text in [FILE, &FILE.replace('\n', "\r\n"), "", "extensions: {}\nlast: 1\n", "a: 1"] {
            let added = install(text, "extensions", "toolgate", &entry).unwrap().text;
            assert_eq!(install(&added, "extensions", "toolgate", &entry).unwrap().text, added);
            let removed = uninstall(&added, "extensions", "toolgate").unwrap().unwrap();
            assert!(removed.is_gate_entry(), "{:?}", removed.entry);
            if text.contains("developer") {
                assert_eq!(removed.text, text);
            }
        }
        let taken = uninstall(FILE, "extensions", "memory").unwrap().unwrap();
        assert!(taken.text.contains("# notes") && taken.text.ends_with("last: 1\n"), "{}", taken.text);
        assert!(!taken.text.contains("server-memory"));
        assert_eq!(uninstall(FILE, "extensions", "other"), Ok(None));
        for unclear in ["extensions: {a: {cmd: x}}\n", "- a\n", "extensions: [\n"] {
            assert!(install(unclear, "extensions", "toolgate", &entry).is_err(), "{unclear}");
        }
        let restored = restore(&taken.text, FILE, "extensions").unwrap();
        assert_eq!((restored.names, read(&restored.text)), (vec!["memory".to_owned()], read(FILE)));
    }

    #[test]
    fn servers_have_the_keys_of_other_clients() {
        let found = read_servers(FILE, "extensions").unwrap();
        let expected = json!({"mcpServers": {"memory": {
            "type": "stdio", "command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"],
            "env": {"A": "b"}, "env_vars": ["TOKEN"], "enabled": true,
        }}});
        assert_eq!(found, expected);
        assert!(read_servers("just words", "extensions").is_none());
    }
}
