//! A repository whose configuration executes programs: for a user who trusts it, but never through the gate.

use std::path::{Path, PathBuf};

use serde_json::json;
use toolgate_attack::{BenchOptions, Scratch, code_of, widened};
use toolgate_tools::{Profile, SHIPPED};

use crate::commands::git;
use crate::fixture::write;

/// Leaves a trace of its caller, and passes its input on.
const EVIL: &str = "#!/bin/sh\ntouch \"canary.$$.$(basename \"$0\")\" 2>/dev/null\ncat 2>/dev/null\n";

const CONFIG: &str = r#"
[core]
    fsmonitor = ./evil.sh
    pager = ./evil.sh
    editor = ./evil.sh
    hooksPath = ./hooks
    sshCommand = ./evil.sh
    attributesFile = ./attributes
    askPass = ./evil.sh
[pager]
    log = ./evil.sh
    diff = ./evil.sh
    show = ./evil.sh
[alias]
    log = !./evil.sh
    diff = !./evil.sh
    st = !./evil.sh
[diff]
    external = ./evil.sh
[diff "evil"]
    textconv = ./evil.sh
    command = ./evil.sh
[filter "evil"]
    clean = ./evil.sh
    smudge = ./evil.sh
    process = ./evil.sh
    required = false
[include]
    path = ../included
[gpg]
    program = ./evil.sh
[log]
    showSignature = true
[credential]
    helper = !./evil.sh
[interactive]
    diffFilter = ./evil.sh
[uploadpack]
    packObjectsHook = ./evil.sh
[remote "origin"]
    url = ext::./evil.sh
    uploadpack = ./evil.sh
    promisor = true
[merge "evil"]
    driver = ./evil.sh
"#;

fn arrange(workspace: &Path) {
    write(&workspace.join("a.txt"), "one\n");
    write(&workspace.join("evil.sh"), EVIL);
    write(&workspace.join("hooks/post-checkout"), EVIL);
    write(&workspace.join("hooks/pre-commit"), EVIL);
    git(workspace, &["init", "-q"]);
    git(workspace, &["add", "a.txt"]);
    git(workspace, &["commit", "-q", "-m", "first"]);
    write(&workspace.join("a.txt"), "two\n");
    write(&workspace.join(".gitattributes"), "*.txt diff=evil filter=evil merge=evil\n");
    git(workspace, &["add", "a.txt", ".gitattributes"]);
    git(workspace, &["commit", "-q", "-m", "second"]);
    write(&workspace.join("a.txt"), "three\n");
    for name in ["evil.sh", "hooks/post-checkout", "hooks/pre-commit"] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(workspace.join(name), mode).unwrap();
    }
    for name in [".git/hooks/pre-commit", ".git/hooks/post-index-change", ".git/hooks/fsmonitor-watchman"] {
        std::fs::create_dir_all(workspace.join(".git/hooks")).unwrap();
        std::fs::copy(workspace.join("evil.sh"), workspace.join(name)).unwrap();
    }
    write(
        &workspace.join("included"),
        "[core]\n    fsmonitor = ./evil.sh\n[diff]\n    external = ./evil.sh\n",
    );
    let config = workspace.join(".git/config");
    let plain = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, plain + CONFIG).unwrap();
}

fn canaries(workspace: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(workspace).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("canary")).collect()
}

/// Each of these would execute something without the gate; otherwise the tests below would show nothing.
#[test]
fn the_repository_is_hostile() {
    let scratch = Scratch::new();
    let workspace = scratch.folder("w");
    arrange(&workspace);
    for arguments in
        [&["status"][..], &["diff", "HEAD~1", "HEAD"], &["diff", "--no-ext-diff", "HEAD~1", "HEAD"]]
    {
        let output = std::process::Command::new("git").arg("-C").arg(&workspace).args(arguments).output();
        output.unwrap();
        let left = canaries(&workspace);
        assert!(!left.is_empty(), "git {arguments:?} ran nothing");
        left.iter().for_each(|canary| std::fs::remove_file(canary).unwrap());
    }
}

/// The shipped tools, with a writable workspace: so that what ran would leave a trace.
#[test]
fn no_git_tool_runs_what_a_repository_names() {
    let scratch = Scratch::new();
    let workspace = scratch.folder("w");
    arrange(&workspace);
    let writable: Vec<String> = SHIPPED
        .iter()
        .map(|(_, text)| widened(text).replace("\nclass: read\n", "\nclass: write\n"))
        .collect();
    let bench = BenchOptions::new(Profile::PROXY, &workspace, &scratch.folder("s"))
        .manifest(&writable.join("---\n"))
        .open();
    for (tool, arguments, shown) in [
        ("git_log", json!({"count": 5}), "second"),
        ("git_log", json!({"count": 5, "revision": "main", "path": "a.txt"}), "first"),
        ("git_diff", json!({"from": "HEAD~1", "to": "HEAD"}), "+two"),
        ("git_diff", json!({"from": "HEAD~1", "to": "HEAD", "stat": true}), "a.txt"),
        ("git_show_file", json!({"revision": "HEAD~1", "path": "a.txt"}), "one"),
        ("read_file", json!({"path": "a.txt"}), "three"),
        ("search_code", json!({"pattern": "thr"}), "three"),
    ] {
        let called = bench.must(tool, arguments);
        assert!(called.answer.text.contains(shown), "{tool}: {}", called.answer.text);
        assert_eq!(canaries(&workspace), Vec::<PathBuf>::new(), "{tool}");
    }
    // As shipped, they could not even leave a trace.
    let bench = BenchOptions::new(Profile::PROXY, &workspace, &scratch.folder("s2")).commands().open();
    bench.must("git_diff", json!({"from": "HEAD~1", "to": "HEAD"}));
}

/// Hooks are different: existing ones belong to the repository, cannot be changed, and run as confined as the line itself.
#[test]
fn git_in_a_shell_line_obeys_none_of_the_configuration() {
    let scratch = Scratch::new();
    let workspace = scratch.folder("w");
    arrange(&workspace);
    std::fs::remove_dir_all(workspace.join(".git/hooks")).unwrap();
    let bench = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s")).commands().open();
    for line in [
        "git status --short",
        "git log -p",
        "git diff",
        "git diff HEAD~1",
        "git show HEAD",
        "git --paginate log --oneline",
        "git add a.txt && git -c user.name=x -c user.email=x@example.com commit -m third",
        "git checkout -q -b other && git checkout -q main",
        "git stash list",
        "git fetch origin",
        "git log --show-signature",
    ] {
        let called = bench.call("run_command", json!({"command": line}));
        assert_eq!(code_of(&called), None, "{line}: {}", called.answer.text);
        assert_eq!(canaries(&workspace), Vec::<PathBuf>::new(), "{line}: {}", called.answer.text);
    }
    assert!(bench.must("run_command", json!({"command": "git log --oneline"})).answer.text.contains("third"));
    // The repository keeps its own configuration; only the commands' view of it differs.
    assert!(std::fs::read_to_string(workspace.join(".git/config")).unwrap().contains("evil.sh"));
    let shown = bench.must("run_command", json!({"command": "cat .git/config"})).answer.text;
    assert!(shown.contains("repositoryformatversion") && !shown.contains("evil"), "{shown}");
}
