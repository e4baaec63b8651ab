//! A gate that is killed while clients watch, and served again.

use serde_json::{Value, json};

use crate::gate::{Client, Gate};

const STEPS: &str = "
steps:
  - say: First I will look.
    calls: [{tool: read_file, arguments: {path: a.txt}}]
  - say: \"It says {{last_result}}\"
";

/// What a page shows of a session: the stored messages, and the events after them up to the end of a turn.
struct View {
    texts: Vec<String>,
    seq: u64,
}

impl View {
    fn load(client: &Client, session: &str) -> Self {
        let stored = client.get(&format!("sessions/{session}/messages")).expect(200);
        let text = |message: &Value| match message["role"].as_str().unwrap() {
            "user" => vec![format!("user {}", message["text"].as_str().unwrap())],
            "assistant" => {
                let parts = message["parts"].as_array().unwrap().iter();
                let texts = parts.filter(|part| part["type"] == "text");
                texts.map(|part| format!("assistant {}", part["text"].as_str().unwrap())).collect()
            }
            _ => Vec::new(),
        };
        let texts = stored["messages"].as_array().unwrap().iter().flat_map(text).collect();
        Self { texts, seq: stored["seq"].as_u64().unwrap() }
    }
}

#[test]
fn clients_of_a_killed_gate_resume_with_nothing_lost_or_doubled() {
    let gate = Gate::serve(STEPS);
    let person = gate.person();
    let session = person.session();
    let mut sockets: Vec<_> = (0..100).map(|_| person.socket(&session, 0)).collect();
    sockets[0].send("chat:send", &json!({"text": "one"}));
    for socket in &mut sockets {
        socket.wait("chat:stream-end");
    }
    let seen: Vec<u64> = sockets.iter().map(|socket| socket.last_seq()).collect();
    let gate = gate.restart();
    let person = gate.person();
    for (socket, last) in sockets.iter_mut().zip(&seen) {
        // The old connection ends, and what was last seen is known not to be of this process.
        while socket.next().is_some() {}
        let mut again = person.socket(&session, *last);
        again.wait("chat:reset");
        assert!(again.seen.is_empty());
    }
    let view = View::load(&person, &session);
    assert_eq!(view.texts, ["user one", "assistant First I will look.", "assistant It says hello\n"]);
    let mut sockets: Vec<_> = (0..100).map(|_| person.socket(&session, view.seq)).collect();
    sockets[0].send("chat:send", &json!({"text": "two"}));
    for socket in &mut sockets {
        socket.wait("chat:stream-end");
        // Numbers of before are not given again.
        assert!(socket.seen.iter().all(|frame| frame["seq"].as_u64().unwrap() > seen[0]));
        let asked = socket.seen.iter().filter(|frame| frame["event"] == "chat:user-message");
        assert_eq!(asked.map(|frame| frame["data"]["text"].clone()).collect::<Vec<_>>(), [json!("two")]);
    }
    assert_eq!(View::load(&person, &session).texts.len(), 6);
}

#[test]
fn a_turn_that_was_cut_off_is_answered_and_the_session_goes_on() {
    let script = "
steps:
  - {calls: [{tool: run_command, arguments: {command: sleep 600}}], when: {prompt: wait}}
  - say: Here I am.
";
    let gate = Gate::with(script, "", &["--trust", "autonomous"]);
    let person = gate.person();
    let session = person.session();
    let mut socket = person.socket(&session, 0);
    socket.send("chat:send", &json!({"text": "wait"}));
    socket.wait("chat:tool-start");
    let gate = gate.restart();
    let person = gate.person();
    let state = person.get(&format!("sessions/{session}")).expect(200);
    assert_eq!(state["running"], false);
    let view = View::load(&person, &session);
    let mut socket = person.socket(&session, view.seq);
    socket.send("chat:send", &json!({"text": "are you there?"}));
    assert_eq!(socket.wait("chat:stream-end")["text"], "Here I am.");
    let stored = person.get(&format!("sessions/{session}/messages")).expect(200);
    let roles: Vec<&Value> = stored["messages"].as_array().unwrap().iter().map(|one| &one["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "results", "user", "assistant"]);
}
