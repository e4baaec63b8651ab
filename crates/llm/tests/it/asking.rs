//! A conversation with every kind of message, for request bodies.

use std::sync::Arc;

use serde_json::json;
use toolgate_llm::{
    AssistantMessage, CallResult, Message, MessagePart, ModelCall, ModelName, OpaqueProviderState, Provider,
    ProviderError, StepDecoder, StepEvent, StepRequest, ThinkingMode, ToolChoice, ToolDefinition, Wire,
};

use crate::stream::fixture;

/// A model by its provider and name.
pub(crate) fn model(provider: &str, name: &str) -> ModelName {
    ModelName { provider: provider.into(), name: name.into() }
}

/// Two tools, one of them with a name that wires do not accept.
pub(crate) fn tools() -> Vec<ToolDefinition> {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}, "any": true}, "required": ["path"]});
    let tool = |name: &str| ToolDefinition {
        name: name.into(),
        description: format!("The tool {name}."),
        input_schema: Arc::new(schema.as_object().unwrap().clone()),
    };
    vec![tool("fs.read"), tool("list_dir")]
}

/// Two turns: text, thinking of this model and of another, valid and invalid calls, results.
pub(crate) fn conversation(wire: Wire, model: &ModelName) -> Vec<Message> {
    let user = |text: &str| Message::user(text);
    let text = |text: &str| MessagePart::Text { text: text.into() };
    let thinking = |text: &str, wire, value| MessagePart::Thinking {
        text: text.into(),
        seal: Some(OpaqueProviderState { wire, value }),
    };
    let call = |id: &str, name: &str, arguments: &str| {
        MessagePart::Call(ModelCall { id: id.into(), name: name.into(), arguments: arguments.into() })
    };
    let said = |parts: Vec<MessagePart>, model: &ModelName| {
        Message::Assistant(AssistantMessage { parts, model: Some(model.clone()) })
    };
    let result = |call: &str, name: &str, text: &str, is_error| CallResult {
        call: call.into(),
        name: name.into(),
        text: text.into(),
        is_error,
        recorded: None,
    };
    let other = ModelName { provider: "other".into(), name: "m".into() };
    let sealed = || json!({"reasoning_content": "I look.", "other": "field"});
    vec![
        user("What is in a?"),
        user("And hurry."),
        said(vec![thinking("I look.", wire, sealed()), call("c1", "fs.read", r#"{"path":"a"}"#)], model),
        Message::Results { results: vec![result("c1", "fs.read", "A", false)] },
        said(vec![thinking("Elsewhere.", wire, sealed()), text("It is A.")], &other),
        user("And b?"),
        said(
            vec![
                thinking("Once more.", wire, json!({"reasoning_content": "Once more."})),
                text("I look."),
                call("c2", "fs.read", r#"{"path": b"#),
                call("c3", "list_dir", "{}"),
            ],
            model,
        ),
        Message::Results {
            results: vec![
                result("c2", "fs.read", "the arguments are not JSON", true),
                result("c3", "list_dir", "", false),
            ],
        },
    ]
}

/// A request with all of it.
pub(crate) fn request<'r>(messages: &'r [Message], tools: &'r [ToolDefinition]) -> StepRequest<'r> {
    StepRequest {
        system: Some("Be brief."),
        messages,
        tools,
        tool_choice: ToolChoice::Auto,
        max_output_tokens: Some(1000),
        thinking: ThinkingMode::Default,
    }
}

/// Requests a step and collects its events.
pub(crate) async fn step(
    provider: &dyn Provider,
    request: StepRequest<'_>,
) -> Result<Vec<StepEvent>, ProviderError> {
    let mut events = provider.step(request).await?;
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        all.push(event?);
    }
    Ok(all)
}

/// A conversation of these streams' messages, every call with its result.
pub(crate) fn history(wire: Wire, folder: &str, model: &ModelName, streams: &[&str]) -> Vec<Message> {
    let mut messages = Vec::new();
    for name in streams {
        let mut decoder = StepDecoder::new(wire, model);
        decoder.feed(&fixture(folder, name)).unwrap();
        let events = std::iter::from_fn(|| decoder.next_event());
        let Some(StepEvent::Finish { message, .. }) = events.last() else { panic!("{name} does not finish") };
        let result = |call: &ModelCall| CallResult {
            call: call.id.clone(),
            name: call.name.clone(),
            text: format!("what {} gave", call.id),
            is_error: false,
            recorded: None,
        };
        let results: Vec<CallResult> = message.calls().map(result).collect();
        messages.push(Message::user(format!("Now {name}.")));
        messages.push(Message::Assistant(message));
        if !results.is_empty() {
            messages.push(Message::Results { results });
        }
    }
    messages
}
