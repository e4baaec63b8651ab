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

/// A browser whose person has this client's token.
fn logged_in(gate: &Gate, client: &Client) -> Client {
    let token = client.headers[0].1.strip_prefix("Bearer ").unwrap().to_owned();
    let own = format!("http://{}", gate.address);
    let login = gate.stranger().header("Origin", &own).post("login", &json!({"token": token}));
    let cookie = login.headers["set-cookie"].clone();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200"), "{cookie}");
    assert!(!cookie.contains(&token[..20]), "{cookie}");
    let me = client.get("me").expect(200);
    assert_eq!(login.expect(200), json!({"subject": me["subject"], "auth": "jwt"}));
    gate.stranger().header("Cookie", cookie.split(';').next().unwrap())
}

#[test]
fn people_with_tokens_of_their_own_log_in_and_see_what_their_permissions_show() {
    let gate = Gate::jwt(WRITING);
    let own = format!("http://{}", gate.address);
    let (alice, olga) =
        (gate.caller("alice", PERMITTED), gate.caller("olga", &["--permission", "audit:read"]));
    let session = alice.session();
    let (operator, other) = (logged_in(&gate, &olga), logged_in(&gate, &alice));
    let seen = operator.get("traffic").expect(200);
    assert_eq!(entry(&seen, "callers", "subject", "alice")["connected"], true);
    assert_eq!(other.get("traffic").problem(), (403, "not_permitted".to_owned()));
    // Sessions are those of the caller of the cookie alone.
    assert_eq!(other.get(&format!("sessions/{session}")).expect(200)["id"], session.as_str());
    assert_eq!(operator.get(&format!("sessions/{session}")).problem().0, 404);
    // What changes something needs the page's own origin, and a token in a header counts instead of the cookie.
    let create = |client: &Client| client.post("sessions", &json!({})).status;
    assert_eq!((create(&other), create(&other.header("Origin", "http://evil.example"))), (403, 403));
    assert_eq!(create(&other.header("Origin", &own)), 201);
    let both = other.header("Authorization", &olga.headers[0].1);
    assert_eq!(both.get("me").expect(200)["subject"], "olga");
    // The cookie is for the API and the page alone.
    assert_eq!((operator.get("/metrics").status, operator.get("/mcp").status), (401, 401));
    for refused in ["guess", "", "a b", &"x".repeat(15_000)] {
        let login = gate.stranger().header("Origin", &own).post("login", &json!({"token": refused}));
        assert_eq!(login.problem(), (401, "unauthenticated".to_owned()), "{refused:.20}");
    }
    let evil = gate.stranger().header("Origin", "http://evil.example");
    assert_eq!(evil.post("login", &json!({"token": "guess"})).status, 403);
    // The end of a login counts on the server, whatever a browser keeps.
    assert_eq!(operator.header("Origin", "http://evil.example").post("logout", &json!({})).status, 403);
    assert_eq!(operator.get("me").status, 200);
    assert_eq!(operator.header("Origin", &own).post("logout", &json!({})).status, 204);
    let ended = operator.get("me");
    assert!(ended.status == 401 && ended.headers["set-cookie"].contains("Max-Age=0"), "{ended:?}");
    assert_eq!(olga.get("me").status, 200, "the token itself is another matter");
    assert!(!gate.log().contains(other.headers[0].1.split('=').nth(1).unwrap()), "no cookie in the log");
}

#[test]
fn a_login_ends_with_its_token_and_with_the_gate() {
    let gate = Gate::jwt_with(WRITING, "agents: {helper: {}}\n");
    let (agent, lasting) = (gate.caller("alice", &["--agent", "helper"]), gate.caller("bob", &[]));
    let (alice, bob) = (logged_in(&gate, &agent), logged_in(&gate, &lasting));
    // Every request verifies the token anew: a reload takes away what it counts for.
    gate.place.write("toolgate.yaml", "agents: {other: {}}\n");
    let begun = std::time::Instant::now();
    while alice.get("me").status == 200 {
        assert!(
            begun.elapsed() < crate::gate::TEST_TIMEOUT,
            "the agent was taken away, and its login still counts"
        );
    }
    assert_eq!((alice.get("me").status, agent.get("me").status, bob.get("me").status), (401, 401, 200));
    let gate = gate.restart();
    assert_eq!((bob.get("me").status, lasting.get("me").status), (401, 200));
    assert_eq!(logged_in(&gate, &lasting).get("me").expect(200)["subject"], "bob");
}
