//! A model that wants git to execute a program: it writes all it can, then a person uses git.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use toolgate_attack::{Bench, BenchOptions, Scratch};
use toolgate_tools::Profile;
use toolgate_types::ErrorCode;

/// Files that together make a directory a repository whose configuration names a program.
fn evil_repository(folder: &str, program: &str) -> Vec<(String, String)> {
    let config = format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = \"{program}\"\n"
    );
    [("config", config.as_str()), ("objects/x", ""), ("refs/heads/x", ""), ("HEAD", "ref: refs/heads/main\n")]
        .map(|(name, content)| (format!("{folder}/{name}"), content.to_owned()))
        .to_vec()
}

fn write(bench: &Bench, path: &str, content: &str) -> Option<ErrorCode> {
    let called = bench.call("write_file", json!({"path": path, "content": content}));
    called.failed.map(|(_, failure)| failure.code)
}

fn git(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments).env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", folder);
    // Its exit code does not matter: only what it executes.
    let _ = command.output().expect("git is installed");
}

#[test]
fn no_file_that_a_model_writes_makes_git_run_a_program() {
    let scratch = Scratch::new();
    let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
    let proof = scratch.folder("proof").join("it-ran");
    let program = format!("touch {}; false", proof.display());
    git(&workspace, &["init", "-q", "."]);
    git(&workspace, &["init", "-q", "--bare", "shelf.git"]);
    let bench = BenchOptions::new(Profile::NATIVE, &workspace, &state).open();

    let mut attempts = evil_repository("evil", &program);
    attempts.extend(evil_repository("sub/evil", &program));
    attempts.push((".git/commondir".to_owned(), "../evil\n".to_owned()));
    attempts.push(("sub/.git".to_owned(), "gitdir: evil\n".to_owned()));
    attempts.push(("sub/.GIT".to_owned(), "gitdir: evil\n".to_owned()));
    for hooks in [".git/hooks", "shelf.git/hooks", "evil/hooks", "sub/.git/hooks"] {
        attempts.push((format!("{hooks}/post-index-change"), format!("#!/bin/sh\n{program}\n")));
    }
    attempts.push((
        "shelf.git/config".to_owned(),
        format!("[core]\n\tbare = true\n\tfsmonitor = \"{program}\"\n"),
    ));
    attempts.push((".git/config".to_owned(), format!("[core]\n\tfsmonitor = \"{program}\"\n")));
    attempts.push((".gitattributes".to_owned(), "* filter=evil diff=evil\n".to_owned()));
    for (path, content) in &attempts {
        write(&bench, path, content);
    }
    // The last missing file may also arrive by a move.
    write(&bench, "evil/NOT_HEAD", "ref: refs/heads/main\n");
    bench.call("move_file", json!({"from": "evil/NOT_HEAD", "to": "evil/HEAD"}));
    let patch = "--- /dev/null\n+++ b/sub/evil/HEAD\n@@ -0,0 +1 @@\n+ref: refs/heads/main\n";
    bench.call("apply_patch", json!({"patch": patch}));

    look_around(&workspace);
    assert!(!proof.exists(), "git ran a program that the model chose");

    // Without a gate, git does execute it.
    for (path, content) in evil_repository("free/evil", &program) {
        let path = scratch.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    look_around(&scratch.path().join("free"));
    assert!(proof.exists(), "the attack is none: git runs nothing");
}

/// What an editor or a shell prompt runs, in every directory.
fn look_around(workspace: &Path) {
    for folder in ["", "evil", "sub", "sub/evil", "shelf.git"].map(|folder| workspace.join(folder)) {
        for arguments in [&["status"][..], &["diff"], &["log"], &["add", "-A"], &["gc"]] {
            if folder.is_dir() {
                git(&folder, arguments);
            }
        }
    }
}

#[test]
fn repositories_are_read_but_not_changed() {
    let scratch = Scratch::new();
    let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
    git(&workspace, &["init", "-q", "."]);
    git(&workspace, &["init", "-q", "--bare", "shelf.git"]);
    let bench = BenchOptions::new(Profile::NATIVE, &workspace, &state).open();
    bench.must("read_file", json!({"path": ".git/HEAD"}));
    bench.must("read_file", json!({"path": "shelf.git/HEAD"}));
    for path in [
        ".git/HEAD",
        ".git/commondir",
        ".git/info/attributes",
        "shelf.git/config",
        "shelf.git/hooks/x",
        "a/.git",
        "a/.Git/x",
    ] {
        let code = write(&bench, path, "x");
        assert!(matches!(code, Some(ErrorCode::ReadOnly | ErrorCode::DeniedPath)), "{path}: {code:?}");
    }
    for path in [".gitignore", "HEAD", "a/HEAD", "a/objects/x", "b/refs/x", ".github/workflows/ci.yml"] {
        assert_eq!(write(&bench, path, "x"), None, "{path}");
    }
}

#[test]
fn a_twin_of_what_makes_a_repository_is_not_written() {
    let scratch = Scratch::new();
    let bench = BenchOptions::new(Profile::NATIVE, &scratch.folder("w"), &scratch.folder("s")).open();
    for path in ["a/objects/x", "a/refs/x", "b/HEAD", "c/HEAD", "c/objects/x"] {
        assert_eq!(write(&bench, path, "x"), None, "{path}");
    }
    // On a case-insensitive filesystem, git finds each of these.
    for path in ["a/head", "a/Head", "b/CommonDir", "c/REFS/x"] {
        let code = write(&bench, path, "x");
        assert!(matches!(code, Some(ErrorCode::ReadOnly | ErrorCode::DeniedPath)), "{path}: {code:?}");
    }
}
