//! Questions about calls, and their answers.

use serde_json::{Value, json};

use crate::gate::{Client, Gate, Socket};

const WRITING: &str = "
steps:
  - calls: [{tool: write_file, arguments: {path: b.txt, content: \"one\\n\"}}]
  - say: \"{{last_result}}\"
";

/// A session whose model asks to write, and the question.
fn asked(person: &Client) -> (String, Socket, Value) {
    let session = person.session();
    let mut socket = person.socket(&session, 0);
    socket.send("chat:send", &json!({"text": "Write it"}));
    let confirm = socket.wait("chat:tool-confirm");
    (session, socket, confirm)
}

#[test]
fn two_tabs_are_asked_and_the_first_answer_counts() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let (session, mut first, confirm) = asked(&person);
    // The second tab gets the question again, although it comes after it.
    let mut second = person.socket(&session, first.last_seq());
    let name = second.wait("chat:hello")["client"].clone();
    let again = second.wait("chat:tool-confirm");
    assert_eq!(again, confirm);
    let id = confirm["toolId"].as_str().unwrap();
    let listed = person.get("approvals").expect(200);
    assert_eq!((&listed["items"][0]["id"], &listed["items"][0]["card"]), (&json!(id), &confirm["card"]));
    assert_eq!(listed["items"][0]["session"], session);
    second.send("chat:tool-approve", &json!({"toolId": id, "approved": true}));
    for socket in [&mut first, &mut second] {
        let answered = socket.wait("chat:tool-answered");
        assert_eq!((&answered["approved"], &answered["by"]["client"]), (&json!(true), &name));
        assert_eq!(socket.wait("chat:stream-end")["reason"], "done");
    }
    // A late answer names the one that counted: on the socket, over HTTP, and in the replay.
    first.send("chat:tool-approve", &json!({"toolId": id, "approved": false}));
    let late = first.wait("chat:error");
    assert_eq!((&late["code"], &late["answeredBy"]["client"]), (&json!("already_answered"), &name));
    let late = person.post(&format!("approvals/{id}"), &json!({"approved": true}));
    assert_eq!(late.problem(), (409, "already_answered".to_owned()));
    assert_eq!(std::fs::read_to_string(gate.place.workspace.join("b.txt")).unwrap(), "one\n");
}

#[test]
fn answers_at_the_same_time_are_one() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    for _ in 0..8 {
        let (_, mut socket, confirm) = asked(&person);
        let path = format!("approvals/{}", confirm["toolId"].as_str().unwrap());
        let statuses = std::thread::scope(|scope| {
            let answers: Vec<_> = (0..6)
                .map(|number| {
                    let (person, path) = (&person, &path);
                    scope.spawn(move || person.post(path, &json!({"approved": number % 2 == 0})).status)
                })
                .collect();
            answers.into_iter().map(|answer| answer.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 5, "{statuses:?}");
        let answered = socket.wait("chat:tool-answered");
        let result = socket.wait("chat:tool-result");
        assert_eq!(answered["approved"], json!(result["metadata"]["decision"] == "ALLOWED"));
    }
}

#[test]
fn a_refusal_has_a_reason_for_the_model() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let (_, mut socket, confirm) = asked(&person);
    let answer = json!({"approved": false, "reason": "use the other file"});
    person.post(&format!("approvals/{}", confirm["toolId"].as_str().unwrap()), &answer).expect(200);
    assert_eq!(socket.wait("chat:tool-answered")["reason"], "use the other file");
    let result = socket.wait("chat:tool-result");
    assert_eq!(result["metadata"]["code"], "approval_denied");
    assert!(result["result"].as_str().unwrap().contains("use the other file"));
    assert!(!gate.place.workspace.join("b.txt").exists());
}

#[test]
fn a_question_without_an_answer_expires_and_its_call_is_denied() {
    let gate = Gate::with(WRITING, "approval: {timeout: 1s}\n", &[]);
    let person = gate.person();
    let (_, mut socket, confirm) = asked(&person);
    let id = confirm["toolId"].as_str().unwrap();
    assert_eq!(socket.wait("chat:tool-withdrawn")["toolId"], id);
    assert_eq!(socket.wait("chat:tool-result")["metadata"]["code"], "approval_expired");
    assert_eq!(socket.wait("chat:stream-end")["reason"], "done");
    // A late answer is none, and the answer of another question is not either.
    let late = person.post(&format!("approvals/{id}"), &json!({"approved": true}));
    assert_eq!(late.problem(), (404, "not_found".to_owned()));
    assert_eq!(person.get("approvals").expect(200)["items"], json!([]));
    assert!(!gate.place.workspace.join("b.txt").exists());
}

#[test]
fn a_call_is_edited_before_it_is_approved() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let (_, mut socket, confirm) = asked(&person);
    let edited = json!({"path": "c.txt", "content": "two\n"});
    let answer = json!({"toolId": confirm["toolId"], "approved": true, "input": edited});
    socket.send("chat:tool-approve", &answer);
    assert_eq!(socket.wait("chat:tool-answered")["changed"], true);
    assert_eq!(socket.wait("chat:tool-result")["metadata"]["changedInput"], edited);
    assert_eq!(std::fs::read_to_string(gate.place.workspace.join("c.txt")).unwrap(), "two\n");
    assert!(!gate.place.workspace.join("b.txt").exists());
}

#[test]
fn an_approval_lasts_as_far_as_it_was_offered_and_given() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let (_, mut socket, confirm) = asked(&person);
    let id = confirm["toolId"].as_str().unwrap();
    let path = format!("approvals/{id}");
    // What was not offered, or contradicts itself, is no answer: the question stays open.
    for answer in [
        json!({"approved": true, "scope": "grant", "grant": "everything"}),
        json!({"approved": true, "scope": "grant"}),
        json!({"approved": true, "grant": "x"}),
        json!({"approved": true, "escalate": ["host-1"]}),
        json!({"approved": false, "input": {}}),
        json!({"approved": "true"}),
        json!({"approved": true, "scope": "always"}),
        json!({}),
    ] {
        assert_eq!(person.post(&path, &answer).problem(), (422, "invalid_request".to_owned()), "{answer}");
    }
    let offered = confirm["grants"].as_array().unwrap();
    let lasting = offered.iter().find(|grant| grant["lasts"] == "workspace").unwrap();
    let grant = lasting["id"].clone();
    person.post(&path, &json!({"approved": true, "scope": "grant", "grant": grant})).expect(200);
    socket.wait("chat:stream-end");
    // In another session it is not asked again, until the grant is revoked.
    let mut other = person.socket(&person.session(), 0);
    other.send("chat:send", &json!({"text": "Write it"}));
    other.wait("chat:stream-end");
    assert!(!other.seen.iter().any(|frame| frame["event"] == "chat:tool-confirm"));
    let grants = person.get("grants").expect(200);
    let given = &grants["items"][0];
    assert_eq!((&given["covers"], &given["givenBy"]), (&lasting["covers"], &json!(id)));
    let path = format!("grants/{}", given["id"].as_str().unwrap());
    person.send("DELETE", &path, None).expect(204);
    assert_eq!(person.send("DELETE", &path, None).problem(), (404, "not_found".to_owned()));
    let mut third = person.socket(&person.session(), 0);
    third.send("chat:send", &json!({"text": "Write it"}));
    third.wait("chat:tool-confirm");
}

#[test]
fn a_call_of_a_program_is_asked_about_too() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let call = json!({"tool": "write_file", "arguments": {"path": "d.txt", "content": "x"}});
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| person.post("calls", &call));
        let question = loop {
            let open = person.get("approvals").expect(200);
            if let Some(question) = open["items"].get(0) {
                break question.clone();
            }
        };
        assert_eq!((&question["source"], &question["toolName"]), (&json!("api"), &json!("write_file")));
        let path = format!("approvals/{}", question["id"].as_str().unwrap());
        person.post(&path, &json!({"approved": true})).expect(200);
        let outcome = calling.join().unwrap().expect(200);
        assert_eq!((&outcome["decision"], &outcome["callId"]), (&json!("ALLOWED"), &question["id"]));
    });
}
