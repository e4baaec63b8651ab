//! The tool calls of a chat: one line each on the screen, and the full details on request.

use std::collections::VecDeque;
use std::fmt::Write as _;

use serde_json::Value;
use toolgate_agent::{ResultMetadata, ToolStatus};
use toolgate_render::{char_columns, truncate_columns};
use toolgate_text::without_sgr;
use toolgate_types::CallId;

use crate::approval_screen::{Screen, quoted};
use crate::terminal::{escape_line, paint};

/// At most this much output of a running call is kept; the result is kept in full.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// When the calls of a chat take more memory than this, the oldest are evicted; the stored conversation still has them.
const MAX_HISTORY_BYTES: usize = 32 * 1024 * 1024;

/// Arguments that best summarise a call, in order of preference.
const SUMMARY_ARGUMENTS: [&str; 10] =
    ["path", "command", "pattern", "query", "glob", "from", "file", "url", "name", "message"];

/// A call as it is displayed.
#[derive(Debug)]
pub(crate) struct DisplayedCall {
    pub(crate) id: CallId,
    number: usize,
    tool: String,
    input: Value,
    input_text: Option<String>,
    output: String,
    result: Option<DisplayedResult>,
    /// Its approximate size in memory, once it has ended.
    bytes: usize,
}

#[derive(Debug)]
struct DisplayedResult {
    status: ToolStatus,
    result: String,
    metadata: ResultMetadata,
}

/// The calls in memory, oldest first.
#[derive(Debug, Default)]
pub(crate) struct CallHistory {
    calls: VecDeque<DisplayedCall>,
    /// How many older calls were evicted.
    evicted: usize,
    /// The total size of the calls that have ended.
    bytes: usize,
}

/// The result of looking up a call by its number.
#[derive(Debug)]
pub(crate) enum CallLookup<'c> {
    Found(&'c DisplayedCall),
    /// It was made, and has been evicted.
    Evicted,
    /// There is no such call.
    Unknown,
}

impl CallHistory {
    pub(crate) fn begin(&mut self, id: CallId, tool: String, input: Value, input_text: Option<String>) {
        let number = self.count() + 1;
        let output = String::new();
        self.calls.push_back(DisplayedCall {
            id,
            number,
            tool,
            input,
            input_text,
            output,
            result: None,
            bytes: 0,
        });
    }

    pub(crate) fn output(&mut self, id: CallId, chunk: &str) {
        if let Some(call) = self.calls.iter_mut().rev().find(|call| call.id == id)
            && call.output.len() < MAX_OUTPUT_BYTES
        {
            call.output.push_str(&without_sgr(chunk));
        }
    }

    pub(crate) fn end(&mut self, id: CallId, status: ToolStatus, result: String, metadata: ResultMetadata) {
        if let Some(call) = self.calls.iter_mut().rev().find(|call| call.id == id) {
            call.result = Some(DisplayedResult { status, result, metadata });
            call.bytes = call.memory_bytes();
            self.bytes += call.bytes;
        }
        self.evict_oldest();
    }

    /// Evicts the oldest calls while the history exceeds its budget. A running call, the newest call, and all calls after a running one stay.
    fn evict_oldest(&mut self) {
        while self.bytes > MAX_HISTORY_BYTES
            && self.calls.len() > 1
            && let Some(oldest) = self.calls.pop_front_if(|oldest| oldest.result.is_some())
        {
            self.bytes -= oldest.bytes;
            self.evicted += 1;
        }
    }

    pub(crate) fn find(&self, id: CallId) -> Option<&DisplayedCall> {
        self.calls.iter().rev().find(|call| call.id == id)
    }

    /// The call with the number that its line shows.
    pub(crate) fn by_number(&self, number: usize) -> CallLookup<'_> {
        let Some(before) = number.checked_sub(1) else { return CallLookup::Unknown };
        let Some(place) = before.checked_sub(self.evicted) else { return CallLookup::Evicted };
        self.calls.get(place).map_or(CallLookup::Unknown, CallLookup::Found)
    }

    /// The number of calls so far, including evicted ones.
    pub(crate) fn count(&self) -> usize {
        self.evicted + self.calls.len()
    }
}

impl DisplayedCall {
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Its approximate size in memory.
    fn memory_bytes(&self) -> usize {
        let input = self.input_text.as_ref().map_or_else(|| self.input.to_string().len(), String::len);
        let ended = self.result.as_ref().map_or(0, |DisplayedResult { result, metadata, .. }| {
            let structured = metadata.structured.as_ref().map_or(0, |value| value.to_string().len());
            result.len() + structured + metadata.full_output.as_ref().map_or(0, String::len)
        });
        self.tool.len() + input + self.output.len() + ended
    }

    /// The call on one row, truncated to the screen: tool, subject and outcome.
    pub(crate) fn line(&self, screen: Screen) -> String {
        let dot = if screen.unicode { "●" } else { "*" };
        let (word, code) = self.outcome();
        let number = format!("#{}", self.number);
        let mut room = screen.columns.saturating_sub(1 + char_columns('●') + 1 + number.len());
        let mut fit = |text: &str| {
            let fitting = truncate_columns(text, room.saturating_sub(1));
            room = room.saturating_sub(fitting.chars().map(char_columns).sum::<usize>() + 1);
            fitting
        };
        let tool = paint(&fit(&escape_line(&self.tool)), "1", screen.colour);
        let word = fit(&word);
        let about = fit(&escape_line(&self.subject()));
        let (dot, number) = (paint(dot, code, screen.colour), paint(&number, "2", screen.colour));
        [dot, tool, about, word, number]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The outcome, on a row of its own below live output.
    pub(crate) fn end_line(&self, screen: Screen) -> String {
        let (word, code) = self.outcome();
        let corner = if screen.unicode { "└" } else { "\\" };
        let number = paint(&format!("#{}", self.number), "2", screen.colour);
        format!("  {corner} {} {number}", paint(word.trim_matches(['(', ')']), code, screen.colour))
    }

    /// The outcome and its colour.
    fn outcome(&self) -> (String, &'static str) {
        let Some(DisplayedResult { status, metadata, .. }) = &self.result else {
            return (String::new(), "36");
        };
        let time = human_duration(metadata.duration_ms);
        let code = metadata.code.map(|code| format!(": {code}")).unwrap_or_default();
        match status {
            ToolStatus::Success => match command_failure(metadata) {
                Some(failure) => (format!("({failure}, {time})"), "31"),
                None => (format!("({time})"), "32"),
            },
            ToolStatus::Error => (format!("(failed{code}, {time})"), "31"),
            ToolStatus::Denied => (format!("(denied{code})"), "31"),
            ToolStatus::Cancelled => ("(cancelled)".to_owned(), "33"),
        }
    }

    /// What runs while the call runs: a command, or the tool and its subject.
    pub(crate) fn work(&self) -> String {
        match self.input.get("command").and_then(Value::as_str) {
            Some(command) => command.to_owned(),
            None => format!("{} {}", self.tool, self.subject()).trim_end().to_owned(),
        }
    }

    /// A short summary of the arguments.
    fn subject(&self) -> String {
        if let Some(input_text) = &self.input_text {
            return input_text.clone();
        }
        let Value::Object(fields) = &self.input else { return self.input.to_string() };
        let told = SUMMARY_ARGUMENTS.iter().find_map(|name| Some((*name, fields.get(*name)?.as_str()?)));
        match (told, fields.get("to").and_then(Value::as_str)) {
            (Some(("from", from)), Some(to)) => format!("{from} -> {to}"),
            (Some((_, text)), _) => text.to_owned(),
            (None, _) if fields.is_empty() => String::new(),
            // What a list of objects says, as the steps of a plan, is no subject of a row.
            (None, _) if fields.len() == 1 && fields.values().all(is_list_of_objects) => String::new(),
            (None, _) => self.input.to_string(),
        }
    }

    /// The diff of its change, if the result has one.
    pub(crate) fn diff(&self) -> Option<&str> {
        let DisplayedResult { status: ToolStatus::Success, metadata, .. } = self.result.as_ref()? else {
            return None;
        };
        metadata.structured.as_ref()?.get("diff")?.as_str().filter(|diff| !diff.is_empty())
    }

    /// All details of the call.
    pub(crate) fn details(&self, screen: Screen) -> String {
        let mut text = format!("{}\n", self.line(screen));
        let input = match &self.input_text {
            Some(input_text) => input_text.clone(),
            None => serde_json::to_string_pretty(&self.input).unwrap_or_default(),
        };
        let _ = write!(text, "call {}\ninput, {}", self.id, quoted(&input, screen));
        if let Some(changed) = self.result.as_ref().and_then(|ended| ended.metadata.changed_input.as_ref()) {
            let changed = serde_json::to_string_pretty(changed).unwrap_or_default();
            let _ = write!(text, "changed by you to, {}", quoted(&changed, screen));
        }
        match &self.result {
            Some(ended) => {
                // The live output may be longer than the result that the model received.
                let more = ended.metadata.full_output.as_deref().unwrap_or(&self.output);
                if more.len() > ended.result.len() {
                    let _ = write!(text, "output, {}", quoted(more, screen));
                }
                let _ = write!(text, "result, {}", quoted(&ended.result, screen));
                if let Some(note) = &ended.metadata.operator_note {
                    text.push_str(&screen.line(&format!("for you alone: {note}"), "33"));
                }
            }
            None => text.push_str("it has not ended\n"),
        }
        text
    }
}

fn is_list_of_objects(value: &Value) -> bool {
    value.as_array().is_some_and(|items| !items.is_empty() && items.iter().all(Value::is_object))
}

/// How the command of a call failed. The call itself succeeded: it answered with what the command did.
fn command_failure(metadata: &ResultMetadata) -> Option<String> {
    let number = |name: &str| metadata.facts.get(name).and_then(Value::as_i64);
    match (number("exitCode"), number("signal")) {
        (Some(0), _) | (None, None) => None,
        (Some(code), _) => Some(format!("exit code {code}")),
        (None, Some(signal)) => Some(format!("ended by signal {signal}")),
    }
}

fn human_duration(milliseconds: u64) -> String {
    match milliseconds {
        0..1000 => format!("{milliseconds} ms"),
        1000..60_000 => format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100),
        _ => format!("{} min {} s", milliseconds / 60_000, milliseconds % 60_000 / 1000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(tool: &str, input: Value) -> CallHistory {
        let mut calls = CallHistory::default();
        calls.begin(CallId::fresh(), tool.to_owned(), input, None);
        calls
    }

    fn first(calls: &CallHistory) -> &DisplayedCall {
        let CallLookup::Found(call) = calls.by_number(1) else { panic!("{calls:?}") };
        call
    }

    #[test]
    fn the_oldest_calls_are_forgotten_and_numbers_stay() {
        let mut calls = call("first", json!({}));
        let metadata = ResultMetadata {
            call_id: CallId::fresh(),
            duration_ms: 0,
            waited_ms: None,
            decision: "ALLOWED",
            stage: None,
            code: None,
            structured: None,
            changed_input: None,
            facts: serde_json::Map::new(),
            full_output: None,
            operator_note: None,
        };
        let make = |calls: &mut CallHistory, bytes: usize| {
            let id = CallId::fresh();
            calls.begin(id, "read_file".to_owned(), json!({}), None);
            calls.end(id, ToolStatus::Success, "x".repeat(bytes), metadata.clone());
        };
        for _ in 0..40 {
            make(&mut calls, MAX_HISTORY_BYTES / 16);
        }
        assert_eq!(first(&calls).tool, "first", "a call that is under way is not forgotten");
        calls.end(first(&calls).id, ToolStatus::Success, String::new(), metadata.clone());
        assert!(
            matches!(calls.by_number(0), CallLookup::Unknown)
                && matches!(calls.by_number(42), CallLookup::Unknown)
        );
        assert!(
            matches!(calls.by_number(1), CallLookup::Evicted)
                && matches!(calls.by_number(20), CallLookup::Evicted)
        );
        let CallLookup::Found(newest) = calls.by_number(41) else { panic!() };
        assert_eq!((newest.number(), calls.count()), (41, 41));
        let kept: usize = calls.calls.iter().map(DisplayedCall::memory_bytes).sum();
        assert!(kept <= MAX_HISTORY_BYTES && calls.calls.len() > 10, "{kept}");
        make(&mut calls, 2 * MAX_HISTORY_BYTES);
        assert!(
            matches!(calls.by_number(42), CallLookup::Found(_)),
            "the newest one stays, however long it is"
        );
    }

    #[test]
    fn a_call_is_one_row_on_every_screen() {
        let long = "x\n● fake\u{1b}[2J".repeat(20);
        let inputs = [
            json!({"path": long}),
            json!({"from": "a", "to": "b"}),
            json!({}),
            json!({"漢": "字".repeat(80)}),
        ];
        for columns in 0..100 {
            for input in &inputs {
                for tool in ["read_file", long.as_str()] {
                    let screen = Screen { columns, rows: None, unicode: true, colour: false };
                    let calls = call(tool, input.clone());
                    let line = first(&calls).line(screen);
                    assert!(!line.contains(['\n', '\u{1b}']), "{line:?}");
                    let used: usize = line.chars().map(char_columns).sum();
                    assert!(columns < 10 || used < columns, "{used} of {columns}: {line}");
                }
            }
        }
    }

    #[test]
    fn a_row_says_what_the_call_is_about() {
        let screen = Screen { columns: 40, rows: None, unicode: true, colour: false };
        let line = |tool: &str, input: Value| first(&call(tool, input)).line(screen);
        assert_eq!(line("read_file", json!({"path": "README.md"})), "● read_file README.md #1");
        assert_eq!(line("move_file", json!({"from": "a", "to": "b"})), "● move_file a -> b #1");
        assert_eq!(line("list_directory", json!({})), "● list_directory #1");
        assert_eq!(line("count", json!({"n": 3})), "● count {\"n\":3} #1");
        assert_eq!(
            line("update_plan", json!({"steps": [{"step": "look", "status": "pending"}]})),
            "● update_plan #1"
        );
    }
}
