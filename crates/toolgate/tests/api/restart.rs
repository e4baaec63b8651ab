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
fn a_client_that_had_seen_no_event_is_reset_like_the_others() {
    let gate = Gate::serve(STEPS);
    let person = gate.person();
    let session = person.session();
    let seen = View::load(&person, &session).seq;
    person.post(&format!("sessions/{session}/messages"), &json!({"text": "one"})).expect(202);
    let gate = gate.restart();
    let mut again = gate.person().socket(&session, seen);
    // Without it the message of before would never be shown.
    again.wait("chat:reset");
    assert_eq!(View::load(&gate.person(), &session).texts[0], "user one");
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

/// The blocks of a stream of server-sent events up to one of these events: id, event, data.
fn blocks(stream: std::net::TcpStream, until: &[&str]) -> Vec<(Option<u64>, String, Value)> {
    use std::io::{BufRead as _, BufReader};
    let (mut id, mut event, mut blocks) = (None, String::new(), Vec::new());
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        if let Some(text) = line.strip_prefix("id: ") {
            id = text.parse().ok();
        } else if let Some(name) = line.strip_prefix("event: ") {
            name.clone_into(&mut event);
        } else if let Some(data) = line.strip_prefix("data: ") {
            blocks.push((id.take(), event.clone(), serde_json::from_str(data).unwrap()));
            if until.contains(&event.as_str()) {
                break;
            }
        }
    }
    blocks
}

#[test]
fn an_event_source_is_reset_once_and_goes_on_by_itself() {
    let gate = Gate::serve(STEPS);
    let person = gate.person();
    let session = person.session();
    let mut socket = person.socket(&session, 0);
    socket.send("chat:send", &json!({"text": "one"}));
    socket.wait("chat:stream-end");
    let (first, last) = (socket.seen[0]["seq"].as_u64().unwrap(), socket.last_seq());
    let path = format!("sessions/{session}/events?after={first}");
    let open = |person: &Client, id: Option<u64>| {
        let client = match id {
            Some(id) => person.header("Last-Event-ID", &id.to_string()),
            None => person.clone(),
        };
        client.begin("GET", &path, None)
    };
    // The address stays as it was opened with; the header says what came since. Of the two the later one counts.
    let of_header = blocks(open(&person, Some(last - 1)), &["chat:stream-end"]);
    assert_eq!(of_header.iter().map(|(id, ..)| *id).collect::<Vec<_>>(), [Some(last)]);
    let of_address = blocks(open(&person, Some(1)), &["chat:stream-end"]);
    assert!(of_address.iter().all(|(id, ..)| *id > Some(first)), "{of_address:?}");
    let gate = gate.restart();
    let person = gate.person();
    let reset = blocks(open(&person, Some(last)), &["chat:reset"]);
    let [(Some(resume), event, _)] = &reset[..] else { panic!("{reset:?}") };
    assert_eq!(event, "chat:reset");
    // What a browser does next, with the id that it was given: no other reset, and nothing of the next turn is missed.
    let stream = open(&person, Some(*resume));
    let view = View::load(&person, &session);
    assert_eq!(view.seq, *resume);
    person.post(&format!("sessions/{session}/messages"), &json!({"text": "two"})).expect(202);
    let rest = blocks(stream, &["chat:stream-end", "chat:reset"]);
    assert_eq!((rest[0].1.as_str(), &rest[0].2["text"]), ("chat:user-message", &json!("two")));
    assert_eq!(rest.last().unwrap().1, "chat:stream-end");
}
