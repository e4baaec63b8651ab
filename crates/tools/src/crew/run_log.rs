//! `@state/logs/execution.jsonl`: one line per call of a run, with sizes, digests and previews instead of contents.

use std::io::Write as _;
use std::time::Duration;

use cap_std::fs::{Dir, OpenOptions};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use toolgate_text::window::truncate_at_char_boundary;
use toolgate_types::time::rfc3339_millis;
use toolgate_types::{Caller, Sha256, ToolCall};

use crate::front::Answer;

/// Longer texts are written as a size, a digest and a preview.
const WHOLE_TEXT: usize = 120;
const PREVIEW: usize = 80;
/// Longer lists are counted.
const WHOLE_LIST: usize = 10;

/// The log of one run.
pub(crate) struct RunLog {
    state: Dir,
}

/// A call that is under way.
pub(crate) struct Told {
    line: Map<String, Value>,
}

impl RunLog {
    pub(crate) fn new(state: Dir) -> Self {
        Self { state }
    }

    pub(crate) fn begin(&self, call: &ToolCall, caller: &Caller) -> Told {
        let mut line = Map::new();
        line.insert("ts".to_owned(), json!(rfc3339_millis(Timestamp::now())));
        line.insert("kind".to_owned(), json!("tool.exec"));
        line.insert(
            "toolCallId".to_owned(),
            json!(call.client_id.clone().unwrap_or_else(|| call.id.to_string())),
        );
        line.insert("toolName".to_owned(), json!(truncate_at_char_boundary(&call.tool, WHOLE_TEXT)));
        line.insert("agentId".to_owned(), json!(caller.agent));
        line.insert("input".to_owned(), summary(&call.arguments));
        Told { line }
    }

    /// Writes the line. The audit trail is the record that must not fail; this log is for the run's own readers.
    pub(crate) fn finish(&self, mut told: Told, answer: &Answer, duration: Duration) {
        let output = answer.structured.as_ref().map_or_else(|| summary(&json!(answer.text)), summary);
        told.line.insert("output".to_owned(), output);
        told.line
            .insert("durationMs".to_owned(), json!(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)));
        let mut text = Value::Object(told.line).to_string();
        text.push('\n');
        let _ = self.append(text.as_bytes());
    }

    fn append(&self, line: &[u8]) -> std::io::Result<()> {
        self.state.create_dir_all("logs")?;
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        self.state.open_with("logs/execution.jsonl", &options)?.write_all(line)
    }
}

/// The same value with long texts and lists replaced by what identifies them.
fn summary(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() > WHOLE_TEXT => json!({
            "bytes": text.len(),
            "sha256": Sha256::of(text.as_bytes()).to_string(),
            "preview": truncate_at_char_boundary(text, PREVIEW),
        }),
        Value::Array(items) if items.len() > WHOLE_LIST => {
            let shown: Vec<Value> = items.iter().take(WHOLE_LIST).map(summary).collect();
            json!({"count": items.len(), "first": shown})
        }
        Value::Array(items) => Value::Array(items.iter().map(summary).collect()),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), summary(value))).collect())
        }
        other => other.clone(),
    }
}
