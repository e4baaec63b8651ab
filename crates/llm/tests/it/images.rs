//! Images of the user, as each wire sends them.

use serde_json::{Value, json};
use toolgate_llm::{AssistantMessage, Endpoint, Message, MessagePart, UserImage, Wire};

use crate::asking::{model, request, step, tools};
use crate::server::{Answer, Asked, Server};

/// The messages of a request with two images, text after them, and a second message of the user right behind.
async fn messages(wire: Wire, path: &str, provider: &str) -> Value {
    let server = Server::start(|asked: &Asked| match asked.line.as_str() {
        "POST /api/show" => Answer::json(200, &json!({"capabilities": ["completion", "vision"]})),
        _ => Answer::json(500, &json!({"error": "this test needs the request alone"})),
    })
    .await;
    let provider = toolgate_llm::provider(wire, Endpoint::new(server.url(path)), model(provider, "m"));
    let image = |name: &str, mime_type: &str, data: &str| UserImage {
        name: name.into(),
        mime_type: mime_type.into(),
        data: data.into(),
    };
    let images = vec![image("a.png", "image/png", "iVBORw0K"), image("b.jpg", "image/jpeg", "/9j/4AAQ")];
    let parts = vec![MessagePart::Text { text: "Two cats.".into() }];
    let sent = [
        Message::user("Before."),
        Message::User { text: "What is this?".into(), images },
        Message::Assistant(AssistantMessage { parts, model: None }),
        Message::user("And now?"),
    ];
    assert!(step(&*provider, request(&sent, &tools())).await.is_err());
    let body = server.asked().pop().unwrap().body;
    body.get("messages").or(body.get("input")).unwrap().clone()
}

#[tokio::test]
async fn images_go_out_over_every_wire() {
    for (wire, path, provider) in [
        (Wire::Anthropic, "", "anthropic"),
        (Wire::Openai, "/v1", "openai"),
        (Wire::OpenaiChat, "/v1", "openai-chat"),
        (Wire::Ollama, "", "ollama"),
    ] {
        let sent = messages(wire, path, provider).await;
        insta::assert_snapshot!(format!("images__{provider}"), serde_json::to_string_pretty(&sent).unwrap());
    }
}

/// What was stored before messages had images, and what has none, is written as it always was.
#[test]
fn a_message_without_images_is_stored_as_before() {
    let stored = r#"{"role":"user","text":"Hello"}"#;
    let message: Message = serde_json::from_str(stored).unwrap();
    assert_eq!(message, Message::user("Hello"));
    assert_eq!(serde_json::to_string(&message).unwrap(), stored);
}
