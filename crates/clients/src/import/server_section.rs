//! Where clients keep their servers.

use serde_json::{Map, Value};

use crate::known::{CLIENTS, McpClient};

/// The servers of a file. A file that is only one server, or only servers, is accepted too.
pub(super) fn servers(root: &Value) -> Vec<(&str, &Value)> {
    let object = CLIENTS.iter().flat_map(McpClient::sections).find_map(|path| at(root, &path));
    let object = object.or_else(|| root.as_object().filter(|members| are_servers(members)));
    object.into_iter().flatten().map(|(name, value)| (name.as_str(), value)).collect()
}

fn at<'v>(root: &'v Value, place: &[&str]) -> Option<&'v Map<String, Value>> {
    let found = place.iter().try_fold(root, |value, key| value.get(key))?;
    found.as_object().filter(|members| members.values().any(Value::is_object))
}

fn are_servers(members: &Map<String, Value>) -> bool {
    let is_server =
        |value: &Value| ["command", "url", "serverUrl", "httpUrl"].iter().any(|key| value.get(key).is_some());
    !members.is_empty() && members.values().all(is_server)
}

/// Notes about the whole file.
pub(super) fn notes(root: &Value) -> Vec<String> {
    let mut notes = Vec::new();
    if root.get("inputs").and_then(Value::as_array).is_some_and(|inputs| !inputs.is_empty()) {
        notes.push("the client asks for `inputs`; here they are variables of the environment".to_owned());
    }
    if root.get("projects").is_some_and(Value::is_object) {
        notes.push("servers of single `projects` were not read".to_owned());
    }
    notes
}
