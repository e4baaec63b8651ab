//! A writer that may be killed at any instant, and its log, by which its files are checked.
//!
//! A writer changes its own files repeatedly, each time to the next version. It prints every call before it makes it and after it was answered. The
//! test that kills it compares the files with this log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolgate_types::CallId;

/// The kinds of change, in the order a writer makes them.
pub const CHANGES: [Change; 6] =
    [Change::Write, Change::Append, Change::Edit, Change::Patch, Change::Move, Change::LongName];

/// One way to get to the next version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Replaces a file whose every line contains the version.
    Write,
    /// Appends a line to a file that has one per version.
    Append,
    /// Replaces the version in a text.
    Edit,
    /// Replaces the version in three files in one call.
    Patch,
    /// Moves a file to a name with the version.
    Move,
    /// Replaces a file whose name has nearly the maximum length, in multi-byte characters.
    LongName,
}

impl Change {
    /// Its name in a writer's log.
    #[must_use]
    pub fn word(self) -> String {
        format!("{self:?}")
    }

    /// The change of a name.
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        CHANGES.into_iter().find(|change| change.word() == word).unwrap()
    }

    /// Creates the files of version 0.
    pub fn begin(self, workspace: &Path, writer: &str) {
        match self {
            Self::Append => std::fs::write(self.file(workspace, writer), "").unwrap(),
            Self::Patch => patched_files(writer)
                .iter()
                .for_each(|name| std::fs::write(workspace.join(name), one_line(0)).unwrap()),
            Self::Move => std::fs::write(workspace.join(moved_name(writer, 0)), "moves\n").unwrap(),
            Self::Write | Self::Edit | Self::LongName => {
                std::fs::write(self.file(workspace, writer), self.content(0)).unwrap();
            }
        }
    }

    /// The call that leads from a version to the next.
    #[must_use]
    pub fn call(self, writer: &str, from: u64) -> (&'static str, Value) {
        let path = self.name(writer);
        match self {
            Self::Write | Self::LongName => {
                ("write_file", json!({"path": path, "content": self.content(from + 1)}))
            }
            Self::Append => ("append_file", json!({"path": path, "content": one_line(from + 1)})),
            Self::Edit => (
                "edit_file",
                json!({"path": path, "old_text": one_line(from), "new_text": one_line(from + 1), "replace_all": true}),
            ),
            Self::Patch => {
                let (old, new) = (one_line(from), one_line(from + 1));
                let part = |name: &String| format!("--- {name}\n+++ {name}\n@@ -1 +1 @@\n-{old}+{new}");
                ("apply_patch", json!({"patch": patched_files(writer).iter().map(part).collect::<String>()}))
            }
            Self::Move => {
                ("move_file", json!({"from": moved_name(writer, from), "to": moved_name(writer, from + 1)}))
            }
        }
    }

    /// The version of the files. Panics if there is none: if a file is a mix of versions, or if several files have different ones.
    #[must_use]
    pub fn version(self, workspace: &Path, writer: &str) -> u64 {
        match self {
            Self::Write | Self::Edit | Self::LongName => {
                let text = std::fs::read_to_string(self.file(workspace, writer)).unwrap();
                let version = first_version(&text);
                assert_eq!(text, self.content(version), "{writer} {self:?}: a mix of versions");
                version
            }
            Self::Append => {
                let text = std::fs::read_to_string(self.file(workspace, writer)).unwrap();
                let count = text.lines().count() as u64;
                let whole: String = (1..=count).map(one_line).collect();
                assert_eq!(text, whole, "{writer} {self:?}: lines are missing, doubled or torn");
                count
            }
            Self::Patch => {
                let texts =
                    patched_files(writer).map(|name| std::fs::read_to_string(workspace.join(name)).unwrap());
                assert!(
                    texts.iter().all(|text| *text == texts[0]),
                    "{writer} {self:?}: a part of a patch: {texts:?}"
                );
                first_version(&texts[0])
            }
            Self::Move => {
                let prefix = moved_name(writer, 0).trim_end_matches('0').to_owned();
                let names = std::fs::read_dir(workspace).unwrap().map(|entry| entry.unwrap().file_name());
                let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
                let versions: Vec<u64> = names
                    .iter()
                    .filter_map(|name| name.strip_prefix(&prefix))
                    .map(|version| version.parse().unwrap())
                    .collect();
                assert_eq!(versions.len(), 1, "{writer} {self:?}: names {versions:?}");
                let text = std::fs::read_to_string(workspace.join(moved_name(writer, versions[0]))).unwrap();
                assert_eq!(text, "moves\n");
                versions[0]
            }
        }
    }

    fn name(self, writer: &str) -> String {
        match self {
            // 251 bytes; a cut at an even offset is within a character.
            Self::LongName => format!("{writer}{}", "é".repeat((251 - writer.len()) / 2)),
            _ => format!("{writer}-{self:?}.txt"),
        }
    }

    fn file(self, workspace: &Path, writer: &str) -> PathBuf {
        workspace.join(self.name(writer))
    }

    fn content(self, version: u64) -> String {
        let lines = if self == Self::Edit { 20 } else { 400 };
        one_line(version).repeat(lines)
    }
}

fn one_line(version: u64) -> String {
    format!("version {version}\n")
}

fn first_version(text: &str) -> u64 {
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("version ")
        .and_then(|version| version.parse().ok())
        .unwrap_or_else(|| panic!("torn: {text:?}"))
}

fn patched_files(writer: &str) -> [String; 3] {
    ["one", "two", "three"].map(|which| format!("{writer}-patched/{which}.txt"))
}

fn moved_name(writer: &str, version: u64) -> String {
    format!("{writer}-moved-{version}")
}

/// A writer's log, in order.
#[derive(Debug, Default)]
pub struct Diary {
    /// Every call that was started, with the version it should produce.
    pub begun: BTreeMap<CallId, (Change, u64)>,
    /// Every call that was answered with success.
    pub answered: Vec<CallId>,
}

impl Diary {
    /// The line before a call.
    #[must_use]
    pub fn begin_line(call: CallId, change: Change, to: u64) -> String {
        format!("begin {call} {} {to}", change.word())
    }

    /// The line after a call was answered.
    #[must_use]
    pub fn answer_line(call: CallId) -> String {
        format!("answered {call}")
    }

    /// Takes a line; one that the kill truncated is ignored.
    pub fn read(&mut self, line: &str) {
        let Some(line) = line.strip_suffix('\n') else { return };
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["begin", call, change, to] => {
                let (call, to) = (call.parse().unwrap(), to.parse().unwrap());
                self.begun.insert(call, (Change::from_word(change), to));
            }
            ["answered", call] => self.answered.push(call.parse().unwrap()),
            _ => panic!("a writer said: {line}"),
        }
    }
}
