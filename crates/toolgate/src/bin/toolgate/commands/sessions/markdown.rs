//! A conversation as Markdown. Every text of a model, tool or user is in a code block, verbatim: a Markdown viewer would otherwise load images from
//! URLs that a model chose, and a URL can carry data of the conversation to its host.

use std::fmt::Write as _;

use toolgate_llm::{AssistantMessage, CallResult, Message, MessagePart};
use toolgate_session::{SessionSummary, Transcript, TranscriptEntry};
use toolgate_types::time::rfc3339_millis;

use super::plain_text::results_at;
use crate::terminal::{counted_messages, escape_control_chars, escape_line};

pub(super) fn transcript(transcript: &Transcript) -> String {
    let SessionSummary { id, title, agent, model, profile, workspace, created_at, changed_at, usage, .. } =
        &transcript.summary;
    let mut page = format!("# Conversation {id}\n\n");
    let facts = [
        ("title", title.clone()),
        ("model", model.to_string()),
        ("profile", profile.clone()),
        ("agent", agent.as_ref().map(ToString::to_string).unwrap_or_default()),
        ("workspace", workspace.display().to_string()),
        ("began", rfc3339_millis(*created_at)),
        ("last used", rfc3339_millis(*changed_at)),
        ("tokens", format!("{} in, {} out", usage.input_tokens, usage.output_tokens)),
    ];
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(page, "- {name}: {}", code(value));
    }
    for entry in &transcript.entries {
        add_entry(&mut page, entry, &transcript.entries);
    }
    page
}

fn add_entry(page: &mut String, entry: &TranscriptEntry, all: &[TranscriptEntry]) {
    let at = rfc3339_millis(entry.at());
    match entry {
        TranscriptEntry::Message { message: Message::User { text, .. }, .. } => {
            let _ = write!(page, "\n## You, {at}\n\n{}", fenced(text, "markdown"));
        }
        TranscriptEntry::Message { message: Message::Assistant(said), position, .. } => {
            let model = said.model.as_ref().map_or("model".to_owned(), ToString::to_string);
            let _ = writeln!(page, "\n## {}, {at}", code(&model));
            add_assistant(page, said, results_at(all, position + 1));
        }
        // Each is shown with its call.
        TranscriptEntry::Message { message: Message::Results { .. }, .. }
        | TranscriptEntry::PartialResults { .. } => {}
        TranscriptEntry::Front { replaced, message, .. } => {
            let _ = writeln!(
                page,
                "\n## Shown from here on in place of the first {}, {at}",
                counted_messages(*replaced)
            );
            match message {
                Message::User { text, .. } => {
                    let _ = write!(page, "\n{}", fenced(text, "markdown"));
                }
                Message::Assistant(said) => add_assistant(page, said, &[]),
                Message::Results { .. } => {}
            }
        }
    }
}

fn add_assistant(page: &mut String, said: &AssistantMessage, results: &[CallResult]) {
    for part in &said.parts {
        let _ = match part {
            MessagePart::Text { text } => write!(page, "\n{}", fenced(text, "markdown")),
            MessagePart::Thinking { text, .. } if text.is_empty() => Ok(()),
            MessagePart::Thinking { text, .. } => write!(page, "\nThinking:\n\n{}", fenced(text, "markdown")),
            MessagePart::Call(call) => {
                let result = results.iter().find(|result| result.call == call.id);
                let outcome = match result {
                    Some(result) if result.is_error => format!("Error:\n\n{}", fenced(&result.text, "text")),
                    Some(result) => format!("Result:\n\n{}", fenced(&result.text, "text")),
                    None => "No result.\n".to_owned(),
                };
                let call = format!("\nCalls {}:\n\n{}", code(&call.name), fenced(&call.arguments, "json"));
                write!(page, "{call}\n{outcome}")
            }
        };
    }
}

/// An inline code span that its text cannot close.
fn code(text: &str) -> String {
    let text = escape_line(text);
    let tick = "`".repeat(longest_backtick_run(&text) + 1);
    // The space separates backticks of the text from the delimiter, and is not rendered.
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{tick}{space}{text}{space}{tick}")
}

/// A code block that its text cannot close.
fn fenced(text: &str, language: &str) -> String {
    let text = escape_control_chars(text);
    let fence = "`".repeat(longest_backtick_run(&text).max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

fn longest_backtick_run(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or(0)
}
