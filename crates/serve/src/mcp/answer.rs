//! What a client is given for a call that ended.

use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use serde_json::Value;
use toolgate_gate::ToolSpec;
use toolgate_tools::Called;
use toolgate_types::{Attachment, DocumentContent};

/// A text of this length is not sent a second time in the structured part.
const REPEATED: usize = 32 * 1024;

/// The names under which a tool tells where its whole output is kept, if it declares one.
const FULL_OUTPUT: [&str; 2] = ["full_output", "fullOutput"];

/// Where profiles with a shape of their own put what the tool answered.
const INNER: [&str; 3] = ["metadata", "output", "data"];

/// Where the whole of an output is that had to be cut.
pub(crate) struct Kept {
    pub(crate) uri: String,
    pub(crate) bytes: u64,
}

/// The answer to one call. What had to be cut is kept for the caller, and linked.
///
/// Some clients show a model the structured part alone where there is one, and of a failure the text alone; so each of them says everything. Only a long
/// text is sent once, without a structured part; what is known about it then follows as a second text.
pub(crate) fn answered(called: Called, tool: Option<&ToolSpec>, kept: Option<Kept>) -> CallToolResult {
    let Called { answer, attachments, text_as, .. } = called;
    let mut structured = answer.structured.filter(Value::is_object);
    if let (Some(structured), Some(Kept { uri, .. }), Some(tool)) = (&mut structured, &kept, tool) {
        tell_where(structured, uri, &tool.output_schema);
    }
    if let Some(structured) = &mut structured {
        repeat_notice(structured, &answer.text);
    }
    let facts = match text_as {
        Some(_) => structured.take(),
        None => structured.as_mut().and_then(|structured| facts_alone(structured, &answer.text)),
    };
    let mut content = vec![ContentBlock::text(answer.text)];
    if let Some(facts) = facts {
        structured = None;
        content.push(ContentBlock::text(facts.to_string()));
    }
    content.extend(attachments.into_iter().map(attached));
    content.extend(kept.map(linked));
    let mut result = CallToolResult::success(content);
    result.structured_content = structured;
    result.is_error = Some(answer.is_error);
    result
}

/// The name under which a structured answer repeats what the text says about having been cut.
pub(crate) const NOTICE: &str = "notice";

/// Says in the structured part, too, how to get at what was cut: the last line of the text.
fn repeat_notice(structured: &mut Value, text: &str) {
    let Some(fields) = structured.as_object_mut() else { return };
    let is_cut = fields.get("truncated") == Some(&Value::Bool(true));
    let last = text.trim_end().lines().next_back().filter(|line| is_cut && line.starts_with('['));
    if let Some(last) = last {
        fields.insert(NOTICE.to_owned(), Value::String(last.to_owned()));
    }
}

/// What is known about a long text, where the structured part would repeat it.
fn facts_alone(structured: &mut Value, text: &str) -> Option<Value> {
    let fields = structured.as_object_mut().filter(|_| text.len() >= REPEATED)?;
    let content = fields.get("content").and_then(Value::as_str)?;
    if !text.starts_with(content) {
        return None;
    }
    fields.shift_remove("content");
    Some(structured.take())
}

/// Tells where the whole output is, where the tool has a name for that.
fn tell_where(structured: &mut Value, uri: &str, schema: &Value) {
    let declares = |name: &&str| schema.pointer(&format!("/properties/{name}")).is_some();
    let Some(name) = FULL_OUTPUT.into_iter().find(declares) else { return };
    let inner = INNER.into_iter().find(|inner| structured.get(*inner).is_some_and(Value::is_object));
    let place = match inner {
        Some(inner) => structured.get_mut(inner),
        None => Some(structured),
    };
    if let Some(fields) = place.and_then(Value::as_object_mut) {
        fields.insert(name.to_owned(), Value::String(uri.to_owned()));
    }
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

fn linked(Kept { uri, bytes }: Kept) -> ContentBlock {
    let link = Resource::new(uri, "whole output")
        .with_description("the whole of what was cut here; kept for a few minutes")
        .with_mime_type("text/plain")
        .with_size(bytes);
    ContentBlock::resource_link(link)
}
