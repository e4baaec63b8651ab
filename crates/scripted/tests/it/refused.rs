//! Requests that vendors reject, with their messages. The tests with the official clients cover most of them; these are the ones that clients do not
//! let through.

use std::fmt::Write as _;

use serde_json::{Value, json};
use toolgate_scripted::Wire;

use crate::client::{continued, post, request, serve};

const SCRIPT: &str = "
model: {name: demo, context_window: 3000, reasoning: reasoning_details}
steps: [{think: hm, calls: [{tool: read_file}]}, {say: done}]
";

/// A valid request with one mistake.
fn with(wire: Wire, change: impl FnOnce(&mut Value)) -> Value {
    let mut request = request(wire, "go", false);
    change(&mut request);
    request
}

#[tokio::test]
async fn each_vendor_refuses_in_its_own_words() {
    let server = serve(SCRIPT).await;
    let mut table = String::new();
    for &wire in Wire::ALL {
        let list = if wire == Wire::Openai { "input" } else { "messages" };
        for (name, body) in [
            ("no model", with(wire, |body| drop(body.as_object_mut().unwrap().remove("model")))),
            ("another model", with(wire, |body| body["model"] = json!("other"))),
            ("no conversation", with(wire, |body| drop(body.as_object_mut().unwrap().remove(list)))),
            ("too long", with(wire, |body| body[list][0]["content"] = json!("x".repeat(20_000)))),
            ("no JSON", json!("neither here nor there")),
        ] {
            let heard = post(&server, wire, &body).await;
            let _ = writeln!(table, "{:<12} {name:<16} {} {}", wire.as_str(), heard.status, heard.text());
        }
    }
    insta::assert_snapshot!(table);
}

#[tokio::test]
async fn a_version_and_a_limit_are_wanted_by_one_vendor() {
    let server = serve(SCRIPT).await;
    let missing = with(Wire::Anthropic, |body| drop(body.as_object_mut().unwrap().remove("max_tokens")));
    let heard = post(&server, Wire::Anthropic, &missing).await;
    assert_eq!(heard.json()["error"]["message"], "max_tokens: Field required");
}

#[tokio::test]
async fn thoughts_with_a_seal_are_wanted_back_whole() {
    let server = serve(SCRIPT).await;
    for (wire, path) in [
        (Wire::Anthropic, "/messages/1/content/0/thinking"),
        (Wire::Openai, "/input/1/encrypted_content"),
        (Wire::OpenaiChat, "/messages/1/reasoning_details/0/text"),
    ] {
        let asked = request(wire, "go", false);
        let answer = post(&server, wire, &asked).await.json();
        let good = continued(wire, &asked, &answer, "x");
        assert_eq!(post(&server, wire, &good).await.status, 200, "{wire:?}");
        let mut changed = good.clone();
        *changed.pointer_mut(path).unwrap() = json!("changed");
        assert_eq!(post(&server, wire, &changed).await.status, 400, "{wire:?}");
        let mut left_out = good.clone();
        match wire {
            Wire::Anthropic => drop(left_out["messages"][1]["content"].as_array_mut().unwrap().remove(0)),
            Wire::Openai => drop(left_out["input"].as_array_mut().unwrap().remove(1)),
            _ => left_out["messages"][1]["reasoning_details"] = Value::Null,
        }
        assert_eq!(post(&server, wire, &left_out).await.status, 400, "{wire:?}");
    }
}

#[tokio::test]
async fn a_key_that_is_set_must_be_sent() {
    use toolgate_scripted::{Script, ScriptServer, ServerOptions};
    for (key, status) in [("any", 200), ("other", 401)] {
        let script = Script::parse("x", "steps: [{say: hi}]").unwrap();
        let options = ServerOptions { key: Some(key.to_owned()), ..ServerOptions::default() };
        let server = ScriptServer::start(script, options).await.unwrap();
        for wire in [Wire::Anthropic, Wire::Openai, Wire::OpenaiChat] {
            assert_eq!(post(&server, wire, &request(wire, "go", false)).await.status, status, "{wire:?}");
        }
        // This wire has no keys.
        assert_eq!(post(&server, Wire::Ollama, &request(Wire::Ollama, "go", false)).await.status, 200);
    }
}

#[tokio::test]
async fn calls_and_results_belong_together_on_every_wire() {
    let server = serve("steps: [{calls: [{tool: read_file}]}, {say: done}]").await;
    let mut table = String::new();
    for &wire in Wire::ALL {
        let list = if wire == Wire::Openai { "input" } else { "messages" };
        let asked = request(wire, "go", false);
        let answer = post(&server, wire, &asked).await.json();
        let good = continued(wire, &asked, &answer, "x");
        let changed = |change: fn(&mut Vec<Value>)| {
            let mut request = good.clone();
            change(request[list].as_array_mut().unwrap());
            request
        };
        for (name, body) in [
            ("as it should be", good.clone()),
            ("no result", changed(|messages| messages[2] = json!({"role": "user", "content": "and?"}))),
            ("no result at the end", changed(|messages| drop(messages.pop()))),
            ("no call", changed(|messages| drop(messages.remove(1)))),
            ("another result", changed(|messages| messages.push(messages[2].clone()))),
        ] {
            let heard = post(&server, wire, &body).await;
            let said = if heard.status == 200 { "…".to_owned() } else { heard.text() };
            let _ = writeln!(table, "{:<12} {name:<20} {} {said}", wire.as_str(), heard.status);
        }
    }
    insta::assert_snapshot!(table);
}
