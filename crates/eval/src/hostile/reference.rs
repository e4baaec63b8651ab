//! A plain model of what files must hold after calls that succeeded one at a time.
#![expect(clippy::disallowed_methods, reason = "the harness reads its own throw-away directory")]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::sequence::HostileCall;
use super::shape::ToolUse;

/// Files whose content is known; none for a file that must be missing.
#[derive(Default)]
pub(super) struct ReferenceFiles(BTreeMap<String, Option<Vec<u8>>>);

impl ReferenceFiles {
    /// A change that the model does not follow: nothing is known any more.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// A call that succeeded, alone.
    pub(super) fn succeeded(&mut self, use_of: ToolUse, call: &HostileCall) {
        let argument = |name: &str| call.arguments.get(name).and_then(Value::as_str);
        let path = |name: &str| argument(name).and_then(plain);
        match use_of {
            ToolUse::Write => match (path("path"), argument("content")) {
                (Some(path), Some(content)) => drop(self.0.insert(path, Some(content.as_bytes().to_vec()))),
                _ => self.forget(),
            },
            ToolUse::Append => match (path("path"), argument("content")) {
                (Some(path), Some(content)) => {
                    if let Some(Some(known)) = self.0.get_mut(&path) {
                        known.extend_from_slice(content.as_bytes());
                    }
                }
                _ => self.forget(),
            },
            ToolUse::Delete => match path("path") {
                Some(path) => drop(self.0.insert(path, None)),
                None => self.forget(),
            },
            ToolUse::Move => match (path("from"), path("to")) {
                (Some(from), Some(to)) => match self.0.remove(&from) {
                    Some(content) if from != to => {
                        self.0.insert(from, None);
                        self.0.insert(to, content);
                    }
                    _ => self.forget(),
                },
                _ => self.forget(),
            },
            ToolUse::Edit | ToolUse::Patch | ToolUse::Command => self.forget(),
            ToolUse::Search | ToolUse::Revision | ToolUse::Read | ToolUse::Other => {}
        }
    }

    /// Where a file is not as it must be.
    pub(super) fn problem(&self, workspace: &Path) -> Option<String> {
        self.0.iter().find_map(|(path, content)| match (content, std::fs::read(workspace.join(path))) {
            (Some(content), Ok(found)) if *content == found => None,
            (Some(_), Ok(_)) => Some(format!("`{path}` has other content than the last call wrote")),
            (Some(_), Err(error)) => Some(format!("`{path}` was written and cannot be read: {error}")),
            (None, Err(error)) if error.kind() == std::io::ErrorKind::NotFound => None,
            (None, _) => Some(format!("`{path}` was deleted or moved, and is still there")),
        })
    }
}

/// A path that can only mean one file: no links, no look-alikes, nothing to resolve.
fn plain(path: &str) -> Option<String> {
    let path = path.strip_prefix("@project/").unwrap_or(path);
    let first = path.split('/').next().unwrap_or_default();
    let is_link = ["link", "way", "swap", "out", "loop", "dangling", "docs", "src", "a"]
        .iter()
        .any(|name| first.starts_with(name));
    let is_plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_')
            && !part.ends_with('.')
    };
    (!is_link && path.split('/').all(is_plain)).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_are_followed_and_other_content_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let call = |arguments: Value| HostileCall { tool: "x".to_owned(), arguments };
        let mut files = ReferenceFiles::default();
        files.succeeded(ToolUse::Write, &call(json!({"path": "@project/n.txt", "content": "one"})));
        files.succeeded(ToolUse::Append, &call(json!({"path": "n.txt", "content": "two"})));
        assert!(files.problem(place.path()).unwrap().contains("cannot be read"));
        std::fs::write(place.path().join("n.txt"), "onetwo").unwrap();
        assert_eq!(files.problem(place.path()), None);
        files.succeeded(ToolUse::Move, &call(json!({"from": "n.txt", "to": "m.txt"})));
        assert!(files.problem(place.path()).is_some());
        std::fs::rename(place.path().join("n.txt"), place.path().join("m.txt")).unwrap();
        assert_eq!(files.problem(place.path()), None);
        files.succeeded(ToolUse::Delete, &call(json!({"path": "m.txt"})));
        assert!(files.problem(place.path()).unwrap().contains("still there"));
        files.succeeded(ToolUse::Command, &call(json!({"command": "rm m.txt"})));
        assert_eq!(files.problem(place.path()), None);
        assert_eq!(plain("link_dir/x"), None);
        assert_eq!(plain("x/../y"), None);
    }
}
