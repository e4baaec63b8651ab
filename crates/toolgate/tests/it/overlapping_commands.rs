//! Overlapping commands, killed gates, and a user who runs git afterwards.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::CliFixture;

/// A timeout that only a failure reaches.
const TIMEOUT: Duration = Duration::from_secs(60);

const CONFIG: &str = "[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = ..\\n\\tfsmonitor = \"touch PROOF; false\"\\n";

/// Creates all parts of a repository whose configuration names a program.
fn parts(folder: &str, proof: &Path) -> String {
    let config = CONFIG.replace("PROOF", proof.to_str().unwrap());
    format!(
        "mkdir -p {folder}/objects {folder}/refs && printf '{config}' > {folder}/config && echo 'ref: refs/heads/main' > {folder}/HEAD"
    )
}

/// Builds the repository, signals it, and moves a required file away before it ends.
fn build(proof: &Path) -> String {
    let parts = parts("evil", proof);
    format!("{parts} && touch built && while [ ! -e begun ]; do sleep 0.02; done; mv evil/HEAD head")
}

/// Starts while the repository is there, and completes it again after the first command has ended.
const FINISH: &str = "touch begun; while [ ! -e over ]; do sleep 0.02; done; mv head evil/HEAD";

fn wait_for(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < TIMEOUT, "{} is not there", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn use_git(place: &CliFixture, proof: &Path) {
    for folder in ["evil", "sub"] {
        for arguments in [&["status"][..], &["diff"], &["add", "-A"]] {
            let mut command = Command::new("git");
            command.arg("-C").arg(place.workspace.join(folder)).args(arguments);
            command.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", place.scratch.path());
            // The exit code does not matter, only what git executes.
            let _ = command.output().expect("git is installed");
        }
    }
    assert!(!proof.exists(), "git ran a program that the model chose");
}

fn proof(place: &CliFixture) -> PathBuf {
    place.scratch.folder("proof").join("it-ran")
}

#[test]
fn two_calls_of_one_client_build_nothing_that_git_obeys() {
    let place = CliFixture::new();
    let proof = proof(&place);
    let mut command = place.toolgate();
    command.args(["--trust", "autonomous", "mcp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    let mut input = process.stdin.take().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut answer = |id: u64| loop {
        let message: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        if message["id"] == id {
            return message["result"].clone();
        }
    };
    let mut send = |message: Value| writeln!(input, "{message}").unwrap();
    let run = |id: u64, line: &str| {
        let params = json!({"name": "run_command", "arguments": {"command": line}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let about = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    send(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}));
    answer(1);
    send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    send(run(2, &build(&proof)));
    wait_for(&place.workspace.join("built"));
    send(run(3, FINISH));
    answer(2);
    std::fs::write(place.workspace.join("over"), "").unwrap();
    let finished = answer(3).to_string();
    use_git(&place, &proof);
    assert!(finished.contains("@project/evil/HEAD") && finished.contains("was taken away"), "{finished}");
    drop(input);
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

/// A separate gate that runs one command, with the state directory of this name.
fn gate(place: &CliFixture, state: &str, line: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    command.current_dir(place.scratch.path()).env("XDG_STATE_HOME", place.state_home());
    command.env_remove("TOOLGATE_TOKEN").arg("--state-dir").arg(place.scratch.path().join(state));
    command.arg("--workspace").arg(&place.workspace);
    command.args(["call", "run_command", &json!({"command": line}).to_string()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn two_processes_with_state_directories_of_their_own_build_nothing_that_git_obeys() {
    let place = CliFixture::new();
    let proof = proof(&place);
    let building = gate(&place, "s1", &build(&proof));
    wait_for(&place.workspace.join("built"));
    let finishing = gate(&place, "s2", FINISH);
    let built = building.wait_with_output().unwrap();
    assert_eq!(built.status.code(), Some(0), "{built:?}");
    std::fs::write(place.workspace.join("over"), "").unwrap();
    let finished = finishing.wait_with_output().unwrap();
    use_git(&place, &proof);
    let said = String::from_utf8_lossy(&finished.stdout).into_owned();
    assert!(said.contains("[quarantined: `@project/evil/HEAD` has a protected name"), "{said}");
    let kept = std::fs::read_dir(place.state_home().join("toolgate/baselines.toolgate")).unwrap();
    let records = kept.filter(|entry| entry.as_ref().unwrap().path().extension().is_some()).count();
    assert_eq!(records, 1, "the lock, and no record of a gate that is gone");
}

#[test]
fn what_a_killed_gate_left_is_taken_away_before_the_next_one_serves() {
    for later in ["s1", "s2"] {
        let place = CliFixture::new();
        let proof = proof(&place);
        std::fs::write(place.workspace.join(".envrc"), "mine").unwrap();
        let line = format!("{} && touch planted; sleep 1000", parts("sub/.git", &proof));
        let mut killed = gate(&place, "s1", &line);
        wait_for(&place.workspace.join("planted"));
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert!(place.workspace.join("sub/.git/config").exists());
        // The next start of any gate of this user, for a call that runs no command.
        let mut next = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        next.current_dir(place.scratch.path()).env("XDG_STATE_HOME", place.state_home());
        next.env_remove("TOOLGATE_TOKEN").arg("--state-dir").arg(place.scratch.path().join(later));
        next.arg("--workspace").arg(&place.workspace).args(["call", "list_directory", "{}"]);
        let next = next.output().unwrap();
        assert_eq!(next.status.code(), Some(0), "{next:?}");
        use_git(&place, &proof);
        let said = String::from_utf8_lossy(&next.stderr).into_owned();
        assert!(said.contains("`@project/sub/.git/config` was left under a protected name by a command whose gate was killed"), "{said}");
        assert!(!place.workspace.join("sub/.git/config").exists());
        // Only once: what the user creates later stays, and so does what was there before.
        std::fs::create_dir_all(place.workspace.join("own/.git/hooks")).unwrap();
        std::fs::write(place.workspace.join("own/.git/hooks/pre-commit"), "").unwrap();
        let after = gate(&place, later, "true").wait_with_output().unwrap();
        assert!(!String::from_utf8_lossy(&after.stdout).contains("quarantined"), "{after:?}");
        assert!(place.workspace.join("own/.git/hooks/pre-commit").exists());
        assert!(place.workspace.join(".envrc").exists());
    }
}
