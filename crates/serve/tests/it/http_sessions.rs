//! Sessions: their owners, their limits, and how they end.

use serde_json::{Value, json};

use crate::http_fixture::{Says, World, by_issuer, by_token, get, initialize, newer, post, read_file};

fn token_of(subject: &'static str) -> String {
    Says { subject, ..Says::default() }.token()
}

/// Starts a session.
fn begin(world: &World, token: &str) -> String {
    let got = world.send(&post(&initialize()).bearing(token));
    assert_eq!(got.status, 200, "{got:?}");
    let name = got.header("mcp-session-id").unwrap().to_owned();
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(world.send(&post(&done).bearing(token).with("Mcp-Session-Id", &name)).status, 202);
    name
}

#[test]
fn a_session_is_nothing_to_anybody_but_its_caller() {
    let world = by_issuer().start();
    let (alice, mallory) = (token_of("alice"), token_of("mallory"));
    let name = begin(&world, &alice);
    let own = begin(&world, &mallory);
    let ping = json!({"jsonrpc": "2.0", "id": 5, "method": "ping"});
    let answer = json!({"jsonrpc": "2.0", "id": 0, "result": {"action": "accept", "content": {}}});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}});
    for message in [&read_file(9), &ping, &answer, &cancel, &initialize()] {
        let got = world.send(&post(message).bearing(&mallory).with("Mcp-Session-Id", &name));
        assert_eq!(got.status, 404, "{message}: {got:?}");
    }
    let listen = get("/mcp").with("Accept", "text/event-stream").bearing(&mallory);
    assert_eq!(world.send(&listen.clone().with("Mcp-Session-Id", &name)).status, 404);
    let resumed = listen.with("Mcp-Session-Id", &name).with("Last-Event-ID", "0/0");
    assert_eq!(world.send(&resumed).status, 404);
    let end = |token: &str, name: &str| {
        let sent = get("/mcp").line("DELETE /mcp HTTP/1.1").bearing(token).with("Mcp-Session-Id", name);
        world.send(&sent).status
    };
    assert_eq!(end(&mallory, &name), 404);
    // A request of the stateless protocol has no session, so that it cannot use another caller's.
    let got = world.send(&newer(read_file(9)).bearing(&mallory).with("Mcp-Session-Id", &name));
    assert_eq!(got.status, 200, "{got:?}");
    let mut beginning = initialize();
    beginning["params"]["protocolVersion"] = json!("2026-07-28");
    let beginning = post(&beginning).with("MCP-Protocol-Version", "2026-07-28").bearing(&mallory);
    let got = world.send(&beginning.with("Mcp-Session-Id", &name));
    assert_eq!(got.status, 200, "{got:?}");
    assert!(got.header("mcp-session-id").is_some_and(|begun| begun != name), "a session of its own: {got:?}");

    let got = world.send(&post(&read_file(9)).bearing(&alice).with("Mcp-Session-Id", &name));
    assert_eq!(got.message()["result"]["content"][0]["text"], json!("hello\n"));
    let got = world.send(&post(&read_file(9)).bearing(&mallory).with("Mcp-Session-Id", &own));
    assert_eq!(got.message()["id"], json!(9));
    let who: Vec<(String, String)> = world
        .records()
        .into_iter()
        .map(|record| (record.caller.sub, record.caller.session.to_string()))
        .collect();
    assert_eq!(
        who.iter().map(|(caller, _)| caller.as_str()).collect::<Vec<_>>(),
        ["mallory", "alice", "mallory"]
    );
    assert!(who.iter().all(|(_, session)| !session.contains(&name) && !session.contains(&own)));
    assert_ne!(who[0].1, who[2].1);

    assert_eq!(end(&alice, &name), 204);
    let got = world.send(&post(&read_file(9)).bearing(&alice).with("Mcp-Session-Id", &name));
    assert_eq!(got.status, 404, "it has ended");
}

#[test]
fn a_caller_that_is_known_anew_keeps_its_session() {
    let world = by_issuer().start();
    let name = begin(&world, &token_of("alice"));
    // Another token of the same caller.
    let got = world.send(&post(&read_file(2)).bearing(&token_of("alice")).with("Mcp-Session-Id", &name));
    assert_eq!(got.message()["id"], json!(2), "{got:?}");
}

#[test]
fn sessions_that_nobody_began_do_not_exist() {
    let world = by_token().start();
    let token = crate::http_fixture::TOKEN;
    for name in ["", "x", "../../etc", "00000000-0000-0000-0000-000000000000", &"a".repeat(5000)] {
        let got = world.send(&post(&read_file(2)).bearing(token).with("Mcp-Session-Id", name));
        assert_eq!(got.status, 404, "{name}: {got:?}");
    }
    let got = world.send(&post(&read_file(2)).bearing(token));
    assert_eq!(got.status, 400, "a session must have begun: {got:?}");
    assert!(got.message()["error"]["message"].as_str().unwrap().contains("`initialize`"), "{got:?}");
    assert_eq!(world.records().len(), 0);
}

#[test]
fn sessions_have_bounds_and_of_one_caller_the_oldest_gives_way() {
    let world =
        by_issuer().limits(|limits| (limits.max_sessions, limits.max_sessions_per_caller) = (3, 2)).start();
    let alice = token_of("alice");
    let names: Vec<String> = (0..3).map(|_| begin(&world, &alice)).collect();
    let lives = |token: &str, name: &str| {
        let message: Value = json!({"jsonrpc": "2.0", "id": 5, "method": "ping"});
        world.send(&post(&message).bearing(token).with("Mcp-Session-Id", name)).status
    };
    assert_eq!(lives(&alice, &names[0]), 404);
    assert_eq!(lives(&alice, &names[1]), 200);
    assert_eq!(lives(&alice, &names[2]), 200);
    let bob = begin(&world, &token_of("bob"));
    let carol = world.send(&post(&initialize()).bearing(&token_of("carol")));
    assert_eq!(carol.status, 503, "{carol:?}");
    assert_eq!(lives(&token_of("bob"), &bob), 200);
    assert_eq!(lives(&alice, &names[1]), 200);
}
