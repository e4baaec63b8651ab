//! Sessions and their events, seen by one client and by several.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::gate::{Client, Gate, shown};

/// Says something long, reads, and answers.
const READING: &str = "
steps:
  - say: I will look at the file that is here, and then I will say what stands in it.
    chunk: 5
    calls: [{tool: read_file, arguments: {path: a.txt}}]
  - say: \"It says {{last_result}}\"
";

/// Runs a command that ends only when it is cancelled.
const WAITING: &str = "
steps:
  - say: One moment.
    calls: [{tool: run_command, arguments: {command: \"echo begun; sleep 600\"}}]
  - say: It is over.
";

#[test]
fn a_session_is_found_by_what_was_said_in_it() {
    let gate = Gate::serve("steps:\n  - say: It has webbed feet.\n");
    let person = gate.person();
    let (told, _other) = (person.session(), person.session());
    let mut socket = person.socket(&told, 0);
    socket.send("chat:send", &json!({"text": "Tell me about the otter"}));
    socket.wait("chat:stream-end");
    let found = |query: &str| {
        let list = person.get(&format!("sessions?query={query}")).expect(200);
        list["items"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(found("WEBBED%20feet"), [told.as_str()]);
    for query in ["assistant", "%22text%22", "zebra", "we"] {
        assert!(found(query).is_empty(), "{query}");
    }
}

#[test]
fn a_session_is_created_listed_renamed_and_deleted() {
    let gate = Gate::serve(READING);
    let person = gate.person();
    let titled = person.post("sessions", &json!({"title": "About lists", "trust": "supervised"})).expect(201);
    assert_eq!((&titled["title"], &titled["trust"]), (&json!("About lists"), &json!("supervised")));
    let ids: Vec<String> = (0..4).map(|_| person.session()).collect();
    let list = |query: &str| person.get(&format!("sessions?{query}")).expect(200);
    assert_eq!(list("")["items"].as_array().unwrap().len(), 5);
    assert_eq!(list("query=LIST")["items"][0]["id"], titled["id"]);
    // Every page once, in the order of the whole list.
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = list(&format!("limit=2{cursor}"));
        paged.extend(page["items"].as_array().unwrap().iter().map(|one| one["id"].clone()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let whole: Vec<Value> =
        list("")["items"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert_eq!(paged, whole);
    let path = format!("sessions/{}", ids[0]);
    let renamed =
        person.send("PATCH", &path, Some(r#"{"title":"Another","trust":"autonomous"}"#)).expect(200);
    assert_eq!((&renamed["title"], &renamed["trust"]), (&json!("Another"), &json!("autonomous")));
    person.send("DELETE", &path, None).expect(204);
    assert_eq!(person.get(&path).problem(), (404, "not_found".to_owned()));
    for (body, code) in [
        (r#"{"model":"nonsense"}"#, "no_model"),
        (r#"{"model":"scripted//etc/passwd"}"#, "invalid_request"),
        (r#"{"agent":"nobody"}"#, "invalid_request"),
        (r#"{"titel":"x"}"#, "invalid_request"),
        (r#"{"trust":"blind"}"#, "invalid_request"),
        ("[]", "invalid_request"),
    ] {
        assert_eq!(person.send("POST", "sessions", Some(body)).problem(), (422, code.to_owned()), "{body}");
    }
}

#[test]
fn a_message_runs_a_turn_whose_events_are_numbered() {
    let gate = Gate::serve(READING);
    let person = gate.person();
    let session = person.session();
    let mut socket = person.socket(&session, 0);
    let hello = socket.wait("chat:hello");
    assert_eq!((&hello["session"]["id"], &hello["running"]), (&json!(session), &json!(false)));
    let sent = person.post(&format!("sessions/{session}/messages"), &json!({"text": "What is in it?"}));
    let sent = sent.expect(202);
    let end = socket.wait("chat:stream-end");
    assert_eq!((&end["reason"], &end["text"]), (&json!("done"), &json!("It says hello\n")));
    assert_eq!(socket.seen[0]["event"], "chat:user-message");
    assert_eq!(socket.seen[0]["data"]["messageId"], sent["messageId"]);
    let numbers: Vec<u64> = socket.seen.iter().map(|frame| frame["seq"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    // Once the end is seen, the next message can be sent.
    socket.send("chat:send", &json!({"text": "Once more"}));
    assert_eq!(socket.wait("chat:user-message")["text"], "Once more");
    assert_eq!(socket.wait("chat:stream-end")["reason"], "done");
    let session = person.get(&format!("sessions/{session}")).expect(200);
    assert_eq!((&session["title"], &session["messages"]), (&json!("What is in it?"), &json!(6)));
}

#[test]
fn whoever_comes_later_sees_the_same() {
    let gate = Gate::serve(READING);
    let person = gate.person();
    let session = person.session();
    let mut first = person.socket(&session, 0);
    first.send("chat:send", &json!({"text": "What is in it?"}));
    first.wait("chat:stream-end");
    let whole = shown(&first.seen);
    // From every number on: the beginning that one client has and the rest that another gets are the whole.
    for index in 0..first.seen.len() {
        let after = first.seen[index]["seq"].as_u64().unwrap();
        let mut frames = first.seen[..=index].to_vec();
        if index + 1 < first.seen.len() {
            let mut later = person.socket(&session, after);
            later.wait("chat:stream-end");
            assert!(later.seen.iter().all(|frame| frame["seq"].as_u64() > Some(after)), "after {after}");
            frames.extend(later.seen.iter().cloned());
        }
        assert_eq!(shown(&frames), whole, "after {after}");
    }
    // As server-sent events as well.
    let mut events = events(&person, &session, 0);
    events.retain(|frame| frame["seq"].is_u64());
    assert_eq!(shown(&events), whole);
}

/// The server-sent events of a session up to the end of its turn.
fn events(client: &Client, session: &str, after: u64) -> Vec<Value> {
    use std::io::{BufRead as _, BufReader, Write as _};
    let mut stream = std::net::TcpStream::connect(&client.address).unwrap();
    let (name, value) = &client.headers[0];
    let path = format!("/api/v1/sessions/{session}/events?after={after}");
    let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{name}: {value}\r\n\r\n", client.address);
    stream.write_all(head.as_bytes()).unwrap();
    let (mut seq, mut event, mut frames) = (Value::Null, String::new(), Vec::new());
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        if let Some(id) = line.strip_prefix("id: ") {
            seq = json!(id.parse::<u64>().unwrap());
        } else if let Some(name) = line.strip_prefix("event: ") {
            name.clone_into(&mut event);
        } else if let Some(data) = line.strip_prefix("data: ") {
            let data: Value = serde_json::from_str(data).unwrap();
            frames.push(json!({"seq": seq.take(), "event": event, "data": data}));
            if event == "chat:stream-end" {
                break;
            }
        }
    }
    frames
}

#[test]
fn a_reload_in_mid_call_misses_nothing_and_doubles_nothing() {
    let gate = Gate::with(WAITING, "", &["--trust", "autonomous"]);
    let person = gate.person();
    let session = person.session();
    let mut first = person.socket(&session, 0);
    first.send("chat:send", &json!({"text": "Wait"}));
    let started = first.wait("chat:tool-start");
    assert!(first.wait("chat:tool-delta")["chunk"].as_str().unwrap().contains("begun"));
    drop(first);
    // A page that is loaded anew: what is stored, then the events after it.
    let stored = person.get(&format!("sessions/{session}/messages")).expect(200);
    assert_eq!((&stored["messages"], &stored["running"]), (&json!([]), &json!(true)));
    let mut second = person.socket(&session, stored["seq"].as_u64().unwrap());
    let asked = second.wait("chat:user-message");
    assert_eq!(asked["text"], "Wait");
    assert_eq!(second.wait("chat:tool-start")["toolId"], started["toolId"]);
    assert!(second.wait("chat:tool-delta")["chunk"].as_str().unwrap().contains("begun"));
    let busy = person.post(&format!("sessions/{session}/messages"), &json!({"text": "x"}));
    assert_eq!(busy.problem(), (409, "busy".to_owned()));
    let deleted = person.send("DELETE", &format!("sessions/{session}"), None);
    assert_eq!(deleted.problem(), (409, "busy".to_owned()));
    second.send("chat:cancel", &json!({}));
    assert_eq!(second.wait("chat:tool-result")["metadata"]["code"], "cancelled");
    assert_eq!(second.wait("chat:stream-end")["reason"], "cancelled");
    let stored = person.get(&format!("sessions/{session}/messages")).expect(200);
    let roles: Vec<&str> =
        stored["messages"].as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "results"]);
    // Everything is stored, so nothing of the log is left to say.
    assert_eq!(stored["seq"].as_u64().unwrap(), second.last_seq());
}

#[test]
fn cancelling_over_http_ends_a_running_command() {
    let gate = Gate::with(WAITING, "", &["--trust", "autonomous"]);
    let person = gate.person();
    let session = person.session();
    let cancel = format!("sessions/{session}/cancel");
    assert_eq!(person.post(&cancel, &json!({})).expect(202)["cancelled"], false);
    let mut socket = person.socket(&session, 0);
    socket.send("chat:send", &json!({"text": "Wait"}));
    socket.wait("chat:tool-delta");
    assert_eq!(person.post(&cancel, &json!({})).expect(202)["cancelled"], true);
    assert_eq!(socket.wait("chat:stream-end")["reason"], "cancelled");
}

#[test]
fn a_wrong_message_changes_nothing_and_is_answered() {
    let gate = Gate::serve(READING);
    let person = gate.person();
    let session = person.session();
    let mut socket = person.socket(&session, 0);
    socket.wait("chat:hello");
    for text in [
        "hello",
        "[]",
        r#"["chat:send",{"text":"x"}]"#,
        r#"{"event":"chat:send","data":["x"]}"#,
        r#"{"event":"chat:send","data":{"text":""}}"#,
        r#"{"event":"chat:send","data":{"text":"x","more":1}}"#,
        r#"{"event":"chat:shout","data":{}}"#,
        r#"{"event":"chat:tool-approve","data":{"toolId":"x","approved":true}}"#,
        r#"{"event":"chat:tool-approve","data":{"toolId":"01a1f0d1-4899-74d6-9d54-14d8ae08004d","approved":true}}"#,
    ] {
        socket.raw(text);
        let answer = socket.next().unwrap();
        assert_eq!(
            (&answer["event"], &answer["seq"]),
            (&json!("chat:error"), &Value::Null),
            "{text}: {answer}"
        );
    }
    assert!(socket.seen.is_empty(), "{:?}", socket.seen);
    let stored = person.get(&format!("sessions/{session}/messages")).expect(200);
    assert_eq!(stored["messages"], json!([]));
}

#[test]
fn a_client_that_reads_nothing_costs_no_memory() {
    let long = "x".repeat(60_000);
    let script = format!("steps:\n  - {{say: \"{long}\", chunk: 3000}}\n");
    let gate = Gate::serve(&script);
    let person = gate.person();
    let turns = |reader: &mut crate::gate::Socket| {
        for _ in 0..60 {
            reader.send("chat:send", &json!({"text": "Say it"}));
            reader.wait("chat:stream-end");
        }
    };
    // What such a conversation itself takes, most of it for the model's requests.
    turns(&mut person.socket(&person.session(), 0));
    let first = gate.memory();
    turns(&mut person.socket(&person.session(), 0));
    let before = gate.memory();
    let alone = before.saturating_sub(first);
    let session = person.session();
    let mut reader = person.socket(&session, 0);
    // They are connected from the first event on, and never read.
    let silent: Vec<_> = (0..40).map(|_| person.socket(&session, 0)).collect();
    turns(&mut reader);
    let grown = gate.memory().saturating_sub(before);
    // Queues of 60 turns for 40 clients would be 150 MB.
    assert!(grown < alone + (24 << 20), "{} MiB, and {} MiB without them", grown >> 20, alone >> 20);
    // One that was left behind is sent back to the stored messages, and nothing else.
    let mut behind = person.socket(&session, 1);
    assert_eq!(behind.wait("chat:reset")["seq"].as_u64().unwrap(), reader.last_seq());
    assert!(behind.next().is_none());
    drop(silent);
    let ids: BTreeSet<u64> = reader.seen.iter().map(|frame| frame["seq"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), reader.seen.len(), "nothing comes twice");
}

/// Has one command that fails, one call that is refused and one that is answered.
const OUTCOMES: &str = "
steps:
  - calls:
      - {tool: run_command, arguments: {command: \"echo no; exit 3\"}}
      - {tool: read_file, arguments: {path: .env}}
      - {tool: read_file, arguments: {path: a.txt}}
  - say: Done.
";

#[test]
fn how_each_call_went_is_stored_as_it_was_said() {
    let gate = Gate::serve(OUTCOMES);
    let person = gate.person();
    let session = person.post("sessions", &json!({"trust": "autonomous"})).expect(201)["id"].clone();
    let session = session.as_str().unwrap();
    let mut socket = person.socket(session, 0);
    socket.send("chat:send", &json!({"text": "Go"}));
    let said: Vec<Value> = (0..3).map(|_| socket.wait("chat:tool-result")["metadata"].clone()).collect();
    socket.wait("chat:stream-end");
    assert_eq!(said[0]["exitCode"], 3, "{said:?}");
    assert_eq!((&said[1]["decision"], &said[1]["code"]), (&json!("DENIED"), &json!("denied_path")));
    let stored = person.get(&format!("sessions/{session}/messages")).expect(200);
    let results = stored["messages"].as_array().unwrap().iter().find(|one| one["role"] == "results").unwrap();
    for (result, said) in results["results"].as_array().unwrap().iter().zip(&said) {
        for (name, value) in result["recorded"].as_object().unwrap() {
            assert_eq!(value, &said[name], "{name} of {result}");
        }
        let expected = ["callId", "decision", "stage", "code", "durationMs", "waitedMs", "exitCode"];
        let expected: Vec<&str> = expected.into_iter().filter(|name| said.get(*name).is_some()).collect();
        assert!(
            expected.len() >= 3 && expected.iter().all(|name| result["recorded"].get(*name).is_some()),
            "{result}"
        );
        let record =
            person.get(&format!("audit/{}", result["recorded"]["callId"].as_str().unwrap())).expect(200);
        assert_eq!(record["record"]["decision"], result["recorded"]["decision"]);
    }
}
