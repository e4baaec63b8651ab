//! Converts a server's prompt: the messages that it would put into a conversation.

use rmcp::model::{ContentBlock, GetPromptResult, Role};
use serde_json::{Value, json};
use toolgate_types::{Attachment, DocumentContent, ErrorCode, Failure, ToolOutput};

use super::{AnswerContext, ContentCollector, json_exceeds, sanitize_text};

/// Converts a prompt. Its messages are in the structured part, in order, and what they say in the text.
pub(crate) fn read_prompt(
    result: GetPromptResult,
    reading: AnswerContext<'_>,
) -> Result<ToolOutput, Failure> {
    let most = usize::try_from(reading.limits.max_output_bytes).unwrap_or(usize::MAX);
    let (mut text, mut messages) = (String::new(), Vec::new());
    for message in result.messages {
        let role = if message.role == Role::Assistant { "assistant" } else { "user" };
        let content = block(message.content, most);
        text.push_str(content.get("text").and_then(Value::as_str).unwrap_or("[a part that is not text]"));
        text.push('\n');
        messages.push(json!({"role": role, "content": content}));
    }
    let description = result.description.as_deref().map(sanitize_text);
    let prompt = json!({"description": description, "messages": messages});
    if json_exceeds(&prompt, most) {
        return Err(Failure::new(
            ErrorCode::ReadLimit,
            format!("the prompt of the server `{}` is longer than {most} bytes", reading.server),
        ));
    }
    Ok(ToolOutput::new(text, prompt))
}

/// One block of content, as it may be passed on.
fn block(block: ContentBlock, most: usize) -> Value {
    let mut parts = ContentCollector { document_bytes_left: most, ..ContentCollector::default() };
    parts.add(block);
    match parts.attachments.pop() {
        None => json!({"type": "text", "text": parts.text()}),
        Some(Attachment::Image { mime_type, data }) => {
            json!({"type": "image", "mimeType": mime_type, "data": data})
        }
        Some(Attachment::Audio { mime_type, data }) => {
            json!({"type": "audio", "mimeType": mime_type, "data": data})
        }
        Some(Attachment::Document { uri, mime_type, content }) => {
            let (key, data) = match content {
                DocumentContent::Text(text) => ("text", text.into_string()),
                DocumentContent::Base64(data) => ("blob", data),
            };
            let mut resource = json!({"uri": uri, key: data});
            if let (Some(fields), Some(mime_type)) = (resource.as_object_mut(), mime_type) {
                fields.insert("mimeType".to_owned(), mime_type.into());
            }
            json!({"type": "resource", "resource": resource})
        }
    }
}
