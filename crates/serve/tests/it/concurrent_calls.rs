//! Several requests of one client at a time, and those that are answered where they are read.

use serde_json::{Value, json};
use toolgate_attack::person;
use toolgate_gate::{BlockingStrategy, GateConfig};
use toolgate_types::{Caller, Trust};

use crate::stdio_fixture::{Era, World, guided};

fn world() -> World {
    let world = World::with(|options| options.blocking(BlockingStrategy::InlineFirst));
    std::fs::write(world.workspace.join("lines.txt"), "one\n\"two\"\t\\\u{1}\nthree é漢🦀").unwrap();
    std::fs::write(world.workspace.join("long.txt"), "a line of text\n".repeat(5000)).unwrap();
    std::fs::write(world.workspace.join("huge.txt"), "a line of text\n".repeat(100_000)).unwrap();
    std::fs::write(world.workspace.join("binary"), b"\0\xff").unwrap();
    std::fs::write(world.workspace.join("empty"), "").unwrap();
    std::fs::write(world.workspace.join(".env"), "SECRET=1").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", world.workspace.join("outside")).unwrap();
    world
}

#[test]
fn many_calls_at_once_are_each_answered_and_recorded_once() {
    const CALLS: i64 = 500;
    let world = world();
    let mut client = world.client(Era::Older);
    let mut lines = String::new();
    for number in 0..CALLS {
        let path = ["a.txt", "huge.txt", "missing"][usize::try_from(number % 3).unwrap()];
        let params = json!({"name": "read_file", "arguments": {"path": path}});
        let request =
            json!({"jsonrpc": "2.0", "id": format!("r{number}"), "method": "tools/call", "params": params});
        lines.push_str(&format!("{request}\n"));
        if number % 5 == 0 {
            // Concerns no other request.
            let other = json!({"requestId": format!("r{}", number + CALLS)});
            let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": other});
            lines.push_str(&format!("{cancelled}\n"));
        }
    }
    client.write(lines.as_bytes());
    for number in 0..CALLS {
        let answer = client.next(|message| message["id"] == format!("r{number}"));
        assert_eq!(answer["result"]["isError"], number % 3 == 2, "{number}");
    }
    let (rest, ended) = client.close();
    assert_eq!(rest, [Value::Null; 0]);
    ended.unwrap();
    let mut named: Vec<String> =
        world.records().into_iter().filter_map(|record| record.request.client_call_id).collect();
    named.sort_unstable();
    named.dedup();
    assert_eq!((named.len(), world.records().len()), (CALLS as usize, CALLS as usize));
}

#[test]
fn an_id_that_stands_for_another_request_is_refused() {
    let world = world();
    let mut client = world.client(Era::Older);
    let write =
        client.ask("tools/call", json!({"name": "write_file", "arguments": {"path": "n", "content": "x"}}));
    let question = client.question();
    let params = json!({"name": "read_file", "arguments": {"path": "a.txt"}});
    client.send(&json!({"jsonrpc": "2.0", "id": write, "method": "tools/call", "params": params}));
    let refused = client.answer(write);
    assert!(refused.get("error").is_some(), "{refused}");
    client.reply(&question, json!({"action": "decline"}));
    assert_eq!(client.answer(write)["result"]["isError"], true);
}

fn read_a(id: i64) -> Value {
    let params = json!({"name": "read_file", "arguments": {"path": "a.txt"}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

#[test]
fn a_supervised_caller_is_asked_about_a_read() {
    let world = world();
    let supervised = Caller { trust: Trust::Supervised, ..person("mcp-test") };
    let mut client = world.client_as(Era::Older, json!({"elicitation": {}}), supervised);
    client.send(&read_a(70));
    let question = client.question();
    client.reply(&question, json!({"action": "decline"}));
    assert_eq!(client.answer(70)["result"]["isError"], true);
}

#[test]
fn no_call_is_answered_before_a_protocol_is_agreed_upon_nor_without_its_metadata() {
    let world = world();
    let mut silent = world.silent();
    silent.send(&read_a(1));
    assert!(silent.answer(1).get("error").is_some());
    let mut client = world.client(Era::Newer);
    client.call("read_file", json!({"path": "a.txt"}));
    client.send(&read_a(70));
    assert!(client.answer(70).get("error").is_some());
    assert_eq!(world.records().len(), 1);
}

/// A read is answered where it is read only while no approval is needed.
#[test]
fn a_read_is_asked_about_from_the_moment_that_the_trust_is_stricter() {
    let world = world();
    let caller = Caller { trust: Trust::Autonomous, ..guided() };
    let mut client = world.client_as(Era::Older, json!({"elicitation": {}}), caller);
    let read = || json!({"name": "read_file", "arguments": {"path": "a.txt"}});
    assert_eq!(client.request("tools/call", read())["result"]["isError"], false);
    world
        .bench
        .gate()
        .replace_config(GateConfig { trust: Trust::Supervised, ..world.bench.loaded().clone() });
    let id = client.ask("tools/call", read());
    let first = client.next(|message| message["id"] == id || message["method"] == "elicitation/create");
    assert_eq!(first["method"], "elicitation/create", "{first}");
    client.reply(&first, json!({"action": "accept", "content": {}}));
    assert_eq!(client.answer(id)["result"]["isError"], false);
}
