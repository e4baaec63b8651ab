//! OpenAI Responses.

use serde_json::{Value, json};
use toolgate_llm::{
    ApiKey, Capabilities, Endpoint, Message, StatedCapabilities, ThinkingMode, ToolChoice, Wire,
};

use crate::asking::{conversation, history, model, request, step, tools};
use crate::server::{Answer, Server};
use crate::stream::{any_chunking, cut_anywhere, fixture, snapshots};

const FOLDER: &str = "openai";

#[test]
fn streams_become_events() {
    snapshots(Wire::Openai, FOLDER);
}

#[test]
fn streams_may_come_in_any_pieces() {
    any_chunking(Wire::Openai, FOLDER);
}

#[test]
fn streams_that_break_off_make_no_calls() {
    cut_anywhere(Wire::Openai, FOLDER);
}

/// The request body of a conversation with this model.
async fn body(name: &str, messages: &[Message]) -> Value {
    let server = Server::start(|_| Answer::events(fixture(FOLDER, "text"))).await;
    let endpoint = Endpoint::new(server.url("/v1")).key(Some(ApiKey::new("sk-secret")));
    let provider = toolgate_llm::provider(Wire::Openai, endpoint, model("openai", name));
    step(&*provider, request(messages, &tools())).await.unwrap();
    let asked = &server.asked()[0];
    assert_eq!(asked.line, "POST /v1/responses");
    assert_eq!(asked.header("authorization"), Some("Bearer sk-secret"));
    asked.body.clone()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

#[tokio::test]
async fn a_conversation_goes_out() {
    let messages = conversation(Wire::Anthropic, &model("openai", "m"));
    insta::assert_snapshot!(pretty(&body("m", &messages).await));
}

#[tokio::test]
async fn what_came_goes_back_as_it_came_and_to_nobody_else() {
    let names = ["thinking", "thinking_that_cannot_go_back", "one_call", "one_call", "several_calls"];
    let messages = history(Wire::Openai, FOLDER, &model("openai", "m"), &names);
    let same = body("m", &messages).await;
    insta::assert_snapshot!(pretty(&same["input"]));
    assert_eq!(body("m", &messages).await, same);
    let other = body("another", &messages).await["input"].to_string();
    assert!(!other.contains("reasoning") && !other.contains("phase") && other.contains("call_A"), "{other}");
    let other = history(Wire::Anthropic, "anthropic", &model("openai", "m"), &["thinking", "one_call"]);
    let other = body("m", &other).await["input"].to_string();
    assert!(
        !other.contains("signature") && other.contains("12231") && other.contains("toolu_01A"),
        "{other}"
    );
}

#[tokio::test]
async fn only_what_is_wanted_is_said() {
    let server = Server::start(|_| Answer::events(fixture(FOLDER, "text"))).await;
    let tools = tools();
    let hello = [Message::user("Hello")];
    for (name, thinking, expected) in [
        ("gpt-6", ThinkingMode::Default, json!([["reasoning.encrypted_content"], null])),
        (
            "gpt-6",
            ThinkingMode::On,
            json!([["reasoning.encrypted_content"], {"effort": "medium", "summary": "auto"}]),
        ),
        ("gpt-6", ThinkingMode::Off, json!([["reasoning.encrypted_content"], {"effort": "none"}])),
        ("gpt-4.1-mini", ThinkingMode::On, json!([null, null])),
    ] {
        let provider =
            toolgate_llm::provider(Wire::Openai, Endpoint::new(server.url("/v1")), model("openai", name));
        let mut request = request(&hello, &tools);
        (request.thinking, request.tool_choice, request.max_output_tokens) =
            (thinking, ToolChoice::None, None);
        step(&*provider, request).await.unwrap();
        let body = server.asked().pop().unwrap().body;
        assert_eq!(json!([body["include"], body["reasoning"]]), expected, "{name}");
        assert_eq!((&body["store"], &body["tool_choice"]), (&json!(false), &json!("none")));
        assert_eq!(body.get("max_output_tokens"), None);
    }
}

#[tokio::test]
async fn what_a_model_can_do_is_configured_then_known() {
    let capabilities = async |name: &str, stated: StatedCapabilities| {
        let mut endpoint = Endpoint::new("http://127.0.0.1:1/v1");
        endpoint.stated = stated;
        toolgate_llm::provider(Wire::Openai, endpoint, model("openai", name)).capabilities().await.unwrap()
    };
    let unknown = Capabilities {
        supports_tools: true,
        supports_images: false,
        context_window: None,
        max_output_tokens: None,
    };
    assert_eq!(capabilities("never-heard-of", StatedCapabilities::default()).await, unknown);
    assert!(capabilities("gpt-5", StatedCapabilities::default()).await.context_window.is_some());
    let stated = StatedCapabilities {
        supports_tools: Some(false),
        supports_images: Some(false),
        context_window: Some(7),
        max_output_tokens: Some(3),
    };
    let expected = Capabilities {
        supports_tools: false,
        supports_images: false,
        context_window: Some(7),
        max_output_tokens: Some(3),
    };
    assert_eq!(capabilities("gpt-5", stated).await, expected);
}
