//! OUTPUT: the last stage, and what the record keeps of an answer.

use std::borrow::Cow;
use std::iter::once;

use serde_json::Value;
use toolgate_types::digest::Sha256Hasher;
use toolgate_types::{
    Attachment, Deadline, DocumentContent, HashedText, Outcome, ResourceContent, Sha256, Stage, Structured,
    ToolOutput,
};

use crate::registry::RegisteredTool;
use crate::schema_check::check_value;

/// What the record keeps of an output.
pub(crate) struct RawOutput {
    pub(crate) hash: Sha256,
    pub(crate) bytes: u64,
    /// The fields that were removed or masked.
    pub(crate) redacted: Vec<String>,
}

impl RawOutput {
    /// Digest of the whole output: the text, or the structured output if there is no text, then the attachments, then the resource content. A text
    /// alone has its digest already, and usually it was computed when the file was read.
    fn of(output: &ToolOutput) -> Self {
        let ToolOutput { text, structured, attachments, text_field, resource, .. } = output;
        let has_text = !text.is_empty() || text_field.is_some() || resource.is_some();
        let answer = if has_text { Cow::Borrowed(text.as_str()) } else { structured.json() };
        let shown = resource.as_ref().map(ResourceContent::data);
        let parts = once(&*answer).chain(attachments.iter().map(Attachment::data)).chain(shown.as_deref());
        let only_text = match resource {
            _ if !attachments.is_empty() => None,
            None => has_text.then_some(text),
            Some(ResourceContent::File(DocumentContent::Text(content))) if text.is_empty() => Some(content),
            Some(_) => None,
        };
        let bytes: usize = parts.clone().map(str::len).sum();
        let hash = only_text.map_or_else(|| digest(parts), HashedText::sha256);
        Self { hash, bytes: bytes as u64, redacted: Vec::new() }
    }
}

/// The digest of all parts, concatenated.
fn digest<'p>(parts: impl Iterator<Item = &'p str>) -> Sha256 {
    let mut hasher = Sha256Hasher::new();
    parts.for_each(|part| hasher.update(part.as_bytes()));
    hasher.finish()
}

/// OUTPUT: validates the output against its schema and filters what may leave. The record keeps the digest of the unfiltered output.
pub(crate) async fn filter_output(
    tool: &RegisteredTool,
    mut output: ToolOutput,
    deadline: impl FnOnce() -> Deadline,
) -> (Outcome, Option<RawOutput>) {
    let spec = tool.tool.spec();
    let mut raw = RawOutput::of(&output);
    // Raw JSON of a built-in tool is checked by the types of its fields and not parsed again. Output that has to be filtered is parsed.
    if spec.is_built_in_file_tool()
        && let Structured::Raw(written) = &output.structured
    {
        let outcome = match tool.output.check_raw(&spec.output_schema, written) {
            Ok(()) => Outcome::Done(output),
            Err(failure) => Outcome::Failed { stage: Stage::Output, failure },
        };
        return (outcome, Some(raw));
    }
    let structured =
        match check_value(&tool.output, &tool.tool, output.structured.into_value(), deadline).await {
            Ok(structured) => structured,
            Err(failure) => return (Outcome::Failed { stage: Stage::Output, failure }, Some(raw)),
        };
    let Some(policy) = &spec.output_policy else {
        output.structured = structured.into();
        return (Outcome::Done(output), Some(raw));
    };
    let filtered = policy.apply(structured);
    let is_known = |name: &str| policy.names(name) || spec.output_schema.declares(name);
    raw.redacted = filtered.known_paths(&is_known);
    let value = filtered.value;
    // The tool's own text was made from the unfiltered value, so the text is made again from the filtered one.
    let text = match &value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    (Outcome::Done(ToolOutput::new(text, value)), Some(raw))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The digest covers every part, in order.
    #[test]
    fn nothing_of_an_answer_is_left_out_of_its_record() {
        let words = |text: &str| ToolOutput::new(text, json!({"a": 1}));
        let picture = || Attachment::Image { mime_type: "image/png".to_owned(), data: "cGlj".to_owned() };
        let file = |text: &str| ResourceContent::File(DocumentContent::Text(text.into()));
        let base64 = ResourceContent::File(DocumentContent::Base64("cGlj".to_owned()));
        let page = ResourceContent::Page { files: vec![("a".to_owned(), 7)], next: Some("a".to_owned()) };
        let browsed = |browsed| ToolOutput::from_resource(browsed, json!({"a": 1}));
        for (output, recorded) in [
            (words("text"), "text"),
            (words(""), r#"{"a":1}"#),
            (ToolOutput { text_field: Some("content"), ..words("") }, ""),
            (ToolOutput { attachments: vec![picture(), picture()], ..words("text") }, "textcGljcGlj"),
            (ToolOutput { attachments: vec![picture()], ..words("") }, r#"{"a":1}cGlj"#),
            (browsed(file("all")), "all"),
            (browsed(file("")), ""),
            (browsed(base64), "cGlj"),
            (browsed(page), r#"[["a",7]]"#),
            // No tool returns both; if one did, both would be recorded.
            (ToolOutput { resource: Some(file("all")), ..words("text") }, "textall"),
            (ToolOutput { attachments: vec![picture()], ..browsed(file("all")) }, "cGljall"),
        ] {
            let raw = RawOutput::of(&output);
            let expected = (Sha256::of(recorded.as_bytes()), recorded.len() as u64);
            assert_eq!((raw.hash, raw.bytes), expected, "{output:?}");
        }
    }
}
