//! Callers with tokens of their own: each sees what is its own.

use serde_json::{Value, json};

use crate::gate::{Gate, refused};

const WRITING: &str = "
steps:
  - calls: [{tool: write_file, arguments: {path: b.txt, content: \"one\\n\"}}]
  - say: \"{{last_result}}\"
";

const PERMITTED: &[&str] = &["--permission", "files:read", "--permission", "files:write"];

fn gate() -> Gate {
    Gate::jwt(WRITING)
}

#[test]
fn the_ids_of_another_caller_are_answered_like_ids_that_do_not_exist() {
    let gate = gate();
    let (alice, bob) = (gate.caller("alice", PERMITTED), gate.caller("bob", PERMITTED));
    let session = alice.session();
    let mut socket = alice.socket(&session, 0);
    socket.send("chat:send", &json!({"text": "Write it"}));
    let question = socket.wait("chat:tool-confirm")["toolId"].as_str().unwrap().to_owned();
    let unknown = ("zzzzzzzz99", "01a1f0d1-4899-74d6-9d54-14d8ae08004d");
    let requests = |session: &str, call: &str| -> Vec<(u16, Value)> {
        let answer = r#"{"approved":true}"#;
        let message = r#"{"text":"x"}"#;
        [
            ("GET", format!("sessions/{session}"), None),
            ("PATCH", format!("sessions/{session}"), Some(r#"{"title":"mine"}"#)),
            ("DELETE", format!("sessions/{session}"), None),
            ("GET", format!("sessions/{session}/messages"), None),
            ("POST", format!("sessions/{session}/messages"), Some(message)),
            ("POST", format!("sessions/{session}/cancel"), Some("{}")),
            ("GET", format!("sessions/{session}/events"), None),
            ("GET", format!("sessions/{session}/export"), None),
            ("POST", "calls".to_owned(), Some(r#"{"tool":"read_file","session":"SESSION"}"#)),
            ("GET", format!("approvals/{call}"), None),
            ("POST", format!("approvals/{call}"), Some(answer)),
            ("GET", format!("changes/{call}"), None),
            ("POST", format!("changes/{call}/undo"), Some("{}")),
            ("GET", format!("audit/{call}"), None),
            ("DELETE", "grants/g0123456789ab".to_owned(), None),
        ]
        .into_iter()
        .map(|(method, path, body)| {
            let body = body.map(|body| body.replace("SESSION", session));
            let reply = bob.send(method, &path, body.as_deref());
            (reply.status, reply.json())
        })
        .collect()
    };
    let check = |when: &str| {
        let (foreign, none) = (requests(&session, &question), requests(unknown.0, unknown.1));
        assert_eq!(foreign, none, "{when}");
        assert!(foreign.iter().all(|(status, _)| *status == 404), "{when}: {foreign:?}");
        assert_eq!(refused(bob.try_socket(&session, 0)), 404, "{when}");
        for list in ["sessions", "approvals", "changes", "audit", "grants"] {
            assert_eq!(bob.get(list).expect(200)["items"], json!([]), "{when}: {list}");
        }
    };
    check("while the question is open");
    alice.post(&format!("approvals/{question}"), &json!({"approved": true})).expect(200);
    socket.wait("chat:stream-end");
    check("after the call");
    // Its own caller has all of it.
    assert_eq!(alice.get("changes").expect(200)["items"][0]["callId"], question);
    assert_eq!(alice.get(&format!("audit/{question}")).expect(200)["record"]["caller"]["sub"], "alice");
    assert_eq!(bob.get("audit?caller=alice").problem(), (403, "not_permitted".to_owned()));
    assert_eq!(bob.post("audit/verify", &json!({})).problem(), (403, "not_permitted".to_owned()));
    // A permission shows the record of everyone, and nothing else.
    let auditor = gate.caller("carol", &["--permission", "audit:read"]);
    assert_eq!(auditor.get("audit?caller=alice").expect(200)["items"].as_array().unwrap().len(), 1);
    assert_eq!(auditor.post("audit/verify", &json!({})).expect(200)["ok"], true);
    assert_eq!(auditor.get("sessions").expect(200)["items"], json!([]));
    assert_eq!(auditor.get(&format!("changes/{question}")).problem().0, 404);
    // Alice's other token is still Alice.
    let again = gate.caller("alice", PERMITTED);
    assert_eq!(again.get("sessions").expect(200)["items"][0]["id"], session);
}

#[test]
fn a_caller_with_a_token_can_only_choose_to_be_asked_more() {
    let gate = gate();
    let alice = gate.caller("alice", PERMITTED);
    let session = alice.post("sessions", &json!({"trust": "autonomous"})).expect(201);
    assert_eq!(session["trust"], "guided");
    let mut socket = alice.socket(session["id"].as_str().unwrap(), 0);
    socket.send("chat:send", &json!({"text": "Write it"}));
    socket.wait("chat:tool-confirm");
    let stricter = alice.post("sessions", &json!({"trust": "supervised"})).expect(201);
    assert_eq!(stricter["trust"], "supervised");
    assert_eq!(alice.get("pins").problem(), (403, "not_permitted".to_owned()));
}

#[test]
fn tools_that_a_caller_may_not_use_are_listed_with_the_reason() {
    let gate = gate();
    let alice = gate.caller("alice", &["--permission", "files:read"]);
    let tools = alice.get("tools").expect(200);
    let tool = |name: &str| {
        tools["items"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap().clone()
    };
    assert_eq!((&tool("read_file")["available"], &tool("read_file")["asks"]), (&json!(true), &json!(false)));
    let write = tool("write_file");
    assert_eq!((&write["available"], &write["asks"]), (&json!(false), &json!(true)));
    assert!(write["reason"].as_str().unwrap().contains("files:write"), "{write}");
    let call = json!({"tool": "write_file", "arguments": {"path": "x", "content": "x"}});
    let outcome = alice.post("calls", &call).expect(200);
    assert_eq!((&outcome["decision"], &outcome["stage"]), (&json!("DENIED"), &json!("PERMISSION")));
}
