//! Commands through the whole gate, in a real sandbox: answers, termination and confinement.

mod answers;
mod background;
mod ended;
mod hidden;
mod hard_links;
mod left_behind;
mod overlapping;
mod refused;
mod granted;
mod escalated;
mod network;
mod toolchains;
mod package_caches;
mod lent_directories;
mod manifests;

use std::path::PathBuf;

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, code_of, person};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{Caller, ErrorCode};

use crate::fixture::write;

/// The profiles with a shell, and its name.
const SHELLS: [(Profile, &str); 3] =
    [(Profile::NATIVE, "run_command"), (Profile::SIDECAR, "run_command"), (Profile::STUDIO, "bash")];

struct Desk {
    workspace: PathBuf,
    state: PathBuf,
    tool: &'static str,
    bench: Bench,
    scratch: Scratch,
}

impl Desk {
    fn new(profile: Profile) -> Self {
        Self::with(profile, |options| options)
    }

    fn with(profile: Profile, change: impl FnOnce(BenchOptions) -> BenchOptions) -> Self {
        let scratch = Scratch::new();
        let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
        let options = BenchOptions::new(profile, &workspace, &state).commands();
        let bench = change(options).open();
        let tool = if profile == Profile::STUDIO { "bash" } else { "run_command" };
        Self { workspace, state, tool, bench, scratch }
    }

    fn run(&self, command: &str) -> CallResponse {
        self.bench.call(self.tool, json!({"command": command}))
    }

    /// Runs a command that never ends and prints `word` first. Its timeout starts before it does, so on a busy machine the timeout is doubled until
    /// the word was printed. Also returns the timeout in milliseconds.
    fn run_out_of_time(&self, command: &str, word: &str) -> (CallResponse, u64) {
        let mut times = (0..7).map(|doubled| 300 << doubled);
        let begun = times.find_map(|time| {
            let called = self.bench.call(self.tool, json!({"command": command, "timeout_ms": time}));
            assert_eq!(code_of(&called), Some(ErrorCode::Timeout), "{}", called.answer.text);
            called.answer.text.contains(word).then_some((called, time))
        });
        begun.unwrap_or_else(|| panic!("`{command}` never says `{word}`"))
    }

    fn write(&self, path: &str, content: &str) {
        write(&self.workspace.join(path), content);
    }
}

fn structured(called: &CallResponse) -> Value {
    called.structured().unwrap()
}

/// A native answer, as text and as data.
fn native(called: &CallResponse) -> (String, Value) {
    assert!(called.failed.is_none(), "{}", called.answer.text);
    (called.answer.text.clone(), structured(called))
}

fn proxy(manifest: &str) -> Desk {
    Desk::with(Profile::PROXY, |options| options.manifest(manifest))
}

fn holding(permissions: &[&str]) -> Caller {
    let permissions = permissions.iter().map(|permission| (*permission).to_owned()).collect();
    Caller { permissions, agent: Some("worker".parse().unwrap()), ..person("s1") }
}

const MAKER: &str = r#"tool: make_file
description: Makes an empty file
class: write
permissions: [files:write]
input:
  properties: {name: {type: string, pattern: "^[a-z]+$", maxLength: 20}, note: {type: string}}
  required: [name]
command: [sh, -c, 'touch "$1"; printf %s "$2"', sh, "{name}", "{note}"]
cwd: "@project"
policy: {"*": allow}
"#;

/// Git on the host, as the repository's owner.
pub(crate) fn git(repository: &std::path::Path, arguments: &[&str]) {
    let status = std::process::Command::new("git")
        .arg("-C")
        .arg(repository)
        .args([
            "-c",
            "user.name=tester",
            "-c",
            "user.email=tester@example.com",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .status()
        .unwrap();
    assert!(status.success(), "git {arguments:?}");
}
