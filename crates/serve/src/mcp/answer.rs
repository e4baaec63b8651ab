//! What a client is given for a call that ended.

use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use serde_json::Value;
use toolgate_tools::Called;
use toolgate_types::{Attachment, DocumentContent};

use crate::mcp::OutputStore;

/// A text longer than this is not sent a second time in the structured part.
const REPEATED: usize = 32 * 1024;

/// The answer to one call. What had to be cut is kept for the caller, and linked.
pub(crate) fn answered(called: Called, outputs: &OutputStore, binding: [u8; 32]) -> CallToolResult {
    let Called { answer, attachments, whole, .. } = called;
    let structured = answer.structured.filter(Value::is_object).map(|value| once(value, &answer.text));
    let mut content = vec![ContentBlock::text(answer.text)];
    content.extend(attachments.into_iter().map(attached));
    content.extend(whole.and_then(|whole| linked(&whole, outputs, binding)));
    let mut result = CallToolResult::success(content);
    result.structured_content = structured;
    result.is_error = Some(answer.is_error);
    result
}

/// Leaves a long `content` out of the structured part where the text begins with it.
fn once(mut structured: Value, text: &str) -> Value {
    if text.len() > REPEATED
        && let Some(fields) = structured.as_object_mut()
        && fields.get("content").and_then(Value::as_str).is_some_and(|content| text.starts_with(content))
    {
        fields.shift_remove("content");
    }
    structured
}

fn attached(attachment: Attachment) -> ContentBlock {
    match attachment {
        Attachment::Image { mime_type, data } => ContentBlock::image(data, mime_type),
        Attachment::Audio { mime_type, data } => ContentBlock::audio(data, mime_type),
        Attachment::Document { uri, mime_type, content } => {
            let contents = match content {
                DocumentContent::Text(text) => ResourceContents::text(text, uri),
                DocumentContent::Base64(blob) => ResourceContents::blob(blob, uri),
            };
            ContentBlock::resource(match mime_type {
                Some(mime_type) => contents.with_mime_type(mime_type),
                None => contents,
            })
        }
    }
}

fn linked(whole: &str, outputs: &OutputStore, binding: [u8; 32]) -> Option<ContentBlock> {
    let uri = outputs.keep(binding, whole)?;
    let link = Resource::new(uri, "whole output")
        .with_description("the whole of what was cut here; kept for a few minutes")
        .with_mime_type("text/plain")
        .with_size(whole.len() as u64);
    Some(ContentBlock::resource_link(link))
}
