//! Background commands of a real gate: they end with its client, with a changed configuration, and with the gate itself however it ends.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::CliFixture;

/// A timeout that only a failure reaches.
const TIMEOUT: Duration = Duration::from_secs(60);

/// `toolgate mcp`, with a client.
struct McpProcess {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl McpProcess {
    fn start(place: &CliFixture, options: &[&str]) -> Self {
        let mut command = place.toolgate();
        command.args(["mcp", "--trust", "autonomous"]).args(options);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (input, output) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        let mut client = Self { process, input, output, id: 0 };
        let info = json!({"name": "test", "version": "1"});
        client.request(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}),
        );
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        let mut line = message.to_string();
        line.push('\n');
        self.input.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the gate has ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == json!(self.id) {
                return message["result"].clone();
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        assert_ne!(result["isError"], true, "{result}");
        result["structuredContent"].clone()
    }

    /// Starts a line and returns its id once it says that it is ready.
    fn ready(&mut self, line: &str) -> String {
        let facts = self.call("run_command", json!({"command": line, "background": true}));
        let id = facts["background"].as_str().unwrap().to_owned();
        let mut output = String::new();
        while !output.contains("ready") {
            let facts = self.call("check_command", json!({"id": id, "wait_ms": 60_000}));
            output.push_str(facts["output"].as_str().unwrap());
        }
        id
    }
}

impl Drop for McpProcess {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A number of seconds that no other process sleeps for.
fn token(number: u32) -> String {
    format!("8{:07}{number:03}", std::process::id())
}

fn is_alive(token: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(token))
}

#[test]
fn a_client_that_disconnects_ends_them_in_an_orderly_way() {
    let place = CliFixture::new();
    let mut client = McpProcess::start(&place, &[]);
    let token = token(1);
    client.ready(&format!(
        "(setsid sleep {token} &); trap 'echo bye > bye; echo export A=1 > .envrc; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    ));
    assert!(is_alive(&token));
    client.input.take();
    assert!(client.process.wait().unwrap().success());
    assert!(!is_alive(&token), "no process is left when the gate has ended");
    assert_eq!(std::fs::read_to_string(place.workspace.join("bye")).unwrap(), "bye\n");
    assert!(!place.workspace.join(".envrc").exists(), "what it left at its end is in quarantine");
}

#[test]
fn a_killed_gate_takes_them_along_and_the_next_one_cleans_up() {
    let place = CliFixture::new();
    let mut client = McpProcess::start(&place, &[]);
    let token = token(2);
    client.ready(&format!(
        "(setsid sh -c 'trap \"\" TERM HUP; while :; do sleep {token}; done' &); trap '' TERM; echo ready; while [ ! -e by-hand ]; do sleep 0.05; done; echo export A=1 > .envrc; sleep {token}"
    ));
    std::fs::write(place.workspace.join("by-hand"), "").unwrap();
    while !place.workspace.join(".envrc").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    client.process.kill().unwrap();
    client.process.wait().unwrap();
    let begun = Instant::now();
    while is_alive(&token) {
        assert!(begun.elapsed() < TIMEOUT, "it outlived its gate");
    }
    place.must(&["call", "list_directory", "{}"]);
    assert!(!place.workspace.join(".envrc").exists(), "the next gate scans before it serves");
    assert!(place.workspace.join("by-hand").exists());
}

#[test]
fn a_changed_configuration_ends_them() {
    let place = CliFixture::new();
    let config = place.scratch.path().join("gate.yaml");
    // With information flow a background command that can send is asked about.
    std::fs::write(&config, "information_flow: off\nsandbox: {network: [example.com]}\n").unwrap();
    let mut client = McpProcess::start(&place, &["--config", config.to_str().unwrap()]);
    let token = token(3);
    let id = client.ready(&format!("echo ready; exec sleep {token}"));
    std::fs::write(&config, "information_flow: off\nsandbox: {network: []}\n").unwrap();
    let mut facts = client.call("check_command", json!({"id": id}));
    let begun = Instant::now();
    while facts["state"] == "running" {
        assert!(begun.elapsed() < TIMEOUT, "it keeps what the configuration no longer allows");
        facts = client.call("check_command", json!({"id": id, "wait_ms": 1000}));
    }
    assert_eq!((&facts["stopped"], is_alive(&token)), (&json!("configuration_changed"), false));
}
