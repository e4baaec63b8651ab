//! Merges an entry into an existing one: the command is replaced, and the user's other keys stay.

use serde_json::{Map, Value};

/// Keys of a remote server, which are invalid beside a command.
const REMOTE_KEYS: &[&str] = &[
    "url",
    "serverUrl",
    "httpUrl",
    "uri",
    "headers",
    "http_headers",
    "env_http_headers",
    "bearer_token_env_var",
    "type",
    "transport",
];

/// Keys of a program, which are invalid beside an address.
const PROGRAM_KEYS: &[&str] =
    &["command", "args", "cmd", "env", "envs", "environment", "cwd", "type", "env_keys", "env_vars"];

/// The text of a file with the entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledEntry {
    /// The text.
    pub text: String,
    /// Keys of the existing entry that were kept.
    pub kept: Vec<String>,
    /// Keys of the existing entry that were removed.
    pub left_out: Vec<String>,
}

/// The text of a file without the entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedEntry {
    /// The text.
    pub text: String,
    /// The removed entry.
    pub entry: Value,
}

impl RemovedEntry {
    /// Whether the entry starts a gate, by the name of its program.
    #[must_use]
    pub fn is_gate_entry(&self) -> bool {
        let words = self.command_line();
        let program = words.first().and_then(|program| program.rsplit('/').next());
        (program == Some("toolgate") && words.contains(&"mcp")) || self.is_address_of_gate()
    }

    /// Whether the entry has an address, which ends as that of a gate does.
    fn is_address_of_gate(&self) -> bool {
        self.address().is_some_and(|address| address.ends_with("/mcp"))
    }

    /// The address of a server that the client does not start.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        let keys = ["url", "serverUrl", "httpUrl", "uri"];
        keys.iter().find_map(|key| self.entry.get(*key)).and_then(Value::as_str)
    }

    /// The program and its arguments, from one list or from two keys.
    #[must_use]
    pub fn command_line(&self) -> Vec<&str> {
        let listed = |key: &str| self.entry.get(key).and_then(Value::as_array).into_iter().flatten();
        let program = self.entry.get("command").and_then(Value::as_str);
        program.into_iter().chain(listed("command").chain(listed("args")).filter_map(Value::as_str)).collect()
    }

    /// The other keys of the entry; only their names, because the values may be secret.
    #[must_use]
    pub fn other_keys(&self) -> Vec<&str> {
        let known = ["command", "args", "type", "enabled", "tools", "url", "serverUrl", "httpUrl", "uri"];
        let keys = self.entry.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
        keys.filter(|key| !known.contains(key)).collect()
    }
}

/// The merged entry.
pub(crate) struct MergedEntry {
    pub(crate) value: Value,
    /// Whether the existing entry is already up to date.
    pub(crate) changes_nothing: bool,
    pub(crate) left_out: Vec<String>,
    kept: Vec<String>,
}

pub(crate) fn merge_entry(before: Option<&Value>, entry: &Value) -> MergedEntry {
    let nothing = Map::new();
    let older = before.and_then(Value::as_object).unwrap_or(&nothing);
    let others = older.iter().filter(|(key, _)| entry.get(key.as_str()).is_none());
    let is_program = ["command", "cmd"].iter().any(|key| entry.get(*key).is_some());
    let of_other_kind = if is_program { REMOTE_KEYS } else { PROGRAM_KEYS };
    let (gone, stays): (Vec<_>, Vec<_>) = others.partition(|(key, _)| of_other_kind.contains(&key.as_str()));
    let names = |members: &[(&String, &Value)]| members.iter().map(|(key, _)| (*key).clone()).collect();
    let (kept, left_out) = (names(&stays), names(&gone));
    let mut members = entry.as_object().cloned().unwrap_or_default();
    members.extend(stays.into_iter().map(|(key, value)| (key.clone(), value.clone())));
    let value = Value::Object(members);
    MergedEntry { changes_nothing: before == Some(&value), value, kept, left_out }
}

impl MergedEntry {
    pub(crate) fn installed(self, text: String) -> InstalledEntry {
        InstalledEntry { text, kept: self.kept, left_out: self.left_out }
    }
}
