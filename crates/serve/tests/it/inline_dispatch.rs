//! Inline dispatch, compared with the regular path.

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

fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("read_file", json!({"path": "a.txt"})),
        ("read_file", json!({"path": "lines.txt"})),
        ("read_file", json!({"path": "lines.txt", "start_line": 2, "end_line": 2.0})),
        ("read_file", json!({"path": "lines.txt", "start_line": 9})),
        ("read_file", json!({"path": "long.txt"})),
        ("read_file", json!({"path": "huge.txt"})),
        ("read_file", json!({"path": "binary"})),
        ("read_file", json!({"path": "empty"})),
        ("read_file", json!({"path": "missing"})),
        ("read_file", json!({"path": ".env"})),
        ("read_file", json!({"path": "outside"})),
        ("read_file", json!({"path": "../../etc/passwd"})),
        ("read_file", json!({"path": 7})),
        ("read_file", json!({"pfad": "a.txt"})),
        ("read_file", json!({})),
        ("list_directory", json!({"path": "."})),
        ("search_files", json!({"pattern": "two"})),
        ("reed_file", json!({"path": "a.txt"})),
    ]
}

/// The same request with `_meta`, which takes the regular path.
fn roundabout(id: i64, tool: &str, arguments: &Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments, "_meta": {"note": 1}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

#[test]
fn answers_and_records_are_the_same_either_way() {
    let world = world();
    let mut client = world.client(Era::Older);
    for (number, (tool, arguments)) in calls().into_iter().enumerate() {
        let at_once = client.call(tool, arguments.clone());
        let id = 1000 + number as i64;
        client.send(&roundabout(id, tool, &arguments));
        let usual = client.answer(id);
        assert_eq!(at_once, usual["result"], "{tool} {arguments}");
    }
    drop(client);
    let records = world.records();
    assert_eq!(records.len(), 2 * calls().len());
    for pair in records.chunks(2) {
        let facts = |record: &toolgate_audit::Record| {
            let mut facts = serde_json::to_value(record).unwrap();
            let told = facts.as_object_mut().unwrap();
            for own in ["seq", "prev", "hash", "timestamp", "traceId", "duration"] {
                told.remove(own);
            }
            told["request"].as_object_mut().unwrap().remove("clientCallId");
            facts
        };
        assert_eq!(facts(&pair[0]), facts(&pair[1]));
    }
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
fn an_id_that_stands_for_another_request_is_refused_here_too() {
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
fn whoever_is_asked_about_everything_is_asked() {
    let world = world();
    let supervised = Caller { trust: Trust::Supervised, ..person("mcp-test") };
    let mut client = world.client_as(Era::Older, json!({"elicitation": {}}), supervised);
    client.send(&read_a(70));
    let question = client.question();
    client.reply(&question, json!({"action": "decline"}));
    assert_eq!(client.answer(70)["result"]["isError"], true);
}

#[test]
fn nothing_is_answered_before_an_era_is_agreed_upon_nor_in_the_newer_without_its_words() {
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

/// A call that is dispatched inline cannot ask, so a read waits for approval as soon as the configuration requires it.
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
