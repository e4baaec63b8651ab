//! OpenAI Chat Completions.

use serde_json::{Value, json};
use toolgate_llm::{
    ApiKey, Capabilities, Endpoint, ErrorKind, FinishReason, StatedCapabilities, StepEvent, StepRequest,
    ThinkingMode, ToolChoice, Wire,
};

use crate::asking::{conversation, model, request, step, tools};
use crate::server::{Answer, Server};
use crate::stream::{any_chunking, cut_anywhere, fixtures, snapshots};

const FOLDER: &str = "openai-chat";

#[test]
fn streams_become_events() {
    snapshots(Wire::OpenaiChat, FOLDER);
}

#[test]
fn streams_may_come_in_any_pieces() {
    any_chunking(Wire::OpenaiChat, FOLDER);
}

#[test]
fn streams_that_break_off_make_no_calls() {
    cut_anywhere(Wire::OpenaiChat, FOLDER);
}

fn stream(name: &str) -> Vec<u8> {
    fixtures(FOLDER).into_iter().find(|fixture| fixture.name == name).unwrap().bytes
}

#[tokio::test]
async fn a_conversation_goes_out_and_calls_come_back_by_their_own_names() {
    let server = Server::start(|_| Answer::events(stream("openrouter"))).await;
    let endpoint = Endpoint::new(server.url("/api/v1")).key(Some(ApiKey::new("sk-secret")));
    let model = model("openai-chat", "m");
    let provider = toolgate_llm::provider(Wire::OpenaiChat, endpoint, model.clone());
    let (messages, tools) = (conversation(Wire::OpenaiChat, &model), tools());
    let events = step(&*provider, request(&messages, &tools)).await.unwrap();
    let Some(StepEvent::Finish { reason: FinishReason::ToolCalls, message }) = events.last() else {
        panic!("{events:?}")
    };
    assert_eq!(message.calls().map(|call| call.name.as_str()).collect::<Vec<_>>(), ["fs.read"]);
    assert_eq!(message.model.as_ref(), Some(&model));
    let asked = &server.asked()[0];
    assert_eq!(asked.line, "POST /api/v1/chat/completions");
    assert_eq!(asked.header("authorization"), Some("Bearer sk-secret"));
    insta::assert_snapshot!(serde_json::to_string_pretty(&asked.body).unwrap());
}

/// The request body without messages and tools.
async fn asked_for(provider: &str, name: &str, change: impl Fn(&mut StepRequest<'_>)) -> Value {
    let server = Server::start(|_| Answer::events(stream("text"))).await;
    let provider =
        toolgate_llm::provider(Wire::OpenaiChat, Endpoint::new(server.url("/v1")), model(provider, name));
    let tools = tools();
    let mut request = request(&[], &tools);
    change(&mut request);
    step(&*provider, request).await.unwrap();
    let mut body = server.asked()[0].body.clone();
    for field in ["messages", "stream", "stream_options", "model"] {
        body.as_object_mut().unwrap().remove(field);
    }
    if let Some(tools) = body.get_mut("tools") {
        *tools = json!(tools.as_array().unwrap().len());
    }
    body
}

#[tokio::test]
async fn each_server_is_asked_in_its_own_way() {
    let plain = |_: &mut StepRequest<'_>| {};
    let body = asked_for("vllm", "m", plain).await;
    assert_eq!(body, json!({"tools": 2, "max_tokens": 1000}));
    let body = asked_for("vllm", "m", |request| request.thinking = ThinkingMode::On).await;
    assert_eq!(body, json!({"tools": 2, "max_tokens": 1000}));
    let body = asked_for("vllm", "m", |request| request.tool_choice = ToolChoice::None).await;
    assert_eq!(body, json!({"tools": 2, "tool_choice": "none", "max_tokens": 1000}));
    let body =
        asked_for("vllm", "m", |request| (request.tools, request.max_output_tokens) = (&[], None)).await;
    assert_eq!(body, json!({}));
    let body = asked_for("openrouter", "a/m", |request| request.thinking = ThinkingMode::On).await;
    assert_eq!(body, json!({"tools": 2, "max_tokens": 1000, "reasoning": {"enabled": true}}));
    let body = asked_for("openrouter", "a/m", |request| request.thinking = ThinkingMode::Off).await;
    assert_eq!(body, json!({"tools": 2, "max_tokens": 1000, "reasoning": {"enabled": false}}));
}

#[tokio::test]
async fn what_a_model_can_do_is_configured_then_listed_then_known() {
    let list = json!({"data": [{"id": "gpt-4o", "context_length": 9000, "supported_parameters": []}]});
    let all = |supports_tools, context_window, max_output_tokens| Capabilities {
        supports_tools,
        supports_images: false,
        context_window,
        max_output_tokens,
    };
    let stated = StatedCapabilities { supports_tools: Some(true), ..StatedCapabilities::default() };
    let nothing = StatedCapabilities::default();
    for (status, body, name, stated, expected) in [
        (200, list.clone(), "gpt-4o", nothing, all(false, Some(9000), Some(16_384))),
        (200, list.clone(), "gpt-4o", stated, all(true, Some(9000), Some(16_384))),
        (200, list.clone(), "gpt-4.1", nothing, all(true, Some(1_047_576), Some(32_768))),
        (200, list, "mine", nothing, all(true, None, None)),
        (404, json!({}), "gpt-4o", nothing, all(true, Some(128_000), Some(16_384))),
        (500, json!("no"), "mine", nothing, all(true, None, None)),
    ] {
        let server = Server::start(move |_| Answer::json(status, &body)).await;
        let endpoint = Endpoint { stated, ..Endpoint::new(server.url("/v1")) };
        let provider = toolgate_llm::provider(Wire::OpenaiChat, endpoint, model("openai-chat", name));
        let expected = Capabilities { supports_images: name != "mine", ..expected };
        assert_eq!(provider.capabilities().await.unwrap(), expected, "{status} {name}");
        provider.capabilities().await.unwrap();
        // A server that failed is queried again: it may be starting.
        assert_eq!(server.asked().len(), if status == 500 { 2 } else { 1 }, "{status} {name}");
        assert_eq!(server.asked()[0].line, "GET /v1/models");
    }
}

#[tokio::test]
async fn nobody_is_asked_for_what_is_configured() {
    let server = Server::start(|_| Answer::json(200, &json!({"data": []}))).await;
    let stated = StatedCapabilities {
        supports_tools: Some(true),
        supports_images: None,
        context_window: Some(10),
        max_output_tokens: Some(5),
    };
    let endpoint = Endpoint { stated, ..Endpoint::new(server.url("/v1")) };
    let provider = toolgate_llm::provider(Wire::OpenaiChat, endpoint, model("openai-chat", "m"));
    assert_eq!(provider.capabilities().await.unwrap().context_window, Some(10));
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn refusals_are_told_apart() {
    for (status, body, kind) in [
        (401, json!({"error": {"message": "bad key", "code": "invalid_api_key"}}), ErrorKind::Unauthorized),
        (402, json!({"error": {"message": "no credits", "code": 402}}), ErrorKind::SpendLimit),
        (
            404,
            json!({"error": {"message": "The model `m` does not exist", "code": 404}}),
            ErrorKind::UnknownModel,
        ),
        (429, json!({"error": {"message": "slow down"}}), ErrorKind::RateLimited),
        (200, json!({"error": {"message": "no provider", "code": 503}}), ErrorKind::Overloaded),
    ] {
        let server = Server::start(move |_| Answer::json(status, &body)).await;
        let endpoint = Endpoint::new(server.url("/v1")).key(Some(ApiKey::new("sk-secret")));
        let provider = toolgate_llm::provider(Wire::OpenaiChat, endpoint, model("openai-chat", "m"));
        let failed = step(&*provider, request(&[], &[])).await.unwrap_err();
        assert_eq!(failed.kind, kind, "{failed:?}");
        assert!(!format!("{failed:?}").contains("sk-secret"));
    }
}
