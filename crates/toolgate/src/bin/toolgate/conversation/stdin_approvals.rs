//! Approvals on standard input: one JSON object per line, as a WebSocket client would send it.
//!
//! ```json
//! {"event":"chat:tool-approve","data":{"toolId":"…","approved":true,"scope":"once","reason":"…"}}
//! {"event":"chat:tool-approve","data":{"toolId":"…","approved":true,"scope":"grant","grant":"command-workspace"}}
//! ```
//!
//! Nothing is read before the first call, since its id is not known earlier: a task without calls leaves standard input to its caller. The first
//! answer to an open question counts; an answer before the question is about a call that its sender cannot have seen. A malformed line, and one about
//! a call without an open question, is reported as `chat:error` and decides nothing. End of input denies every question.

use std::collections::HashMap;
use std::future::Future;
use std::io::{self, BufRead, BufReader, Read as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::oneshot;
use toolgate_agent::{ChatEvent, EventSink};
use toolgate_conversation::ToolApproval;
use toolgate_gate::{ApprovalReply, ApprovalRequest, ApprovalUnavailable};
use toolgate_types::CallId;

/// Longer lines are rejected.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// This many invalid lines end the input: the program on the other end evidently writes something else.
const MAX_INVALID_LINES: usize = 1_000;

/// The remedy if a question is not answered.
const HOW_TO_ANSWER: &str = "answer chat:tool-confirm with chat:tool-approve on standard input, run it in a terminal, or pass --trust autonomous if its \
                             calls need no question";

/// The open questions of a task.
pub(crate) struct StdinApprovals {
    events: EventSink,
    state: Mutex<StdinApprovalState>,
}

#[derive(Default)]
struct StdinApprovalState {
    input: InputState,
    open: HashMap<CallId, OpenQuestion>,
    /// A question was not answered because the input had ended.
    was_missed: bool,
    /// The turn has ended: no event may follow.
    is_over: bool,
}

/// A question that waits for its answer.
struct OpenQuestion {
    answer: oneshot::Sender<ApprovalReply>,
    /// The ids of the grants that were offered.
    grants: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum InputState {
    #[default]
    Unread,
    Open,
    Ended,
}

impl StdinApprovals {
    /// Approvals for one task; invalid lines are reported to `events`.
    pub(crate) fn new(events: EventSink) -> Arc<Self> {
        Arc::new(Self { events, state: Mutex::default() })
    }

    /// The event sink of the task; it suppresses events after the last one.
    pub(crate) fn sink(self: &Arc<Self>) -> EventSink {
        let answers = Arc::clone(self);
        Arc::new(move |event| {
            let mut state = answers.state();
            state.is_over |= matches!(event, ChatEvent::StreamEnd { .. });
            let names_a_call =
                matches!(event, ChatEvent::ToolInputDelta { .. } | ChatEvent::ToolStart { .. });
            if names_a_call && state.input == InputState::Unread {
                state.input = answers.start_reading();
            }
            (answers.events)(event);
        })
    }

    /// Whether the input ended before a question was asked or answered.
    pub(crate) fn take_missed(&self) -> bool {
        std::mem::take(&mut self.state().was_missed)
    }

    /// Opens a question and waits for its answer. Dropping the future closes it.
    pub(crate) fn ask(
        self: &Arc<Self>,
        question: &ApprovalRequest,
    ) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send>> {
        let (answer, answered) = oneshot::channel();
        let call = question.call;
        let mut state = self.state();
        if state.input == InputState::Unread {
            state.input = self.start_reading();
        }
        if state.input == InputState::Ended {
            state.was_missed = true;
            return Box::pin(async { unavailable() });
        }
        let grants = question.grants.iter().map(|offer| offer.id.clone()).collect();
        state.open.insert(call, OpenQuestion { answer, grants });
        drop(state);
        let closes = PendingApprovalGuard { answers: Arc::clone(self), call };
        Box::pin(async move {
            let _closes = closes;
            answered.await.unwrap_or_else(|_| unavailable())
        })
    }

    fn start_reading(self: &Arc<Self>) -> InputState {
        let answers = Arc::clone(self);
        let work = move || answers.read(BufReader::new(io::stdin()));
        match std::thread::Builder::new().name("answers".to_owned()).spawn(work) {
            Ok(_) => InputState::Open,
            Err(_) => InputState::Ended,
        }
    }

    fn read(&self, mut input: impl BufRead) {
        let mut invalid_lines = 0;
        while let Some(line) = next_line(&mut input).filter(|_| invalid_lines < MAX_INVALID_LINES) {
            let answered = line.and_then(|line| StdinAnswer::read(&line)).and_then(|answer| match answer {
                Some(answer) => self.answer(answer),
                None => Ok(()),
            });
            if let Err((code, message)) = answered {
                invalid_lines += 1;
                self.report_error(code, message);
            }
        }
        let mut state = self.state();
        state.input = InputState::Ended;
        // Dropping the senders wakes the waiting futures.
        state.was_missed |= !state.open.is_empty();
        state.open.clear();
    }

    fn answer(&self, answer: StdinAnswer) -> Result<(), InputError> {
        let none = || {
            let message = format!(
                "no question is open about the call `{}`: it was never asked, was answered already, or its time is up",
                answer.call
            );
            ("unknown_question", message)
        };
        let mut state = self.state();
        if let (Some(open), ApprovalReply::Granted(id)) = (state.open.get(&answer.call), &answer.reply)
            && !open.grants.contains(id)
        {
            return Err(invalid("`grant` is not the id of a grant that was offered with this question"));
        }
        let open = state.open.remove(&answer.call);
        drop(state);
        open.and_then(|open| open.answer.send(answer.reply).ok()).ok_or_else(none)
    }

    fn report_error(&self, code: &'static str, message: String) {
        let state = self.state();
        if !state.is_over {
            let (retryable, attempt, wait_ms, voided) = (false, None, None, None);
            (self.events)(ChatEvent::Error { code, message, retryable, attempt, wait_ms, voided });
        }
    }

    fn state(&self) -> MutexGuard<'_, StdinApprovalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes a question on drop.
struct PendingApprovalGuard {
    answers: Arc<StdinApprovals>,
    call: CallId,
}

impl Drop for PendingApprovalGuard {
    fn drop(&mut self) {
        self.answers.state().open.remove(&self.call);
    }
}

fn unavailable() -> ApprovalReply {
    ApprovalReply::Unavailable(ApprovalUnavailable::for_operator(HOW_TO_ANSWER))
}

/// A stable code, and a message.
type InputError = (&'static str, String);

fn invalid(why: &str) -> InputError {
    let shape = r#"{"event":"chat:tool-approve","data":{"toolId":"ID","approved":true}}"#;
    ("invalid_answer", format!("a line on standard input is no answer: {why}; write {shape}"))
}

/// The next line; `None` at the end of input. A line that is too long is read to its end and discarded.
fn next_line(input: &mut impl BufRead) -> Option<Result<Vec<u8>, InputError>> {
    let mut line = Vec::new();
    match input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
        Ok(0) | Err(_) => return None,
        Ok(_) if line.ends_with(b"\n") || (line.len() as u64) < MAX_LINE_BYTES => return Some(Ok(line)),
        Ok(_) => {}
    }
    loop {
        line.clear();
        match input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) if line.ends_with(b"\n") => break,
            Ok(_) => {}
        }
    }
    Some(Err(invalid(&format!("it is longer than {MAX_LINE_BYTES} bytes"))))
}

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
struct StdinAnswer {
    call: CallId,
    reply: ApprovalReply,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalLine {
    event: String,
    data: ToolApproval,
}

impl StdinAnswer {
    /// Parses a line; an empty one is `None`.
    fn read(line: &[u8]) -> Result<Option<Self>, InputError> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        // Serde also deserialises a struct from an array.
        let is_object = |value: &Value| value.is_object() && value.get("data").is_some_and(Value::is_object);
        if serde_json::from_slice(line).is_ok_and(|value| !is_object(&value)) {
            return Err(invalid("it is not an object with an object `data`"));
        }
        let ApprovalLine { event, data } =
            serde_json::from_slice(line).map_err(|error| invalid(&without_position(&error.to_string())))?;
        if event != "chat:tool-approve" {
            return Err(invalid("only `chat:tool-approve` is read here"));
        }
        let (tool_id, answer) = data.into_parts();
        let call = tool_id.parse().map_err(|_| invalid("`toolId` is not the id of a call"))?;
        let reply = answer.into_reply().map_err(invalid)?;
        Ok(Some(Self { call, reply }))
    }
}

/// Each line is parsed on its own, so serde's line number is meaningless.
fn without_position(error: &str) -> String {
    error.replace(" at line 1", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        match StdinAnswer::read(line.as_bytes()) {
            Ok(Some(answer)) => format!("{:?}", answer.reply),
            Ok(None) => "nothing".to_owned(),
            Err((code, _)) => code.to_owned(),
        }
    }

    #[test]
    fn a_line_is_an_answer_or_says_why_it_is_none() {
        let id = CallId::fresh();
        let approve = |rest: &str| {
            read(&format!(r#"{{"event":"chat:tool-approve","data":{{"toolId":"{id}",{rest}}}}}"#))
        };
        for (rest, expected) in [
            (r#""approved":true"#, "Once"),
            (r#""approved":true,"scope":"once","reason":"fine""#, "Once"),
            (r#""approved":true,"scope":"session""#, "ForSession"),
            (r#""approved":false,"scope":"session""#, "Denied(None)"),
            (r#""approved":false,"reason":"use the other""#, r#"Denied(Some("use the other"))"#),
            (r#""approved":false,"reason":" ""#, "Denied(None)"),
            (r#""approved":"true""#, "invalid_answer"),
            (r#""approved":1"#, "invalid_answer"),
            (r#""approved":false,"approved":true"#, "invalid_answer"),
            (r#""approved":true,"scope":"always""#, "invalid_answer"),
            (r#""approved":true,"scop":"session""#, "invalid_answer"),
            (r#""approved":true,"input":{"path":"b"}"#, r#"Changed(Object {"path": String("b")})"#),
            (r#""approved":true,"input":{"path":"b"},"scope":"session""#, "invalid_answer"),
            (r#""approved":false,"input":{"path":"b"}"#, "invalid_answer"),
            (r#""approved":true,"input":["b"]"#, "invalid_answer"),
            (r#""approved":true,"scope":"grant","grant":"call-week""#, r#"Granted("call-week")"#),
            (r#""approved":false,"scope":"grant","grant":"call-week""#, "Denied(None)"),
            (r#""approved":true,"scope":"grant""#, "invalid_answer"),
            (r#""approved":true,"grant":"call-week""#, "invalid_answer"),
            (r#""approved":true,"scope":"session","grant":"call-week""#, "invalid_answer"),
            (r#""approved":true,"escalate":["host-1"]"#, r#"Escalated(["host-1"])"#),
            (r#""approved":true,"escalate":["host-1"],"scope":"session""#, "invalid_answer"),
            (r#""approved":false,"escalate":["host-1"]"#, "invalid_answer"),
            (r#""approved":true,"escalate":"host-1""#, "invalid_answer"),
            (r#""reason":"yes""#, "invalid_answer"),
        ] {
            assert_eq!(approve(rest), expected, "{rest}");
        }
        for (line, expected) in [
            (" \r\n", "nothing"),
            ("yes", "invalid_answer"),
            ("[]", "invalid_answer"),
            (&format!(r#"["chat:tool-approve",["{id}",true,null,"session"]]"#), "invalid_answer"),
            (
                &format!(r#"{{"event":"chat:tool-approve","data":["{id}",true,null,"once"]}}"#),
                "invalid_answer",
            ),
            (r#"{"event":"chat:cancel","data":{}}"#, "invalid_answer"),
            (r#"{"event":"chat:tool-approve","data":{"toolId":"x","approved":true}}"#, "invalid_answer"),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_left_and_the_next_is_read() {
        let text = format!("{}\nshort\nlast", "x".repeat(200_000));
        let mut input = io::Cursor::new(text);
        let mut lines = std::iter::from_fn(|| next_line(&mut input));
        assert!(lines.next().unwrap().is_err());
        assert_eq!(lines.next().unwrap().unwrap(), b"short\n");
        assert_eq!(lines.next().unwrap().unwrap(), b"last");
        assert!(lines.next().is_none());
    }
}
