//! The files of the demonstration.

use std::io::ErrorKind;
use std::path::Path;

use crate::Fault;

/// The files, by their paths in the demonstration's directory.
const FILES: &[(&str, &str)] = &[
    (
        "toolgate.yaml",
        "model: scripted/demo\nworkspace: ./project\nstate_dir: ./state\naudit: {directory: ./audit}\ntools: [tools.d]\nagents:\n  reader: {permissions: [words:count]}\n  guest: {}\n",
    ),
    ("tools.d/count_words.yaml", COUNT_WORDS),
    ("project/notes.md", "# Shopping\n\n- apples\n- pears\n"),
    ("project/src/greeting.txt", "Good morning\n"),
    ("project/.env", "API_KEY=nobody-should-read-this\n"),
    ("outside/secret.txt", "This file lies outside the workspace.\n"),
];

/// A tool in a few lines.
const COUNT_WORDS: &str = r#"tool: count_words
description: Counts the words of a file
class: read
permissions: [words:count]
input:
  properties: {file: {type: string, maxLength: 200, x-toolgate-path: "@project"}}
  required: [file]
command: [wc, -w, --, "{file}"]
cwd: "@project"
policy: {"*": allow}
"#;

/// Recreates the directory.
pub(super) fn set(folder: &Path) -> Result<(), Fault> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    for (path, text) in FILES {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
        std::fs::write(path, text)?;
    }
    std::os::unix::fs::symlink("../outside", folder.join("project/shortcut"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scene_can_be_set_again_and_again() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("demo");
        for _ in 0..2 {
            set(&folder).unwrap();
            let through = folder.join("project/shortcut/secret.txt");
            assert!(std::fs::read_to_string(through).unwrap().contains("outside the workspace"));
            std::fs::write(folder.join("litter"), "").unwrap();
        }
        set(&folder).unwrap();
        assert!(!folder.join("litter").exists());
    }
}
