//! Many concurrent clients: nothing is lost.

use std::collections::BTreeSet;

use serde_json::json;
use toolgate_types::Decision;

use crate::http_fixture::{Line, Says, World, by_issuer, get, initialize, newer, post, read_file};

const CONNECTIONS: u64 = 200;
const CALLS: u64 = 20;

/// The calls of one connection, with one of the protocols. Returns which of them were answered.
fn converse(world: &World, number: u64, token: &str) -> Vec<u64> {
    let mut line = Line::new(world);
    let own = world.address;
    let session = number.is_multiple_of(2).then(|| {
        let got = line.ask(&post(&initialize()).bearing(token), own);
        let name = got.header("mcp-session-id").unwrap().to_owned();
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(line.ask(&post(&done).bearing(token).with("Mcp-Session-Id", &name), own).status, 202);
        name
    });
    let answered = (0..CALLS).map(|call| {
        let message = read_file(number * CALLS + call);
        let sent = match &session {
            Some(name) => post(&message).with("Mcp-Session-Id", name),
            None => newer(message),
        };
        let got = line.ask(&sent.bearing(token), own);
        let message = got.message();
        assert_eq!(message["result"]["content"][0]["text"], json!("hello\n"), "{got:?}");
        message["id"].as_u64().unwrap()
    });
    answered.collect()
}

#[test]
fn many_connections_lose_no_answer_and_no_record() {
    let mut world = by_issuer().start();
    let token = Says::default().token();
    let answered: Vec<u64> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                scope.spawn({
                    let (world, token) = (&world, &token);
                    move || converse(world, number, token)
                })
            })
            .collect();
        asking.into_iter().flat_map(|asking| asking.join().unwrap()).collect()
    });
    let expected: BTreeSet<u64> = (0..CONNECTIONS * CALLS).collect();
    assert_eq!(answered.len(), expected.len());
    assert_eq!(answered.into_iter().collect::<BTreeSet<u64>>(), expected);
    let counted = world.send(&get("/metrics").bearing(&token)).body;
    let all = format!("toolgate_calls_total{{class=\"read\",decision=\"ALLOWED\"}} {}", CONNECTIONS * CALLS);
    assert!(counted.lines().any(|line| line == all), "{counted}");
    world.close();
    let records = world.records();
    assert_eq!(records.len(), expected.len());
    assert!(
        records.iter().all(|record| record.decision == Decision::Allowed && record.caller.sub == "alice")
    );
    let recorded =
        records.iter().map(|record| record.request.client_call_id.as_ref().unwrap().parse().unwrap());
    assert_eq!(recorded.collect::<BTreeSet<u64>>(), expected);
    assert_eq!(world.bench.verify_audit(), CONNECTIONS * CALLS);
}
