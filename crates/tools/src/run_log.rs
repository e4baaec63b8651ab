//! `@state/logs/execution.jsonl`: one line per call of a run, with sizes, digests and previews instead of contents.

use std::io::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cap_std::fs::{Dir, OpenOptions};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use toolgate_text::line_index::truncate_at_char_boundary;
use toolgate_types::time::rfc3339_millis;
use toolgate_types::{Caller, ErrorCode, Sha256, ToolCall};

use crate::profiled_gate::ModelAnswer;
use crate::profiles::Profile;

/// String arguments that are names; short ones are logged verbatim.
const ARGUMENT_NAMES: &[&str] = &["path", "pattern", "ifMatchSha256", "operation"];
/// The same for answers.
const ANSWER_NAMES: &[&str] = &[
    "path",
    "sha256",
    "sha256Before",
    "sha256After",
    "name",
    "type",
    "code",
    "message",
    "hint",
    "stage",
    "mount",
    "reason",
];
/// Longer names are summarised too.
const MAX_NAME_BYTES: usize = 200;
/// The preview of any other string: at most this, and at most half of it.
const MAX_PREVIEW_BYTES: usize = 80;
/// Longer lists are truncated, with their count.
const MAX_LIST_ITEMS: usize = 10;
/// Objects with more fields are truncated, with their count.
const MAX_OBJECT_FIELDS: usize = 20;
/// Field names are cut to this length.
const MAX_FIELD_NAME_BYTES: usize = 60;
/// The maximum nesting that is logged.
const MAX_DEPTH: usize = 6;
/// A longer line is reduced to sizes.
const MAX_LINE_BYTES: usize = 32 * 1024;

/// The log's default size limit before it is rotated.
const MAX_LOG_BYTES: u64 = 16 << 20;
/// The log, and the previous one.
const LOG: &str = "logs/execution.jsonl";
const LAST_LOG: &str = "logs/execution.1.jsonl";

/// The log of one run.
pub(crate) struct RunLog {
    state: Dir,
    max_bytes: u64,
    profile: Profile,
    complain: Arc<dyn Fn(&str) + Send + Sync>,
    /// Why a line is missing: the first error.
    failure: OnceLock<String>,
}

/// The log line of a call in flight. It is written by `finish`, or on drop: a call whose future is dropped, or whose tool panics, has a line too.
pub(crate) struct PendingLogLine<'a> {
    log: &'a RunLog,
    begun: Instant,
    line: Map<String, Value>,
    is_written: bool,
}

impl RunLog {
    pub(crate) fn new(
        state: Dir,
        max_bytes: Option<u64>,
        profile: Profile,
        complain: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        let max_bytes = max_bytes.unwrap_or(MAX_LOG_BYTES);
        Self { state, max_bytes, profile, complain, failure: OnceLock::new() }
    }

    /// Why the log lacks a line, if it does.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    pub(crate) fn begin(&self, call: &ToolCall, caller: &Caller) -> PendingLogLine<'_> {
        let mut line = Map::new();
        line.insert("ts".to_owned(), json!(rfc3339_millis(Timestamp::now())));
        line.insert("kind".to_owned(), json!("tool.exec"));
        line.insert(
            "toolCallId".to_owned(),
            match &call.client_id {
                Some(id) => json!(truncate_at_char_boundary(id, MAX_NAME_BYTES)),
                None => json!(call.id.to_string()),
            },
        );
        line.insert("toolName".to_owned(), json!(truncate_at_char_boundary(&call.tool, MAX_NAME_BYTES)));
        line.insert("agentId".to_owned(), json!(caller.agent));
        line.insert("input".to_owned(), summarize(&call.arguments, ARGUMENT_NAMES));
        if !call.repairs.is_empty() {
            line.insert("repairs".to_owned(), json!(call.repairs));
        }
        PendingLogLine { log: self, begun: Instant::now(), line, is_written: false }
    }

    /// Appends a line. The first error is reported to the operator; those of later lines would repeat it for every call.
    fn append_or_complain(&self, line: &[u8]) {
        let Err(error) = self.append(line) else { return };
        let reason = error.to_string();
        if self.failure.set(reason.clone()).is_ok() {
            (self.complain)(&format!("the run's log `@state/{LOG}` cannot be written: {reason}"));
        }
    }

    fn append(&self, line: &[u8]) -> std::io::Result<()> {
        self.state.create_dir_all("logs")?;
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        let mut log = self.state.open_with(LOG, &options)?;
        // Both files together stay within the limit. If two gates notice a full log at the same time, the second finds the fresh one.
        let is_full = |bytes: u64| bytes > 0 && bytes.saturating_add(line.len() as u64) > self.max_bytes / 2;
        if is_full(log.metadata()?.len()) && is_full(self.state.metadata(LOG)?.len()) {
            self.state.rename(LOG, &self.state, LAST_LOG)?;
            log = self.state.open_with(LOG, &options)?;
        }
        log.write_all(line)
    }
}

impl PendingLogLine<'_> {
    /// Writes the line. The audit log has its own record, without which the call would not have run.
    pub(crate) fn finish(mut self, answer: &ModelAnswer, duration: Duration) {
        let output = answer.structured.as_ref().map_or_else(
            || text_summary(&answer.text),
            |structured| summarize(&structured.value(), ANSWER_NAMES),
        );
        self.write(output, duration);
    }

    fn write(&mut self, output: Value, duration: Duration) {
        self.is_written = true;
        let mut line = std::mem::take(&mut self.line);
        line.insert("output".to_owned(), output);
        line.insert("durationMs".to_owned(), json!(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)));
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        self.log.append_or_complain(text.as_bytes());
    }
}

impl Drop for PendingLogLine<'_> {
    fn drop(&mut self) {
        if !self.is_written {
            let code = self.log.profile.error_code(ErrorCode::Interrupted);
            let error = json!({"code": code, "message": "the call was interrupted"});
            self.write(json!({"ok": false, "error": error}), self.begun.elapsed());
        }
    }
}

/// The summary of a value, or only its size if even the summary is too long.
fn summarize(value: &Value, names: &[&str]) -> Value {
    let summary = summary("", value, names, MAX_DEPTH);
    match summary.to_string().len() {
        length if length > MAX_LINE_BYTES => text_summary(&value.to_string()),
        _ => summary,
    }
}

/// Replaces content by size and digest. A string that is not a known name counts as content.
fn summary(field: &str, value: &Value, names: &[&str], depth: usize) -> Value {
    match value {
        Value::String(text) if names.contains(&field) && text.len() <= MAX_NAME_BYTES => value.clone(),
        Value::String(text) => text_summary(text),
        Value::Array(_) | Value::Object(_) if depth == 0 => text_summary(&value.to_string()),
        Value::Array(items) => {
            let shown = items.iter().take(MAX_LIST_ITEMS);
            let shown = shown.map(|item| summary(field, item, names, depth - 1)).collect();
            match items.len() > MAX_LIST_ITEMS {
                true => json!({"count": items.len(), "first": Value::Array(shown)}),
                false => Value::Array(shown),
            }
        }
        Value::Object(fields) => {
            let shown = |(name, value): (&String, &Value)| {
                let short = truncate_at_char_boundary(name, MAX_FIELD_NAME_BYTES).to_owned();
                (short, summary(name, value, names, depth - 1))
            };
            let mut known: Map<String, Value> = fields.iter().take(MAX_OBJECT_FIELDS).map(shown).collect();
            if fields.len() > MAX_OBJECT_FIELDS {
                known.insert("…".to_owned(), json!({"fields": fields.len()}));
            }
            Value::Object(known)
        }
        other => other.clone(),
    }
}

/// Size, digest, and a preview that is never the whole text.
fn text_summary(text: &str) -> Value {
    let preview = truncate_at_char_boundary(text, MAX_PREVIEW_BYTES.min(text.len() / 2));
    json!({"bytes": text.len(), "sha256": Sha256::of(text.as_bytes()).to_string(), "preview": preview})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_never_written_whole() {
        for field in ["content", "contentPreview", "text", "before", "after", "old_text", "anything"] {
            for secret in ["x", "hunter2", "a password of some length, but less than a hundred"] {
                for value in [json!({field: secret}), json!({field: [secret]}), json!({"a": {field: secret}})]
                {
                    let line = summarize(&value, ARGUMENT_NAMES).to_string();
                    assert!(!line.contains(&format!("\"{secret}\"")), "{field}: {line}");
                    assert!(line.contains(&Sha256::of(secret.as_bytes()).to_string()), "{field}: {line}");
                }
            }
        }
        let named = json!({"path": "@project/a.md", "pattern": "x", "ok": true, "bytes": 3});
        assert_eq!(summarize(&named, ARGUMENT_NAMES), named);
    }

    #[test]
    fn one_call_cannot_write_a_huge_line() {
        let wide: Map<String, Value> =
            (0..10_000).map(|number| (number.to_string(), json!(number))).collect();
        let deep = (0..100).fold(json!("x".repeat(1000)), |inner, _| json!([inner]));
        let bushy = (0..4).fold(json!("x".repeat(300)), |inner, _| Value::Array(vec![inner; 10]));
        for value in [
            Value::Object(wide),
            deep,
            bushy,
            json!({"k".repeat(1_000_000): "v"}),
            json!({"path": "p".repeat(1_000_000)}),
            json!({"pattern": vec!["p".repeat(200); 1000]}),
        ] {
            let line = summarize(&value, ARGUMENT_NAMES).to_string();
            assert!(line.len() <= MAX_LINE_BYTES, "{} bytes", line.len());
        }
    }
}
