//! What operators see of all callers, and that no one else sees it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::gate::{Client, Gate};

const WRITING: &str = "
steps:
  - calls: [{tool: write_file, arguments: {path: b.txt, content: \"one\\n\"}}]
  - say: \"{{last_result}}\"
";

const PERMITTED: &[&str] = &["--permission", "files:read", "--permission", "files:write"];

fn entry<'v>(traffic: &'v Value, list: &str, name: &str, value: &str) -> &'v Value {
    let mut all = traffic[list].as_array().unwrap().iter();
    all.find(|one| one[name] == value).unwrap_or_else(|| panic!("no {value} in {traffic:#}"))
}

/// The next views of `GET traffic/events`.
fn views(client: &Client, until: impl Fn(&Value) -> bool) -> Value {
    let mut stream = TcpStream::connect(&client.address).unwrap();
    stream.set_read_timeout(Some(crate::gate::TEST_TIMEOUT)).unwrap();
    let (name, value) = &client.headers[0];
    let head =
        format!("GET /api/v1/traffic/events HTTP/1.1\r\nHost: {}\r\n{name}: {value}\r\n\r\n", client.address);
    stream.write_all(head.as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let views = lines.filter_map(|line| Some(serde_json::from_str(line.strip_prefix("data: ")?).unwrap()));
    views.into_iter().find(|view| until(view)).unwrap()
}

#[test]
fn an_operator_sees_callers_tools_reasons_and_what_waits() {
    let gate = Gate::jwt(WRITING);
    let (alice, bob) = (gate.caller("alice", PERMITTED), gate.caller("bob", &["--permission", "files:read"]));
    let operator = gate.caller("olga", &["--permission", "audit:read"]);
    for refused in [alice.get("traffic"), bob.get("traffic"), bob.get("traffic/events")] {
        assert_eq!(refused.problem(), (403, "not_permitted".to_owned()));
    }
    // A call of the API, a refused one, one of a name that is no tool, and one of a conversation that waits for its question.
    alice.post("calls", &json!({"tool": "read_file", "arguments": {"path": "a.txt"}})).expect(200);
    bob.post("calls", &json!({"tool": "write_file", "arguments": {"path": "x", "content": "x"}})).expect(200);
    bob.post("calls", &json!({"tool": "secret-name"})).expect(200);
    let mut socket = alice.socket(&alice.session(), 0);
    socket.send("chat:send", &json!({"text": "Write it"}));
    let confirm = socket.wait("chat:tool-confirm");
    let seen = operator.get("traffic").expect(200);
    let one = entry(&seen, "callers", "subject", "alice");
    assert_eq!((&one["connected"], &one["streams"], &one["calls"]), (&json!(true), &json!(1), &json!(1)));
    let other = entry(&seen, "callers", "subject", "bob");
    assert_eq!((&other["calls"], &other["refused"], &other["streams"]), (&json!(2), &json!(2), &json!(0)));
    assert_eq!(entry(&seen, "tools", "name", "write_file")["lastFailure"], "not_permitted");
    assert_eq!(entry(&seen, "reasons", "code", "not_permitted")["stage"], "PERMISSION");
    assert!(!seen.to_string().contains("secret-name"), "{seen:#}");
    // What waits is named, and neither its arguments nor an answer are the operator's.
    let waiting = &seen["waiting"][0];
    assert_eq!((&waiting["id"], &waiting["toolName"]), (&confirm["toolId"], &json!("write_file")));
    assert_eq!((&waiting["caller"]["subject"], &waiting["mine"]), (&json!("alice"), &json!(false)));
    assert!(!waiting.to_string().contains("b.txt"), "{waiting}");
    let id = confirm["toolId"].as_str().unwrap();
    assert_eq!(operator.post(&format!("approvals/{id}"), &json!({"approved": true})).problem().0, 404);
    // Live: the call of the conversation is counted when it ends, and nothing waits any more.
    alice.post(&format!("approvals/{id}"), &json!({"approved": true})).expect(200);
    socket.wait("chat:stream-end");
    let live = views(&operator, |view| view["waiting"] == json!([]));
    assert_eq!(entry(&live, "callers", "subject", "alice")["calls"], 2);
    let row = |name: &str| {
        live[name].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((row("callsPerSecond").len(), row("callsPerSecond").iter().sum::<u64>()), (60, 4));
    assert_eq!(row("refusedPerSecond").iter().sum::<u64>(), 2);
    // The counters without names have them too, those of conversations included.
    let metrics = operator.get("/metrics");
    assert!(
        metrics.text.contains("toolgate_calls_total{class=\"write\",decision=\"ALLOWED\"} 1"),
        "{}",
        metrics.text
    );
    assert!(
        !metrics.text.contains("alice") && metrics.text.contains("\ntoolgate_http_api_streams "),
        "{}",
        metrics.text
    );
}
