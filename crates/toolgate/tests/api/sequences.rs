//! What happens in an order that no one planned. The oracle is the record and the files: every call has one record, and an effect only if it was allowed.

use serde_json::{Value, json};

use crate::attacks::WRITING;
use crate::gate::{Client, Gate, Socket};

const WAITING: &str = "
steps:
  - calls: [{tool: run_command, arguments: {command: \"echo begun; sleep 600\"}}]
  - say: It is over.
";

fn asked(person: &Client) -> (String, Socket, String) {
    let session = person.session();
    let mut socket = person.socket(&session, 0);
    socket.send("chat:send", &json!({"text": "Write it"}));
    let question = socket.wait("chat:tool-confirm")["toolId"].as_str().unwrap().to_owned();
    (session, socket, question)
}

/// The decision in the one record of a call.
#[track_caller]
fn decision(person: &Client, call: &str) -> String {
    let records = person.get("audit?limit=200").expect(200);
    let own = records["items"].as_array().unwrap().iter().filter(|record| record["traceId"] == call);
    let own: Vec<&Value> = own.collect();
    assert_eq!(own.len(), 1, "{own:?}");
    own[0]["decision"].as_str().unwrap().to_owned()
}

#[test]
fn an_approval_after_a_cancellation_is_none() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let (session, mut socket, question) = asked(&person);
    assert_eq!(person.post(&format!("sessions/{session}/cancel"), &json!({})).expect(202)["cancelled"], true);
    assert_eq!(socket.wait("chat:stream-end")["reason"], "cancelled");
    let late = person.post(&format!("approvals/{question}"), &json!({"approved": true}));
    assert_eq!(late.problem(), (409, "cancelled".to_owned()));
    assert_ne!(decision(&person, &question), "ALLOWED");
    assert!(!gate.place.workspace.join("b.txt").exists());
}

#[test]
fn an_approval_and_a_cancellation_at_once_are_one_of_them() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let file = gate.place.workspace.join("b.txt");
    for _ in 0..12 {
        let _ = std::fs::remove_file(&file);
        let (session, mut socket, question) = asked(&person);
        std::thread::scope(|scope| {
            scope.spawn(|| person.post(&format!("approvals/{question}"), &json!({"approved": true})));
            scope.spawn(|| person.post(&format!("sessions/{session}/cancel"), &json!({})));
        });
        socket.wait("chat:stream-end");
        let decision = decision(&person, &question);
        // A write that was cancelled after its intent is in the record as an error, whether or not it was finished.
        assert!(decision == "ERROR" || (decision == "ALLOWED") == file.exists(), "{decision}");
        assert_eq!(person.get("approvals").expect(200)["items"], json!([]));
    }
    assert_eq!(person.post("audit/verify", &json!({})).expect(200)["ok"], true);
}

#[test]
fn a_session_is_deleted_once_its_call_has_ended() {
    let gate = Gate::with(WAITING, "", &["--trust", "autonomous"]);
    let person = gate.person();
    let session = person.session();
    let mut socket = person.socket(&session, 0);
    socket.send("chat:send", &json!({"text": "Wait"}));
    let call = socket.wait("chat:tool-start")["toolId"].as_str().unwrap().to_owned();
    socket.wait("chat:tool-delta");
    let delete = || person.send("DELETE", &format!("sessions/{session}"), None);
    assert_eq!(delete().problem(), (409, "busy".to_owned()));
    assert_eq!(person.get(&format!("sessions/{session}")).expect(200)["running"], true);
    socket.send("chat:cancel", &json!({}));
    socket.wait("chat:stream-end");
    delete().expect(204);
    socket.wait("chat:deleted");
    assert!(socket.next().is_none());
    assert_ne!(decision(&person, &call), "ALLOWED");
    assert_eq!(person.post(&format!("sessions/{session}/messages"), &json!({"text": "x"})).problem().0, 404);
}

#[test]
fn an_undo_while_a_call_waits_leaves_what_was_approved_or_nothing() {
    let script = "
steps:
  - calls: [{tool: edit_file, arguments: {path: a.txt, old_text: hello, new_text: first}}]
  - calls: [{tool: edit_file, arguments: {path: a.txt, old_text: first, new_text: second}}]
  - say: \"{{last_result}}\"
";
    let gate = Gate::serve(script);
    let person = gate.person();
    let (_, mut socket, first) = asked(&person);
    person.post(&format!("approvals/{first}"), &json!({"approved": true})).expect(200);
    let second = socket.wait("chat:tool-confirm")["toolId"].as_str().unwrap().to_owned();
    person.post(&format!("changes/{first}/undo"), &json!({})).expect(200);
    // The question showed a difference to a file that is no longer so.
    person.post(&format!("approvals/{second}"), &json!({"approved": true})).expect(200);
    let result = socket.wait("chat:tool-result");
    let result = if result["toolId"] == second { result } else { socket.wait("chat:tool-result") };
    assert_eq!(result["status"], "error", "{result}");
    assert_eq!(std::fs::read_to_string(gate.place.workspace.join("a.txt")).unwrap(), "hello\n");
    socket.wait("chat:stream-end");
    assert_ne!(decision(&person, &second), "ALLOWED");
}

#[test]
fn two_undos_at_once_are_one() {
    let gate = Gate::with(WRITING, "", &["--trust", "autonomous"]);
    let person = gate.person();
    let mut socket = person.socket(&person.session(), 0);
    socket.send("chat:send", &json!({"text": "Write it"}));
    let call = socket.wait("chat:tool-result")["toolId"].as_str().unwrap().to_owned();
    socket.wait("chat:stream-end");
    let statuses = std::thread::scope(|scope| {
        let undo = || person.post(&format!("changes/{call}/undo"), &json!({})).status;
        let tried: Vec<_> = (0..6).map(|_| scope.spawn(undo)).collect();
        tried.into_iter().map(|tried| tried.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 409].contains(status)), "{statuses:?}");
    assert!(!gate.place.workspace.join("b.txt").exists());
}

#[test]
fn a_rule_that_forbids_while_a_question_is_open_wins_over_its_answer() {
    let permit = "permit(principal, action, resource);\n";
    let gate = Gate::with_files(WRITING, "policies: [rules.cedar]\n", &[("rules.cedar", permit)], &[]);
    let person = gate.person();
    let (_, mut socket, question) = asked(&person);
    let forbid = |tool: &str| format!("forbid(principal, action == Action::\"{tool}\", resource);\n");
    let rules = [permit, &forbid("write_file"), &forbid("read_file")].concat();
    std::fs::write(gate.place.scratch.path().join("rules.cedar"), rules).unwrap();
    // The other rule shows when both are in force.
    let read = json!({"tool": "read_file", "arguments": {"path": "a.txt"}});
    while person.post("calls", &read).expect(200)["decision"] == "ALLOWED" {}
    person.post(&format!("approvals/{question}"), &json!({"approved": true})).expect(200);
    let result = socket.wait("chat:tool-result");
    assert_eq!((&result["status"], &result["metadata"]["decision"]), (&json!("error"), &json!("DENIED")));
    assert_eq!(decision(&person, &question), "DENIED");
    assert!(!gate.place.workspace.join("b.txt").exists());
}

#[test]
fn a_shutdown_ends_streams_refuses_what_waits_and_loses_nothing() {
    let mut gate = Gate::with(WRITING, "", &["--grace", "1s"]);
    let person = gate.person();
    let (session, mut socket, question) = asked(&person);
    let idle: Vec<Socket> = (0..20).map(|_| person.socket(&person.session(), 0)).collect();
    let call = json!({"tool": "write_file", "arguments": {"path": "c.txt", "content": "x"}});
    let (outcome, status) = std::thread::scope(|scope| {
        let calling = scope.spawn(|| person.post("calls", &call));
        while person.get("approvals").expect(200)["items"].as_array().unwrap().len() < 2 {}
        let status = gate.terminate();
        (calling.join().unwrap(), status)
    });
    assert_eq!(status.code(), Some(0));
    // The call that waited is answered, and its answer is not that it was made.
    let outcome = outcome.expect(200);
    assert_ne!(outcome["decision"], "ALLOWED", "{outcome}");
    for mut socket in idle {
        while socket.next().is_some() {}
        assert_eq!(socket.close_code, Some(1001));
    }
    while socket.next().is_some() {}
    assert_eq!(socket.close_code, Some(1001));
    for file in ["b.txt", "c.txt"] {
        assert!(!gate.place.workspace.join(file).exists(), "{file}");
    }
    let gate = gate.restart();
    let person = gate.person();
    for call in [question.as_str(), outcome["callId"].as_str().unwrap()] {
        assert_ne!(decision(&person, call), "ALLOWED");
    }
    let stored = person.get(&format!("sessions/{session}/messages")).expect(200);
    let roles: Vec<&Value> = stored["messages"].as_array().unwrap().iter().map(|one| &one["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "results"], "every call has a result");
    assert_eq!(person.post("audit/verify", &json!({})).expect(200)["ok"], true);
}

#[test]
fn a_request_with_a_key_is_carried_out_once_although_its_client_left() {
    let gate = Gate::with(WRITING, "", &["--trust", "autonomous"]);
    let person = gate.person().header("Idempotency-Key", "append");
    let command = "for i in 1 2 3; do echo line >> log.txt; sleep 0.1; done";
    let call = json!({"tool": "run_command", "arguments": {"command": command}});
    let file = gate.place.workspace.join("log.txt");
    // It leaves as soon as the command is at work.
    let stream = person.begin("POST", "calls", Some(&call.to_string()));
    while !file.exists() {}
    drop(stream);
    let answer = loop {
        let reply = person.post("calls", &call);
        match reply.status {
            409 => assert_eq!(reply.problem().1, "conflict"),
            _ => break reply,
        }
    };
    assert_eq!(answer.headers["idempotency-replayed"], "true");
    assert_eq!(answer.expect(200)["decision"], "ALLOWED");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "line\nline\nline\n");
    // Nor is one repeated whose answer was too long to be kept.
    std::fs::write(gate.place.workspace.join("long.txt"), "x".repeat(100_000)).unwrap();
    let read = json!({"tool": "read_file", "arguments": {"path": "long.txt"}});
    let keyed = gate.person().header("Idempotency-Key", "long");
    assert!(keyed.post("calls", &read).expect(200)["text"].as_str().unwrap().len() > 50_000);
    assert_eq!(keyed.post("calls", &read).problem(), (409, "answered".to_owned()));
}
