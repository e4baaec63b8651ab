//! Approvals over the wire: every way they can end, under both protocols.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate_audit::Record;
use toolgate_types::{Caller, Decision, ErrorCode, Stage};

use crate::stdio_fixture::{Client, ERAS, Era, World, guided};

/// The call that is asked about.
fn write_call(content: &str) -> Value {
    json!({"name": "write_file", "arguments": {"path": "new.txt", "content": content}})
}

/// A question that a client of either protocol gets about a call.
struct Put {
    id: i64,
    /// Session protocol: the server's request. Stateless protocol: the `input_required` result.
    asked: Value,
}

fn begin(client: &mut Client, era: Era, call: Value) -> Put {
    let id = client.ask("tools/call", call);
    let asked = match era {
        Era::Older => client.question(),
        Era::Newer => client.answer(id)["result"].clone(),
    };
    Put { id, asked }
}

fn words(put: &Put, era: Era) -> Value {
    let params = match era {
        Era::Older => &put.asked["params"],
        Era::Newer => &put.asked["inputRequests"]["approval"]["params"],
    };
    params.clone()
}

/// The same call with an answer, as a client of the stateless protocol repeats it.
fn again(mut call: Value, put: &Put, answer: Value) -> Value {
    call["requestState"] = put.asked["requestState"].clone();
    call["inputResponses"] = json!({"approval": answer});
    call
}

/// Answers the question; the result of the call.
fn finish(client: &mut Client, era: Era, put: &Put, call: Value, answer: Value) -> Value {
    match era {
        Era::Older => {
            client.reply(&put.asked, answer);
            client.answer(put.id)["result"].clone()
        }
        Era::Newer => client.request("tools/call", again(call, put, answer))["result"].clone(),
    }
}

fn denial(record: &Record) -> (Stage, ErrorCode) {
    assert_eq!(record.decision, Decision::Denied, "{record:?}");
    let denial = record.denial.as_ref().unwrap();
    (denial.stage, denial.code)
}

fn only_record(world: &World) -> Record {
    let mut records = world.records();
    assert_eq!(records.len(), 1, "{records:?}");
    records.remove(0)
}

#[test]
fn an_acceptance_lets_the_call_happen() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let put = begin(&mut client, era, write_call("agreed\n"));
        let words = words(&put, era);
        let message = words["message"].as_str().unwrap();
        assert!(
            message.contains("write_file") && message.contains("new.txt") && message.contains("agreed"),
            "{message}"
        );
        let scopes = [
            "once",
            "session",
            "call-session",
            "call-day",
            "call-week",
            "call-month",
            "call-workspace",
            "file-session",
            "file-day",
            "file-week",
            "file-month",
            "file-workspace",
        ];
        assert_eq!(words["requestedSchema"]["properties"]["scope"]["enum"], json!(scopes));
        assert!(
            message.contains(
                "\n│ file-workspace: every write_file of @project/new.txt, in this workspace until revoked\n"
            ),
            "{message}"
        );
        assert!(!world.workspace.join("new.txt").exists(), "nothing happens before the answer");
        let result = finish(
            &mut client,
            era,
            &put,
            write_call("agreed\n"),
            json!({"action": "accept", "content": {}}),
        );
        assert_eq!(result["isError"], false, "{era:?}: {result}");
        assert_eq!(std::fs::read_to_string(world.workspace.join("new.txt")).unwrap(), "agreed\n");
        client.close().1.unwrap();
        assert_eq!(only_record(&world).decision, Decision::Allowed, "one call, one record");
    }
}

#[test]
fn an_acceptance_for_the_session_is_asked_for_once() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let put = begin(&mut client, era, write_call("one"));
        let answer = json!({"action": "accept", "content": {"scope": "session"}});
        assert_eq!(finish(&mut client, era, &put, write_call("one"), answer)["isError"], false);
        let result = client.request("tools/call", write_call("two"))["result"].clone();
        assert_eq!(result["isError"], false, "{era:?}: {result}");
        // Another tool is another question.
        let other = json!({"name": "delete_file", "arguments": {"path": "new.txt"}});
        let put = begin(&mut client, era, other.clone());
        let result = finish(&mut client, era, &put, other, json!({"action": "decline"}));
        assert_eq!(result["isError"], true);
    }
}

#[test]
fn a_lasting_grant_is_chosen_by_its_id_and_counts_for_other_connections() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let put = begin(&mut client, era, write_call("one"));
        let answer = json!({"action": "accept", "content": {"scope": "file-workspace"}});
        assert_eq!(finish(&mut client, era, &put, write_call("one"), answer)["isError"], false);
        client.close().1.unwrap();
        let mut client = world.client(era);
        let result = client.request("tools/call", write_call("two"))["result"].clone();
        assert_eq!(result["isError"], false, "{era:?}: {result}");
        client.close().1.unwrap();
        let grants = world.bench.gate().grants().list().unwrap();
        let used: Vec<Option<String>> = world.records().into_iter().map(|record| record.grant).collect();
        assert_eq!(used, [None, Some(grants[0].id.clone())]);
    }
}

#[test]
fn a_grant_that_was_not_offered_refuses_the_call() {
    for era in ERAS {
        for scope in ["tool-workspace", "directory-workspace", "forever", ""] {
            let world = World::new();
            let mut client = world.client(era);
            let put = begin(&mut client, era, write_call("x"));
            let answer = json!({"action": "accept", "content": {"scope": scope}});
            let result = finish(&mut client, era, &put, write_call("x"), answer);
            assert_eq!(result["isError"], true, "{era:?} {scope}: {result}");
            client.close().1.unwrap();
            assert!(!world.workspace.join("new.txt").exists());
            assert_eq!(denial(&only_record(&world)), (Stage::Approval, ErrorCode::ApprovalDenied));
            assert!(world.bench.gate().grants().list().unwrap().is_empty());
        }
    }
}

#[test]
fn whatever_is_not_an_acceptance_refuses_the_call() {
    for era in ERAS {
        for action in ["decline", "cancel"] {
            let world = World::new();
            let mut client = world.client(era);
            let put = begin(&mut client, era, write_call("x"));
            let answer = json!({"action": action, "content": {"scope": "session"}});
            let result = finish(&mut client, era, &put, write_call("x"), answer);
            assert_eq!(result["isError"], true, "{era:?} {action}: {result}");
            let told = if action == "cancel" { "was dismissed" } else { "a person refused" };
            assert!(result["content"][0]["text"].as_str().unwrap().contains(told), "{result}");
            client.close().1.unwrap();
            assert!(!world.workspace.join("new.txt").exists());
            assert_eq!(denial(&only_record(&world)), (Stage::Approval, ErrorCode::ApprovalDenied));
        }
    }
}

#[test]
fn an_answer_that_is_none_is_no_yes() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    let put = begin(&mut client, Era::Older, write_call("x"));
    client
        .send(&json!({"jsonrpc": "2.0", "id": put.asked["id"], "error": {"code": -1, "message": "accept"}}));
    let result = client.answer(put.id)["result"].clone();
    assert_eq!(result["isError"], true, "{result}");
    let put = begin(&mut client, Era::Older, write_call("x"));
    let result = finish(&mut client, Era::Older, &put, Value::Null, json!({"action": "accepted"}));
    assert_eq!(result["isError"], true, "{result}");
    client.close().1.unwrap();
    assert!(!world.workspace.join("new.txt").exists());
}

#[test]
fn a_question_that_nobody_answers_expires() {
    for era in ERAS {
        let world = World::with(|options| {
            let nobody = toolgate_gate::NoApprover { remedy: String::new() };
            options.approver(std::sync::Arc::new(nobody), Duration::from_millis(100))
        });
        let mut client = world.client(era);
        let put = begin(&mut client, era, write_call("late"));
        match era {
            Era::Older => {
                let result = client.answer(put.id)["result"].clone();
                assert_eq!(result["isError"], true, "{result}");
                assert!(
                    result["content"][0]["text"].as_str().unwrap().contains("nobody approved"),
                    "{result}"
                );
                let withdrawn = client.next(is_withdrawal);
                assert_eq!(withdrawn["params"]["requestId"], put.asked["id"], "{withdrawn}");
                // A late answer is ignored.
                client.reply(&put.asked, json!({"action": "accept"}));
                client.close().1.unwrap();
                assert_eq!(denial(&only_record(&world)), (Stage::Approval, ErrorCode::ApprovalExpired));
            }
            Era::Newer => {
                while world.records().is_empty() {
                    std::thread::yield_now();
                }
                assert_eq!(denial(&only_record(&world)), (Stage::Approval, ErrorCode::ApprovalExpired));
                let mut late = again(write_call("late"), &put, json!({"action": "accept"}));
                // A forged request learns nothing more.
                let mut forged = late.clone();
                forged["arguments"]["content"] = json!("other");
                let answer = client.request("tools/call", forged);
                assert_eq!(answer["error"]["code"], -32602, "{answer}");
                let result = client.request("tools/call", late.clone())["result"].clone();
                assert_eq!(result["isError"], true, "{result}");
                assert_eq!(result["_meta"]["toolgate/error"]["code"], "approval_expired", "{result}");
                assert_eq!(world.records().len(), 2, "the call, once, and who forged one");
                // A result is returned only once, with an answer or without.
                assert_eq!(client.request("tools/call", late.clone())["error"]["code"], -32602);
                late.as_object_mut().unwrap().remove("inputResponses");
                assert_eq!(client.request("tools/call", late)["error"]["code"], -32602);
                client.close().1.unwrap();
                let records = world.records();
                assert_eq!(denial(&records[1]), (Stage::Approval, ErrorCode::ApprovalDenied));
            }
        }
        assert!(!world.workspace.join("new.txt").exists());
    }
}

fn is_withdrawal(message: &Value) -> bool {
    message["method"] == "notifications/cancelled"
}

#[test]
fn a_client_that_cannot_ask_is_told_how_to_allow_it() {
    for era in ERAS {
        for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
            let world = World::new();
            let mut client = world.client_as(era, capabilities, guided());
            let result = client.request("tools/call", write_call("x"))["result"].clone();
            assert_eq!(result["isError"], true, "{result}");
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("--trust autonomous") && text.contains("elicitation"), "{text}");
            client.close().1.unwrap();
            assert!(!world.workspace.join("new.txt").exists());
            assert_eq!(denial(&only_record(&world)), (Stage::Approval, ErrorCode::ApprovalUnavailable));
        }
    }
}

#[test]
fn a_call_that_cannot_be_shown_whole_is_not_asked_about() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let long = "0123456789abcde\n".repeat(8000);
        let result = client.request("tools/call", write_call(&long))["result"].clone();
        assert_eq!(result["isError"], true, "{era:?}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("too long to be shown whole") && text.contains("64 KiB"), "{text}");
        assert!(!text.contains("nobody to ask"), "{text}");
        client.close().1.unwrap();
        assert!(!world.workspace.join("new.txt").exists());
        assert_eq!(denial(&only_record(&world)), (Stage::Approval, ErrorCode::ApprovalUnavailable));
        // The question contains the call to its last line.
        let world = World::new();
        let mut client = world.client(era);
        let fits = "a line\n".repeat(5000) + "the last line";
        let put = begin(&mut client, era, write_call(&fits));
        let message = words(&put, era)["message"].as_str().unwrap().to_owned();
        assert!(message.matches("a line").count() >= 5000 && message.contains("the last line"));
    }
}

/// A path that looks like another one, in both protocols: what is shown says which it is.
#[test]
fn what_looks_like_something_else_is_escaped_in_the_question() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let call = json!({"name": "write_file", "arguments": {"path": "n\u{43e}tes \u{a0}.txt", "content": "+a\u{a0}b\n"}});
        let put = begin(&mut client, era, call.clone());
        let message = words(&put, era)["message"].as_str().unwrap().to_owned();
        assert!(message.contains("│ create \"n\\u{43e}tes \\u{a0}.txt\" (6 bytes)\n"), "{message}");
        assert!(message.contains("│ + +a\\u{a0}b\n"), "{message}");
        finish(&mut client, era, &put, call, json!({"action": "decline"}));
        client.close().1.unwrap();
    }
}

#[test]
fn answers_come_through_however_many_questions_are_open() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    let first = begin(&mut client, Era::Older, write_call("x"));
    for _ in 1..1024 {
        client.ask("tools/call", write_call("x"));
    }
    // However many are refused, there is one record for the first and one for all others.
    for _ in 0..50 {
        let refused = client.ask("tools/call", write_call("x"));
        let error = client.answer(refused)["error"].clone();
        assert_eq!((&error["code"], &error["data"]["code"]), (&json!(-32600), &json!("rate_limited")));
        assert_eq!(error["data"]["retry_after_ms"], 1000);
    }
    client.reply(&first.asked, json!({"action": "accept"}));
    assert_eq!(client.answer(first.id)["result"]["isError"], false);
    // There is room for one more.
    assert_eq!(client.call("read_file", json!({"path": "a.txt"}))["isError"], false);
    client.close().1.unwrap();
    let records = world.records();
    assert_eq!(records.len(), 1026);
    let refused: Vec<&Record> = records
        .iter()
        .filter(|record| record.denial.as_ref().is_some_and(|denial| denial.code == ErrorCode::RateLimited))
        .collect();
    assert!(matches!(refused[..], [record] if record.tool.name == "write_file"), "{refused:?}");
}

#[test]
fn an_answer_that_is_given_twice_counts_once() {
    // Session protocol: a second answer to the same question is ignored.
    let world = World::new();
    let mut client = world.client(Era::Older);
    let put = begin(&mut client, Era::Older, write_call("x"));
    client.reply(&put.asked, json!({"action": "decline"}));
    client.reply(&put.asked, json!({"action": "accept"}));
    assert_eq!(client.answer(put.id)["result"]["isError"], true);
    client.close().1.unwrap();
    assert!(!world.workspace.join("new.txt").exists());

    // Stateless protocol: a state works once.
    let world = World::new();
    let mut client = world.client(Era::Newer);
    let put = begin(&mut client, Era::Newer, write_call("x"));
    let retry = again(write_call("x"), &put, json!({"action": "accept"}));
    assert_eq!(client.request("tools/call", retry.clone())["result"]["isError"], false);
    std::fs::remove_file(world.workspace.join("new.txt")).unwrap();
    let replayed = client.request("tools/call", retry);
    assert_eq!(replayed["error"]["code"], -32602, "{replayed}");
    client.close().1.unwrap();
    assert!(!world.workspace.join("new.txt").exists(), "a replayed state runs nothing");
    let records = world.records();
    assert_eq!(records.len(), 2);
    assert_eq!(denial(&records[1]), (Stage::Approval, ErrorCode::ApprovalDenied));
}

/// Session protocol: an answer cannot be for another call, because it has the question's id. Stateless protocol: the state is
/// bound to its call.
#[test]
fn an_answer_is_for_the_call_that_was_shown_alone() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    let first = begin(&mut client, Era::Older, write_call("shown"));
    let second = begin(&mut client, Era::Older, write_call("other"));
    client.reply(&first.asked, json!({"action": "accept"}));
    assert_eq!(client.answer(first.id)["result"]["isError"], false);
    client.reply(&second.asked, json!({"action": "decline"}));
    assert_eq!(client.answer(second.id)["result"]["isError"], true);
    client.close().1.unwrap();
    assert_eq!(std::fs::read_to_string(world.workspace.join("new.txt")).unwrap(), "shown");

    let world = World::new();
    let mut client = world.client(Era::Newer);
    let put = begin(&mut client, Era::Newer, write_call("shown"));
    let accept = || json!({"action": "accept"});
    let delete = json!({"name": "delete_file", "arguments": {"path": "a.txt"}});
    let other_tool = json!({"name": "append_file", "arguments": {"path": "new.txt", "content": "shown"}});
    let mut forged = again(write_call("shown"), &put, accept());
    forged["requestState"] = json!("rs1.AAAA.AAAA");
    let refused = [
        again(write_call("other"), &put, accept()),
        again(delete, &put, accept()),
        again(other_tool, &put, accept()),
        forged,
    ];
    for call in &refused {
        let answer = client.request("tools/call", call.clone());
        assert_eq!(answer["error"]["code"], -32602, "{call}: {answer}");
    }
    assert!(world.workspace.join("a.txt").exists() && !world.workspace.join("new.txt").exists());
    let records = world.records();
    assert_eq!(records.len(), refused.len());
    assert!(records.iter().all(|record| denial(record) == (Stage::Approval, ErrorCode::ApprovalDenied)));
    // The question is still open, and a valid answer still counts.
    let good = again(write_call("shown"), &put, accept());
    assert_eq!(client.request("tools/call", good)["result"]["isError"], false);
    client.close().1.unwrap();
    assert_eq!(std::fs::read_to_string(world.workspace.join("new.txt")).unwrap(), "shown");
}

#[test]
fn a_state_is_good_for_its_caller_alone() {
    let world = World::new();
    let service = world.service();
    let capabilities = json!({"elicitation": {}});
    let mut asked = Client::begun(service.clone(), Era::Newer, capabilities.clone(), guided());
    let put = begin(&mut asked, Era::Newer, write_call("x"));
    let stranger = Caller { subject: "stranger".to_owned(), ..guided() };
    let other_session = Caller { session: "mcp-other".parse().unwrap(), ..guided() };
    for caller in [stranger, other_session] {
        let mut client = Client::begun(service.clone(), Era::Newer, capabilities.clone(), caller);
        let answer = client.request("tools/call", again(write_call("x"), &put, json!({"action": "accept"})));
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    assert!(!world.workspace.join("new.txt").exists());
}

#[test]
fn a_state_is_not_good_for_a_tool_that_was_changed() {
    let world = World::new();
    let mut client = world.client(Era::Newer);
    let put = begin(&mut client, Era::Newer, write_call("x"));
    let mut registry = toolgate_gate::Registry::new();
    for tool in world.bench.loaded().registry.iter().filter(|tool| tool.spec().name.as_str() != "write_file")
    {
        registry.register(std::sync::Arc::clone(tool)).unwrap();
    }
    world.bench.gate().replace_config(toolgate_gate::GateConfig { registry, ..world.bench.loaded().clone() });
    let answer = client.request("tools/call", again(write_call("x"), &put, json!({"action": "accept"})));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    client.close().1.unwrap();
    assert!(!world.workspace.join("new.txt").exists());
}

#[test]
fn who_comes_again_without_an_answer_is_asked_again() {
    let world = World::new();
    let mut client = world.client(Era::Newer);
    let put = begin(&mut client, Era::Newer, write_call("x"));
    let mut without = write_call("x");
    without["requestState"] = put.asked["requestState"].clone();
    let mut elsewhere = without.clone();
    elsewhere["inputResponses"] = json!({"other": {"action": "accept"}});
    for call in [
        without,
        elsewhere,
        again(write_call("x"), &put, json!(7)),
        again(write_call("x"), &put, Value::Null),
        again(write_call("x"), &put, json!({"action": "perhaps"})),
    ] {
        let result = client.request("tools/call", call.clone())["result"].clone();
        assert_eq!(result["resultType"], "input_required", "{call}: {result}");
    }
    // An answer without a state is a new call, with a question of its own.
    let mut stateless = write_call("x");
    stateless["inputResponses"] = json!({"approval": {"action": "accept"}});
    let result = client.request("tools/call", stateless)["result"].clone();
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert!(!world.workspace.join("new.txt").exists());
    let good = again(write_call("x"), &put, json!({"action": "accept"}));
    assert_eq!(client.request("tools/call", good)["result"]["isError"], false);
}

#[test]
fn a_client_that_goes_away_from_its_question_leaves_a_record() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        begin(&mut client, era, write_call("x"));
        client.close().1.unwrap();
        assert!(!world.workspace.join("new.txt").exists());
        let record = only_record(&world);
        assert_ne!(record.decision, Decision::Allowed, "{record:?}");
    }
}

#[test]
fn a_question_that_waits_holds_up_no_other_call() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        // More than the limit on calls with responses in memory.
        let waiting: Vec<Put> = (0..12).map(|_| begin(&mut client, era, write_call("x"))).collect();
        assert_eq!(client.call("read_file", json!({"path": "a.txt"}))["isError"], false, "{era:?}");
        for put in waiting {
            let result = finish(&mut client, era, &put, write_call("x"), json!({"action": "decline"}));
            assert_eq!(result["isError"], true);
        }
    }
}

#[test]
fn no_more_calls_wait_than_there_is_room_for() {
    let world = World::new();
    let mut client = world.client(Era::Newer);
    for _ in 0..16 {
        assert_eq!(begin(&mut client, Era::Newer, write_call("x")).asked["resultType"], "input_required");
    }
    let refused = client.request("tools/call", write_call("x"))["result"].clone();
    assert_eq!(refused["isError"], true, "{refused}");
    client.close().1.unwrap();
    assert_eq!(world.records().len(), 17);
}

#[test]
fn a_cancelled_question_ends_its_call() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    let put = begin(&mut client, Era::Older, write_call("x"));
    client.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": put.id}}),
    );
    let withdrawn = client.next(is_withdrawal);
    assert_eq!(withdrawn["params"]["requestId"], put.asked["id"], "{withdrawn}");
    while world.records().is_empty() {
        std::thread::yield_now();
    }
    client.reply(&put.asked, json!({"action": "accept"}));
    // An answered question is not cancelled.
    let put = begin(&mut client, Era::Older, write_call("y"));
    finish(&mut client, Era::Older, &put, Value::Null, json!({"action": "decline"}));
    let (rest, ended) = client.close();
    assert!(!rest.iter().any(is_withdrawal), "{rest:?}");
    ended.unwrap();
    assert!(!world.workspace.join("new.txt").exists());
    assert_eq!(world.records()[0].decision, Decision::Error);
    assert_eq!(world.records().len(), 2);
}
