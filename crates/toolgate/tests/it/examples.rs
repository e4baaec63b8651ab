//! The shipped examples work as they are.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use toolgate_attack::Scratch;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Runs a line of shell with a home directory of its own.
fn run(scratch: &Scratch, folder: &Path, line: &str) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_toolgate")).parent().unwrap().display();
    Command::new("bash")
        .args(["-c", line])
        .current_dir(folder)
        .env_clear()
        .env("PATH", format!("{program}:/usr/local/bin:/usr/bin:/bin"))
        .env("HOME", scratch.path())
        .env("USER", "alice")
        .output()
        .unwrap()
}

/// A copy of an example, because calls write.
fn copied(scratch: &Scratch, name: &str) -> PathBuf {
    let status =
        Command::new("cp").arg("-r").arg(examples().join(name)).arg(scratch.path()).status().unwrap();
    assert!(status.success(), "`{name}` could not be copied");
    scratch.path().join(name)
}

#[test]
fn every_example_is_checked_and_has_no_problems() {
    let mut checked = 0;
    for entry in std::fs::read_dir(examples()).unwrap() {
        let path = entry.unwrap().path();
        if !path.join("toolgate.yaml").exists() {
            continue;
        }
        let scratch = Scratch::new();
        let folder = copied(&scratch, path.file_name().unwrap().to_str().unwrap());
        let output = run(&scratch, &folder, "toolgate check --strict");
        assert!(output.status.success(), "{}: {output:?}", path.display());
        checked += 1;
    }
    assert!(checked > 0, "there are examples");
}

/// It names files that only an operator can provide, and is valid otherwise.
#[test]
fn the_example_of_every_key_lacks_nothing_but_files() {
    let scratch = Scratch::new();
    let output = run(&scratch, &examples(), "toolgate --json check toolgate.yaml");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    for problem in said["problems"].as_array().unwrap() {
        let message = problem["message"].as_str().unwrap();
        assert!(message.contains("cannot be read: No such file"), "{message}");
    }
}

/// One command of a page with the standard output that the page shows.
struct Shown {
    command: String,
    output: String,
    code: i32,
}

fn shown(page: &str) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    let mut is_session = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_session = line == "```console";
        } else if !is_session || line.starts_with("toolgate: ") {
            // Prose, and standard error, where every call has another id.
        } else if let Some(command) = line.strip_prefix("$ ") {
            all.push(Shown { command: command.to_owned(), output: String::new(), code: 0 });
        } else if let Some(code) = line.strip_prefix("(exit code ") {
            all.last_mut().unwrap().code = code.trim_end_matches(')').parse().unwrap();
        } else {
            all.last_mut().unwrap().output.extend([line, "\n"]);
        }
    }
    all
}

#[test]
fn the_gateway_answers_as_its_page_shows() {
    answers_as_its_page_shows("gateway", 10);
}

#[test]
fn the_studio_answers_as_its_page_shows() {
    answers_as_its_page_shows("studio", 6);
}

fn answers_as_its_page_shows(example: &str, least: usize) {
    let scratch = Scratch::new();
    let folder = copied(&scratch, example);
    let page = shown(&std::fs::read_to_string(folder.join("README.md")).unwrap());
    assert!(page.len() >= least, "the page was not understood");
    for Shown { command, output, code } in page {
        let real = run(&scratch, &folder, &command);
        assert_eq!(
            String::from_utf8_lossy(&real.stdout).trim_end(),
            output.trim_end(),
            "{command}: {real:?}"
        );
        assert_eq!(real.status.code(), Some(code), "{command}: {real:?}");
    }
}
