//! Files that a message names with `@`: read through the gate, as any call, and attached to the message.

use std::sync::Arc;

use base64::Engine as _;
use toolgate_conversation::{TextAttachment, prompt_with};
use toolgate_gate::{CallOptions, ResourceRequest};
use toolgate_llm::UserImage;
use toolgate_types::{DocumentContent, ErrorCode, Failure, Outcome, ResourceContent, ToolCall, ToolOutput};

use super::repl::{Repl, current_screen, print_text};
use crate::exit::CliError;

/// How many files a message may attach.
const MAX_ATTACHMENTS: usize = 16;
/// The longest text that is attached.
const MAX_TEXT_BYTES: usize = 256 * 1024;
/// The largest image: in base64 it stays below the 5 MiB that providers accept.
const MAX_IMAGE_BYTES: u64 = 3_750_000;

/// A message with what is attached to it.
pub(super) struct Attached {
    /// The text for the model, with the attached texts.
    pub(super) prompt: String,
    pub(super) images: Vec<UserImage>,
}

/// The content of an attached file.
enum AttachedContent {
    Text(String),
    Image(UserImage),
}

impl Repl {
    /// Attaches the files that a message names. Each is a call of the person's conversation: decided, asked about where the trust level demands it, and
    /// recorded. A row says what cannot be attached, and the message is sent without it; `None` if it has images and the model takes none.
    pub(super) async fn attach(&mut self, words: String) -> Result<Option<Attached>, CliError> {
        let mut attached = Attached { prompt: String::new(), images: Vec::new() };
        let aliases: Vec<&str> =
            self.context.workspace.mounts().iter().map(toolgate_workspace::Mount::alias).collect();
        let named = mentions(&words, &aliases);
        if named.is_empty() {
            return Ok(Some(Attached { prompt: words, ..attached }));
        }
        let session = self.context.ensure_session(&mut self.conversation, &words).await?.id().clone();
        let credential = self.context.credential(&session)?;
        let tools = self.context.gate.gate().tools_for(credential.clone()).await;
        let tools = tools.map_err(|failure| CliError::error(failure.message))?;
        let Some(reader) = tools.iter().find(|tool| tool.reads_content()) else {
            print_text("no file is attached: there is no tool that reads one\n");
            return Ok(Some(Attached { prompt: words, ..attached }));
        };
        let mut texts = Vec::new();
        let cancelled = self.signals.begin_turn();
        for path in named.iter().take(MAX_ATTACHMENTS) {
            let call = ToolCall::new(reader.spec().name.to_string(), serde_json::json!({ "path": path }));
            let options = CallOptions {
                cancelled: cancelled.clone(),
                approver: Some(self.person.approver_for_turn(cancelled.clone())),
                resource: Some(ResourceRequest::ReadWhole { max_bytes: MAX_IMAGE_BYTES }),
                ..CallOptions::default()
            };
            let finished = Arc::clone(self.context.gate.gate()).call(call, credential.clone(), options).await;
            let told = match content(path, finished.outcome) {
                Ok(AttachedContent::Text(text)) => {
                    let told = format!("attached {path}: {} bytes", text.len());
                    texts.push(TextAttachment { name: path.clone(), text });
                    told
                }
                Ok(AttachedContent::Image(image)) => {
                    let told = format!("attached {path}: {}", image.mime_type);
                    attached.images.push(image);
                    told
                }
                // A word such as @alice is no path.
                Err(failure) if failure.code == ErrorCode::NotFound && !is_certainly_path(path) => continue,
                Err(failure) => format!("{path} is not attached: {}", failure.message),
            };
            print_text(&current_screen().line(&told, "2"));
        }
        self.signals.end_turn();
        if named.len() > MAX_ATTACHMENTS {
            print_text(&format!("only the first {MAX_ATTACHMENTS} files are attached\n"));
        }
        let agent = &self.conversation.ready.agent;
        if !attached.images.is_empty() && !agent.supports_images().await {
            let told = format!("nothing was sent: {} takes no images, as far as is known", agent.model());
            print_text(&current_screen().line(&told, "33"));
            print_text(
                "/model takes another one; `supports_images` under `models` says that a server's models do\n",
            );
            return Ok(None);
        }
        attached.prompt = prompt_with(&words, &texts);
        Ok(Some(attached))
    }
}

/// The paths that a message names: words that begin with `@`, without the punctuation of the sentence. An alias of a mount keeps its `@`.
fn mentions(words: &str, aliases: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        let word = word.trim_start_matches(['(', '"', '\'', '`']);
        let Some(path) = word.strip_prefix('@') else { continue };
        let path = path.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '"', '\'', '`']);
        if path.is_empty() {
            continue;
        }
        let alias = format!("@{}", path.split('/').next().unwrap_or_default());
        let path = if aliases.contains(&&*alias) { format!("@{path}") } else { path.to_owned() };
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

fn is_certainly_path(path: &str) -> bool {
    path.contains(['/', '.'])
}

/// What of an outcome can be attached.
fn content(path: &str, outcome: Outcome) -> Result<AttachedContent, Failure> {
    let refused = |message: String| Failure::new(ErrorCode::ReadLimit, message);
    let output = match outcome {
        Outcome::Done(output) => output,
        Outcome::Failed { failure, .. } => return Err(failure),
    };
    match output {
        ToolOutput { resource: Some(ResourceContent::File(DocumentContent::Text(text))), .. } => {
            let text = text.into_string();
            if text.len() > MAX_TEXT_BYTES {
                return Err(refused(format!(
                    "it has {} bytes, and at most {MAX_TEXT_BYTES} are attached",
                    text.len()
                )));
            }
            Ok(AttachedContent::Text(text))
        }
        ToolOutput { resource: Some(ResourceContent::File(DocumentContent::Base64(data))), .. } => {
            match image_type(&data) {
                Some(mime_type) => Ok(AttachedContent::Image(UserImage {
                    name: path.to_owned(),
                    mime_type: mime_type.to_owned(),
                    data,
                })),
                None => Err(refused("it is neither text nor a PNG, JPEG, GIF or WebP image".to_owned())),
            }
        }
        _ => Err(refused("it is no file".to_owned())),
    }
}

/// The type of an image by its first bytes, whatever its name says.
fn image_type(base64: &str) -> Option<&'static str> {
    let beginning = base64.get(..16)?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(beginning).ok()?;
    match bytes.as_slice() {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_begin_with_an_at_sign_name_files() {
        for (words, expected) in [
            ("look at @src/main.rs, please", &["src/main.rs"][..]),
            ("(see @notes.md) and @notes.md.", &["notes.md"]),
            ("@project/a.rs @docs/b.md", &["@project/a.rs", "@docs/b.md"]),
            ("me@example.com and a @ sign", &[]),
            ("\"@a b\"", &["a"]),
            ("", &[]),
        ] {
            assert_eq!(mentions(words, &["@project", "@docs"]), expected, "{words}");
        }
    }

    #[test]
    fn images_are_recognised_by_their_content() {
        let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01", Some("image/jpeg")),
            (b"GIF89a\x01\0\x01\0\0\0\0", Some("image/gif")),
            (b"RIFF\x24\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\x24\0\0\0WAVEfmt ", None),
            (b"\x7fELF\x02\x01\x01\0\0\0\0\0\0", None),
            (b"\x89PNG", None),
        ] {
            assert_eq!(image_type(&encode(bytes)), expected, "{bytes:?}");
        }
    }
}
