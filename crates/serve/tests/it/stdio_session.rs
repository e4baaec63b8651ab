//! Tools, calls, progress, cancellation and shutdown, as a client sees them.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use toolgate_attack::person;

use crate::stdio_fixture::{ERAS, Era, World};

fn texts(result: &Value) -> Vec<&str> {
    let blocks = result["content"].as_array().unwrap();
    blocks
        .iter()
        .filter(|block| block["type"] == "text")
        .map(|block| block["text"].as_str().unwrap())
        .collect()
}

#[test]
fn tools_are_told_with_all_that_is_known_about_them() {
    let world = World::with(|options| options.commands());
    for era in ERAS {
        let mut client = world.client(era);
        let told = client.request("tools/list", json!({}))["result"].clone();
        let tools = told["tools"].as_array().unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        let own: Vec<String> = world.bench.loaded().registry.names().map(str::to_owned).collect();
        assert_eq!(names, own, "in the order of the gate");
        for tool in tools {
            assert!(tool["title"].is_string() && tool["description"].is_string(), "{tool}");
            assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
            assert_eq!(tool["annotations"]["openWorldHint"], false, "{tool}");
            let name = tool["name"].as_str().unwrap();
            assert_eq!(tool.get("outputSchema").is_some(), name != "read_file", "{name}");
        }
        for (name, reads, destroys, repeats) in [
            ("read_file", true, false, true),
            ("find_files", true, false, true),
            ("write_file", false, true, true),
            ("append_file", false, false, false),
            ("edit_file", false, true, false),
            ("apply_patch", false, true, false),
            ("move_file", false, true, false),
            ("delete_file", false, true, false),
            ("run_command", false, true, false),
        ] {
            let hints = &tools.iter().find(|tool| tool["name"] == name).unwrap()["annotations"];
            let told = ["readOnlyHint", "destructiveHint", "idempotentHint"].map(|hint| hints[hint] == true);
            assert_eq!(told, [reads, destroys, repeats], "{name}: {hints}");
        }
        assert_eq!(told.get("ttlMs").is_some(), era == Era::Newer, "{era:?}");
    }
}

#[test]
fn a_call_is_answered_with_text_and_structure_and_recorded_with_its_id() {
    let world = World::new();
    for era in ERAS {
        let mut client = world.client(era);
        let result = client.call("read_file", json!({"path": "a.txt"}));
        assert_eq!(texts(&result), ["hello\n"]);
        assert_eq!(result["structuredContent"]["content"], "hello\n");
        assert_eq!(result["isError"], false);
        let refused = client.call("read_file", json!({"path": "../../etc/passwd"}));
        assert_eq!(refused["isError"], true, "{refused}");
        let unknown = client.call("reed_file", json!({}));
        assert!(texts(&unknown)[0].contains("read_file"), "{unknown}");
        assert_eq!(unknown["isError"], true);
        let wrong = client.call("read_file", json!({"pfad": "a.txt"}));
        assert_eq!(wrong["isError"], true, "{wrong}");
        // Arguments may be omitted.
        let answer = client.request("tools/call", json!({"name": "list_directory"}));
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    let records = world.records();
    assert_eq!(records.len(), 10);
    assert!(records.iter().all(|record| record.request.client_call_id.is_some()));
}

#[test]
fn a_long_text_is_sent_once() {
    let world = World::new();
    let text = "a line of text\n".repeat(5000);
    std::fs::write(world.workspace.join("long.txt"), &text).unwrap();
    let mut client = world.client(Era::Older);
    let result = client.call("read_file", json!({"path": "long.txt"}));
    assert_eq!(texts(&result)[0], text);
    let facts: Value = serde_json::from_str(texts(&result)[1]).unwrap();
    assert_eq!(facts["bytes"], text.len());
    assert!(facts.get("content").is_none() && result.get("structuredContent").is_none());

    // Whatever the request's id, and whatever is in the text.
    let odd = "\"text\":\"the text of this answer\" \\ \u{1}\té\u{1F600}\n".repeat(1000);
    std::fs::write(world.workspace.join("odd.txt"), &odd).unwrap();
    let id = r#""text":"the text of this answer""#;
    let params = json!({"name": "read_file", "arguments": {"path": "odd.txt"}});
    client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    let answer = client.next(|message| message["id"] == id);
    assert_eq!(texts(&answer["result"])[0], odd);
}

#[test]
fn what_was_cut_is_said_in_every_part_of_the_answer() {
    let world = World::new();
    for number in 0..50 {
        std::fs::write(world.workspace.join(format!("f{number}.txt")), "needle\n").unwrap();
    }
    let mut client = world.client(Era::Older);
    let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
    for (tool, arguments) in [
        ("find_files", json!({"glob": "*.txt", "max_results": 5})),
        ("search_files", json!({"pattern": "needle", "max_matches": 5})),
    ] {
        let result = client.call(tool, arguments);
        let notice = result["structuredContent"]["notice"].as_str().unwrap();
        assert!(notice.starts_with("[truncated") && texts(&result)[0].contains(notice), "{result}");
        let told = tools.as_array().unwrap().iter().find(|told| told["name"] == tool).unwrap();
        assert_eq!(told["outputSchema"]["properties"]["notice"]["type"], "string");
    }
}

#[test]
fn methods_that_are_not_served_are_told_so() {
    let world = World::new();
    for era in ERAS {
        let mut client = world.client(era);
        client.request("tools/list", json!({}));
        for method in [
            "prompts/list",
            "prompts/get",
            "completion/complete",
            "logging/setLevel",
            "tasks/list",
            "no/such",
        ] {
            let params = match method {
                "completion/complete" => {
                    json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}})
                }
                "logging/setLevel" => json!({"level": "info"}),
                _ => json!({"name": "x"}),
            };
            let answer = client.request(method, params);
            assert_eq!(answer["error"]["code"], -32601, "{era:?} {method}: {answer}");
            let told = format!("there is no such method `{method}`");
            assert_eq!(answer["error"]["message"], told, "{era:?}");
        }
    }
}

#[test]
fn requests_that_are_none_are_told_what_is_missing() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    for (method, params, told) in [
        ("tools/call", json!({}), "missing field `name`"),
        ("tools/call", json!({"name": 1}), "`name`: "),
        ("tools/call", json!({"name": "x", "arguments": []}), "`arguments`: "),
        ("resources/read", json!({}), "missing field `uri`"),
    ] {
        let answer = client.request(method, params);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(told), "{answer}");
    }
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    // A request before `initialize` gets an error that names both ways to begin.
    let mut early = world.silent();
    early.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}));
    let answer = early.next(|message| message["id"] == 1);
    let told = answer["error"]["message"].as_str().unwrap();
    assert!(told.contains("`initialize`") && told.contains("_meta"), "{answer}");
}

#[test]
fn output_is_told_as_it_comes_to_whoever_asked_for_it() {
    let world = World::with(|options| options.commands());
    for era in ERAS {
        let mut client = world.client_as(era, json!({}), person("mcp-progress"));
        let command = "echo one; sleep 0.2; echo two; sleep 0.2; echo three";
        let call = json!({"name": "run_command", "arguments": {"command": command}, "_meta": {"progressToken": "t"}});
        let id = client.ask("tools/call", call);
        let mut told = String::new();
        let mut last = 0.0;
        let result = loop {
            let message = client.next(|_| true);
            if message["id"] == id {
                break message["result"].clone();
            }
            assert_eq!(message["method"], "notifications/progress", "{message}");
            assert_eq!(message["params"]["progressToken"], "t");
            let progress = message["params"]["progress"].as_f64().unwrap();
            assert!(progress > last, "{message}");
            last = progress;
            let words = message["params"]["message"].as_str().unwrap();
            // After a silence there is a heartbeat.
            if !words.starts_with("still running after ") {
                told += words;
            }
        };
        assert_eq!(told, "one\ntwo\nthree\n", "{era:?}");
        assert_eq!(texts(&result), ["one\ntwo\nthree\n"]);
        // Without a progress token there are no notifications.
        let id = client.ask("tools/call", json!({"name": "run_command", "arguments": {"command": command}}));
        assert_eq!(client.next(|_| true)["id"], id);
    }
}

/// A duration that no other process on this machine sleeps for, whatever other tests run.
fn own_seconds() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    format!("86400.{}{}", std::process::id(), now.as_nanos())
}

/// Whether a process with this marker in its command line is alive.
fn is_alive(marker: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.into_iter().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(marker)
    })
}

fn wait_for(file: &Path) {
    while !file.exists() {
        std::thread::yield_now();
    }
}

#[test]
fn a_cancelled_call_leaves_no_process_and_one_record() {
    let world = World::with(|options| options.commands());
    for (round, era) in ERAS.into_iter().enumerate() {
        let mut client = world.client_as(era, json!({}), person("mcp-cancel"));
        let marker = own_seconds();
        let command = format!("touch begun{round}; sleep {marker} & sleep {marker}");
        let id = client.ask("tools/call", json!({"name": "run_command", "arguments": {"command": command}}));
        wait_for(&world.workspace.join(format!("begun{round}")));
        assert!(is_alive(&marker));
        client.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}),
        );
        // A cancelled request gets no response; the next one is served.
        assert_eq!(client.call("read_file", json!({"path": "a.txt"}))["isError"], false);
        let (rest, ended) = client.close();
        assert_eq!(rest, Vec::<Value>::new());
        ended.unwrap();
        assert!(!is_alive(&marker), "{era:?}");
    }
    let cancelled: Vec<_> =
        world.records().into_iter().filter(|record| record.tool.name == "run_command").collect();
    assert_eq!(cancelled.len(), 2);
    assert!(
        cancelled.iter().all(|record| record.decision == toolgate_types::Decision::Error),
        "{cancelled:?}"
    );
}

#[test]
fn what_was_asked_before_the_end_is_answered() {
    let world = World::with(|options| options.commands());
    for era in ERAS {
        let mut client = world.client_as(era, json!({}), person("mcp-end"));
        let slow = json!({"name": "run_command", "arguments": {"command": "sleep 0.5; echo late"}});
        let slow = client.ask("tools/call", slow);
        let quick: Vec<i64> = (0..100)
            .map(|_| client.ask("tools/call", json!({"name": "read_file", "arguments": {"path": "a.txt"}})))
            .collect();
        let (rest, ended) = client.close();
        ended.unwrap();
        let answers = |id: i64| rest.iter().filter(|message| message["id"] == id).count();
        assert!(quick.iter().all(|id| answers(*id) == 1));
        assert_eq!(answers(slow), 1, "{era:?}");
    }
    assert_eq!(world.records().len(), 202);
}

#[test]
fn a_shutdown_ends_calls_and_answers_them() {
    let world = World::with(|options| options.commands());
    let mut client = world.client_as(Era::Older, json!({}), person("mcp-shutdown"));
    let marker = own_seconds();
    let command = format!("touch begun; sleep {marker}");
    let id = client.ask("tools/call", json!({"name": "run_command", "arguments": {"command": command}}));
    wait_for(&world.workspace.join("begun"));
    client.shutdown.cancel();
    let answer = client.answer(id);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    client.close().1.unwrap();
    assert!(!is_alive(&marker));
    assert_eq!(world.records().len(), 1);
}

#[test]
fn a_client_that_does_not_read_yet_loses_nothing() {
    let world = World::new();
    std::fs::write(world.workspace.join("big.txt"), "0123456789abcde\n".repeat(15_000)).unwrap();
    // A client that has read nothing so far: the stateless protocol begins with a call.
    let mut client = world.client(Era::Newer);
    let ids: Vec<i64> = (0..200)
        .map(|_| client.ask("tools/call", json!({"name": "read_file", "arguments": {"path": "big.txt"}})))
        .collect();
    // As many as there are permits for come to their end, and the others wait for them.
    while world.records().len() < 4 {
        std::thread::yield_now();
    }
    for id in ids {
        assert_eq!(client.answer(id)["result"]["isError"], false);
    }
    client.close().1.unwrap();
    assert_eq!(world.records().len(), 200);
}

#[test]
fn the_end_does_not_wait_for_a_client_that_does_not_read() {
    let world = World::new();
    std::fs::write(world.workspace.join("big.txt"), "0123456789abcde\n".repeat(15_000)).unwrap();
    let mut client = world.client(Era::Newer);
    for _ in 0..100 {
        client.ask("tools/call", json!({"name": "read_file", "arguments": {"path": "big.txt"}}));
    }
    client.is_heard();
    client.shutdown.cancel();
    // Its own end stays open, and it has not read a byte.
    client.ended().unwrap();
    assert_eq!(world.records().len(), 100, "what did not begin is recorded as well");
}

#[test]
fn a_client_that_does_not_read_is_not_read_either() {
    let world = World::new();
    let mut client = world.client(Era::Newer);
    client.ask("tools/list", json!({}));
    assert!(client.flood(b"x\n", 64 * 1024 * 1024) < 16 * 1024 * 1024);
    // Everything is answered once it is read.
    client.next(|message| message.get("result").is_some());
    client.next(|message| message["error"]["code"] == -32700);
}

#[test]
fn an_id_that_was_given_up_is_not_good_again() {
    let world = World::with(|options| options.commands());
    let mut client = world.client_as(Era::Older, json!({}), person("mcp-again"));
    let call = |name: &str, arguments: Value| json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": name, "arguments": arguments}});
    client.send(&call("run_command", json!({"command": "touch begun; sleep 60"})));
    wait_for(&world.workspace.join("begun"));
    client
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}}));
    client.send(&call("read_file", json!({"path": "a.txt"})));
    let refused = client.next(|message| message["id"] == "x");
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    assert_eq!(client.call("read_file", json!({"path": "a.txt"}))["isError"], false);
    let (rest, ended) = client.close();
    assert!(!rest.iter().any(|message| message["id"] == "x"), "{rest:?}");
    ended.unwrap();
}

#[test]
fn a_line_that_would_take_too_much_room_is_refused() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    let many =
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"a":[{}0]}}}}"#, "0,".repeat(200_000));
    client.write(format!("{many}\n").as_bytes());
    assert_eq!(client.next(|message| message.get("error").is_some())["error"]["code"], -32600);
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn a_client_that_goes_away_leaves_no_process() {
    let world = World::with(|options| options.commands());
    let mut client = world.client_as(Era::Newer, json!({}), person("mcp-away"));
    let marker = own_seconds();
    let command = format!("touch begun; sleep {marker}");
    client.ask("tools/call", json!({"name": "run_command", "arguments": {"command": command}}));
    wait_for(&world.workspace.join("begun"));
    client.turn_away();
    // The next response cannot be written.
    client.ask("tools/call", json!({"name": "read_file", "arguments": {"path": "a.txt"}}));
    let (_, ended) = client.close();
    ended.unwrap();
    assert!(!is_alive(&marker));
    assert_eq!(world.records().len(), 2);
}
