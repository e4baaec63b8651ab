//! The library as an embedding program uses it: only its public face, and files.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests arrange files by hand and fail by panicking"
)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use toolgate::{
    BuildError, CallerIdentity, Decision, ErrorCode, Gate, GateBuilder, HostEnvironment, JwtSettings, Trust,
};

/// A timeout that only a failure reaches.
const PATIENCE: Duration = Duration::from_secs(60);

const SERVER: &str = include_str!("../it/data/server.py");

struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        let scratch = Self(tempfile::tempdir().unwrap());
        fs::create_dir(scratch.path("project")).unwrap();
        scratch
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn builder(&self) -> GateBuilder {
        Gate::builder()
            .environment(HostEnvironment::bare(self.0.path().to_owned()))
            .workspace("project")
            .state_dir("state")
            .trust(Trust::Autonomous)
    }
}

fn alice() -> CallerIdentity {
    CallerIdentity::person("alice")
}

async fn names(gate: &Gate, identity: CallerIdentity) -> Vec<String> {
    let tools = gate.list_tools(identity).await.unwrap();
    tools.iter().map(|tool| tool.spec().name.to_string()).collect()
}

/// Polls until the caller is offered a tool, or no longer.
async fn until_offered(gate: &Gate, tool: &str, is_offered: bool) {
    let begun = Instant::now();
    while names(gate, alice()).await.iter().any(|name| name == tool) != is_offered {
        assert!(begun.elapsed() < PATIENCE, "{tool}: it never came");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn records(directory: &Path) -> usize {
    let logs = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let logs = logs.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    logs.map(|log| fs::read_to_string(log).unwrap().matches("\"tool\":").count()).sum()
}

const MANIFEST: &str = "tool: greet\ndescription: Greets\nclass: read\npermissions: [greet:use]\ncommand: [printf, hello]\n\
    output: {parse: text, schema: {type: string}}\npolicy: {\"*\": allow}\n";

#[tokio::test]
async fn a_configuration_is_reloaded_beside_an_audit_directory_of_its_own() {
    let scratch = Scratch::new();
    scratch.write("tools.d/greet.yaml", MANIFEST);
    scratch.write("toolgate.yaml", "deny: ['*.key']\n");
    let gate = scratch
        .builder()
        .config_file(scratch.path("toolgate.yaml"))
        .audit_dir("record")
        .build()
        .await
        .unwrap();
    assert!(!names(&gate, alice()).await.contains(&"greet".to_owned()));
    assert_eq!(gate.call("list_directory", json!({}), alice()).await.decision, Decision::Allowed);
    // The edit counts only if every setting that cannot change is what it was.
    scratch.write("toolgate.yaml", "deny: ['*.key']\ntools: [tools.d/greet.yaml]\n");
    until_offered(&gate, "greet", true).await;
    scratch.write("toolgate.yaml", "deny: ['*.key']\n");
    until_offered(&gate, "greet", false).await;
    assert_eq!((records(&scratch.path("record")), scratch.path("state/audit").exists()), (1, false));
}

#[tokio::test]
async fn an_audit_directory_that_others_can_write_is_refused() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("record")).unwrap();
    fs::set_permissions(scratch.path("record"), Permissions::from_mode(0o777)).unwrap();
    let refused: Result<Gate, BuildError> = scratch.builder().audit_dir("record").build().await;
    let message = refused.err().unwrap().to_string();
    assert!(message.contains("audit directory") && message.contains("is not believed"), "{message}");
}

#[tokio::test]
async fn the_surroundings_are_those_that_the_program_names() {
    let scratch = Scratch::new();
    scratch.write("project/a.txt", "here\n");
    let home = scratch.path("home");
    let surroundings =
        HostEnvironment { home: Some(home.clone()), ..HostEnvironment::bare(scratch.path("project")) };
    // Neither a workspace nor a state directory: the current directory, and the default below the home.
    let gate = Gate::builder().environment(surroundings).build().await.unwrap();
    let read = gate.call("read_file", json!({"path": "a.txt"}), alice()).await;
    assert_eq!((read.decision, read.answer.text.as_str()), (Decision::Allowed, "here\n"));
    assert_eq!(records(&home.join(".local/state/toolgate/audit")), 1);
}

#[tokio::test]
async fn a_change_is_undone_and_recorded() {
    let scratch = Scratch::new();
    scratch.write("project/a.txt", "before\n");
    let gate = scratch.builder().build().await.unwrap();
    let written = gate.call("write_file", json!({"path": "a.txt", "content": "after\n"}), alice()).await;
    assert_eq!(fs::read_to_string(scratch.path("project/a.txt")).unwrap(), "after\n");
    assert_eq!(gate.undo(written.call, alice()).await.unwrap(), ["@project/a.txt"]);
    assert_eq!(fs::read_to_string(scratch.path("project/a.txt")).unwrap(), "before\n");
    assert!(gate.undo(written.call, alice()).await.is_err(), "it is undone twice");
    gate.shutdown().await;
    // The change, the undo, and the undo that was refused.
    assert_eq!(records(&scratch.path("state/audit")), 3);
}

#[tokio::test]
async fn tokens_are_accepted_by_what_signed_them_and_give_what_they_name() {
    let scratch = Scratch::new();
    let issued =
        |secret: &str| JwtSettings::hs256("https://issuer.example", "service", "key-1", secret.as_bytes());
    let ours = issued("32 bytes that only both sides know");
    let gate = scratch.builder().manifest("greet.yaml", MANIFEST).jwt(ours.clone()).build().await.unwrap();
    let token = |settings: &JwtSettings, permissions: &[&str]| {
        let token = settings.sign("alice", permissions.iter().copied(), Duration::from_secs(300)).unwrap();
        CallerIdentity::jwt(token)
    };
    let allowed = gate.call("greet", json!({}), token(&ours, &["greet:use"])).await;
    assert_eq!(allowed.answer.text, "hello");
    // A list of tools per caller.
    assert!(names(&gate, token(&ours, &["greet:use"])).await.contains(&"greet".to_owned()));
    assert!(!names(&gate, token(&ours, &[])).await.contains(&"greet".to_owned()));
    let without = gate.call("greet", json!({}), token(&ours, &[])).await;
    assert_eq!(without.failed.unwrap().1.code, ErrorCode::NotPermitted);
    // Another secret, another audience, no token.
    let theirs = issued("32 bytes that somebody else made up");
    let elsewhere =
        JwtSettings::hs256("https://issuer.example", "other", "key-1", b"32 bytes that only both sides know");
    for refused in
        [token(&theirs, &["greet:use"]), token(&elsewhere, &["greet:use"]), CallerIdentity::jwt("a.b.c")]
    {
        assert!(gate.list_tools(refused.clone()).await.is_err());
        let called = gate.call("greet", json!({}), refused).await;
        assert_eq!(called.failed.unwrap().0, toolgate::Stage::Auth);
    }
}

/// Whether a process with this argument is alive.
fn is_running(mark: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let mut lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(mark))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_behind_the_gate_ends_with_its_shutdown() {
    let scratch = Scratch::new();
    let mark = format!("mark{}", scratch.0.path().display()).replace('/', "-");
    scratch.write("tools/server.py", SERVER);
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let offers = json!([{"name": "echo", "description": "says it again", "inputSchema": schema}]);
    scratch.write("tools/offers.json", &offers.to_string());
    let config = "mounts: {\"@tools\": {path: tools}}\nmcp_servers:\n  t:\n    command: python3\n    args: [/mnt/tools/server.py, MARK]\n    \
        mounts: [\"@tools\"]\n    env: {GIVEN: \"${NAMED:-nothing}\"}\n    tools: {echo: {class: read}}\n";
    scratch.write("toolgate.yaml", &config.replace("MARK", &mark));
    let gate = scratch.builder().config_file(scratch.path("toolgate.yaml")).build().await.unwrap();
    let called = gate.call("t__echo", json!({"text": "hello"}), alice()).await;
    assert_eq!((called.decision, called.answer.text.as_str()), (Decision::Allowed, "hello"));
    assert!(is_running(&mark));
    gate.shutdown().await;
    assert!(!is_running(&mark), "the server outlived its gate");
}
