//! The same operation in every profile: its tools, and its refusals.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{ErrorCode, Structured};

/// An operation on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Search,
    List,
    Find,
    Write,
    Append,
    MoveTo,
    PatchCreate,
    Edit,
    Delete,
    MoveFrom,
    PatchModify,
    Frontmatter,
}

use Operation::*;

/// A call of one of a profile's tools.
pub(crate) struct Attempt {
    pub(crate) operation: Operation,
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
}

/// Every operation of a profile on a path. `plain` is a file that may be read and moved.
pub(crate) fn attempts(profile: Profile, path: &str, plain: &str) -> Vec<Attempt> {
    let only_path = json!({"path": path});
    let write = json!({"path": path, "content": "overwritten"});
    let edit = json!({"path": path, "old_text": "e", "new_text": "E", "replace_all": true});
    let search = json!({"pattern": "secret", "path": path});
    let create = format!("--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+overwritten\n");
    let modify = format!("--- {path}\n+++ {path}\n@@ -1 +1 @@\n-{}\n+overwritten\n", "plain text");
    let frontmatter = json!({"path": path, "patch": {"operation": "updateFrontmatter", "update": {"variables.set": {"a": "b"}}}});
    let attempts = match profile.name() {
        "native" => vec![
            (Read, "read_file", only_path.clone()),
            (Search, "search_files", search),
            (List, "list_directory", only_path.clone()),
            (Find, "find_files", json!({"glob": "*", "path": path})),
            (Write, "write_file", write.clone()),
            (Append, "append_file", write),
            (MoveTo, "move_file", json!({"from": plain, "to": path, "overwrite": true})),
            (PatchCreate, "apply_patch", json!({"patch": create})),
            (Edit, "edit_file", edit),
            (Delete, "delete_file", only_path),
            (MoveFrom, "move_file", json!({"from": path, "to": "moved-away.txt"})),
            (PatchModify, "apply_patch", json!({"patch": modify})),
        ],
        "crew" => vec![
            (Read, "fs.read", only_path.clone()),
            (List, "fs.list", only_path),
            (Search, "fs.search", search),
            (Write, "fs.write", write),
            (Frontmatter, "fs.apply_patch", frontmatter),
        ],
        "claw" => vec![
            (Read, "read_file", only_path.clone()),
            (List, "list_dir", only_path),
            (Write, "write_file", write.clone()),
            (Append, "append_file", write),
            (Edit, "edit_file", edit),
        ],
        "proxy" => vec![
            (Read, "read_file", only_path),
            (List, "list_files", json!({"directory": path})),
            (Search, "search_code", json!({"pattern": "secret", "directory": path})),
        ],
        "sidecar" => vec![
            (Read, "read_file", only_path.clone()),
            (List, "list_directory", only_path),
            (Search, "search_files", search),
            (Write, "write_file", write),
        ],
        "studio" => vec![(Read, "file_read", only_path), (Write, "file_write", write)],
        other => panic!("the test does not know `{other}`"),
    };
    attempts.into_iter().map(|(operation, tool, arguments)| Attempt { operation, tool, arguments }).collect()
}

/// The profiles' own error codes, by the gate's code.
pub(crate) struct Wording(BTreeMap<&'static str, [&'static str; 3]>);

impl Wording {
    pub(crate) fn load() -> Self {
        let table = include_str!("../data/profile_codes.txt");
        let rows = table.lines().filter(|line| !line.starts_with('#'));
        let row = |line: &'static str| {
            let mut cells = line.split_whitespace();
            let mut next = || cells.next().unwrap_or_else(|| panic!("a cell is missing: {line}"));
            (next(), [next(), next(), next()])
        };
        Self(rows.map(row).collect())
    }

    /// The code that a model of this profile must get.
    pub(crate) fn of(&self, profile: Profile, code: ErrorCode) -> &'static str {
        let own = || self.0.get(code.as_str()).unwrap_or_else(|| panic!("{} has no row", code.as_str()));
        match profile.name() {
            "native" | "proxy" | "studio" => code.as_str(),
            "crew" => own()[0],
            "claw" => own()[1],
            "sidecar" => own()[2],
            other => panic!("the test does not know `{other}`"),
        }
    }
}

/// The code that a model of this profile got.
pub(crate) fn answered_code(profile: Profile, called: &CallResponse) -> String {
    let answer = &called.answer;
    let at = |pointer: &str| {
        let parsed: Value = serde_json::from_str(&answer.text).unwrap();
        assert_eq!(
            Some(parsed.clone()),
            answer.structured.clone().map(Structured::into_value),
            "the text and the structured answer differ"
        );
        parsed.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let before_colon = || answer.text.split(':').next().unwrap_or_default().to_owned();
    match profile.name() {
        "native" => {
            let structured = answer.structured.as_ref().unwrap().value();
            assert_eq!(structured["error"]["code"], before_colon(), "text and structure differ");
            before_colon()
        }
        "claw" => before_colon(),
        "crew" | "proxy" | "sidecar" => at("/error/code"),
        "studio" => at("/metadata/code"),
        other => panic!("the test does not know `{other}`"),
    }
}
