//! Ollama.

use serde_json::{Value, json};
use toolgate_llm::{
    Endpoint, ErrorKind, FinishReason, MAX_ARGUMENT_BYTES, MAX_CALLS, StatedCapabilities, StepEvent,
    StepRequest, ThinkingMode, ToolChoice, Wire,
};

use crate::asking::{conversation, model, request, step, tools};
use crate::server::{Answer, Asked, Server, nobody};
use crate::stream::{any_chunking, cut_anywhere, decode, fixtures, snapshots};

const FOLDER: &str = "ollama";

#[test]
fn streams_become_events() {
    snapshots(Wire::Ollama, FOLDER);
}

#[test]
fn streams_may_come_in_any_pieces() {
    any_chunking(Wire::Ollama, FOLDER);
}

#[test]
fn streams_that_break_off_make_no_calls() {
    cut_anywhere(Wire::Ollama, FOLDER);
}

#[test]
fn floods_are_cut_off() {
    let calls = |count: usize, argument: &str| {
        let call = json!({"function": {"name": "read", "arguments": {"path": argument}}});
        let line = json!({"message": {"content": "", "tool_calls": vec![call; count]}, "done": true, "done_reason": "stop"});
        decode(Wire::Ollama, [format!("{line}\n").as_bytes()]).failed.map(|failed| failed.kind)
    };
    assert_eq!(calls(MAX_CALLS, "a"), None);
    assert_eq!(calls(MAX_CALLS + 1, "a"), Some(ErrorKind::TooLarge));
    assert_eq!(calls(1, &"x".repeat(MAX_ARGUMENT_BYTES)), Some(ErrorKind::TooLarge));
}

/// An Ollama server with one model.
async fn ollama(stream: &'static str, show: Value) -> Server {
    Server::start(move |asked: &Asked| match asked.line.as_str() {
        "POST /api/show" => Answer::json(200, &show),
        _ => {
            Answer::lines(fixtures(FOLDER).into_iter().find(|fixture| fixture.name == stream).unwrap().bytes)
        }
    })
    .await
}

fn thinking_model() -> Value {
    json!({
        "capabilities": ["completion", "tools", "thinking"],
        "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40_960},
    })
}

#[tokio::test]
async fn a_conversation_goes_out_and_calls_come_back() {
    let server = ollama("thinking_then_call", thinking_model()).await;
    let model = model("ollama", "qwen3");
    let provider = toolgate_llm::provider(Wire::Ollama, Endpoint::new(server.url("")), model.clone());
    let (messages, tools) = (conversation(Wire::Ollama, &model), tools());
    let events = step(&*provider, request(&messages, &tools)).await.unwrap();
    let Some(StepEvent::Finish { reason: FinishReason::ToolCalls, message }) = events.last() else {
        panic!("{events:?}")
    };
    assert_eq!(message.calls().count(), 1);
    step(&*provider, request(&messages, &tools)).await.unwrap();
    let asked = server.asked();
    let lines: Vec<&str> = asked.iter().map(|asked| asked.line.as_str()).collect();
    assert_eq!(lines, ["POST /api/show", "POST /api/chat", "POST /api/chat"], "the model is looked up once");
    assert_eq!(asked[0].body, json!({"model": "qwen3"}));
    insta::assert_snapshot!(serde_json::to_string_pretty(&asked[1].body).unwrap());
}

/// The request body without messages.
async fn asked_for(show: Value, stated: StatedCapabilities, change: impl Fn(&mut StepRequest<'_>)) -> Value {
    let server = ollama("text", show).await;
    let endpoint = Endpoint { stated, ..Endpoint::new(server.url("")) };
    let provider = toolgate_llm::provider(Wire::Ollama, endpoint, model("ollama", "m"));
    let tools = tools();
    let mut request = request(&[], &tools);
    change(&mut request);
    step(&*provider, request).await.unwrap();
    let mut body = server.asked()[1].body.clone();
    for field in ["messages", "stream", "model", "truncate", "shift"] {
        body.as_object_mut().unwrap().remove(field);
    }
    if let Some(tools) = body.get_mut("tools") {
        *tools = json!(tools.as_array().unwrap().len());
    }
    body
}

#[tokio::test]
async fn a_model_is_asked_for_what_it_can() {
    let stated = StatedCapabilities { context_window: Some(9000), ..StatedCapabilities::default() };
    let nothing = StatedCapabilities::default();
    let plain = |_: &mut StepRequest<'_>| {};
    let body = asked_for(thinking_model(), nothing, plain).await;
    assert_eq!(body, json!({"tools": 2, "options": {"num_ctx": 32_768, "num_predict": 1000}}));
    let body = asked_for(thinking_model(), stated, |request| {
        (request.tool_choice, request.max_output_tokens) = (ToolChoice::None, None);
    })
    .await;
    assert_eq!(body, json!({"options": {"num_ctx": 9000}}));
    let body = asked_for(thinking_model(), nothing, |request| request.thinking = ThinkingMode::Off).await;
    assert_eq!(body["think"], json!(false));
    let body = asked_for(thinking_model(), nothing, |request| request.thinking = ThinkingMode::On).await;
    assert_eq!(body["think"], json!(true));
    let body = asked_for(json!({"capabilities": ["tools"]}), nothing, |request| {
        request.thinking = ThinkingMode::On;
    })
    .await;
    assert_eq!(body.get("think"), None, "a model that cannot think refuses to be asked");
}

#[tokio::test]
async fn what_a_model_can_do_is_what_the_server_shows() {
    let server =
        ollama("text", json!({"capabilities": ["completion"], "model_info": {"llama.context_length": 8192}}))
            .await;
    let provider = toolgate_llm::provider(Wire::Ollama, Endpoint::new(server.url("")), model("ollama", "m"));
    let capabilities = provider.capabilities().await.unwrap();
    assert!(!capabilities.supports_tools);
    assert_eq!(capabilities.context_window, Some(8192));
}

#[tokio::test]
async fn failures_say_what_to_do() {
    let missing = Server::start(|_| Answer::json(404, &json!({"error": "model 'llama9' not found"}))).await;
    let provider =
        toolgate_llm::provider(Wire::Ollama, Endpoint::new(missing.url("")), model("ollama", "llama9"));
    let failed = step(&*provider, request(&[], &[])).await.unwrap_err();
    assert_eq!(failed.kind, ErrorKind::UnknownModel);
    assert_eq!(failed.help.as_deref(), Some("get it with `ollama pull llama9`"));

    let (_held, address) = nobody();
    let provider = toolgate_llm::provider(Wire::Ollama, Endpoint::new(&address), model("ollama", "llama9"));
    for failed in [
        step(&*provider, request(&[], &[])).await.unwrap_err(),
        provider.capabilities().await.unwrap_err(),
        Wire::Ollama.installed_models(&Endpoint::new(&address)).await.unwrap().unwrap_err(),
    ] {
        assert_eq!(failed.kind, ErrorKind::Unreachable, "{failed:?}");
        assert!(failed.help.unwrap().contains("ollama serve"));
    }
}

#[tokio::test]
async fn models_that_are_installed_are_listed() {
    let tags = json!({"models": [{"name": "a:1b", "modified_at": "2025-01-01"}, {"name": "b:1b", "modified_at": "2026-01-01"}]});
    let server = Server::start(move |_| Answer::json(200, &tags)).await;
    assert_eq!(
        Wire::Ollama.installed_models(&Endpoint::new(server.url(""))).await.unwrap().unwrap(),
        ["b:1b", "a:1b"]
    );
    assert_eq!(server.asked()[0].line, "GET /api/tags");
}
