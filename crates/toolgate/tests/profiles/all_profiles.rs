//! Promises of no single profile: texts of commands, `serve`, secrets in configurations.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::fixture::CliFixture;

#[path = "../it/pty.rs"]
#[allow(dead_code, reason = "shared with the suite `it`, which uses all of it")]
mod pty;

/// The status of a request for a URL.
fn status(url: &str, token: &str) -> u16 {
    let (host, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let path = path.split('#').next().unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let request = format!(
        "POST /{path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap().parse().unwrap()
}

/// "`serve` prints no address where nothing is."
#[test]
fn serve_prints_no_address_where_nothing_is() {
    let place = CliFixture::new();
    let mut command = place.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate")));
    command
        .args(["--json", "serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut errors = BufReader::new(process.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("Authorization: Bearer") {
        assert_ne!(errors.read_line(&mut said).unwrap(), 0, "{said}");
    }
    let told: Value = serde_json::from_str(&line).unwrap();
    let token = std::fs::read_to_string(told["tokenFile"].as_str().unwrap()).unwrap();
    let words = format!("{line} {said}");
    let urls: Vec<&str> = words
        .split(|character: char| character.is_whitespace() || "\"`,".contains(character))
        .filter(|word| word.starts_with("http://"))
        .collect();
    assert!(!urls.is_empty() && urls.iter().all(|url| status(url, token.trim()) != 404), "{urls:?}");
    assert!(!words.contains(token.trim()), "a token is told by its file: {words}");
    process.kill().unwrap();
    process.wait().unwrap();
}

/// With `on_failure: warn`, `/readyz` reports that there is no audit log.
#[test]
fn a_served_gate_without_a_record_is_not_ready() {
    let place = CliFixture::new();
    place.write("s/audit", "something else is in that place\n");
    place.write("toolgate.yaml", "audit: {on_failure: warn}\n");
    let mut command = place.toolgate();
    command.args(["--json", "serve", "--listen", "127.0.0.1:0", "--auth", "none"]).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    let mut stream = TcpStream::connect(told["listen"].as_str().unwrap()).unwrap();
    let host = told["listen"].as_str().unwrap();
    write!(stream, "GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.contains("the record cannot be written"),
        "{answer}"
    );
}

/// "1 messages".
#[test]
fn one_message_is_one_message() {
    let place = CliFixture::new();
    place.write("script.yaml", "steps: [{fault: {status: 401, message: no}}]\n");
    let run = |options: &[&str]| {
        let mut command = place.toolgate();
        command
            .args(["run", "hi", "--model", "scripted/script.yaml"])
            .args(options)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    run(&[]);
    for arguments in [&["sessions", "list"][..], &["sessions", "show", "last"]] {
        let said = place.must(arguments);
        assert!(said.contains("1 message") && !said.contains("1 messages"), "{said}");
    }
    place.write("script.yaml", "memory: conversation\nsteps: [{say: Hello.}]\n");
    run(&["--continue"]);
    let said = place.must(&["sessions", "list"]);
    assert!(said.contains(" messages") && !said.contains("1 messages"), "{said}");
}

/// "keys shorter than 8 characters are not redacted inside words".
#[test]
fn a_short_key_is_not_taken_out_of_words() {
    let place = CliFixture::new();
    let script = "steps: [{fault: {status: 401, message: \"a bad key: a, and a4b5c6d7e8\"}}]\n";
    place.write("script.yaml", script);
    let mut serving = place.toolgate();
    serving.args(["--json", "scripted", "script.yaml"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut serving = serving.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(serving.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let addresses: Value = serde_json::from_str(&line).unwrap();
    let said = |key: &str| {
        let mut command = place.toolgate();
        command.args(["run", "hi", "--model", "anthropic/x"]).stdin(Stdio::null());
        command
            .env("ANTHROPIC_BASE_URL", addresses["anthropic"].as_str().unwrap())
            .env("ANTHROPIC_API_KEY", key);
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let short = said("a");
    assert!(short.contains("… bad key: …, and a4b5c6d7e8"), "{short}");
    let long = said("a4b5c6d7e8");
    assert!(long.contains("a bad key: a, and …"), "{long}");
    serving.kill().unwrap();
    serving.wait().unwrap();
}

/// "`check` warns of a literal secret in `args`", and shows none of it.
#[test]
fn check_warns_of_a_secret_among_arguments() {
    let place = CliFixture::new();
    let warned = |arguments: &str| {
        place.write(
            "toolgate.yaml",
            &format!("mcp_servers:\n  s: {{command: \"true\", class: read, args: {arguments}}}\n"),
        );
        let said = place.must(&["check"]);
        assert!(!said.contains("hunter2") && !said.contains("ghp_0123"), "{said}");
        said.matches("looks like a secret that is written out").count()
    };
    assert_eq!(warned("[--api-key, hunter2]"), 1);
    assert_eq!(warned("[--api-key=hunter2, --verbose]"), 1);
    assert_eq!(warned("[\"--token\", \"hunter2\", \"--password\", \"hunter2\"]"), 2);
    assert_eq!(warned("[serve, ghp_0123456789abcdef0123]"), 1);
    for innocent in [
        "[--verbose, \"8080\"]",
        "[--token-file, /run/token]",
        "[--api-key, \"${API_KEY:-}\"]",
        "[--key-size=, x]",
        "[sk-ip]",
        "[--token, --verbose]",
    ] {
        assert_eq!(warned(innocent), 0, "{innocent}");
    }
}

/// "`tools new` refuses an unknown placeholder type".
#[test]
fn tools_new_refuses_an_unknown_type() {
    let place = CliFixture::new();
    let output = place.run(&["tools", "new", "log", "--", "git", "log", "-n", "{count:int}"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("`{count:int}`: there is no type `int`") && said.contains("help: "), "{said}");
    assert!(!place.scratch.path().join("tools.d").exists(), "nothing was written");
    place.must(&["tools", "new", "log", "--", "git", "log", "-n", "{count:integer}"]);
}

/// The screen of a terminal after a call.
fn at_terminal(place: &CliFixture, options: &[&str]) -> String {
    let mut command = place.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate")));
    command.args(options);
    let mut terminal = pty::Pty::start(&command, 30, 100);
    terminal.ended();
    terminal.shown()
}

/// "`call run_command` on a terminal does not print its output twice."
#[test]
fn a_command_at_a_terminal_is_shown_once() {
    let place = CliFixture::new();
    let line = |text: &str| json!({"command": text}).to_string();
    let shown = at_terminal(&place, &["call", "run_command", &line("echo one; echo two")]);
    assert_eq!((shown.matches("one").count(), shown.matches("two").count()), (1, 1), "{shown}");
    // The part of the result that was not shown live is still printed.
    let shown = at_terminal(&place, &["call", "run_command", &line("echo one; exit 3")]);
    assert!(shown.matches("one").count() == 1 && shown.contains("exit code 3"), "{shown}");
    let shown = at_terminal(&place, &["--profile", "sidecar", "call", "run_command", &line("echo one")]);
    assert_eq!(shown.matches("one").count(), 1, "{shown}");
    // Without a terminal the result is complete.
    assert_eq!(place.must(&["call", "run_command", &line("echo one")]), "one\n");
}

/// "an answer without a final newline gets one on a terminal", and nowhere else.
#[test]
fn an_answer_without_a_line_end_gets_one_on_a_terminal() {
    let place = CliFixture::new();
    place.write("w/a.txt", "no line end");
    place.write("script.yaml", "steps: [{say: \"No line end.\"}]\n");
    let read = ["call", "read_file", r#"{"path": "a.txt"}"#];
    let after = |options: &[&str], text: &str| {
        let mut command = Command::new("sh");
        let words: Vec<String> = options.iter().map(|word| format!("'{word}'")).collect();
        let binary = env!("CARGO_BIN_EXE_toolgate");
        let (state, workspace) = (place.state.display(), place.workspace.display());
        command.args([
            "-c",
            &format!(
                "{binary} -q --state-dir {state} --workspace {workspace} {}; echo AFTER",
                words.join(" ")
            ),
        ]);
        command
            .current_dir(place.scratch.path())
            .env("HOME", &place.home)
            .env("XDG_STATE_HOME", place.state_home());
        let mut terminal = pty::Pty::start(&command, 30, 100);
        terminal.ended();
        let shown = terminal.shown();
        let rows: Vec<&str> = shown.lines().map(str::trim).filter(|row| !row.is_empty()).collect();
        assert!(rows.windows(2).any(|pair| pair[0].ends_with(text) && pair[1] == "AFTER"), "{shown}");
    };
    after(&read, "no line end");
    after(&["run", "hi", "--model", "scripted/script.yaml"], "No line end.");
    assert_eq!(place.must(&read), "no line end");
}

/// The walk-through breaks a copy of the record, not the reader's own.
#[test]
fn the_walk_through_leaves_the_readers_record_alone() {
    let page = include_str!("../../../../docs/getting-started.md");
    let changes = page.lines().filter(|line| line.starts_with("$ sed -i"));
    assert!(changes.clone().count() > 0, "nothing is broken in the walk-through any more");
    for line in changes {
        assert!(!line.contains(".local/state/toolgate"), "{line}");
    }
}
