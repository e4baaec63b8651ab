//! `toolgate serve`: start, calls and shutdown.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use toolgate_audit::Record;
use toolgate_types::{Decision, ErrorCode};

use crate::fixture::CliFixture;

/// A timeout that only a failure reaches.
const PATIENCE: Duration = Duration::from_secs(600);

struct Served {
    process: Child,
    told: Value,
    token: Option<String>,
}

impl Served {
    fn start(place: &CliFixture, options: &[&str]) -> Self {
        let mut process = place
            .toolgate()
            .args(["serve", "--listen", "127.0.0.1:0", "--json", "--trust", "autonomous"])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        let token =
            told["tokenFile"].as_str().map(|file| std::fs::read_to_string(file).unwrap().trim().to_owned());
        Self { process, told, token }
    }

    fn line(&self) -> Line {
        let stream = TcpStream::connect(self.told["listen"].as_str().unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let host = self.told["listen"].as_str().unwrap().to_owned();
        Line { reader: BufReader::new(stream), host, token: self.token.clone() }
    }

    fn metrics(&self) -> String {
        let Line { mut reader, host, .. } = self.line();
        let asked = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        reader.get_mut().write_all(asked.as_bytes()).unwrap();
        let mut told = String::new();
        reader.read_to_string(&mut told).unwrap();
        told
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    fn wait(mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection.
struct Line {
    reader: BufReader<TcpStream>,
    host: String,
    token: Option<String>,
}

impl Line {
    /// Sends a call of the stateless protocol.
    fn send(&mut self, id: u64, tool: &str, arguments: &Value) -> std::io::Result<()> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string();
        let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\n{}Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {}\r\n\r\n",
            self.host,
            token.unwrap_or_default(),
            body.len()
        );
        self.reader.get_mut().write_all((head + &body).as_bytes())
    }

    /// The next response, if there is one.
    fn answer(&mut self) -> Option<(u16, Value)> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if self.reader.read_until(b'\n', &mut head).ok()? == 0 {
                return None;
            }
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let length =
            head.split_once("content-length: ").unwrap().1.split("\r\n").next().unwrap().parse().unwrap();
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).ok()?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some((status, serde_json::from_slice(&body).unwrap()))
    }

    fn call(&mut self, id: u64, tool: &str, arguments: &Value) -> Option<(u16, Value)> {
        self.send(id, tool, arguments).ok()?;
        self.answer()
    }
}

#[test]
fn the_token_of_the_person_is_made_once_and_opens_the_door() {
    let place = CliFixture::new();
    std::fs::write(place.workspace.join("a.txt"), "hello\n").unwrap();
    let served = Served::start(&place, &[]);
    let file = place.state.join("keys/serve.token");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let token = served.token.clone().unwrap();
    assert_eq!(token.len(), 64);
    assert_eq!(served.told["auth"], json!("token"));
    let (status, message) = served.line().call(1, "read_file", &json!({"path": "a.txt"})).unwrap();
    assert_eq!((status, &message["result"]["content"][0]["text"]), (200, &json!("hello\n")), "{message}");
    let mut stranger = served.line();
    stranger.token = Some("0".repeat(64));
    assert_eq!(stranger.call(2, "read_file", &json!({"path": "a.txt"})).unwrap().0, 401);
    stranger.token = None;
    assert_eq!(stranger.call(3, "read_file", &json!({"path": "a.txt"})).unwrap().0, 401);
    served.signal(Signal::TERM);
    assert_eq!(served.wait().code(), Some(0));
    let decisions: Vec<Decision> = place.records().iter().map(|record| record.decision).collect();
    assert_eq!(decisions, [Decision::Allowed, Decision::Denied], "no record without a token");
    assert!(!place.audit_text().contains(&token));

    let again = Served::start(&place, &[]);
    assert_eq!(again.token.as_ref(), Some(&token), "the token is kept");
    drop(again);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = place.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.status.code(), Some(2), "others may have read it: {refused:?}");
}

#[test]
fn tokens_of_an_issuer_are_asked_for_as_soon_as_one_is_configured() {
    let place = CliFixture::new();
    std::fs::write(place.workspace.join("a.txt"), "hello\n").unwrap();
    place.write("callers.secret", "a secret for tests, 32 bytes or more\n");
    let file = place.scratch.path().join("callers.secret");
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    place.write(
        "toolgate.yaml",
        "callers:\n  issuer: https://issuer.example\n  audience: [gate]\n  claims: {permissions: permissions}\n  keys:\n    - {kid: k, algorithm: HS256, secret_file: callers.secret}\n",
    );
    let served = Served::start(&place, &[]);
    assert_eq!((&served.told["auth"], &served.told["tokenFile"]), (&json!("jwt"), &Value::Null));
    let mint = |options: &[&str]| {
        let mut arguments = vec!["token", "mint", "--subject", "alice", "--permission", "files:read"];
        arguments.extend(options);
        place.must(&arguments).trim().to_owned()
    };
    let mut line = served.line();
    line.token = Some(mint(&[]));
    let (status, message) = line.call(1, "read_file", &json!({"path": "a.txt"})).unwrap();
    assert_eq!((status, &message["result"]["isError"]), (200, &json!(false)), "{message}");
    line.token = Some(mint(&["--audience", "another-gate"]));
    assert_eq!(line.call(2, "read_file", &json!({"path": "a.txt"})).unwrap().0, 401);
    line.token = None;
    assert_eq!(line.call(3, "read_file", &json!({"path": "a.txt"})).unwrap().0, 401);
}

#[test]
fn what_cannot_be_served_safely_is_refused_with_a_remedy() {
    let place = CliFixture::new();
    for (options, told) in [
        (&["--auth", "none", "--listen", "0.0.0.0:0"][..], "listen on 127.0.0.1"),
        (&["--auth", "none", "--listen", "[::]:0"], "listen on 127.0.0.1"),
        (&["--auth", "jwt"], "callers:"),
        (&["--listen", "nowhere"], "such as 127.0.0.1:8420"),
        (&["--allow-host", "https://gate.example", "--listen", "127.0.0.1:0"], "write a name"),
        (&["--allow-origin", "*", "--listen", "127.0.0.1:0"], "without a path"),
        (&["--public-url", "gate.example", "--listen", "127.0.0.1:0"], "whole address"),
        (&["--public-url", "ftp://gate.example", "--listen", "127.0.0.1:0"], "whole address"),
        (&["--token", "x"], "leave out --token"),
    ] {
        let mut command = place.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate")));
        let output = command.arg("serve").args(options).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(told), "{options:?}: {output:?}");
        assert!(!said.contains("served at") && output.stdout.is_empty(), "{options:?}: {output:?}");
    }
}

#[test]
fn where_everybody_can_come_it_says_what_they_need_and_names_what_it_refused() {
    let place = CliFixture::new();
    let served = place.overhear(&["serve", "--listen", "0.0.0.0:0"], &[]);
    let next = || served.next();
    let address = next();
    let address = address.trim().strip_prefix("toolgate: MCP is served at http://").unwrap().to_owned();
    let address = address.strip_suffix("/mcp").unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let told = next();
    let token = std::fs::read_to_string(place.state.join("keys/serve.token")).unwrap();
    assert!(told.contains("Bearer TOKEN") && told.contains("keys/serve.token"), "{told}");
    assert!(!told.contains(token.trim()) && !told.contains("http://"), "{told}");
    assert!(next().contains("--allow-host NAME"));
    assert!(next().contains("plain HTTP"));
    let page = next();
    assert!(
        page.contains("the page is at http://127.0.0.1:") && !page.contains("token"),
        "no token in a log: {page}"
    );
    let asked = |host: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        let asked = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(asked.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(asked(address), "200");
    for host in ["gate.example:80", "GATE.example", "other.example"] {
        assert_eq!(asked(host), "421", "{host}");
    }
    assert!(next().ends_with("--allow-host gate.example"));
    assert!(next().ends_with("--allow-host other.example"), "a name is told once");
}

#[test]
fn a_log_is_told_where_the_token_is_and_not_the_token() {
    let place = CliFixture::new();
    let log = place.scratch.path().join("log");
    let file = File::create(&log).unwrap();
    let mut command = place.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate")));
    command.args(["--json", "serve", "--listen", "127.0.0.1:0"]);
    command.stdout(file.try_clone().unwrap()).stderr(file);
    let mut process = command.spawn().unwrap();
    let told = eventually(|| {
        let told = std::fs::read_to_string(&log).unwrap();
        told.contains("Authorization: Bearer TOKEN").then_some(told)
    });
    process.kill().unwrap();
    process.wait().unwrap();
    let token = std::fs::read_to_string(place.state.join("keys/serve.token")).unwrap();
    assert!(told.contains("keys/serve.token") && !told.contains(token.trim()), "{told}");
}

/// Polls until there is a value.
fn eventually<Found>(mut look: impl FnMut() -> Option<Found>) -> Found {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "it never came");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A long-running command, unique on this machine.
fn long_command(number: u32) -> String {
    format!("sleep {}{number}", 100_000 + std::process::id())
}

/// Whether a process of such a command is alive.
fn is_running(command: &str) -> bool {
    running(command) > 0
}

/// The number of live processes of such a command.
fn running(command: &str) -> u64 {
    let wanted = command.replace(' ', "\0");
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path().join("cmdline"));
    // A process may end while it is examined.
    let lines = processes.filter_map(|path| std::fs::read(path).ok());
    lines.map(|line| u64::from(String::from_utf8_lossy(&line).contains(&wanted))).sum()
}

#[test]
fn a_client_that_goes_away_leaves_no_process() {
    let place = CliFixture::new();
    let served = Served::start(&place, &["--auth", "none"]);
    let command = long_command(1);
    let mut line = served.line();
    line.send(1, "run_command", &json!({"command": command, "timeout_ms": 600_000})).unwrap();
    while !is_running(&command) {
        std::thread::yield_now();
    }
    drop(line);
    while !served.metrics().contains("toolgate_calls_in_flight 0") {
        std::thread::yield_now();
    }
    assert!(!is_running(&command));
    let records = by_client_id(place.records());
    assert_eq!(records[&1].denial.as_ref().unwrap().code, ErrorCode::Cancelled);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let place = CliFixture::new();
    let served = Served::start(&place, &["--auth", "none", "--grace", "1h"]);
    let mut line = served.line();
    line.send(1, "run_command", &json!({"command": "sleep 1000"})).unwrap();
    while !served.metrics().contains("toolgate_calls_in_flight 1") {
        std::thread::yield_now();
    }
    served.signal(Signal::TERM);
    while TcpStream::connect(served.told["listen"].as_str().unwrap()).is_ok() {
        std::thread::yield_now();
    }
    served.signal(Signal::TERM);
    assert_eq!(served.wait().code(), Some(130));
}

/// What a client knows of one call.
#[derive(Debug)]
struct Known {
    answered: Option<Value>,
}

const CLIENTS: u64 = 16;

#[test]
fn a_signal_under_load_leaves_no_call_without_answer_or_record() {
    let place = CliFixture::new();
    place.write("toolgate.yaml", "limits: {timeout: 10m}");
    let served = Served::start(&place, &["--auth", "none", "--grace", "1s"]);
    let answered = AtomicU64::new(0);
    let known: BTreeMap<u64, Known> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (served, answered) = (&served, &answered);
                scope.spawn(move || {
                    let mut line = served.line();
                    let mut known = BTreeMap::new();
                    for call in client * 1_000_000.. {
                        // Every fourth client makes one call that never ends; the others write as fast as they can.
                        let (tool, arguments) = match client % 4 {
                            0 => ("run_command", json!({"command": long_command(2), "timeout_ms": 600_000})),
                            _ => ("write_file", json!({"path": format!("{call}.txt"), "content": "x"})),
                        };
                        if line.send(call, tool, &arguments).is_err() {
                            break;
                        }
                        let got = line.answer();
                        let is_last = got.is_none();
                        let message = got.filter(|(status, _)| *status == 200).map(|(_, message)| message);
                        known.insert(call, Known { answered: message });
                        if is_last {
                            break;
                        }
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    known
                })
            })
            .collect();
        while answered.load(Ordering::Relaxed) < 200 || running(&long_command(2)) < CLIENTS / 4 {
            std::thread::yield_now();
        }
        served.signal(Signal::TERM);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(served.wait().code(), Some(0));
    assert!(!is_running(&long_command(2)));
    let records = by_client_id(place.records());
    for (call, Known { answered }) in &known {
        let record = records.get(call);
        let file = place.workspace.join(format!("{call}.txt")).exists();
        match (answered, record) {
            (Some(message), Some(record)) => {
                let failed = message["result"]["isError"] == json!(true);
                assert_eq!(failed, record.decision != Decision::Allowed, "{call}: {message}");
            }
            (Some(message), None) => panic!("{call} was answered and not recorded: {message}"),
            // Recorded, but its client was gone or its connection closed.
            (None, Some(_)) => {}
            // Never accepted: nothing was done.
            (None, None) => assert!(!file, "{call} was done and not recorded"),
        }
        let is_done = record.is_some_and(|record| record.decision == Decision::Allowed);
        assert!(call / 1_000_000 % 4 == 0 || file == is_done, "{call}: {record:?}");
    }
    assert!(records.keys().all(|call| known.contains_key(call)));
    let sleepers: Vec<&Record> =
        records.values().filter(|record| record.tool.name == "run_command").collect();
    assert_eq!(sleepers.len() as u64, CLIENTS / 4);
    for record in sleepers {
        assert_eq!(record.denial.as_ref().unwrap().code, ErrorCode::Cancelled, "{record:?}");
    }
    place.must(&["audit", "verify"]);
    assert_eq!(place.pending(), 0);
}

/// Records by the client's call number; each occurs once.
fn by_client_id(records: Vec<Record>) -> BTreeMap<u64, Record> {
    let count = records.len();
    let number = |record: &Record| record.request.client_call_id.as_ref().unwrap().parse().unwrap();
    let found: BTreeMap<u64, Record> = records.into_iter().map(|record| (number(&record), record)).collect();
    assert_eq!(found.len(), count, "two records of one call");
    found
}
