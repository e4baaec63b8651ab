//! Names that git, editors, package managers and other agents execute: readable, but changed by no tool.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use toolgate_attack::{Bench, BenchOptions, Scratch, code_of};
use toolgate_tools::Profile;
use toolgate_types::ErrorCode;

use crate::fixture::write;

/// One file of each kind.
const NAMES: &[&str] = &[
    ".husky/pre-commit",
    ".husky/_/pre-commit",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    "lefthook.toml",
    ".lefthook/pre-commit/x.sh",
    "x.code-workspace",
    ".vscode/c_cpp_properties.json",
    ".vscode/settings.json",
    ".idea/workspace.xml",
    ".idea/watcherTasks.xml",
    ".run/all.run.xml",
    ".fleet/run.json",
    ".vs/tasks.vs.json",
    ".exrc",
    ".nvim.lua",
    ".yarnrc",
    ".pnpmfile.cjs",
    "mise.toml",
    ".gemini/commands/x.toml",
    ".cursor/environment.json",
    ".cursor/commands/x.md",
    ".agents/skills/x/SKILL.md",
    ".agent/rules/x.md",
    ".openhands/setup.sh",
    ".claude/plugins/x.json",
    ".claude-plugin/plugin.json",
    ".arcconfig",
    ".hg/sharedpath",
    ".jj/repo",
];

/// Where each of them is: files in dependencies also take effect when they are opened.
const AROUND: [&str; 4] = ["", "deep/er/", "node_modules/p/", "vendor/p/"];

fn read(workspace: &Path, path: &str) -> Option<String> {
    std::fs::read_to_string(workspace.join(path)).ok()
}

fn refused_by_file_tools(bench: &Bench, workspace: &Path, path: &str) {
    let code = |tool: &str, arguments| code_of(&bench.call(tool, arguments));
    let patch = format!("--- {path}\n+++ {path}\n@@ -1 +1 @@\n-mine\n+evil\n");
    write(&workspace.join("spare.txt"), "evil\n");
    for (tool, arguments) in [
        ("write_file", json!({"path": path, "content": "evil\n"})),
        ("edit_file", json!({"path": path, "old_text": "mine", "new_text": "evil"})),
        ("apply_patch", json!({"patch": patch})),
        ("move_file", json!({"from": "spare.txt", "to": path, "overwrite": true})),
        ("move_file", json!({"from": path, "to": "elsewhere.txt"})),
        ("delete_file", json!({"path": path})),
    ] {
        assert_eq!(code(tool, arguments), Some(ErrorCode::ReadOnly), "{tool} of {path}");
    }
    bench.must("read_file", json!({"path": path}));
    assert_eq!(read(workspace, path).as_deref(), Some("mine\n"), "{path}");
}

#[test]
fn what_programs_obey_is_changed_by_no_file_tool() {
    let scratch = Scratch::new();
    let workspace = scratch.folder("w");
    let bench = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s")).open();
    for path in NAMES.iter().flat_map(|name| AROUND.map(|around| format!("{around}{name}"))) {
        let code = code_of(&bench.call("write_file", json!({"path": path, "content": "evil\n"})));
        assert_eq!(code, Some(ErrorCode::ReadOnly), "a new {path}");
        write(&workspace.join(&path), "mine\n");
        refused_by_file_tools(&bench, &workspace, &path);
    }
}

/// An existing file keeps its content or is quarantined; a new one is quarantined.
#[test]
fn what_programs_obey_is_not_left_by_a_command() {
    for around in AROUND {
        let scratch = Scratch::new();
        let workspace = scratch.folder("w");
        let bench = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s")).commands().open();
        let each = |then: &dyn Fn(&str) -> String| {
            NAMES.iter().map(|name| then(&format!("{around}{name}"))).collect::<String>()
        };
        let line = each(&|path| format!("mkdir -p $(dirname {path}); echo evil > {path}\n"));
        bench.must("run_command", json!({"command": line}));
        for name in NAMES {
            assert_eq!(read(&workspace, &format!("{around}{name}")), None, "a new {around}{name} stayed");
            write(&workspace.join(format!("{around}{name}")), "mine\n");
        }
        let line = each(&|path| {
            format!(
                "cat {path} >> seen; echo evil > {path}; rm -f {path}; mkdir -p $(dirname {path}); echo evil > {path}\n"
            )
        });
        bench.must("run_command", json!({"command": line}));
        for name in NAMES {
            let left = read(&workspace, &format!("{around}{name}"));
            assert!(left.is_none() || left.as_deref() == Some("mine\n"), "{around}{name}: {left:?}");
            let is_package = around.contains("node_modules") || around.contains("vendor");
            assert!(left.is_some() || is_package, "{around}{name} was not kept");
        }
        assert_eq!(read(&workspace, "seen").unwrap().lines().count(), NAMES.len(), "they can be read");
    }
}

/// husky 9 sets `core.hooksPath` to `.husky/_`, whose `pre-commit` runs `.husky/pre-commit`.
#[test]
fn the_hook_that_husky_runs_is_not_written() {
    let scratch = Scratch::new();
    let (workspace, canary) = (scratch.folder("w"), scratch.folder("proof").join("canary"));
    let ran = scratch.folder("proof").join("ran");
    git(&workspace, &["init", "-q", "-b", "main"]);
    git(&workspace, &["config", "core.hooksPath", ".husky/_"]);
    let runner = workspace.join(".husky/_/pre-commit");
    write(&runner, &format!("#!/bin/sh\ntouch {}\nsh -e .husky/pre-commit\n", ran.display()));
    std::fs::set_permissions(&runner, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    write(&workspace.join(".husky/pre-commit"), "true\n");
    let bench = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s")).commands().open();
    let evil = format!("touch {}\n", canary.display());
    bench.call("write_file", json!({"path": ".husky/pre-commit", "content": evil}));
    bench.call("edit_file", json!({"path": ".husky/pre-commit", "old_text": "true", "new_text": evil}));
    bench.call("run_command", json!({"command": format!("printf '{evil}' > .husky/pre-commit")}));
    bench.call(
        "run_command",
        json!({"command": format!("mv .husky h; mkdir -p .husky; printf '{evil}' > .husky/pre-commit")}),
    );
    git(&workspace, &["commit", "-q", "--allow-empty", "-m", "x"]);
    assert!(ran.exists() && !canary.exists(), "git ran what a model wrote");
}

fn git(directory: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).args(["-c", "user.name=t", "-c", "user.email=t@example.com"]);
    command.args(arguments).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    assert!(command.output().unwrap().status.success(), "git {arguments:?}");
}

/// A repository in which a cherry-pick and a rebase stopped at a conflict.
fn stopped(workspace: &Path, how: &[&str]) {
    git(workspace, &["init", "-q", "-b", "main"]);
    let commit = |content: &str| {
        write(&workspace.join("a.txt"), content);
        git(workspace, &["add", "a.txt"]);
        git(workspace, &["commit", "-q", "-m", content.trim()]);
    };
    commit("one\n");
    git(workspace, &["checkout", "-q", "-b", "side"]);
    commit("two\n");
    commit("three\n");
    git(workspace, &["checkout", "-q", "main"]);
    commit("four\n");
    let mut command = Command::new("git");
    command.arg("-C").arg(workspace).args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(how);
    let ended = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(!ended.status.success(), "there is no conflict");
}

/// A merge strategy that is not built into git is a program: `x/evil` is `git-merge-x/evil` of the worktree.
#[test]
fn a_merge_strategy_that_a_command_left_is_not_run() {
    let rebase: &[&str] = &["rebase", "-q", "main", "side"];
    let pick: &[&str] = &["cherry-pick", "main..side"];
    let options = "[options]\\n\\tstrategy = x/evil\\n";
    for (how, line, goes_on) in [
        (rebase, "printf 'x/evil\\n' > .git/rebase-merge/strategy".to_owned(), "rebase"),
        (rebase, "mkdir s && cp -r .git/rebase-merge/. s && printf 'x/evil\\n' > s/strategy && mv .git/rebase-merge old && ln -s ../s .git/rebase-merge".to_owned(), "rebase"),
        (rebase, "printf 'x/evil\\n' > s; ln -s ../../s .git/rebase-merge/strategy".to_owned(), "rebase"),
        (pick, format!("printf '{options}' > .git/sequencer/opts"), "cherry-pick"),
    ] {
        for is_confined in [false, true] {
            let scratch = Scratch::new();
            let (workspace, canary) = (scratch.folder("w"), scratch.folder("proof").join("canary"));
            stopped(&workspace, how);
            let program = workspace.join("git-merge-x/evil");
            write(&program, &format!("#!/bin/sh\ntouch {}\nexit 0\n", canary.display()));
            std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            if is_confined {
                let bench = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s")).commands().open();
                bench.must("run_command", json!({"command": line}));
            } else {
                // Without the gate it is executed; otherwise the other half would show nothing.
                let status = Command::new("sh").arg("-c").arg(&line).current_dir(&workspace).status();
                assert!(status.unwrap().success());
            }
            write(&workspace.join("a.txt"), "solved\n");
            git(&workspace, &["add", "a.txt"]);
            let mut command = Command::new("git");
            command.arg("-C").arg(&workspace).args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "core.editor=true"]);
            command.args([goes_on, "--continue"]).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
            assert_eq!(canary.exists(), !is_confined, "{line}");
        }
    }
}

/// One file of each kind, from a home directory.
const IN_HOME: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".config/fish/config.fish",
    ".gitconfig",
    ".config/git/config",
    ".config/autostart/x.desktop",
    ".config/systemd/user/x.service",
    ".local/share/systemd/user/x.service",
    ".local/bin/ls",
    "bin/ls",
    ".config/environment.d/x.conf",
    ".pam_environment",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".vimrc",
    ".emacs",
    ".config/nvim/init.lua",
    ".cargo/config.toml",
    ".cargo/bin/cargo",
    ".local/share/applications/x.desktop",
    ".config/Code/User/settings.json",
    ".claude.json",
    ".codex/config.toml",
];

fn at_home(workspace: &Path, home: &Path, state: &Path) -> Bench {
    BenchOptions::new(Profile::NATIVE, workspace, state).commands().home(home).open()
}

#[test]
fn what_a_home_directory_is_obeyed_for_is_changed_by_no_tool() {
    for inside in ["", "home/ann/"] {
        let scratch = Scratch::new();
        let workspace = std::fs::canonicalize(scratch.folder("w")).unwrap();
        let home = workspace.join(inside);
        let path = |name: &str| format!("{inside}{name}");
        std::fs::create_dir_all(&home).unwrap();
        let bench = at_home(&workspace, &std::fs::canonicalize(home).unwrap(), &scratch.folder("s"));
        let line: String = IN_HOME
            .iter()
            .map(|name| format!("mkdir -p $(dirname {0}); echo evil > {0}\n", path(name)))
            .collect();
        bench.must("run_command", json!({"command": line}));
        for name in IN_HOME {
            assert_eq!(read(&workspace, &path(name)), None, "a new {name} stayed");
            let code = code_of(&bench.call("write_file", json!({"path": path(name), "content": "evil\n"})));
            assert_eq!(code, Some(ErrorCode::ReadOnly), "a new {name}");
            write(&workspace.join(path(name)), "mine\n");
            refused_by_file_tools(&bench, &workspace, &path(name));
        }
        bench.must("run_command", json!({"command": line}));
        let moved = ".config .local .cargo bin".replace(' ', &format!(" {inside}"));
        bench.call("run_command", json!({"command": format!("mkdir m; mv {inside}{moved} m")}));
        for name in IN_HOME {
            assert_eq!(read(&workspace, &path(name)).as_deref(), Some("mine\n"), "{name}");
        }
        // The same names mean nothing in a project, here one in that home.
        for name in [".profile", "bin/run", ".local/bin/x", ".bashrc", ".vimrc"] {
            bench.must("write_file", json!({"path": format!("{inside}project/{name}"), "content": "x"}));
        }
        bench.must(
            "run_command",
            json!({"command": format!("cd {inside}project && echo y > bin/run && echo y > .profile")}),
        );
        assert_eq!(read(&workspace, &path("project/bin/run")).as_deref(), Some("y\n"));
    }
}

/// People keep such files in a repository and symlink to them.
#[test]
fn what_a_start_file_links_to_is_protected_too() {
    let scratch = Scratch::new();
    let workspace = std::fs::canonicalize(scratch.folder("w")).unwrap();
    write(&workspace.join("dotfiles/bashrc"), "mine\n");
    write(&workspace.join("dotfiles/config/fish/config.fish"), "mine\n");
    std::os::unix::fs::symlink("dotfiles/bashrc", workspace.join(".bashrc")).unwrap();
    std::os::unix::fs::symlink("dotfiles/config", workspace.join(".config")).unwrap();
    let bench = at_home(&workspace, &workspace, &scratch.folder("s"));
    for path in [".bashrc", "dotfiles/bashrc", ".config/fish/config.fish", "dotfiles/config/fish/config.fish"]
    {
        let code = code_of(&bench.call("write_file", json!({"path": path, "content": "evil\n"})));
        assert_eq!(code, Some(ErrorCode::ReadOnly), "{path}");
        bench.call("run_command", json!({"command": format!("echo evil > {path}")}));
    }
    bench
        .call("run_command", json!({"command": "ln -sf dotfiles/other .bashrc; echo evil > dotfiles/other"}));
    let line = "mv .config c; mkdir -p .config/fish; echo evil > .config/fish/config.fish";
    bench.call("run_command", json!({"command": line}));
    let line = "mkdir -p evil/fish evil/bin; echo evil | tee evil/fish/config.fish > evil/bin/ls; ln -sfn evil .config; ln -s evil .local";
    bench.call("run_command", json!({"command": line}));
    assert_eq!(read(&workspace, ".local/bin/ls"), None);
    for path in ["dotfiles/bashrc", "dotfiles/config/fish/config.fish"] {
        assert_eq!(read(&workspace, path).as_deref(), Some("mine\n"), "{path}");
    }
    for path in [".bashrc", ".config/fish/config.fish"] {
        assert_ne!(read(&workspace, path).as_deref(), Some("evil\n"), "{path}");
    }
}
