//! A repository whose configuration sets `core.hooksPath` to a directory in the workspace, in every way in which git finds a configuration. The
//! oracle is the host's git: it runs the hook that was there, and none that a model wrote.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use toolgate_attack::{Bench, BenchOptions, Scratch, code_of};
use toolgate_tools::Profile;

/// A layout: what is mounted, where git runs, and where its hooks are, relative to the workspace.
struct Layout {
    name: &'static str,
    workspace: PathBuf,
    worktree: PathBuf,
    hooks: &'static str,
    git_config: Option<PathBuf>,
}

fn git(directory: &Path, global: Option<&Path>, arguments: &[&str]) -> bool {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).args([
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.com",
        "-c",
        "protocol.file.allow=always",
    ]);
    command.args(arguments).env("GIT_CONFIG_NOSYSTEM", "1");
    command.env("GIT_CONFIG_GLOBAL", global.unwrap_or(Path::new("/dev/null")));
    command.output().unwrap().status.success()
}

fn must(directory: &Path, arguments: &[&str]) {
    assert!(git(directory, None, arguments), "git {arguments:?} in {}", directory.display());
}

fn repository(directory: &Path) {
    std::fs::create_dir_all(directory).unwrap();
    must(directory, &["init", "-q", "-b", "main"]);
    must(directory, &["commit", "-q", "--allow-empty", "-m", "first"]);
}

fn hooks_path(repository: &Path, value: &str) {
    must(repository, &["config", "core.hooksPath", value]);
}

fn linked_worktree_alone(root: &Path) -> Layout {
    let (main, tree) = (root.join("main"), root.join("tree"));
    repository(&main);
    hooks_path(&main, ".githooks");
    must(&main, &["worktree", "add", "-q", "../tree"]);
    Layout {
        name: "linked worktree, its repository outside",
        workspace: tree.clone(),
        worktree: tree,
        hooks: ".githooks",
        git_config: None,
    }
}

fn linked_worktree_beside(root: &Path) -> Layout {
    let (main, tree) = (root.join("main"), root.join("tree"));
    repository(&main);
    hooks_path(&main, ".githooks");
    must(&main, &["worktree", "add", "-q", "../tree"]);
    Layout {
        name: "linked worktree beside its repository",
        workspace: root.into(),
        worktree: tree,
        hooks: "tree/.githooks",
        git_config: None,
    }
}

fn worktree_with_its_own_configuration(root: &Path) -> Layout {
    let (main, tree) = (root.join("main"), root.join("tree"));
    repository(&main);
    must(&main, &["worktree", "add", "-q", "../tree"]);
    must(&main, &["config", "extensions.worktreeConfig", "true"]);
    must(&tree, &["config", "--worktree", "core.hooksPath", "scripts/hooks"]);
    Layout {
        name: "config.worktree",
        workspace: tree.clone(),
        worktree: tree,
        hooks: "scripts/hooks",
        git_config: None,
    }
}

fn separate_git_directory_outside(root: &Path) -> Layout {
    let tree = root.join("tree");
    std::fs::create_dir_all(&tree).unwrap();
    must(&tree, &["init", "-q", "--separate-git-dir", "../kept"]);
    hooks_path(&tree, ".githooks");
    Layout {
        name: "--separate-git-dir outside",
        workspace: tree.clone(),
        worktree: tree,
        hooks: ".githooks",
        git_config: None,
    }
}

fn separate_git_directory_inside(root: &Path) -> Layout {
    let tree = root.join("tree");
    std::fs::create_dir_all(&tree).unwrap();
    must(&tree, &["init", "-q", "--separate-git-dir", "../kept"]);
    hooks_path(&tree, ".githooks");
    Layout {
        name: "--separate-git-dir inside",
        workspace: root.into(),
        worktree: tree,
        hooks: "tree/.githooks",
        git_config: None,
    }
}

fn with_submodule(root: &Path) -> PathBuf {
    let (library, main) = (root.join("library"), root.join("main"));
    repository(&library);
    repository(&main);
    must(&main, &["submodule", "--quiet", "add", "../library", "lib"]);
    main
}

fn submodule(root: &Path) -> Layout {
    let main = with_submodule(root);
    hooks_path(&main.join("lib"), ".githooks");
    Layout {
        name: "submodule",
        worktree: main.join("lib"),
        workspace: main,
        hooks: "lib/.githooks",
        git_config: None,
    }
}

fn submodule_with_hooks_around_it(root: &Path) -> Layout {
    let main = with_submodule(root);
    hooks_path(&main.join("lib"), "../shared/hooks");
    Layout {
        name: "submodule, hooks around it",
        worktree: main.join("lib"),
        workspace: main,
        hooks: "shared/hooks",
        git_config: None,
    }
}

fn submodule_alone(root: &Path) -> Layout {
    let lib = with_submodule(root).join("lib");
    hooks_path(&lib, ".githooks");
    Layout {
        name: "submodule as the workspace",
        workspace: lib.clone(),
        worktree: lib,
        hooks: ".githooks",
        git_config: None,
    }
}

fn part_of_a_repository(root: &Path) -> Layout {
    let main = root.join("main");
    repository(&main);
    std::fs::create_dir_all(main.join("packages/a")).unwrap();
    hooks_path(&main, "packages/a/hooks");
    Layout {
        name: "a directory of a repository",
        workspace: main.join("packages/a"),
        worktree: main,
        hooks: "hooks",
        git_config: None,
    }
}

fn included_from_outside(root: &Path) -> Layout {
    let main = root.join("main");
    repository(&main);
    std::fs::write(root.join("shared.conf"), "[core]\n\thooksPath = .githooks\n").unwrap();
    must(&main, &["config", "includeIf.gitdir:/.path", root.join("shared.conf").to_str().unwrap()]);
    Layout {
        name: "includeIf of a file outside",
        workspace: main.clone(),
        worktree: main,
        hooks: ".githooks",
        git_config: None,
    }
}

fn personal(root: &Path) -> Layout {
    let main = root.join("main");
    repository(&main);
    let global = root.join("gitconfig");
    std::fs::write(&global, "[core]\n\thooksPath = .githooks\n").unwrap();
    Layout {
        name: "the person's own configuration",
        workspace: main.clone(),
        worktree: main,
        hooks: ".githooks",
        git_config: Some(global),
    }
}

fn configuration_through_a_symlink(root: &Path) -> Layout {
    let main = root.join("main");
    repository(&main);
    hooks_path(&main, ".githooks");
    std::fs::rename(main.join(".git/config"), root.join("config")).unwrap();
    std::os::unix::fs::symlink("../../config", main.join(".git/config")).unwrap();
    Layout {
        name: "a configuration that is a symlink out",
        workspace: main.clone(),
        worktree: main,
        hooks: ".githooks",
        git_config: None,
    }
}

const LAYOUTS: [fn(&Path) -> Layout; 12] = [
    linked_worktree_alone,
    linked_worktree_beside,
    worktree_with_its_own_configuration,
    separate_git_directory_outside,
    separate_git_directory_inside,
    submodule,
    submodule_with_hooks_around_it,
    submodule_alone,
    part_of_a_repository,
    included_from_outside,
    personal,
    configuration_through_a_symlink,
];

fn executable(path: &Path, content: &str) {
    crate::fixture::write(path, content);
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn open(layout: &Layout, state: &Path) -> Bench {
    let options = BenchOptions::new(Profile::NATIVE, &layout.workspace, state).commands();
    match &layout.git_config {
        Some(config) => options.variable("GIT_CONFIG_GLOBAL", config.to_str().unwrap()).open(),
        None => options.open(),
    }
}

/// Tries to change the existing hook, and to add a new one, with every tool that writes.
fn attack(bench: &Bench, hooks: &str, evil: &str) {
    let (old, new) = (format!("{hooks}/pre-commit"), format!("{hooks}/post-commit"));
    bench.call("write_file", json!({"path": old, "content": evil}));
    bench.call("edit_file", json!({"path": old, "old_text": "touch", "new_text": format!("{}\ntouch", evil.lines().last().unwrap())}));
    let last = evil.lines().last().unwrap();
    let patch = format!("--- {old}\n+++ {old}\n@@ -1,1 +1,2 @@\n #!/bin/sh\n+{last}\n");
    bench.call("apply_patch", json!({"patch": patch}));
    bench.call("move_file", json!({"from": "spare.sh", "to": new}));
    for (place, name) in [(&old, "old"), (&new, "new")] {
        let line =
            format!("cp tool.sh {place}; mkdir {name}.d; cp tool.sh {name}.d/x; mv -f {name}.d/x {place}");
        bench.call("run_command", json!({"command": line}));
    }
    let line = format!("mv {hooks} moved; mkdir -p {hooks}; cp tool.sh {old}; cp tool.sh {new}");
    bench.call("run_command", json!({"command": line}));
}

/// Every layout in a scratch directory of its own. Reports the failures of all of them, not only the first.
fn in_every_layout(check: impl Fn(&Scratch, &Layout) -> Result<(), String>) {
    let failures = LAYOUTS.iter().filter_map(|arrange| {
        let scratch = Scratch::new();
        let layout = arrange(&std::fs::canonicalize(scratch.folder("r")).unwrap());
        check(&scratch, &layout).err().map(|problem| format!("{}: {problem}", layout.name))
    });
    let failures: Vec<String> = failures.collect();
    assert!(failures.is_empty(), "in {} of {} layouts: {failures:#?}", failures.len(), LAYOUTS.len());
}

fn must_hold(holds: bool, problem: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(problem.to_owned()) }
}

#[test]
fn no_tool_writes_a_hook_however_git_finds_the_directory_of_hooks() {
    in_every_layout(|scratch, layout| {
        let proof = scratch.folder("proof");
        let (harmless, canary) = (proof.join("harmless"), proof.join("canary"));
        let hook = layout.workspace.join(layout.hooks).join("pre-commit");
        executable(&hook, &format!("#!/bin/sh\ntouch {}\n", harmless.display()));
        let evil = format!("#!/bin/sh\ntouch {}\n", canary.display());
        executable(&layout.workspace.join("tool.sh"), &evil);
        executable(&layout.workspace.join("spare.sh"), &evil);
        let bench = open(layout, &scratch.folder("s"));
        attack(&bench, layout.hooks, &evil);
        let global = layout.git_config.as_deref();
        git(&layout.worktree, global, &["commit", "-q", "--allow-empty", "-m", "second"]);
        must_hold(!canary.exists(), "git ran a hook that a model wrote")?;
        must_hold(harmless.exists(), "git ran no hook at all, so this shows nothing")
    });
}

/// If the hooks directory does not exist yet, it cannot be made read-only: what a command leaves there is quarantined.
#[test]
fn a_directory_of_hooks_that_a_command_makes_is_taken_away() {
    in_every_layout(|scratch, layout| {
        let canary = scratch.folder("proof").join("canary");
        let evil = format!("#!/bin/sh\ntouch {}\n", canary.display());
        executable(&layout.workspace.join("tool.sh"), &evil);
        executable(&layout.workspace.join("spare.sh"), &evil);
        let bench = open(layout, &scratch.folder("s"));
        let new = format!("{}/pre-commit", layout.hooks);
        bench.call("move_file", json!({"from": "spare.sh", "to": new}));
        bench.call("run_command", json!({"command": format!("mkdir -p {}; cp tool.sh {new}", layout.hooks)}));
        let global = layout.git_config.as_deref();
        let commit = || git(&layout.worktree, global, &["commit", "-q", "--allow-empty", "-m", "second"]);
        must_hold(commit(), "git made no commit")?;
        must_hold(!canary.exists(), "git ran a hook that a model wrote")?;
        // The same file put there by the person: git does look there, so the assertion above could fail.
        executable(&layout.workspace.join(&new), &evil);
        must_hold(commit() && canary.exists(), "git runs no hook at all, so this shows nothing")
    });
}

/// A command may create repositories and worktrees. What the person's or the repository's configuration would execute in them was never scanned.
#[test]
fn a_worktree_that_a_command_makes_brings_no_hooks() {
    let scratch = Scratch::new();
    let (root, canary) = (scratch.folder("r"), scratch.folder("proof").join("canary"));
    let mut layout = personal(&std::fs::canonicalize(root).unwrap());
    let evil = format!("#!/bin/sh\ntouch {}\n", canary.display());
    executable(&layout.workspace.join("tool.sh"), &evil);
    let bench = open(&layout, &scratch.folder("s"));
    let copy = |place: &str| format!("mkdir -p {place}/.githooks && cp tool.sh {place}/.githooks/pre-commit");
    let line =
        format!("git init -q fresh && {} && git worktree add -q linked && {}", copy("fresh"), copy("linked"));
    bench.must("run_command", json!({"command": line}));
    let global = layout.git_config.take();
    for place in ["fresh", "linked"] {
        let directory = layout.worktree.join(place);
        assert!(git(&directory, global.as_deref(), &["commit", "-q", "--allow-empty", "-m", "x"]), "{place}");
        assert!(!canary.exists(), "{place}: git ran a hook that a model wrote");
    }
}

#[test]
fn what_lies_beside_a_directory_of_hooks_stays_writable() {
    in_every_layout(|scratch, layout| {
        let bench = open(layout, &scratch.folder("s"));
        for path in ["a.txt", "src/main.rs", ".githooks.md", "hooks-of-ours/pre-commit"] {
            let called = bench.call("write_file", json!({"path": path, "content": "x"}));
            must_hold(code_of(&called).is_none(), &called.answer.text)?;
        }
        let called =
            bench.call("run_command", json!({"command": "echo x > b.txt && mkdir -p c && echo x > c/d"}));
        must_hold(code_of(&called).is_none(), &called.answer.text)?;
        must_hold(
            ["b.txt", "c/d"].iter().all(|path| layout.workspace.join(path).exists()),
            "a file is not there",
        )
    });
}
