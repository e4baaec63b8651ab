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
            let status = reply.status.to_string();
            assert!(
                operation["responses"].get(&status).is_some(),
                "{method} {path}: {status} is not documented"
            );
            if reply.status >= 400 {
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

#[test]
fn a_session_says_what_it_cost_where_a_price_is_declared() {
    use std::io::{BufRead as _, BufReader};
    let place = crate::fixture::CliFixture::new();
    let script = place.scratch.path().join("model.yaml");
    std::fs::write(&script, "steps: [{say: Hello., usage: {input: 2000, output: 1000}}]\n").unwrap();
    let mut model = place.toolgate();
    let model = model.arg("--json").arg("scripted").arg(&script);
    let mut model = model.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(model.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let urls: Value = serde_json::from_str(&line).unwrap();
    let config = format!(
        "models: {{shop: {{wire: openai-chat, base_url: {}, price: {{input: 3, output: 15, currency: EUR}}}}}}\n",
        urls["openai-chat"]
    );
    let gate = Gate::with("steps: [{say: Free.}]\n", &config, &[]);
    let person = gate.person();
    assert_eq!(person.post("sessions", &json!({})).expect(201).get("cost"), None);
    let session = person.post("sessions", &json!({"model": "shop/any"})).expect(201);
    assert_eq!(session["cost"], json!({"amount": 0.0, "currency": "EUR"}));
    let id = session["id"].as_str().unwrap();
    let mut socket = person.socket(id, 0);
    socket.send("chat:send", &json!({"text": "Hello?"}));
    socket.wait("chat:stream-end");
    let session = person.get(&format!("sessions/{id}")).expect(200);
    let count = |name: &str| session["usage"][name].as_f64().unwrap();
    let expected = (count("inputTokens") * 3.0 + count("outputTokens") * 15.0) / 1e6;
    assert!(
        expected > 0.0 && (session["cost"]["amount"].as_f64().unwrap() - expected).abs() < 1e-9,
        "{session}"
    );
    model.kill().unwrap();
    model.wait().unwrap();
}

#[test]
fn declared_agents_are_those_of_the_configuration_as_it_is_now() {
    let agent = |name: &str, trust: &str| format!("  {name}: {{trust: {trust}}}\n");
    let config = |agents: &str| format!("agents:\n{agents}");
    let gate = Gate::with("steps: [{say: Hello.}]\n", &config(&agent("one", "supervised")), &[]);
    let person = gate.person();
    let listed = || {
        let agents = person.get("agents").expect(200)["items"].clone();
        let agents =
            agents.as_array().unwrap().iter().map(|agent| (agent["name"].clone(), agent["trust"].clone()));
        agents.collect::<Vec<_>>()
    };
    assert_eq!(listed(), [(json!("one"), json!("supervised"))]);
    assert_eq!(person.post("sessions", &json!({"agent": "two"})).problem().0, 422);
    // A laxer level than at the start waits for the next start, that of a new agent included.
    let edited = config(&(agent("one", "autonomous") + &agent("two", "autonomous")));
    std::fs::write(gate.place.scratch.path().join("toolgate.yaml"), edited).unwrap();
    while listed().len() < 2 {}
    assert_eq!(listed(), [(json!("one"), json!("supervised")), (json!("two"), json!("guided"))]);
    let session = person.post("sessions", &json!({"agent": "two"})).expect(201);
    assert_eq!((&session["agent"], &session["trust"]), (&json!("two"), &json!("guided")));
}

#[test]
fn records_and_the_state_of_their_chain_are_what_the_document_says() {
    let gate = Gate::serve("steps: [{say: Hello.}]\n");
    let person = gate.person();
    for call in [
        json!({"tool": "read_file", "arguments": {"path": "a.txt"}}),
        json!({"tool": "read_file", "arguments": {"path": ".env"}}),
        json!({"tool": "no_such_tool"}),
    ] {
        person.post("calls", &call).expect(200);
    }
    let document = toolgate_api::document();
    let schema = |name: &str| &document["components"]["schemas"][name];
    let records = person.get("audit").expect(200);
    assert_eq!(records["items"].as_array().unwrap().len(), 3);
    for record in records["items"].as_array().unwrap() {
        assert_eq!(crate::gate::fits(&document, schema("AuditRecord"), record), Ok(()), "{record}");
    }
    let state = person.post("audit/verify", &json!({})).expect(200);
    assert_eq!(crate::gate::fits(&document, schema("AuditState"), &state), Ok(()), "{state}");
    assert_eq!(
        (&state["ok"], &state["callsCutOff"], &state["problem"]),
        (&json!(true), &json!(0), &Value::Null)
    );
}
