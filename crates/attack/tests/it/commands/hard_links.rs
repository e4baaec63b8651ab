//! Workspace files with another hard link outside, as package stores, caches and `cp -al` create them.

use std::path::{Path, PathBuf};

use serde_json::json;
use toolgate_tools::Profile;

use super::{Desk, native};

const OUTSIDE: &str = "content of the store\n";

/// Every way in which a command changes a file that it has a name of.
const ATTACKS: [&str; 9] = [
    "echo x >> F",
    "echo x > F",
    "cp /etc/passwd F",
    "truncate -s 0 F",
    "sed -i s/content/x/ F",
    "chmod u+x F",
    "touch -d 2001-01-01 F",
    "exec 3<>F && echo x >&3",
    "ln F other && echo x >> other",
];

/// A file in a store outside of the workspace.
fn stored(desk: &Desk, name: &str) -> PathBuf {
    let path = desk.scratch.folder("store").join(name);
    std::fs::write(&path, OUTSIDE).unwrap();
    path
}

fn link(original: &Path, name: &Path) {
    std::fs::create_dir_all(name.parent().unwrap()).unwrap();
    std::fs::hard_link(original, name).unwrap();
}

/// A file's state except for its link count.
fn state(path: &Path) -> (String, u32, std::time::SystemTime) {
    use std::os::unix::fs::MetadataExt as _;
    let found = path.metadata().unwrap();
    (std::fs::read_to_string(path).unwrap(), found.mode(), found.modified().unwrap())
}

#[test]
fn no_command_changes_a_file_outside_through_a_hard_link() {
    let desk = Desk::new(Profile::NATIVE);
    let outside = stored(&desk, "package.js");
    link(&outside, &desk.workspace.join("lib/linked.js"));
    let before = state(&outside);
    for attack in ATTACKS {
        let line = attack.replace('F', "lib/linked.js");
        let answer = native(&desk.run(&line)).0;
        assert_eq!(state(&outside), before, "`{line}` changed the file outside: {answer}");
        assert!(answer.contains("hard links") && answer.contains("sandbox.hard_links"), "{line}: {answer}");
    }
    // Moving a directory above it does not remove the protection.
    let moved = "mv lib moved; echo x >> moved/linked.js; echo x >> lib/linked.js";
    native(&desk.run(moved));
    assert_eq!(state(&outside), before);
    // It can be read, and its siblings can be changed.
    let (said, _) = native(&desk.run("cat lib/linked.js && echo new > lib/new.js && cat lib/new.js"));
    assert_eq!(said, format!("{OUTSIDE}new\n"));
}

#[test]
fn a_file_all_of_whose_names_are_in_the_workspace_is_changed() {
    let desk = Desk::new(Profile::NATIVE);
    desk.write("a/one.txt", "one\n");
    link(&desk.workspace.join("a/one.txt"), &desk.workspace.join("b/other.txt"));
    assert_eq!(native(&desk.run("echo two >> a/one.txt && cat b/other.txt")).0, "one\ntwo\n");
}

#[test]
fn a_second_name_of_what_is_protected_is_protected_too() {
    let desk = Desk::new(Profile::NATIVE);
    desk.write(".git/HEAD", "ref: refs/heads/main\n");
    desk.write(".git/hooks/pre-commit", "#!/bin/sh\n");
    link(&desk.workspace.join(".git/hooks/pre-commit"), &desk.workspace.join("script.sh"));
    native(&desk.run("echo touch planted >> script.sh"));
    let hook = std::fs::read_to_string(desk.workspace.join(".git/hooks/pre-commit")).unwrap();
    assert_eq!(hook, "#!/bin/sh\n");
}

#[test]
fn thousands_of_linked_files_are_kept_by_their_directory_and_the_rest_is_written() {
    let desk = Desk::new(Profile::NATIVE);
    let mut outside = Vec::new();
    for number in 0..1_200 {
        let name = format!("f{number}.js");
        outside.push(stored(&desk, &name));
        let package = format!("node_modules/.pnpm/p{}/{name}", number % 30);
        link(&outside[number], &desk.workspace.join(package));
    }
    desk.write("node_modules/.modules.yaml", "a\n");
    let line = "find node_modules -name '*.js' -exec sh -c 'for f; do echo x >> $f; done' sh {} +; \
                echo b >> node_modules/.modules.yaml; echo c > top.txt; cat node_modules/.modules.yaml top.txt";
    let (said, _) = native(&desk.run(line));
    assert!(said.contains("a\nb\nc\n"), "{said}");
    for path in outside {
        assert_eq!(std::fs::read_to_string(path).unwrap(), OUTSIDE);
    }
}

#[test]
fn an_operator_may_allow_it() {
    let desk = Desk::with(Profile::NATIVE, |options| options.config("sandbox: {hard_links: allow}"));
    let outside = stored(&desk, "package.js");
    link(&outside, &desk.workspace.join("linked.js"));
    native(&desk.run("echo more >> linked.js"));
    assert_eq!(std::fs::read_to_string(outside).unwrap(), format!("{OUTSIDE}more\n"));
}

#[test]
fn file_tools_replace_a_linked_file_and_leave_the_one_outside() {
    let desk = Desk::new(Profile::NATIVE);
    for (tool, arguments, expected) in [
        ("write_file", json!({"content": "new\n"}), "new\n".to_owned()),
        ("append_file", json!({"content": "more\n"}), format!("{OUTSIDE}more\n")),
        ("edit_file", json!({"old_text": "store", "new_text": "shop"}), OUTSIDE.replace("store", "shop")),
    ] {
        let outside = stored(&desk, tool);
        let inside = desk.workspace.join(tool);
        link(&outside, &inside);
        let mut arguments = arguments;
        arguments["path"] = json!(tool);
        desk.bench.must(tool, arguments);
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), OUTSIDE, "{tool}");
        assert_eq!(std::fs::read_to_string(&inside).unwrap(), expected, "{tool}");
    }
}
