//! Anthropic Messages.

use serde_json::{Value, json};
use toolgate_llm::{
    ApiKey, Capabilities, Endpoint, Message, StatedCapabilities, ThinkingMode, ToolChoice, Wire,
};

use crate::asking::{conversation, history, model, request, step, tools};
use crate::server::{Answer, Server};
use crate::stream::{any_chunking, cut_anywhere, fixture, snapshots};

const FOLDER: &str = "anthropic";

#[test]
fn streams_become_events() {
    snapshots(Wire::Anthropic, FOLDER);
}

#[test]
fn streams_may_come_in_any_pieces() {
    any_chunking(Wire::Anthropic, FOLDER);
}

#[test]
fn streams_that_break_off_make_no_calls() {
    cut_anywhere(Wire::Anthropic, FOLDER);
}

/// The request body of a conversation with this model.
async fn body(name: &str, messages: &[Message]) -> Value {
    let server = Server::start(|_| Answer::events(fixture(FOLDER, "text"))).await;
    let endpoint = Endpoint::new(server.url("/proxy/")).key(Some(ApiKey::new("sk-secret")));
    let provider = toolgate_llm::provider(Wire::Anthropic, endpoint, model("anthropic", name));
    step(&*provider, request(messages, &tools())).await.unwrap();
    let asked = &server.asked()[0];
    assert_eq!(asked.line, "POST /proxy/v1/messages");
    assert_eq!(asked.header("x-api-key"), Some("sk-secret"));
    assert_eq!(asked.header("anthropic-version"), Some("2026-10-21"));
    assert_eq!(asked.header("authorization"), None);
    asked.body.clone()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

#[tokio::test]
async fn a_conversation_goes_out() {
    let messages = conversation(Wire::Anthropic, &model("anthropic", "m"));
    insta::assert_snapshot!(pretty(&body("m", &messages).await));
}

#[tokio::test]
async fn what_came_goes_back_as_it_came_and_to_nobody_else() {
    let names = [
        "thinking",
        "thinking_not_shown",
        "thinking_without_signature",
        "one_call",
        "one_call",
        "several_calls",
    ];
    let messages = history(Wire::Anthropic, FOLDER, &model("anthropic", "m"), &names);
    let same = body("m", &messages).await;
    insta::assert_snapshot!(pretty(&same["messages"]));
    assert_eq!(body("m", &messages).await, same);
    let other = body("another", &messages).await["messages"].to_string();
    assert!(
        !other.contains(r#""signature":"#)
            && !other.contains("redacted")
            && other.contains("12231")
            && other.contains("toolu_01A"),
        "{other}"
    );
    let other = history(Wire::Openai, "openai", &model("anthropic", "m"), &["thinking", "one_call"]);
    let other = body("m", &other).await["messages"].to_string();
    assert!(!other.contains("encrypted") && other.contains("12231") && other.contains("call_A"), "{other}");
}

#[tokio::test]
async fn only_what_is_wanted_is_said() {
    let server = Server::start(|_| Answer::events(fixture(FOLDER, "text"))).await;
    let tools = tools();
    let hello = [Message::user("Hello"), Message::user(" \n")];
    let mut asked = Vec::new();
    for (name, stated, most, thinking) in [
        ("m", None, None, ThinkingMode::Default),
        ("claude-sonnet-5", None, None, ThinkingMode::On),
        ("claude-sonnet-5", Some(777), None, ThinkingMode::Off),
        ("claude-sonnet-5", Some(777), Some(55), ThinkingMode::Default),
    ] {
        let mut endpoint = Endpoint::new(server.url(""));
        endpoint.stated = StatedCapabilities { max_output_tokens: stated, ..StatedCapabilities::default() };
        let provider = toolgate_llm::provider(Wire::Anthropic, endpoint, model("anthropic", name));
        let mut request = request(&hello, &tools);
        (request.max_output_tokens, request.thinking) = (most, thinking);
        (request.system, request.tool_choice) = (None, ToolChoice::None);
        step(&*provider, request).await.unwrap();
        let body = server.asked().pop().unwrap().body;
        asked.push(json!([body["max_tokens"], body["thinking"], body["tool_choice"], body.get("system")]));
        assert_eq!(body["tools"][1]["cache_control"], json!({"type": "ephemeral"}));
        assert_eq!(body["messages"][0]["content"].as_array().unwrap().len(), 1);
    }
    let none = json!({"type": "none"});
    assert_eq!(
        asked,
        [
            json!([8192, null, none, null]),
            json!([32_000, {"type": "adaptive", "display": "summarized"}, none, null]),
            json!([777, {"type": "disabled"}, none, null]),
            json!([55, null, none, null]),
        ]
    );
}

#[tokio::test]
async fn what_a_model_can_do_is_configured_then_known_then_asked() {
    let info = json!({"type": "model", "id": "m", "max_input_tokens": 5000, "max_tokens": 600});
    let server = Server::start(move |_| Answer::json(200, &info)).await;
    let capabilities = async |name: &str, stated: StatedCapabilities| {
        let mut endpoint = Endpoint::new(server.url(""));
        endpoint.stated = stated;
        let provider = toolgate_llm::provider(Wire::Anthropic, endpoint, model("anthropic", name));
        let first = provider.capabilities().await.unwrap();
        assert_eq!(provider.capabilities().await.unwrap(), first);
        first
    };
    let asked = capabilities("m", StatedCapabilities::default()).await;
    let (context_window, max_output_tokens) = (Some(5000), Some(600));
    assert_eq!(
        asked,
        Capabilities {
            supports_tools: true,
            supports_images: asked.supports_images,
            context_window,
            max_output_tokens
        }
    );
    assert_eq!(
        server.asked().iter().map(|asked| asked.line.as_str()).collect::<Vec<_>>(),
        ["GET /v1/models/m"]
    );
    let stated = StatedCapabilities { context_window: Some(7), ..StatedCapabilities::default() };
    assert_eq!(capabilities("claude-sonnet-5", stated).await.context_window, Some(7));
    assert_eq!(server.asked().len(), 1);
    let gone = Endpoint::new("http://127.0.0.1:1");
    let provider = toolgate_llm::provider(Wire::Anthropic, gone, model("anthropic", "m"));
    assert_eq!(provider.capabilities().await.unwrap().context_window, None);
}
