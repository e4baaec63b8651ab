//! Invalid lines, and messages that arrive in pieces.

use serde_json::{Value, json};

use crate::stdio_fixture::{Era, World};

/// The response to a line: a code and an id, or none.
type Expected = Option<(i64, Value)>;

#[test]
fn whatever_is_not_a_message_is_answered_with_what_is_wrong() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let cases: &[(&[u8], Expected)] = &[
        (b"garbage", Some((-32700, Value::Null))),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"", Some((-32700, Value::Null))),
        (b"\xff\xfe{}", Some((-32700, Value::Null))),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\xffing\"}", Some((-32700, Value::Null))),
        (deep.as_bytes(), Some((-32700, Value::Null))),
        (b"[]", Some((-32600, Value::Null))),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", Some((-32600, Value::Null))),
        // Values in the order of the fields are no object.
        (b"[\"2.0\",1,\"tools/list\"]", Some((-32600, Value::Null))),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":82,\"method\":\"tools/call\",\"params\":[null,\"read_file\",{\"path\":\"a.txt\"}]}",
            Some((-32602, json!(82))),
        ),
        (b"{\"jsonrpc\":\"2.0\",\"id\":83,\"method\":\"ping\",\"params\":[]}", Some((-32602, json!(83)))),
        (b"1", Some((-32600, Value::Null))),
        (b"null", Some((-32600, Value::Null))),
        (b"\"text\"", Some((-32600, Value::Null))),
        (b"{}", Some((-32600, Value::Null))),
        (b"{\"id\":77}", Some((-32600, json!(77)))),
        (b"{\"jsonrpc\":\"1.0\",\"id\":78,\"method\":\"ping\"}", Some((-32600, json!(78)))),
        (b"{\"jsonrpc\":\"2.0\",\"id\":79,\"method\":7}", Some((-32600, json!(79)))),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"nothing/here\"}", Some((-32601, json!("x")))),
        (b"{\"jsonrpc\":\"2.0\",\"id\":80,\"method\":\"tools/call\"}", Some((-32602, json!(80)))),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":81,\"method\":\"tools/call\",\"params\":{\"name\":7}}",
            Some((-32602, json!(81))),
        ),
        (b"", None),
        (b"   \t ", None),
        (b"\r", None),
        (b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/nothing\"}", None),
        (
            b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":999}}",
            None,
        ),
        (b"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}", None),
        (b"{\"jsonrpc\":\"2.0\",\"id\":5,\"error\":{\"code\":1,\"message\":\"no\"}}", None),
        (b"{\"jsonrpc\":\"2.0\",\"id\":5,\"error\":\"no\"}", None),
    ];
    let world = World::new();
    let mut client = world.client(Era::Older);
    for (line, expected) in cases {
        let shown = String::from_utf8_lossy(line);
        client.write(line);
        client.write(b"\n");
        if let Some((code, id)) = expected {
            let answer = client.next(|message| message.get("error").is_some());
            assert_eq!(answer["error"]["code"], *code, "{shown}: {answer}");
            assert_eq!(answer["id"], *id, "{shown}: {answer}");
        }
        // Whatever was sent, the next request is served, and no other message precedes its
        // response.
        let answer = client.request("ping", json!({}));
        assert_eq!(answer["result"], json!({}), "{shown}");
    }
    let (rest, ended) = client.close();
    assert_eq!(rest, Vec::<Value>::new());
    ended.unwrap();
}

#[test]
fn a_message_may_come_in_pieces_and_many_at_once() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    let ping = |id: i64| format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
    for byte in ping(1000).bytes() {
        client.write(&[byte]);
    }
    assert_eq!(client.answer(1000)["result"], json!({}));
    let many: String = (2000..2200).map(ping).collect();
    client.write(many.as_bytes());
    for id in 2000..2200 {
        assert_eq!(client.answer(id)["result"], json!({}));
    }
    // With CRLF line ends, and without one at the end.
    client.write(ping(3000).replace('\n', "\r\n").as_bytes());
    assert_eq!(client.answer(3000)["result"], json!({}));
    client.write(ping(3001).trim_end().as_bytes());
    let (rest, ended) = client.close();
    assert_eq!(rest, [json!({"jsonrpc": "2.0", "id": 3001, "result": {}})]);
    ended.unwrap();
}

#[test]
fn a_whole_session_may_be_sent_before_anything_is_read() {
    let world = World::new();
    let mut client = world.silent();
    let client_info = json!({"name": "test", "version": "1"});
    let begin = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client_info});
    let read = json!({"name": "read_file", "arguments": {"path": "a.txt"}});
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": read}),
    ];
    client.write(lines.map(|line| format!("{line}\n")).concat().as_bytes());
    let (answers, ended) = client.close();
    ended.unwrap();
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [1, 2, 3], "{answers:?}");
    assert!(answers.iter().all(|answer| answer.get("error").is_none()), "{answers:?}");
    assert_eq!(world.records().len(), 1);
}

#[test]
fn an_id_that_is_not_answered_yet_is_not_served_twice() {
    let world = World::with(|options| options.commands());
    let mut client = world.client_as(Era::Older, json!({}), toolgate_attack::person("mcp-ids"));
    let slow =
        json!({"name": "run_command", "arguments": {"command": "until [ -e go ]; do sleep 0.05; done"}});
    let call = json!({"jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": slow});
    client.send(&call);
    client.send(&call);
    let refused = client.next(|message| message["id"] == "same");
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    std::fs::write(world.workspace.join("go"), "").unwrap();
    let served = client.next(|message| message["id"] == "same");
    assert_eq!(served["result"]["isError"], false, "{served}");
    assert_eq!(world.records().len(), 1);
}

#[test]
fn a_line_that_is_too_long_is_refused_and_the_next_one_served() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    let piece = vec![b'x'; 1024 * 1024];
    for _ in 0..65 {
        client.write(&piece);
    }
    client.write(b"\n");
    let refused = client.next(|message| message.get("error").is_some());
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn nothing_but_a_request_begins_a_session() {
    let world = World::new();
    let mut client = world.silent();
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    client.send(&json!({"jsonrpc": "2.0", "id": 4, "result": {}}));
    client.write(b"garbage\n");
    assert_eq!(client.next(|_| true)["error"]["code"], -32700);
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    let refused = client.request("tools/list", json!({}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let begun = client.request(
        "initialize",
        json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
    );
    assert_eq!(begun["result"]["protocolVersion"], "2024-11-05");
    client.close().1.unwrap();
    // A client that sends nothing is no failure either.
    world.silent().close().1.unwrap();
}

#[test]
fn a_call_whose_parameters_do_not_fit_is_on_record() {
    for era in [Era::Older, Era::Newer] {
        let world = World::new();
        let mut client = world.client(era);
        let calls = [
            json!({"name": "read_file", "arguments": "text"}),
            json!({"name": "read_file", "arguments": [1]}),
            json!({"name": "read_file", "arguments": {"path": "a"}, "_meta": {"timeoutMs": "5"}}),
        ];
        for call in &calls {
            let answer = client.request("tools/call", call.clone());
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
        assert_eq!(world.records().len(), calls.len());
    }
}
