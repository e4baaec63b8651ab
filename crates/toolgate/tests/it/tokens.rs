//! Callers with tokens, from minting to the audit log.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use toolgate_types::{ErrorCode, Stage};

use crate::fixture::{CliFixture, finish_call};

const GREET: &str = "tool: greet\ndescription: says hello to somebody\nclass: read\npermissions: [greet:people]\n\
    input:\n  properties: {name: {type: string, maxLength: 40, pattern: \"^[A-Za-z]+$\"}}\n  required: [name]\n\
    command: [echo, \"hello, {name}\"]\npolicy: {\"*\": allow}\n";

/// A fixture with one declared tool, and more lines in its configuration.
fn with_greet(more: &str) -> CliFixture {
    let place = CliFixture::new();
    place.write("greet.yaml", GREET);
    place.write("toolgate.yaml", &format!("tools: [greet.yaml]\n{more}"));
    place
}

fn mint(place: &CliFixture, options: &[&str]) -> String {
    let mut arguments = vec!["token", "mint"];
    arguments.extend(options);
    let token = place.must(&arguments);
    assert_eq!(token.lines().count(), 1, "{token}");
    token.trim_end().to_owned()
}

/// Calls `greet` with a token in the environment.
fn greet(place: &CliFixture, token: &str) -> (i32, Value) {
    let mut command = place.toolgate();
    command.env("TOOLGATE_TOKEN", token);
    finish_call(command, "greet", &json!({"name": "Bob"}))
}

#[test]
fn a_minted_token_is_believed_here_and_grants_what_it_says() {
    let place = with_greet("agents: {helper: {}, other: {tool_permissions: {read_file: {allowed: true}}}}\n");
    for (options, code, error) in [
        (&["--subject", "alice", "--permission", "greet:people"][..], 0, Value::Null),
        (&["--subject", "alice", "--permission", "greet:people", "--agent", "helper"], 0, Value::Null),
        (&["--subject", "alice"], 3, json!("not_permitted")),
        (&["--subject", "alice", "--permission", "greet:dogs"], 3, json!("not_permitted")),
        (
            &["--subject", "alice", "--permission", "greet:people", "--agent", "other"],
            3,
            json!("not_permitted"),
        ),
        (
            &["--subject", "alice", "--permission", "greet:people", "--trust", "supervised"],
            3,
            json!("nobody"),
        ),
    ] {
        let (exit, envelope) = greet(&place, &mint(&place, options));
        assert_eq!(exit, code, "{options:?}: {envelope}");
        match error == "nobody" {
            // There is no terminal to ask on, so a call that needs approval is denied.
            true => assert_eq!(envelope["stage"], "APPROVAL", "{options:?}: {envelope}"),
            false => assert_eq!(envelope.get("code").unwrap_or(&Value::Null), &error, "{options:?}"),
        }
        assert_eq!(place.records().last().unwrap().caller.sub, "alice");
    }
    let key = place.state.join("keys/callers.key");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read(&key).unwrap().len(), 32);
}

/// Changes a byte of the signature.
fn forged(token: &str) -> String {
    let (body, signature) = token.rsplit_once('.').unwrap();
    let other = if signature.starts_with('A') { "B" } else { "A" };
    let rest: String = signature.chars().skip(1).collect();
    format!("{body}.{other}{rest}")
}

#[test]
fn a_token_that_proves_nothing_leaves_one_record_and_nothing_of_itself() {
    let place = with_greet("");
    let elsewhere = with_greet("");
    let good = mint(&place, &["--subject", "alice", "--permission", "greet:people"]);
    let for_another = mint(&place, &["--subject", "alice", "--audience", "others"]);
    let of_another = mint(&elsewhere, &["--subject", "alice", "--permission", "greet:people"]);
    let unsigned = format!("{}.", good.rsplit_once('.').unwrap().0);
    place.must(&["call", "list_directory"]);
    let mut records = place.records().len();
    for (token, reason) in [
        (for_another.as_str(), "wrong_audience"),
        (&of_another, "bad_signature"),
        (&forged(&good), "bad_signature"),
        (&unsigned, "bad_signature"),
        ("nonsense", "malformed"),
        ("", "malformed"),
    ] {
        let (code, envelope) = greet(&place, token);
        assert_eq!((code, &envelope["code"]), (3, &json!("unauthenticated")), "{reason}: {envelope}");
        assert!(envelope["operatorNote"].as_str().unwrap().starts_with(reason), "{reason}: {envelope}");
        assert!(!envelope["text"].as_str().unwrap().contains(reason), "{envelope}");
        let mut all = place.records();
        assert_eq!(all.len(), records + 1, "{reason}");
        records = all.len();
        let record = all.pop().unwrap();
        assert_eq!(record.caller.sub, "unverified");
        let denial = record.denial.unwrap();
        assert_eq!((denial.stage, denial.code), (Stage::Auth, ErrorCode::Unauthenticated));
        if token.len() > 20 {
            let (log, part) = (place.audit_text(), token.get(..20).unwrap());
            assert!(!envelope.to_string().contains(part) && !log.contains(part));
        }
    }
    assert_eq!(greet(&place, &good).0, 0, "the key was not the reason");
    place.must(&["audit", "verify"]);
}

#[test]
fn a_token_is_never_shown_and_acts_for_whom_it_says() {
    let place = with_greet("agents: {helper: {}}\n");
    let token = mint(&place, &["--subject", "alice", "--permission", "files:read"]);
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command.current_dir(place.scratch.path()).env("TOOLGATE_TOKEN", &token);
        command
            .env("XDG_STATE_HOME", place.state_home())
            .arg("--state-dir")
            .arg(&place.state)
            .arg("--workspace")
            .arg(&place.workspace);
        place.configured(&mut command);
        let output = command.args(arguments).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(said).unwrap())
    };
    for arguments in [
        &["--help"][..],
        &["call", "--help"],
        &["call"],
        &["-v", "call", "list_directory"],
        &["-v", "call", "greet", r#"{"name": "Bob"}"#],
        &["--token", "x", "-v", "call", "greet", "{}"],
        &["--agent", "helper", "call", "list_directory"],
        &["tools"],
    ] {
        let (_, said) = run(arguments);
        assert!(!said.contains(&token), "{arguments:?}: {said}");
    }
    let (code, said) = run(&["--agent", "helper", "call", "list_directory"]);
    assert!(code == 2 && said.contains("TOOLGATE_TOKEN"), "{said}");
    let (code, said) = run(&["tools"]);
    assert!(code == 0 && said.contains("read_file") && !said.contains("write_file"), "{said}");
    let (code, said) = run(&["--token", "nonsense", "tools"]);
    assert!(code == 3 && !said.contains("read_file"), "{said}");
}

#[test]
fn declared_issuers_replace_the_local_one() {
    let place = with_greet("");
    let local = mint(&place, &["--subject", "alice", "--permission", "greet:people"]);
    let callers = "callers:\n  issuer: https://login.example.com\n  audience: gate\n  keys:\n    \
        - {kid: shared, algorithm: HS256, secret_file: shared.secret}\n";
    place.write("toolgate.yaml", &format!("tools: [greet.yaml]\n{callers}"));
    // Created with the first token, at the path that the configuration names.
    let declared = mint(&place, &["--subject", "bob", "--permission", "greet:people"]);
    let secret = place.scratch.path().join("shared.secret");
    assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(greet(&place, &declared).0, 0);
    assert_eq!(greet(&place, &local).1["code"], "unauthenticated");

    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).unwrap();
    let output = place.run(&["check"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("toolgate.yaml:6:") && said.contains("chmod 600"), "{said}");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    place.must(&["check"]);

    place.write(
        "toolgate.yaml",
        &callers.replace("secret_file: shared.secret", "file: missing.pem").replace("HS256", "EdDSA"),
    );
    let output = place.run(&["check"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("`missing.pem` cannot be read"), "{said}");
    let output = place.run(&["token", "mint", "--subject", "bob"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}

#[test]
fn two_that_mint_at_once_make_one_secret() {
    let place = with_greet("");
    let mint = || {
        let mut command = place.toolgate();
        command.args(["token", "mint", "--subject", "alice", "--permission", "greet:people"]);
        command.stdout(std::process::Stdio::piped()).spawn().unwrap()
    };
    let minting: Vec<_> = (0..8).map(|_| mint()).collect();
    for process in minting {
        let output = process.wait_with_output().unwrap();
        let token = String::from_utf8(output.stdout).unwrap();
        assert_eq!(greet(&place, token.trim_end()).0, 0);
    }
    let keys = std::fs::read_dir(place.state.join("keys")).unwrap();
    let names: Vec<_> = keys.map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().ends_with(".new")), "{names:?}");
}

/// Serves one key set, once. The client may have timed out by then.
fn serve_keys() -> (u16, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = BufReader::new(stream.try_clone().unwrap()).lines();
        while request.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        // The key of RFC 8037.
        let keys = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"x","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
        let _ = write!(stream, "{head}content-length: {}\r\n\r\n{keys}", keys.len());
    });
    (port, serving)
}

#[test]
fn the_keys_of_an_issuer_are_fetched_when_a_token_needs_them() {
    // Not signed: only with the issuer's keys can the signature be found invalid.
    let unsigned = format!(
        "eyJhbGciOiJFZERTQSIsImtpZCI6IngiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIn0.{}",
        "A".repeat(86)
    );
    let note_of = |place: &CliFixture| {
        let (_, envelope) = greet(place, &unsigned);
        envelope["operatorNote"].as_str().unwrap().to_owned()
    };
    let fetched = (0..10).find_map(|_| {
        let (port, serving) = serve_keys();
        let place = with_greet(&format!(
            "callers:\n  issuer: https://login.example.com\n  audience: gate\n  algorithms: [EdDSA]\n  keys:\n    \
             - {{algorithm: EdDSA, jwks_url: \"http://127.0.0.1:{port}/keys\"}}\n"
        ));
        // Nothing is fetched where no token is verified.
        place.must(&["check"]);
        place.must(&["call", "list_directory"]);
        let note = note_of(&place);
        serving.join().unwrap();
        // On a busy machine the keys may arrive after the gate's timeout.
        (!note.starts_with("keys_unavailable")).then_some((place, note))
    });
    let (place, note) = fetched.expect("keys that come in time");
    assert!(note.starts_with("bad_signature"), "{note}");
    let note = note_of(&place);
    assert!(note.starts_with("keys_unavailable"), "{note}");
}

/// Runs `toolgate mcp` with empty standard input.
fn served(place: &CliFixture, token: &str) -> (i32, String) {
    let mut command = place.toolgate();
    command.arg("mcp").env("TOOLGATE_TOKEN", token).stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    assert!(output.stdout.is_empty(), "{output:?}");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// A client shows that its server ended, and its last message.
#[test]
fn a_gate_is_not_served_to_a_token_that_can_never_be_good() {
    let place = with_greet("");
    let good = mint(&place, &["--subject", "alice"]);
    let secret = std::fs::read(place.state.join("keys/callers.key")).unwrap().into();
    let expired = toolgate_identity::mint(&toolgate_identity::MintOptions {
        secret: &secret,
        key_id: "local",
        issuer: "toolgate",
        audience: "toolgate",
        subject: "alice",
        permissions: Default::default(),
        agent: None,
        trust: None,
        now: std::time::SystemTime::now() - std::time::Duration::from_secs(7200),
        lifetime: std::time::Duration::from_secs(3600),
    })
    .unwrap();
    for (token, reason) in
        [("garbage", "malformed"), (&expired, "expired"), (&forged(&good), "bad_signature")]
    {
        let (code, said) = served(&place, token);
        assert_eq!(code, 3, "{reason}: {said}");
        assert!(said.contains(&format!("the token was rejected: {reason}")), "{said}");
        assert!(said.contains("TOOLGATE_TOKEN") && !said.contains(token), "{said}");
    }
    assert_eq!(served(&place, &good), (0, String::new()));
    let (code, said) = served(&with_greet(""), &good);
    assert!(code == 3 && said.contains("no issuer of tokens is configured"), "{said}");
}

#[test]
fn a_gate_is_served_to_a_token_that_may_be_good_later() {
    // The socket is bound but does not listen, and keeps the port reserved.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = held.local_addr().unwrap().port();
    let place = with_greet(&format!(
        "callers:\n  issuer: https://login.example.com\n  audience: gate\n  algorithms: [EdDSA]\n  keys:\n    \
         - {{algorithm: EdDSA, jwks_url: \"http://127.0.0.1:{port}/keys\"}}\n"
    ));
    let unsigned = format!(
        "eyJhbGciOiJFZERTQSIsImtpZCI6IngiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIn0.{}",
        "A".repeat(86)
    );
    let mut gate = place.overhear(&["mcp"], &[("TOOLGATE_TOKEN", &unsigned)]);
    let said = gate.next();
    assert!(said.contains("calls are refused for now: keys_unavailable"), "{said}");
    // It serves until its input ends.
    drop(gate.process.stdin.take());
    assert!(gate.process.wait().unwrap().success());
}

#[test]
fn doctor_says_whether_the_keys_of_an_issuer_can_be_fetched() {
    let place = |port: u16, more: &str| {
        with_greet(&format!(
            "callers:\n  issuer: https://login.example.com\n  audience: gate\n  algorithms: [EdDSA]\n  {more}\n  keys:\n    \
             - {{algorithm: EdDSA, jwks_url: \"http://127.0.0.1:{port}/keys\"}}\n"
        ))
    };
    let keys = |place: &CliFixture, arguments: &[&str]| {
        let output = place.toolgate().args(["--json", "doctor"]).args(arguments).output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let rows = found.as_array().unwrap().iter();
        rows.filter(|row| row["check"] == "caller keys").cloned().collect::<Vec<Value>>()
    };
    // On a busy machine the keys may arrive after the gate's timeout.
    let fetched = (0..10).find_map(|_| {
        let (port, serving) = serve_keys();
        let found = keys(&place(port, ""), &[]);
        serving.join().unwrap();
        (found[0]["state"] == "ok").then_some(found)
    });
    let fetched = fetched.expect("keys that come in time");
    assert!(fetched[0]["detail"].as_str().unwrap().starts_with("1 at http://127.0.0.1:"), "{fetched:?}");
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let unreachable = place(held.local_addr().unwrap().port(), "stale_keys: 90s");
    let found = keys(&unreachable, &[]);
    let detail = found[0]["detail"].as_str().unwrap();
    assert_eq!(found[0]["state"], "failing");
    assert!(
        detail.contains("could not be fetched") && detail.contains("for 90 s (`callers.stale_keys`)"),
        "{detail}"
    );
    assert!(keys(&unreachable, &["--offline"]).is_empty(), "nothing is fetched");
}
