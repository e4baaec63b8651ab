//! A conversation for the terminal. Text of a model or a tool never begins in the first column, which is the gate's own.

use std::fmt::Write as _;

use toolgate_llm::{AssistantMessage, CallResult, Message, MessagePart, ModelCall};
use toolgate_session::{SessionSummary, Transcript, TranscriptEntry};
use toolgate_types::Decision;
use toolgate_types::time::rfc3339_millis;

use crate::approval_screen::Screen;
use crate::terminal::{counted_messages, escape_line, paint};
use toolgate_render::truncate_columns;

/// More lines of a result are shown only with `--full`.
const MAX_RESULT_LINES: usize = 6;

/// Longer lines of a result are shown only with `--full`.
const MAX_LINE_CHARS: usize = 400;

pub(super) fn transcript(transcript: &Transcript, full: bool, screen: Screen) -> String {
    let mut page = TranscriptPage { text: heading(&transcript.summary, screen), full, screen };
    for entry in &transcript.entries {
        page.entry(entry, &transcript.entries);
    }
    page.text
}

fn heading(summary: &SessionSummary, screen: Screen) -> String {
    let SessionSummary {
        id,
        title,
        agent,
        model,
        profile,
        workspace,
        created_at,
        changed_at,
        messages,
        usage,
        owner: _,
        trust: _,
    } = summary;
    let mut text = screen.line(&format!("{id}  {title}"), "1");
    let agent = agent.as_ref().map(|agent| format!(", agent {agent}")).unwrap_or_default();
    let place = format!("model {model}, profile {profile}{agent}, workspace {}", workspace.display());
    text.push_str(&screen.line(&place, ""));
    let (began, changed) = (rfc3339_millis(*created_at), rfc3339_millis(*changed_at));
    let (input, output) = (usage.input_tokens, usage.output_tokens);
    let _ = writeln!(
        text,
        "began {began}, last used {changed}, {}, {input} tokens in, {output} out",
        counted_messages(*messages)
    );
    text
}

struct TranscriptPage {
    text: String,
    full: bool,
    screen: Screen,
}

impl TranscriptPage {
    fn entry(&mut self, entry: &TranscriptEntry, all: &[TranscriptEntry]) {
        let at = rfc3339_millis(entry.at());
        match entry {
            TranscriptEntry::Message { message: Message::User { text, .. }, .. } => {
                self.heading("you", &at);
                self.quote(text);
            }
            TranscriptEntry::Message { message: Message::Assistant(said), position, .. } => {
                let model = said.model.as_ref().map_or("model".to_owned(), ToString::to_string);
                self.heading(&model, &at);
                self.assistant(said, results_at(all, position + 1));
            }
            // Each is shown with its call.
            TranscriptEntry::Message { message: Message::Results { .. }, .. }
            | TranscriptEntry::PartialResults { .. } => {}
            TranscriptEntry::Front { replaced, message, .. } => {
                self.heading(
                    &format!("shown from here on in place of the first {}", counted_messages(*replaced)),
                    &at,
                );
                match message {
                    Message::User { text, .. } => self.quote(text),
                    Message::Assistant(said) => self.assistant(said, &[]),
                    Message::Results { .. } => {}
                }
            }
        }
    }

    fn heading(&mut self, who: &str, at: &str) {
        self.text.push('\n');
        self.text.push_str(&self.screen.line(&format!("{who}  {at}"), "1"));
    }

    fn quote(&mut self, text: &str) {
        if !text.trim_end().is_empty() {
            self.text.push_str(&self.screen.with_gutter(text.trim_end()));
        }
    }

    fn assistant(&mut self, said: &AssistantMessage, results: &[CallResult]) {
        for part in &said.parts {
            match part {
                MessagePart::Text { text } => self.quote(text),
                MessagePart::Thinking { text, .. } if self.full && !text.is_empty() => {
                    self.text.push_str("thinking\n");
                    self.quote(text);
                }
                MessagePart::Thinking { .. } => {}
                MessagePart::Call(call) => {
                    self.call(call, results.iter().find(|result| result.call == call.id));
                }
            }
        }
    }

    fn call(&mut self, call: &ModelCall, result: Option<&CallResult>) {
        let bullet = if self.screen.unicode { "●" } else { "*" };
        let (outcome, code) = outcome_of(result);
        if self.full {
            self.text.push_str(&self.screen.line(&format!("{bullet} {}{outcome}", call.name), code));
            self.quote(&call.arguments);
        } else {
            let line = escape_line(&format!("{} {}", call.name, call.arguments));
            let room = self.screen.columns.saturating_sub(outcome.len().max(12) + 2);
            let line = truncate_columns(&line, room);
            let outcome = paint(&outcome, code, self.screen.colour && !code.is_empty());
            let _ = writeln!(self.text, "{bullet} {line}{outcome}");
        }
        match result {
            Some(result) if self.full => {
                self.text.push_str("result\n");
                self.quote(&result.text);
            }
            Some(result) => self.truncated_lines(&result.text),
            None => {}
        }
    }

    fn truncated_lines(&mut self, text: &str) {
        let count = text.lines().count();
        let shorten = |line: &str| match line.char_indices().nth(MAX_LINE_CHARS) {
            Some((end, _)) => format!("{}...", line.get(..end).unwrap_or_default()),
            None => line.to_owned(),
        };
        let few: Vec<String> = text.lines().take(MAX_RESULT_LINES).map(shorten).collect();
        self.quote(&few.join("\n"));
        if count > MAX_RESULT_LINES {
            let _ = writeln!(self.text, "  {} more lines; --full shows them", count - MAX_RESULT_LINES);
        }
    }
}

/// What went wrong with a call, and its colour.
fn outcome_of(result: Option<&CallResult>) -> (String, &'static str) {
    let Some(result) = result else { return ("  no result".to_owned(), "33") };
    let recorded = result.recorded.as_ref();
    match (recorded.map(|recorded| recorded.decision), recorded.and_then(|recorded| recorded.exit_code)) {
        (Some(Decision::Denied), _) => ("  denied".to_owned(), "31"),
        _ if result.is_error => ("  error".to_owned(), "31"),
        (_, Some(code)) if code != 0 => (format!("  exit code {code}"), "31"),
        _ => (String::new(), ""),
    }
}

/// The results at a position, complete or partial.
pub(super) fn results_at(entries: &[TranscriptEntry], wanted: u64) -> &[CallResult] {
    let found = entries.iter().find_map(|entry| match entry {
        TranscriptEntry::Message { position, message: Message::Results { results }, .. }
            if *position == wanted =>
        {
            Some(results.as_slice())
        }
        TranscriptEntry::PartialResults { position, results, .. } if *position == wanted => {
            Some(results.as_slice())
        }
        _ => None,
    });
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use toolgate_llm::RecordedOutcome;
    use toolgate_types::CallId;

    use super::*;

    #[test]
    fn a_call_that_went_wrong_is_marked_with_how() {
        let result = |is_error, recorded: Option<(Decision, Option<i64>)>| CallResult {
            call: "c".to_owned(),
            name: "run_command".to_owned(),
            text: String::new(),
            is_error,
            recorded: recorded.map(|(decision, exit_code)| RecordedOutcome {
                call_id: CallId::fresh(),
                decision,
                stage: None,
                code: None,
                duration_ms: 1,
                waited_ms: None,
                exit_code,
            }),
        };
        for (result, shown) in [
            (None, "  no result"),
            (Some(result(false, None)), ""),
            (Some(result(true, None)), "  error"),
            (Some(result(false, Some((Decision::Allowed, None)))), ""),
            (Some(result(false, Some((Decision::Allowed, Some(0))))), ""),
            (Some(result(false, Some((Decision::Allowed, Some(3))))), "  exit code 3"),
            (Some(result(true, Some((Decision::Denied, None)))), "  denied"),
            (Some(result(true, Some((Decision::Error, Some(1))))), "  error"),
        ] {
            assert_eq!(outcome_of(result.as_ref()).0, shown);
        }
    }
}
