//! A home directory or `/` as the workspace, and what the user's git configuration makes git execute.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::json;

use crate::fixture::{CliFixture, finish_call};

/// The binary with a workspace of its own.
fn toolgate(place: &CliFixture, home: &Path, workspace: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    command.current_dir(place.scratch.path()).arg("--state-dir").arg(&place.state);
    command.args(["--workspace", workspace]).env("HOME", home).env_remove("XDG_CONFIG_HOME");
    command.env_remove("TOOLGATE_TOKEN").stdin(std::process::Stdio::null());
    command
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_root_is_refused_under_every_name() {
    let place = CliFixture::new();
    let link = place.scratch.path().join("link");
    std::os::unix::fs::symlink("/", &link).unwrap();
    let usual = place.workspace.to_str().unwrap();
    for root in ["/", "/usr/..", "/proc/self/root", link.to_str().unwrap()] {
        let mounts = [format!("@r={root}:ro"), format!("@r={root}")];
        for (workspace, mount) in [(root, None), (usual, Some(&mounts[0])), (usual, Some(&mounts[1]))] {
            let mut command = toolgate(&place, place.scratch.path(), workspace);
            mount.into_iter().for_each(|mount| _ = command.arg("--mount").arg(mount));
            let output = command.arg("tools").output().unwrap();
            let text = told(&output);
            assert_eq!(output.status.code(), Some(2), "{workspace} {mount:?}: {text}");
            assert!(text.contains("is the root of the filesystem"), "{workspace} {mount:?}: {text}");
        }
    }
}

#[test]
fn a_home_directory_is_said_to_be_one_and_its_start_files_are_kept() {
    let place = CliFixture::new();
    let home = place.workspace.join("people/ann");
    let project = home.join("project");
    std::fs::create_dir_all(&project).unwrap();
    let doctor = |workspace: &Path| {
        let output =
            toolgate(&place, &home, workspace.to_str().unwrap()).args(["doctor", "--offline"]).output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    };
    for (workspace, inside) in [(&place.workspace, "people/ann/"), (&home, "")] {
        let findings = doctor(workspace);
        assert!(
            findings.contains("fallback  workspace") && findings.contains("home directory"),
            "{findings}"
        );
        let serving = toolgate(&place, &home, workspace.to_str().unwrap()).arg("mcp").output().unwrap();
        let said = told(&serving);
        assert_eq!(said.matches("is or holds a home directory").count(), 1, "{said}");
        for name in [".bashrc", ".config/autostart/x.desktop", ".local/bin/ls"] {
            let arguments = json!({"path": format!("{inside}{name}"), "content": "x"});
            let command = toolgate(&place, &home, workspace.to_str().unwrap());
            let (_, envelope) = finish_call(command, "write_file", &arguments);
            assert_eq!(envelope["code"], "read_only", "{name}: {envelope}");
        }
    }
    // A project in that home is not affected.
    assert!(!doctor(&project).contains("home directory"));
    let command = toolgate(&place, &home, project.to_str().unwrap());
    finish_call(command, "write_file", &json!({"path": ".bashrc", "content": "x"}));
    assert!(project.join(".bashrc").exists());
}

#[test]
fn hooks_that_the_persons_git_obeys_are_not_written() {
    let place = CliFixture::new();
    let home = place.scratch.folder("home");
    for config in [".gitconfig", ".config/git/config"] {
        let file = home.join(config);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "[core]\n\thooksPath = .githooks\n").unwrap();
        let command = toolgate(&place, &home, place.workspace.to_str().unwrap());
        let arguments = json!({"path": "sub/.githooks/pre-commit", "content": "x"});
        let (_, envelope) = finish_call(command, "write_file", &arguments);
        assert_eq!(envelope["code"], "read_only", "{config}: {envelope}");
        std::fs::remove_file(file).unwrap();
    }
}
