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
    assert_eq!(late.problem(), (409, "approval_expired".to_owned()));
    assert_eq!(late.json()["stage"], "APPROVAL");
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

#[test]
fn a_question_that_was_withdrawn_says_so_and_one_that_never_was_is_unknown() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let (session, mut socket, confirm) = asked(&person);
    let path = format!("approvals/{}", confirm["toolId"].as_str().unwrap());
    person.post(&format!("sessions/{session}/cancel"), &json!({})).expect(202);
    socket.wait("chat:stream-end");
    let late = person.post(&path, &json!({"approved": true}));
    assert_eq!(late.problem(), (409, "cancelled".to_owned()));
    let other = "approvals/01a1f0d1-4899-74d6-9d54-14d8ae08004d";
    assert_eq!(person.post(other, &json!({"approved": true})).problem(), (404, "not_found".to_owned()));
}

#[test]
fn an_answer_over_http_names_the_window_that_gave_it() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let (session, mut first, confirm) = asked(&person);
    let mut second = person.socket(&session, first.last_seq());
    let name = second.wait("chat:hello")["client"].as_str().unwrap().to_owned();
    let path = format!("approvals/{}", confirm["toolId"].as_str().unwrap());
    let given = person.header("Toolgate-Client", &name).post(&path, &json!({"approved": true})).expect(200);
    assert_eq!(given["by"]["client"], name);
    assert_eq!(first.wait("chat:tool-answered")["by"]["client"], name);
    // An answer that comes too late gets the same.
    let late = person.header("Toolgate-Client", "c1").post(&path, &json!({"approved": false}));
    assert_eq!(late.problem(), (409, "already_answered".to_owned()));
    assert_eq!(
        (&late.json()["answeredBy"]["client"], &late.json()["stage"]),
        (&json!(name), &json!("APPROVAL"))
    );
}

#[test]
fn a_name_counts_only_for_whom_it_was_given_to() {
    let gate = Gate::jwt(WRITING);
    let permitted = ["--permission", "files:read", "--permission", "files:write"];
    let (alice, again) = (gate.caller("alice", &permitted), gate.caller("alice", &permitted));
    let bob = gate.caller("bob", &permitted);
    let (session, mut first, confirm) = asked(&alice);
    // The same caller with another token is the same owner: two people see each other's answers.
    let mut second = again.socket(&session, 0);
    let name = second.wait("chat:hello")["client"].as_str().unwrap().to_owned();
    let foreign = bob.socket(&bob.session(), 0).wait("chat:hello")["client"].as_str().unwrap().to_owned();
    let path = format!("approvals/{}", confirm["toolId"].as_str().unwrap());
    let mut claimed =
        again.header("Toolgate-Client", &foreign).post(&path, &json!({"approved": true})).expect(200);
    assert_eq!(claimed["by"].take(), json!({"subject": "alice", "via": "api"}));
    first.wait("chat:stream-end");
    second.send("chat:send", &json!({"text": "Once more"}));
    let path = format!("approvals/{}", first.wait("chat:tool-confirm")["toolId"].as_str().unwrap());
    again.header("Toolgate-Client", &name).post(&path, &json!({"approved": false})).expect(200);
    assert_eq!(
        first.wait("chat:tool-answered")["by"],
        json!({"subject": "alice", "client": name, "via": "api"})
    );
}

/// The answer to a message of an MCP client that declares no capabilities, in a session of its own.
fn mcp_write(client: &Client) -> Value {
    let open = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "plain", "version": "1"}}});
    let plain = client.header("Accept", "application/json, text/event-stream");
    let opened = plain.post("/mcp", &open);
    assert_eq!(opened.status, 200, "{opened:?}");
    let plain = match opened.headers.get("mcp-session-id") {
        Some(session) => plain.header("Mcp-Session-Id", session),
        None => plain,
    };
    let plain = plain.header("MCP-Protocol-Version", "2025-11-25");
    plain.post("/mcp", &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "write_file", "arguments": {"path": "m.txt", "content": "by MCP"}}});
    let answer = plain.post("/mcp", &call);
    assert_eq!(answer.status, 200, "{answer:?}");
    let text =
        answer.text.lines().find_map(|line| line.strip_prefix("data: {")).map(|rest| format!("{{{rest}"));
    serde_json::from_str(&text.unwrap_or(answer.text)).unwrap()
}

#[test]
fn a_call_of_an_mcp_client_that_cannot_ask_is_asked_about_here() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    // No client looks: the call is denied immediately, and nothing waits.
    let refused = mcp_write(&person);
    assert!(refused.to_string().contains("this client cannot show questions"), "{refused}");
    person.get("approvals").expect(200);
    for approved in [true, false] {
        std::thread::scope(|scope| {
            let calling = scope.spawn(|| mcp_write(&person));
            let question = loop {
                let open = person.get("approvals").expect(200);
                if let Some(question) = open["items"].get(0) {
                    break question.clone();
                }
                assert!(!calling.is_finished(), "nobody was asked");
            };
            assert_eq!((&question["source"], &question["mayLast"]), (&json!("mcp"), &json!(false)));
            assert!(question["grants"].as_array().unwrap().iter().all(|grant| grant["lasts"] != "session"));
            let path = format!("approvals/{}", question["id"].as_str().unwrap());
            let lasting = json!({"approved": true, "scope": "session"});
            assert_eq!(person.post(&path, &lasting).problem(), (422, "invalid_request".to_owned()));
            person.post(&path, &json!({"approved": approved, "reason": "not that file"})).expect(200);
            let answer = calling.join().unwrap();
            assert_eq!(answer["result"]["isError"] == true, !approved, "{answer}");
            assert_eq!(answer.to_string().contains("not that file"), !approved, "{answer}");
        });
    }
    assert_eq!(std::fs::read_to_string(gate.place.workspace.join("m.txt")).unwrap(), "by MCP");
}

#[test]
fn a_question_of_an_mcp_client_is_its_own_callers_alone() {
    let gate = Gate::jwt(WRITING);
    let permitted = ["--permission", "files:read", "--permission", "files:write"];
    let (alice, bob) = (gate.caller("alice", &permitted), gate.caller("bob", &permitted));
    bob.get("approvals").expect(200);
    let refused = mcp_write(&alice);
    assert!(refused.to_string().contains("this client cannot show questions"), "{refused}");
    alice.get("approvals").expect(200);
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| mcp_write(&alice));
        let question = loop {
            let open = alice.get("approvals").expect(200);
            if let Some(question) = open["items"].get(0) {
                break question.clone();
            }
            assert!(!calling.is_finished(), "nobody was asked");
        };
        assert_eq!(bob.get("approvals").expect(200)["items"], json!([]));
        let path = format!("approvals/{}", question["id"].as_str().unwrap());
        assert_eq!(bob.post(&path, &json!({"approved": true})).problem().0, 404);
        alice.post(&path, &json!({"approved": true})).expect(200);
        assert_ne!(calling.join().unwrap()["result"]["isError"], true);
    });
}
