//! The response for a finished call.

#[cfg(test)]
use rmcp::model::{CallToolResult, MetaObject};
use rmcp::model::{ContentBlock, Resource, ResourceContents};
use serde_json::Value;
use toolgate_gate::{ToolSchema, ToolSpec};
use toolgate_tools::{CallResponse, ModelAnswer, NOTICE};
use toolgate_types::{Attachment, DocumentContent, RawJsonObject, Structured};

use crate::mcp::tool_lists::repeats_text;

/// A text of this length is not repeated in the structured content.
const MIN_UNREPEATED_BYTES: usize = 32 * 1024;

/// The property names for the URI of the full output, if the tool declares one.
const FULL_OUTPUT: [&str; 2] = ["full_output", "fullOutput"];

/// The key in `_meta` for the details of an error.
pub(crate) const ERROR_META_KEY: &str = "toolgate/error";

/// The link to the full text of a truncated output.
pub(crate) struct OutputLink {
    pub(crate) uri: String,
    pub(crate) bytes: u64,
    /// The retention time as text.
    pub(crate) kept_for: String,
    /// The property in which the profile wraps the tool's result, if it does.
    pub(crate) envelope: Option<&'static str>,
}

impl OutputLink {
    /// For models whose clients do not show resource links.
    fn notice(&self) -> String {
        let Self { uri, bytes, kept_for, .. } = self;
        format!("[the whole output, {bytes} bytes, can be read for {kept_for} as the resource {uri}]\n")
    }
}

/// The response to one call.
#[derive(Debug)]
pub(crate) struct ToolResponse {
    /// The text for the model.
    pub(crate) text: String,
    /// The content blocks after the text.
    pub(crate) more: Vec<ContentBlock>,
    /// Success or failure, with the data for programs.
    pub(crate) outcome: ResponseOutcome,
}

/// How a call ended, for programs.
///
/// Many clients validate structured content against the tool's output schema even if the call failed, so the details of an error go into `_meta`.
#[derive(Debug)]
pub(crate) enum ResponseOutcome {
    /// Success, with the structured content.
    Done(Option<StructuredContent>),
    /// Failure, with the details.
    Failed(Option<Value>),
}

/// The structured content.
#[derive(Debug)]
pub(crate) enum StructuredContent {
    /// All of it.
    Whole(Structured),
    /// All but one property, whose value is the text.
    WithText { rest: RawJsonObject, name: &'static str },
}

/// The response to one call. A truncated output is stored for the caller and linked.
///
/// Some clients show a model only the structured content if there is one, so both text and structured content are complete. Only the long content of
/// a file is sent once, without structured content; its metadata follows as a second text. A tool that does this cannot declare an output schema.
/// Commands do declare one, because programs need it and their output is bounded anyway. For an error there is only the text, with the details in
/// `_meta`.
pub(crate) fn to_response(
    called: CallResponse,
    tool: Option<&ToolSpec>,
    kept: Option<OutputLink>,
) -> ToolResponse {
    let CallResponse {
        answer: ModelAnswer { text, structured, is_error },
        attachments,
        text_field: text_as,
        ..
    } = called;
    let structured = structured.filter(Structured::is_object).map(|structured| match (&kept, tool) {
        (Some(link), Some(tool)) => structured.with(|value| add_output_uri(value, link, &tool.output_schema)),
        _ => structured,
    });
    let (ended, facts) = match is_error {
        true => {
            (ResponseOutcome::Failed(structured.map(|structured| error_meta(structured.into_value()))), None)
        }
        false => {
            let would_repeat = text.len() >= MIN_UNREPEATED_BYTES && tool.is_some_and(repeats_text);
            let (told, facts) = split_structured(structured, text_as, &text, would_repeat);
            (ResponseOutcome::Done(told), facts)
        }
    };
    let notice = kept.as_ref().map(OutputLink::notice);
    let texts = facts.into_iter().chain(notice).map(ContentBlock::text);
    let more = texts.chain(attachments.into_iter().map(attached)).chain(kept.map(linked)).collect();
    ToolResponse { text, more, outcome: ended }
}

/// The structured content, and the metadata of a text that is too long to be repeated.
fn split_structured(
    structured: Option<Structured>,
    text_as: Option<&'static str>,
    text: &str,
    would_repeat: bool,
) -> (Option<StructuredContent>, Option<String>) {
    let structured = structured.map(|structured| repeat_notice(structured, text));
    match (structured, text_as) {
        (Some(facts), Some(_)) if would_repeat => (None, Some(facts.json().into_owned())),
        (Some(rest), Some(name)) => {
            (rest.into_raw().map(|rest| StructuredContent::WithText { rest, name }), None)
        }
        (Some(structured), None) if would_repeat => split_long_text(structured.into_value(), text),
        (structured, _) => (structured.map(StructuredContent::Whole), None),
    }
}

/// The details of an error. For profiles whose errors have another shape, the whole object.
fn error_meta(mut structured: Value) -> Value {
    match structured.get_mut("error").filter(|error| error.is_object()) {
        Some(error) => error.take(),
        None => structured,
    }
}

/// The reference for what is written.
#[cfg(test)]
impl From<ToolResponse> for CallToolResult {
    fn from(answered: ToolResponse) -> Self {
        let ToolResponse { text, more, outcome: ended } = answered;
        let (is_error, structured, error) = match ended {
            ResponseOutcome::Done(told) => (false, told.map(|told| told.into_value(&text)), None),
            ResponseOutcome::Failed(error) => (true, None, error),
        };
        let content = std::iter::once(ContentBlock::text(text)).chain(more).collect();
        let mut result = Self::success(content);
        result.structured_content = structured;
        result.is_error = Some(is_error);
        result.meta =
            error.map(|error| MetaObject(std::iter::once((ERROR_META_KEY.to_owned(), error)).collect()));
        result
    }
}

#[cfg(test)]
impl StructuredContent {
    fn into_value(self, text: &str) -> Value {
        match self {
            Self::Whole(structured) => structured.into_value(),
            Self::WithText { rest, name } => {
                let mut whole = Structured::Raw(rest).into_value();
                add(&mut whole, name, text);
                whole
            }
        }
    }
}

/// Repeats the text's last line in the structured content if it says how to get at what was truncated.
fn repeat_notice(structured: Structured, text: &str) -> Structured {
    // Most texts end without a notice, and then the structured content need not be parsed.
    match text.trim_end().lines().next_back() {
        Some(last) if last.starts_with('[') => structured.with(|value| {
            if value.get("truncated") == Some(&Value::Bool(true)) {
                add(value, NOTICE, last);
            }
        }),
        _ => structured,
    }
}

/// The structured content for a long text; or only its metadata, if the content would repeat the text.
fn split_long_text(mut structured: Value, text: &str) -> (Option<StructuredContent>, Option<String>) {
    let repeats =
        structured.get("content").and_then(Value::as_str).is_some_and(|content| text.starts_with(content));
    match (repeats, structured.as_object_mut()) {
        (true, Some(fields)) => {
            fields.shift_remove("content");
            (None, Some(structured.to_string()))
        }
        _ => (Some(StructuredContent::Whole(structured.into())), None),
    }
}

fn add(structured: &mut Value, name: &str, text: &str) {
    if let Some(fields) = structured.as_object_mut() {
        fields.insert(name.to_owned(), Value::String(text.to_owned()));
    }
}

/// Adds the URI of the full output, if the tool declares a property for it.
fn add_output_uri(structured: &mut Value, link: &OutputLink, schema: &ToolSchema) {
    let declares = |name: &&str| schema.property(name).is_some();
    let Some(name) = FULL_OUTPUT.into_iter().find(declares) else { return };
    let place = match link.envelope {
        Some(property) => structured.get_mut(property),
        None => Some(structured),
    };
    if let Some(fields) = place.and_then(Value::as_object_mut) {
        fields.insert(name.to_owned(), Value::String(link.uri.clone()));
    }
}

fn attached(attachment: Attachment) -> ContentBlock {
    match attachment {
        Attachment::Image { mime_type, data } => ContentBlock::image(data, mime_type),
        Attachment::Audio { mime_type, data } => ContentBlock::audio(data, mime_type),
        Attachment::Document { uri, mime_type, content } => {
            let contents = match content {
                DocumentContent::Text(text) => ResourceContents::text(text.into_string(), uri),
                DocumentContent::Base64(blob) => ResourceContents::blob(blob, uri),
            };
            ContentBlock::resource(match mime_type {
                Some(mime_type) => contents.with_mime_type(mime_type),
                None => contents,
            })
        }
    }
}

fn linked(OutputLink { uri, bytes, kept_for, .. }: OutputLink) -> ContentBlock {
    let link = Resource::new(uri, "whole output")
        .with_description(format!("the whole of what was cut here; kept for {kept_for}"))
        .with_mime_type("text/plain")
        .with_size(bytes);
    ContentBlock::resource_link(link)
}
