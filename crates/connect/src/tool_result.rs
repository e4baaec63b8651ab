//! Converts a server's result to the gate's.
//!
//! A result is untrusted. Text loses terminal control sequences and invisible characters; images, audio and documents must be what they claim to be;
//! everything is bounded, and what is left out is named. What the server reports as an error is one, with its message marked as the server's.

mod prompt;
mod completion;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ReadResourceResult, ResourceContents};
use serde_json::{Map, Value, json};
use toolgate_text::sanitize_value;
use toolgate_types::{Attachment, DocumentContent, ErrorCode, Failure, Limits, ToolOutput};

use crate::definition::truncate;

pub(crate) use completion::read_completion;
pub(crate) use prompt::read_prompt;

/// How much of a truncated text is kept beside the response.
const MAX_FULL_TEXT_BYTES: usize = 4 << 20;

/// Maximum bytes of images, audio and documents in one result. Documents also count against the text limit, because a model reads them as text.
const MAX_ATTACHED_BYTES: usize = 4 << 20;

/// Maximum number of attachments.
const MAX_ATTACHMENTS: usize = 16;

/// Maximum length of a server's error message.
const MAX_ERROR_TEXT_BYTES: usize = 4 << 10;

/// How to convert a result.
#[derive(Clone, Copy)]
pub(crate) struct AnswerContext<'a> {
    /// The server's name.
    pub(crate) server: &'a str,
    /// The limits of the call.
    pub(crate) limits: &'a Limits,
    /// Whether the tool declares an output schema.
    pub(crate) declared: bool,
    /// Whether the tool has an output policy: then the server's error message is withheld, because the policy cannot filter it.
    pub(crate) filtered: bool,
}

/// Converts a result.
pub(crate) fn read(result: CallToolResult, reading: AnswerContext<'_>) -> Result<ToolOutput, Failure> {
    let most = usize::try_from(reading.limits.max_output_bytes).unwrap_or(usize::MAX);
    let is_document = |block: &ContentBlock| matches!(block, ContentBlock::Resource(_));
    let (documents, others): (Vec<_>, Vec<_>) = result.content.into_iter().partition(is_document);
    let mut parts = ContentCollector::default();
    others.into_iter().for_each(|block| parts.add(block));
    // Documents may use what the text leaves of the limit.
    parts.document_bytes_left = most.saturating_sub(parts.texts.iter().map(String::len).sum());
    documents.into_iter().for_each(|block| parts.add(block));
    let text = parts.text();
    if result.is_error == Some(true) {
        return Err(tool_error(&text, reading));
    }
    let (shown, whole) = truncate_result(text, most.saturating_sub(parts.documents));
    let structured = match result.structured_content.map(sanitize_json) {
        Some(value) => structured(value, reading, most)?,
        None => json!({ "text": shown }),
    };
    Ok(ToolOutput { attachments: parts.attachments, full_text: whole, ..ToolOutput::new(shown, structured) })
}

/// Converts the contents of a resource: documents, without an answer of their own.
pub(crate) fn read_contents(
    result: ReadResourceResult,
    reading: AnswerContext<'_>,
) -> Result<ToolOutput, Failure> {
    let blocks = result.contents.into_iter().map(ContentBlock::resource).collect();
    read(CallToolResult::success(blocks), reading)
}

/// A server's error message, sanitised and truncated.
pub(crate) fn quote_untrusted(words: &str) -> String {
    truncate(sanitize_text(words).trim(), MAX_ERROR_TEXT_BYTES)
}

fn tool_error(text: &str, reading: AnswerContext<'_>) -> Failure {
    let said = quote_untrusted(text);
    let failure = Failure::new(
        ErrorCode::CommandFailed,
        format!("the server `{}` says that the call failed", reading.server),
    )
    .detail("server", reading.server);
    match (reading.filtered, said.is_empty()) {
        (true, _) => failure.terminal_note(toolgate_text::escape_control_chars(&said)),
        (false, true) => failure,
        (false, false) => {
            Failure { message: format!("{}, in its own words: {said}", failure.message), ..failure }
        }
    }
}

/// Structured content cannot be truncated. Without an output schema it is always wrapped in an object.
fn structured(value: Value, reading: AnswerContext<'_>, most: usize) -> Result<Value, Failure> {
    if json_exceeds(&value, most) {
        return Err(Failure::new(
            ErrorCode::ReadLimit,
            format!("the answer of the server `{}` is longer than {most} bytes", reading.server),
        )
        .help("ask for less at once"));
    }
    Ok(match value {
        value if reading.declared || value.is_object() => value,
        value => json!({ "value": value }),
    })
}

/// Counts the bytes without buffering them.
fn json_exceeds(value: &Value, most: usize) -> bool {
    struct ByteCounter(usize);
    impl std::io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::WriteZero)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    serde_json::to_writer(ByteCounter(most), value).is_err()
}

/// The truncated text, and the full text if it was truncated.
fn truncate_result(text: String, most: usize) -> (String, Option<String>) {
    if text.len() <= most {
        return (text, None);
    }
    let notice = format!("\n[cut: {} bytes in all]", text.len());
    let shown = truncate(&text, most.saturating_sub(notice.len())) + &notice;
    (shown, Some(if text.len() > MAX_FULL_TEXT_BYTES { truncate(&text, MAX_FULL_TEXT_BYTES) } else { text }))
}

/// Collects the parts of a result.
#[derive(Default)]
struct ContentCollector {
    texts: Vec<String>,
    attachments: Vec<Attachment>,
    attached: usize,
    /// How many bytes of documents may be attached.
    document_bytes_left: usize,
    /// How many bytes were attached.
    documents: usize,
}

impl ContentCollector {
    fn add(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.texts.push(sanitize_text(&text.text)),
            ContentBlock::Image(image) => self.attach_media("image", image.mime_type, image.data),
            ContentBlock::Audio(audio) => self.attach_media("audio", audio.mime_type, audio.data),
            ContentBlock::Resource(resource) => self.attach_document(resource.resource),
            ContentBlock::ResourceLink(link) => {
                let (name, uri) = (single_line(&link.name), single_line(&link.uri));
                let place = if is_gate_uri(&uri) { "an address that is not its to name" } else { &uri };
                self.texts
                    .push(format!("[the server names a resource `{name}` at {place}, which was not read]"));
            }
            _ => {
                self.texts.push("[a part of the answer of a kind that is not known was left out]".to_owned())
            }
        }
    }

    fn attach_media(&mut self, kind: &str, mime_type: String, data: String) {
        let fits = is_mime(&mime_type, Some(kind)) && mime_type != "image/svg+xml" && is_base64(&data);
        if !fits || !self.has_room(data.len()) {
            return self.note_omitted(kind, data.len());
        }
        self.attachments.push(match kind {
            "image" => Attachment::Image { mime_type, data },
            _ => Attachment::Audio { mime_type, data },
        });
    }

    fn attach_document(&mut self, resource: ResourceContents) {
        let (uri, mime_type, content, size) = match resource {
            ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                let text = sanitize_text(&text);
                let size = text.len();
                (uri, mime_type, Some(DocumentContent::Text(text.into())), size)
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let size = blob.len();
                (uri, mime_type, is_base64(&blob).then_some(DocumentContent::Base64(blob)), size)
            }
            _ => return self.note_omitted("document", 0),
        };
        let uri = single_line(&uri);
        if is_gate_uri(&uri) {
            return self.texts.push(format!(
                "[document of {size} bytes was left out: its address is not one that a server may give it]"
            ));
        }
        let Some(content) = content.filter(|_| {
            size <= self.document_bytes_left.saturating_sub(self.documents) && self.has_room(size)
        }) else {
            return self.note_omitted("document", size);
        };
        self.documents += size;
        let mime_type = mime_type.filter(|mime_type| is_mime(mime_type, None));
        self.attachments.push(Attachment::Document { uri, mime_type, content });
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        let room = self.attachments.len() < MAX_ATTACHMENTS
            && self.attached.saturating_add(bytes) <= MAX_ATTACHED_BYTES;
        if room {
            self.attached += bytes;
        }
        room
    }

    fn note_omitted(&mut self, kind: &str, bytes: usize) {
        self.texts
            .push(format!("[{kind} of {bytes} bytes was left out: too large, or not what it says it is]"));
    }

    fn text(&mut self) -> String {
        match self.texts.as_mut_slice() {
            [only] => std::mem::take(only),
            texts => texts.join("\n"),
        }
    }
}

/// Sanitised untrusted text on one line.
fn single_line(text: &str) -> String {
    truncate(&sanitize_text(text).replace('\n', " "), 1024)
}

fn sanitize_text(text: &str) -> String {
    if is_clean(text) {
        return text.to_owned();
    }
    match sanitize_value(Value::from(text)) {
        Value::String(text) => text,
        _ => String::new(),
    }
}

fn sanitize_json(value: Value) -> Value {
    match value {
        Value::String(text) if is_clean(&text) => Value::String(text),
        Value::Array(items) => Value::Array(items.into_iter().map(sanitize_json).collect()),
        Value::Object(fields) if fields.keys().all(|name| is_clean(name)) => Value::Object(
            fields.into_iter().map(|(name, value)| (name, sanitize_json(value))).collect::<Map<_, _>>(),
        ),
        other => sanitize_value(other),
    }
}

/// Whether a text certainly needs no sanitising.
fn is_clean(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'))
}

/// Whether a URI has the scheme that only the gate may use.
fn is_gate_uri(uri: &str) -> bool {
    uri.split_once(':').is_some_and(|(scheme, _)| scheme.trim().eq_ignore_ascii_case("toolgate"))
}

fn is_base64(data: &str) -> bool {
    STANDARD.decode(data).is_ok()
}

/// A MIME type, with the given top-level type if there is one.
fn is_mime(text: &str, wanted: Option<&str>) -> bool {
    let is_word = |word: &str| {
        (1..=100).contains(&word.len())
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    let Some((kind, subtype)) = text.split_once('/') else { return false };
    wanted.is_none_or(|wanted| wanted == kind)
        && is_word(kind)
        && is_word(subtype.split(';').next().unwrap_or_default())
        && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limits(max_output_bytes: u64) -> Limits {
        Limits {
            max_read_bytes: 1,
            max_resource_bytes: u64::MAX,
            max_write_bytes: 1,
            max_entries: 1,
            max_matches: 1,
            max_output_bytes,
            timeout: Duration::from_secs(1),
        }
    }

    fn answer(value: Value, most: u64) -> Result<ToolOutput, Failure> {
        let (limits, result) = (limits(most), serde_json::from_value(value).unwrap());
        read(result, AnswerContext { server: "s", limits: &limits, declared: false, filtered: false })
    }

    #[test]
    fn text_is_joined_and_cleaned() {
        let output = answer(
            json!({"content": [{"type": "text", "text": "a\u{1b}[31mb\u{202e}"}, {"type": "text", "text": "plain"},
                   {"type": "resource_link", "uri": "file:///x\u{200b}", "name": "x"}]}),
            10_000,
        )
        .unwrap();
        assert_eq!(
            output.text,
            "ab\nplain\n[the server names a resource `x` at file:///x, which was not read]"
        );
        assert_eq!(output.structured, json!({"text": output.text.as_str()}));
        assert!(output.full_text.is_none());
    }

    #[test]
    fn structured_answers_are_cleaned_and_objects() {
        let output =
            answer(json!({"content": [], "structuredContent": {"a\u{200b}": ["\u{1b}[1mx"]}}), 1000).unwrap();
        assert_eq!(output.structured, json!({"a": ["x"]}));
        assert_eq!(
            answer(json!({"content": [], "structuredContent": [1]}), 1000).unwrap().structured,
            json!({"value": [1]})
        );
        let failure =
            answer(json!({"content": [], "structuredContent": {"a": "x".repeat(2000)}}), 1000).unwrap_err();
        assert_eq!(failure.code, ErrorCode::ReadLimit);
    }

    #[test]
    fn long_texts_are_cut_and_kept_whole_up_to_a_bound() {
        let long = "é".repeat(4000);
        let output = answer(json!({"content": [{"type": "text", "text": long}]}), 1000).unwrap();
        assert!(
            output.text.len() <= 1003 && output.text.ends_with("[cut: 8000 bytes in all]"),
            "{}",
            output.text.len()
        );
        assert_eq!(output.full_text.as_deref(), Some(long.as_str()));
        let output =
            answer(json!({"content": [{"type": "text", "text": "x".repeat(5 << 20)}]}), 1000).unwrap();
        assert!(output.full_text.unwrap().len() <= MAX_FULL_TEXT_BYTES + 3);
    }

    #[test]
    fn what_is_attached_must_be_what_it_says() {
        let block =
            |kind: &str, mime: &str, data: &str| json!({"type": kind, "mimeType": mime, "data": data});
        let good = answer(json!({"content": [block("image", "image/png", "aGk="), block("audio", "audio/wav", "aGk="),
            {"type": "resource", "resource": {"uri": "a://b", "mimeType": "text/plain", "text": "hi\u{1b}[1m"}},
            {"type": "resource", "resource": {"uri": "a://b", "blob": "aGk="}}]}), 1000).unwrap();
        assert_eq!(good.attachments.len(), 4);
        assert_eq!(good.text, "");
        for bad in [
            block("image", "text/html", "aGk="),
            block("image", "image/svg+xml", "aGk="),
            block("image", "image/png\n", "aGk="),
            block("image", "image/png", "not base64!"),
            block("image", "image/png", &"A".repeat(MAX_ATTACHED_BYTES + 4)),
            json!({"type": "resource", "resource": {"uri": "a://b", "blob": "*"}}),
        ] {
            let output = answer(json!({"content": [bad.clone()]}), 1000).unwrap();
            assert!(
                output.attachments.is_empty() && output.text.contains("left out"),
                "{:.100}",
                bad.to_string()
            );
        }
        let many = answer(json!({"content": vec![block("image", "image/png", "aGk="); 20]}), 10_000).unwrap();
        assert_eq!(many.attachments.len(), MAX_ATTACHMENTS);
    }

    #[test]
    fn documents_have_the_room_that_the_text_leaves() {
        let document = |text: &str| json!({"type": "resource", "resource": {"uri": "a://b", "text": text}});
        let text = |text: &str| json!({"type": "text", "text": text});
        for (blocks, attached) in [
            (vec![document(&"x".repeat(1000))], 1),
            (vec![document(&"x".repeat(1001))], 0),
            (vec![document(&"x".repeat(600)), document(&"x".repeat(600))], 1),
            (vec![document(&"x".repeat(600)), text(&"y".repeat(600))], 0),
            (vec![document(&"x".repeat(400)), text(&"y".repeat(600))], 1),
            (vec![json!({"type": "resource", "resource": {"uri": "a://b", "blob": "aGk=".repeat(251)}})], 0),
        ] {
            let output = answer(json!({"content": blocks}), 1000).unwrap();
            let documents: usize = output.attachments.iter().map(size).sum();
            assert_eq!(output.attachments.len(), attached, "{blocks:?}");
            assert!(documents + output.text.len() <= 1000, "{documents} and {}", output.text.len());
        }
    }

    fn size(attachment: &Attachment) -> usize {
        match attachment {
            Attachment::Document { content: DocumentContent::Text(text), .. } => text.len(),
            Attachment::Document { content: DocumentContent::Base64(data), .. } => data.len(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn no_document_poses_as_one_of_the_gates_own() {
        for uri in [
            "toolgate://files/@project/a.txt",
            "TOOLGATE:x",
            " toolgate://a",
            "tool\u{200b}gate://a",
            "\ntoolgate://a",
        ] {
            let blocks = json!([{"type": "resource", "resource": {"uri": uri, "text": "hi"}},
                {"type": "resource_link", "uri": uri, "name": "x"}]);
            let output = answer(json!({"content": blocks}), 1000).unwrap();
            assert!(output.attachments.is_empty(), "{uri:?}");
            assert!(output.text.contains("left out") && !output.text.contains("gate:"), "{}", output.text);
        }
        let other = json!({"type": "resource", "resource": {"uri": "file:///toolgate:/a", "text": "hi"}});
        assert_eq!(answer(json!({"content": [other]}), 1000).unwrap().attachments.len(), 1);
    }

    #[test]
    fn errors_are_in_the_servers_own_words_unless_these_are_filtered() {
        let failed = json!({"isError": true, "content": [{"type": "text", "text": "no such\u{202e} row"}]});
        let failure = answer(failed.clone(), 1000).unwrap_err();
        assert_eq!(failure.code, ErrorCode::CommandFailed);
        assert_eq!(
            failure.message,
            "the server `s` says that the call failed, in its own words: no such row"
        );
        let (limits, result) = (limits(1000), serde_json::from_value(failed).unwrap());
        let failure =
            read(result, AnswerContext { server: "s", limits: &limits, declared: false, filtered: true })
                .unwrap_err();
        assert_eq!(failure.message, "the server `s` says that the call failed");
    }
}
