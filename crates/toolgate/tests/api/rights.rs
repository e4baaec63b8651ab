//! A session has the rights of its agent, a credential counts only while it is valid, and what a session started ends with it.

use std::time::Instant;

use serde_json::{Value, json};

use crate::gate::{Gate, Socket, TEST_TIMEOUT};

const WRITING: &str = "
steps:
  - calls: [{tool: write_file, arguments: {path: b.txt, content: \"one\\n\"}}]
  - say: \"{{last_result}}\"
";

const READER: &str =
    "agents: {reader: {trust: autonomous, tool_permissions: {read_file: {allowed: true}}}}\n";

/// The outcome of the first call that is seen.
fn result_of(socket: &mut Socket) -> Value {
    socket.wait("chat:tool-result")["metadata"].clone()
}

#[test]
fn a_session_has_no_more_rights_than_its_agent() {
    let gate = Gate::with(WRITING, READER, &["--trust", "autonomous"]);
    let person = gate.person();
    let session = person.post("sessions", &json!({"agent": "reader"})).expect(201);
    let id = session["id"].as_str().unwrap();
    let mut socket = person.socket(id, 0);
    socket.send("chat:send", &json!({"text": "Write it"}));
    assert_eq!(result_of(&mut socket)["decision"], "DENIED");
    socket.wait("chat:stream-end");
    assert!(!gate.place.workspace.join("b.txt").exists());
    let record = person.get(&format!("audit?session={id}")).expect(200)["items"][0].clone();
    assert_eq!((&record["decision"], &record["caller"]["agent"]), (&json!("DENIED"), &json!("reader")));
    // Without an agent it is the person's.
    let mut socket = person.socket(&person.session(), 0);
    socket.send("chat:send", &json!({"text": "Write it"}));
    assert_eq!(result_of(&mut socket)["decision"], "ALLOWED");
    socket.wait("chat:stream-end");
}

#[test]
fn a_session_asks_as_its_agent_declares_unless_the_person_chose() {
    let config = "agents: {careful: {trust: supervised}}\n";
    let gate = Gate::with(WRITING, config, &["--trust", "autonomous"]);
    let person = gate.person();
    let of = |body: Value| person.post("sessions", &body).expect(201)["trust"].clone();
    assert_eq!(of(json!({})), "autonomous");
    assert_eq!(of(json!({"agent": "careful"})), "supervised");
    assert_eq!(of(json!({"agent": "careful", "trust": "guided"})), "guided");
}

#[test]
fn a_token_that_counts_no_more_answers_no_question_over_an_open_socket() {
    let config = "agents: {helper: {tool_permissions: {write_file: {allowed: true}}}}\n";
    let gate = Gate::with(WRITING, config, &[]);
    gate.caller("alice", &[]);
    let gate = gate.restart_with(&["--auth", "jwt"]);
    let alice = gate.caller("alice", &["--agent", "helper", "--permission", "files:write"]);
    let mut socket = alice.socket(&alice.session(), 0);
    socket.send("chat:send", &json!({"text": "Write it"}));
    let question = socket.wait("chat:tool-confirm")["toolId"].as_str().unwrap().to_owned();
    gate.place.write("toolgate.yaml", "agents: {other: {}}\n");
    let begun = Instant::now();
    while alice.get("sessions").status != 401 {
        assert!(begun.elapsed() < TEST_TIMEOUT, "the agent was taken away, and its token still counts");
    }
    socket.send("chat:tool-approve", &json!({"toolId": question, "approved": true}));
    assert_eq!(socket.wait("chat:error")["code"], "unauthenticated");
    assert_eq!(socket.close_code(), 4401);
    assert!(!gate.place.workspace.join("b.txt").exists());
}

#[test]
fn the_background_commands_of_a_session_end_when_it_is_deleted() {
    let token = format!("6{:07}", std::process::id());
    let script = format!(
        "steps:\n  - calls: [{{tool: run_command, arguments: {{command: \"exec sleep {token}\", background: true}}}}]\n  - say: done\n"
    );
    let gate = Gate::with(&script, "", &["--trust", "autonomous"]);
    let is_alive = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
        lines.any(|line| line == format!("sleep\0{token}\0").as_bytes())
    };
    let person = gate.person();
    let session = person.session();
    let mut socket = person.socket(&session, 0);
    socket.send("chat:send", &json!({"text": "Begin"}));
    socket.wait("chat:stream-end");
    let begun = Instant::now();
    while !is_alive() {
        assert!(begun.elapsed() < TEST_TIMEOUT, "it was not started: {:?}", socket.seen);
    }
    person.send("DELETE", &format!("sessions/{session}"), None).expect(204);
    let begun = Instant::now();
    while is_alive() {
        assert!(begun.elapsed() < TEST_TIMEOUT, "it goes on without its session");
    }
}
