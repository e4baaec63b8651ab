//! The workspace of a session that a root of the client decides.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_attack::Scratch;

/// A timeout that only a failure reaches.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that was started in a directory with two projects.
struct Client {
    process: Child,
    lines: Receiver<Value>,
    scratch: Scratch,
}

impl Client {
    fn start(options: &[&str]) -> Self {
        let scratch = Scratch::new();
        for project in ["work/shop", "work/blog", "other"] {
            let directory = scratch.folder(project);
            std::fs::write(directory.join("name.txt"), project).unwrap();
        }
        let place = |option: &&str| match option.strip_prefix("DIR/") {
            Some(rest) => scratch.path().join(rest).into_os_string(),
            None => (*option).into(),
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command.args(["mcp", "--no-config", "--trust", "autonomous"]).args(options.iter().map(place));
        command.current_dir(scratch.path().join("work")).env("HOME", scratch.folder("home"));
        for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "TOOLGATE_TOKEN"] {
            command.env_remove(variable);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                    break;
                }
            }
        });
        Self { process, lines, scratch }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.scratch.path().join(path)
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn next(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("nothing came")
    }

    fn answer(&self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    fn initialize(&mut self, capabilities: &Value) {
        let about = json!({"name": "t", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": about});
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
        let answer = self.answer(1);
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        assert!(answer["result"]["capabilities"]["tools"].is_object(), "{answer}");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    /// A session of a client with these directories open, with what it reads as `name.txt`.
    fn reads_with_roots(options: &[&str], roots: &[&str]) -> Value {
        let mut client = Self::start(options);
        client.initialize(&json!({"roots": {"listChanged": true}}));
        let asked = client.next();
        assert_eq!(asked["method"], "roots/list", "{asked}");
        // Sent before the answer, and served after it.
        client.read(2);
        let uri = |path: &&str| json!({"uri": format!("file://{}", client.path(path).display())});
        let roots: Vec<Value> = roots.iter().map(uri).collect();
        client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": roots}}));
        let answer = client.answer(2);
        client.end();
        answer
    }

    fn read(&mut self, id: u64) {
        let params = json!({"name": "read_file", "arguments": {"path": "name.txt"}});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }

    fn end(mut self) {
        drop(self.process.stdin.take());
        self.process.wait().unwrap();
    }
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn the_directory_that_a_client_has_open_is_the_workspace() {
    for (options, roots, expected) in [
        (&[][..], &["work/shop"][..], "work/shop"),
        (&[], &["other", "work/blog"], "work/blog"),
        (&["--roots-below", "DIR/"], &["other"], "other"),
    ] {
        let answer = Client::reads_with_roots(options, roots);
        assert_eq!(text(&answer).trim(), expected, "{roots:?}: {answer}");
    }
}

#[test]
fn a_root_outside_of_what_is_allowed_ends_the_session_and_is_said() {
    for (options, root) in [(&[][..], "other"), (&[], ""), (&["--roots-below", "DIR/work/shop"], "work/blog")]
    {
        let answer = Client::reads_with_roots(options, &[root]);
        let said = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{root}: {answer}"));
        assert!(said.contains("so it does not become the workspace"), "{root}: {said}");
    }
}

#[test]
fn a_client_is_asked_only_where_its_roots_decide() {
    // A workspace is named.
    let mut client = Client::start(&["--workspace", "DIR/other"]);
    client.initialize(&json!({"roots": {}}));
    client.read(2);
    let answer = client.next();
    assert_eq!((&answer["id"], text(&answer).trim()), (&json!(2), "other"), "{answer}");
    client.end();
    // A client without roots.
    let mut client = Client::start(&[]);
    std::fs::write(client.path("work/name.txt"), "work").unwrap();
    client.initialize(&json!({}));
    client.read(2);
    let answer = client.next();
    assert_eq!((&answer["id"], text(&answer).trim()), (&json!(2), "work"), "{answer}");
    client.end();
    // One that does not wait for the end of the handshake.
    let mut client = Client::start(&[]);
    std::fs::write(client.path("work/name.txt"), "work").unwrap();
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}, "clientInfo": {"name": "t", "version": "1"}});
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
    client.read(2);
    assert_eq!(text(&client.answer(2)).trim(), "work");
    client.end();
}
