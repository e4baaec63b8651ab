//! A turn as text: ids are numbered, deltas of one message are joined, and nondeterministic values are left out.

use std::fmt::Write as _;

use toolgate_agent::{ChatEvent, MessageId};
use toolgate_llm::{Message, MessagePart};
use toolgate_types::CallId;

/// Longer texts are cut.
const LONGEST: usize = 160;

/// All events.
pub(crate) fn told(events: &[ChatEvent]) -> String {
    let mut story = Story::default();
    events.iter().for_each(|event| story.tell(event));
    story.end_delta();
    story.text
}

/// The persisted messages.
pub(crate) fn kept(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        let line = match message {
            Message::User { text, .. } => format!("user: {}", short(text)),
            Message::Assistant(said) => {
                let parts: Vec<String> = said.parts.iter().map(part).collect();
                format!("model: {}", parts.join(" + "))
            }
            Message::Results { results } => {
                let results: Vec<String> = results
                    .iter()
                    .map(|result| {
                        format!("{}{}", if result.is_error { "! " } else { "" }, short(&result.text))
                    })
                    .collect();
                format!("results: {}", results.join(" + "))
            }
        };
        let _ = writeln!(text, "{line}");
    }
    text
}

fn part(part: &MessagePart) -> String {
    match part {
        MessagePart::Text { text } => short(text),
        MessagePart::Thinking { text, .. } => format!("(thinks) {}", short(text)),
        MessagePart::Call(call) => format!("{} {}", call.name, short(&call.arguments)),
    }
}

#[derive(Default)]
struct Story {
    text: String,
    messages: Vec<MessageId>,
    calls: Vec<CallId>,
    /// The current delta: the message, its kind, and the text so far.
    delta: Option<(usize, &'static str, String)>,
}

impl Story {
    fn message(&mut self, id: &MessageId) -> usize {
        number(&mut self.messages, id)
    }

    fn call(&mut self, id: &CallId) -> usize {
        number(&mut self.calls, id)
    }

    fn line(&mut self, line: &str) {
        self.end_delta();
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn end_delta(&mut self) {
        if let Some((message, how, words)) = self.delta.take() {
            let _ = writeln!(self.text, "m{message} {how} {}", short(&words));
        }
    }

    fn more(&mut self, id: &MessageId, how: &'static str, words: &str) {
        let message = self.message(id);
        if !matches!(&self.delta, Some((same, so, _)) if (*same, *so) == (message, how)) {
            self.end_delta();
            self.delta = Some((message, how, String::new()));
        }
        if let Some((_, _, said)) = &mut self.delta {
            said.push_str(words);
        }
    }

    fn tell(&mut self, event: &ChatEvent) {
        match event {
            ChatEvent::TextDelta { message_id, text } => self.more(message_id, "says", text),
            ChatEvent::ThinkingDelta { message_id, text } => self.more(message_id, "thinks", text),
            ChatEvent::ToolStart { message_id, tool_id, tool_name, input, input_text } => {
                let (message, call) = (self.message(message_id), self.call(tool_id));
                let input =
                    input_text.as_ref().map_or_else(|| input.to_string(), |text| format!("text {text:?}"));
                self.line(&format!("m{message} calls c{call} {tool_name} {}", short(&input)));
            }
            // The chunk sizes depend on timing.
            ChatEvent::ToolInputDelta { .. } | ChatEvent::ToolDelta { .. } => {}
            ChatEvent::Plan { tool_id, steps, .. } => {
                let call = self.call(tool_id);
                let steps: Vec<String> =
                    steps.iter().map(|step| format!("{} ({:?})", step.step, step.status)).collect();
                self.line(&format!("c{call} plans {}", steps.join("; ")));
            }
            ChatEvent::ToolWithdrawn { tool_id, .. } => {
                let call = self.call(tool_id);
                self.line(&format!("c{call} is not asked about any more"));
            }
            ChatEvent::ToolConfirm(confirm) => {
                let call = self.call(&confirm.tool_id);
                let (class, summary) = (confirm.class.as_str(), confirm.summary.join("; "));
                self.line(&format!("c{call} asks about {} ({class}): {summary}", confirm.tool_name));
            }
            ChatEvent::ToolResult { tool_id, status, result, metadata, .. } => {
                let call = self.call(tool_id);
                let code = metadata.code.map(|code| format!(" {code}")).unwrap_or_default();
                let status = format!("{status:?}").to_lowercase();
                self.line(&format!("c{call} {status} {}{code}: {}", metadata.decision, short(result)));
            }
            ChatEvent::Context { warning, .. } => {
                if *warning {
                    self.line("context: warning");
                }
            }
            ChatEvent::Notice { text } => self.line(&format!("notice: {text}")),
            ChatEvent::Error { code, message, retryable, attempt, voided, .. } => {
                let voided = voided.as_ref().map(|id| format!(", m{} void", self.message(id)));
                let again = if *retryable { "again" } else { "over" };
                let attempt = attempt.map(|attempt| format!(" (try {attempt})")).unwrap_or_default();
                self.line(&format!(
                    "error {code}{attempt}: {message}; {again}{}",
                    voided.unwrap_or_default()
                ));
            }
            ChatEvent::StreamEnd { reason, text, iterations, .. } => {
                self.line(&format!("end {reason} after {iterations}: {}", short(text)));
            }
        }
    }
}

fn number<Id: Clone + PartialEq>(known: &mut Vec<Id>, id: &Id) -> usize {
    match known.iter().position(|known| known == id) {
        Some(place) => place + 1,
        None => {
            known.push(id.clone());
            known.len()
        }
    }
}

fn short(text: &str) -> String {
    let text = text.trim_end().replace('\n', "⏎");
    match text.char_indices().nth(LONGEST) {
        Some((place, _)) => format!("{}… ({} bytes)", text.split_at(place).0, text.len()),
        None => text,
    }
}
