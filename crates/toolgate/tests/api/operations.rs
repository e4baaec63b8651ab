//! The remaining operations, and the document that lists them.

use serde_json::{Value, json};

use crate::gate::Gate;

const WRITING: &str = "
steps:
  - calls: [{tool: write_file, arguments: {path: b.txt, content: \"one\\n\"}}]
  - say: \"{{last_result}}\"
";

#[test]
fn every_operation_of_the_document_is_served() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let session = person.session();
    let document = person.get("openapi.json").expect(200);
    let committed: Value = serde_json::from_str(include_str!("../../../api/openapi.json")).unwrap();
    assert_eq!(document, committed);
    let mut served = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let path = path.replace("sessions/{id}", &format!("sessions/{session}")).replace(['{', '}'], "");
            if path.ends_with("/events") || (method == "delete" && path.ends_with(&session)) {
                continue;
            }
            let body = (method != "get").then_some("{}");
            let reply = person.send(&method.to_uppercase(), &path, body);
            assert_ne!(reply.status, 405, "{method} {path}");
            assert!(reply.status < 500, "{method} {path}: {reply:?}");
            if operation["responses"].get(reply.status.to_string()).is_none() {
                // Everything else is a problem.
                reply.problem();
            }
            served += 1;
        }
    }
    assert!(served > 25, "{served}");
}

#[test]
fn a_change_is_shown_and_undone_once() {
    let gate = Gate::with(WRITING, "", &["--trust", "autonomous"]);
    let person = gate.person();
    let session = person.session();
    let mut socket = person.socket(&session, 0);
    socket.send("chat:send", &json!({"text": "Write it"}));
    let result = socket.wait("chat:tool-result");
    socket.wait("chat:stream-end");
    let id = result["toolId"].as_str().unwrap();
    let listed = person.get(&format!("changes?session={session}")).expect(200);
    assert_eq!(listed["items"][0]["files"], json!([{"path": "@project/b.txt", "kind": "create"}]));
    let change = person.get(&format!("changes/{id}")).expect(200);
    let diff = &change["diffs"][0];
    assert_eq!((&diff["current"], &diff["binary"]), (&json!("same"), &json!(false)));
    assert!(diff["diff"].as_str().unwrap().ends_with("+one\n"), "{diff}");
    let undo = format!("changes/{id}/undo");
    let dry = person.post(&undo, &json!({"dryRun": true})).expect(200);
    assert_eq!((&dry["dryRun"], &dry["paths"]), (&json!(true), &json!(["@project/b.txt"])));
    let file = gate.place.workspace.join("b.txt");
    assert!(file.exists());
    // Over what was changed since, only if it is said.
    std::fs::write(&file, "two\n").unwrap();
    assert_eq!(person.post(&undo, &json!({})).problem(), (409, "conflict".to_owned()));
    assert_eq!(person.post(&undo, &json!({"dryRun": true})).problem(), (409, "conflict".to_owned()));
    let done = person.post(&undo, &json!({"force": true})).expect(200);
    assert!(!file.exists());
    let records = person.get("audit?limit=1").expect(200);
    assert_eq!(records["items"][0]["traceId"], done["undoCall"]);
    let next = records["nextCursor"].as_str().unwrap();
    let more = person.get(&format!("audit?limit=1&cursor={next}")).expect(200);
    assert_eq!(more["items"][0]["seq"].as_u64(), records["items"][0]["seq"].as_u64().map(|seq| seq - 1));
    let again = person.post(&undo, &json!({}));
    assert_eq!(again.problem(), (409, "already_undone".to_owned()));
    assert_eq!(again.json()["undoneBy"], done["undoCall"]);
    assert_eq!(person.post("audit/verify", &json!({})).expect(200)["ok"], true);
}

#[test]
fn a_repeated_request_gets_the_first_answer() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let keyed = person.header("Idempotency-Key", "one");
    let first = keyed.post("sessions", &json!({"title": "a"}));
    let again = keyed.post("sessions", &json!({"title": "a"}));
    assert_eq!((first.status, &first.text), (again.status, &again.text));
    assert_eq!(again.headers["idempotency-replayed"], "true");
    let other = keyed.post("sessions", &json!({"title": "b"}));
    assert_eq!(other.problem(), (422, "idempotency_mismatch".to_owned()));
    assert_eq!(person.get("sessions").expect(200)["items"].as_array().unwrap().len(), 1);
    // Concurrently: one is made, the others are refused or given the same answer.
    let keyed = person.header("Idempotency-Key", "two");
    let statuses = std::thread::scope(|scope| {
        let sent: Vec<_> =
            (0..8).map(|_| scope.spawn(|| keyed.post("sessions", &json!({})).status)).collect();
        sent.into_iter().map(|sent| sent.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(statuses.iter().all(|status| [201, 409].contains(status)), "{statuses:?}");
    assert_eq!(person.get("sessions").expect(200)["items"].as_array().unwrap().len(), 2);
}

#[test]
fn bodies_are_bounded() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let session = person.session();
    let length = (9 << 20).to_string();
    let sent = person.header("Content-Length", &length).header("Content-Type", "application/json");
    let sent = sent.send("POST", &format!("sessions/{session}/messages"), None);
    assert_eq!(sent.problem(), (413, "too_large".to_owned()));
    let deep = format!("{{\"text\":{}{}}}", "[".repeat(500), "]".repeat(500));
    let sent = person.send("POST", &format!("sessions/{session}/messages"), Some(&deep));
    assert_eq!(sent.problem(), (400, "invalid_request".to_owned()));
}
