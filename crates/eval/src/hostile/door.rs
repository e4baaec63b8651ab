//! A gate that runs, and the ways in: MCP on standard input and output, and [over HTTP](super::http_door).

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http_door::{HttpCall, HttpDoor, HttpProtocol};
use super::sequence::HostileCall;
use super::tap::Tap;
use crate::evidence::field;
use crate::http_client::HttpClient;
use crate::process::{kill, spawn, terminate};

/// How long a gate may take to answer a call whose own deadline is shorter.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a gate may take to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(60);

/// How much of standard error is kept.
const MAX_STDERR_BYTES: usize = 1 << 20;

/// What a call was answered with.
#[derive(Clone, Debug)]
pub(super) struct GateAnswer {
    /// Everything that the model was given.
    pub(super) text: String,
    pub(super) ended: AnswerKind,
    /// Sealed state and text of a question.
    pub(super) state: Option<Value>,
    /// The id of its record, where the answer names it.
    pub(super) id: Option<String>,
}

/// How a call ended, as a client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerKind {
    Succeeded,
    Failed,
    /// The request itself was refused.
    Refused,
    /// It waits for a person.
    Asked,
    /// No answer came, because it was cancelled or the gate ended.
    Unanswered,
}

impl GateAnswer {
    pub(super) fn none() -> Self {
        Self { text: String::new(), ended: AnswerKind::Unanswered, state: None, id: None }
    }

    /// Whether the call failed at its deadline.
    pub(super) fn was_late(&self) -> bool {
        self.ended == AnswerKind::Failed && self.text.contains("timeout")
    }
}

/// How a gate ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    EndOfInput,
    Killed,
}

/// A running gate.
pub(super) struct GateProcess {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Arc<Mutex<Vec<u8>>>,
    http: Option<HttpDoor>,
    stateless: bool,
    next: u64,
    tap: Option<Arc<dyn Tap>>,
    workspace: std::path::PathBuf,
    call_timeout: Duration,
}

/// How a gate is spoken to.
pub(super) struct GateLaunch {
    pub(super) command: std::process::Command,
    pub(super) stateless: bool,
    /// What is spoken, and with which token, if the gate serves HTTP.
    pub(super) http: Option<(HttpProtocol, CallerToken)>,
    pub(super) tap: Option<Arc<dyn Tap>>,
    pub(super) workspace: std::path::PathBuf,
    /// The deadline of every call.
    pub(super) call_timeout: Duration,
}

/// The token of a caller over HTTP.
pub(super) enum CallerToken {
    /// That of the person, which the gate makes when it starts.
    File(std::path::PathBuf),
    Minted(String),
}

impl GateProcess {
    /// Starts a gate.
    pub(super) fn start(mut setup: GateLaunch) -> Result<Self, String> {
        setup.command.stdin(std::process::Stdio::piped());
        let mut child =
            spawn(&mut setup.command).map_err(|error| format!("the gate cannot be started: {error}"))?;
        let input = child.stdin.take();
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                    if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                        return;
                    }
                }
            });
        }
        let stderr = Arc::new(Mutex::new(Vec::new()));
        if let Some(mut pipe) = child.stderr.take() {
            let kept = Arc::clone(&stderr);
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(size @ 1..) = pipe.read(&mut buffer) {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    if kept.len() < MAX_STDERR_BYTES {
                        kept.extend_from_slice(buffer.get(..size).unwrap_or_default());
                    }
                }
            });
        }
        let mut gate = Self {
            child,
            input,
            lines,
            stderr,
            http: None,
            stateless: setup.stateless,
            next: 1,
            tap: setup.tap,
            workspace: setup.workspace,
            call_timeout: setup.call_timeout,
        };
        match setup.http {
            Some((protocol, token)) => gate.connect(protocol, token)?,
            None if !gate.stateless => gate.initialize()?,
            None => {}
        }
        Ok(gate)
    }

    #[expect(clippy::disallowed_methods, reason = "the token is in a file of the state directory")]
    fn connect(&mut self, protocol: HttpProtocol, token: CallerToken) -> Result<(), String> {
        let line =
            self.lines.recv_timeout(ANSWER_TIMEOUT).map_err(|_| self.failed("the gate is not served"))?;
        let shown: Value = serde_json::from_str(&line).unwrap_or_default();
        let token = match token {
            CallerToken::Minted(token) => token,
            CallerToken::File(file) => std::fs::read_to_string(file).map_err(|error| error.to_string())?,
        };
        let client = HttpClient {
            address: field(&shown, "/listen").to_owned(),
            host: None,
            token: token.trim().to_owned(),
            timeout: ANSWER_TIMEOUT,
        };
        self.http = Some(HttpDoor { client, protocol, call_timeout: self.call_timeout });
        Ok(())
    }

    fn initialize(&mut self) -> Result<(), String> {
        let about = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "hostile", "version": "1"}});
        let id = self.request("initialize", about)?;
        self.answer(id).map(drop).ok_or_else(|| self.failed("the gate did not begin"))?;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    }

    fn failed(&self, what: &str) -> String {
        format!("{what}: {}", self.stderr().trim())
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the gate wrote to standard error.
    pub(super) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// The tools that a model is shown.
    pub(super) fn tools(&mut self) -> Result<Value, String> {
        if let Some(http) = &self.http {
            return http.tools();
        }
        let id = self.request("tools/list", json!({}))?;
        let answer = self.answer(id).ok_or_else(|| self.failed("no tools were listed"))?;
        Ok(answer.pointer("/result/tools").cloned().unwrap_or_default())
    }

    fn send(&mut self, message: &Value) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("the gate has ended")?;
        let sent = writeln!(input, "{message}").and_then(|()| input.flush());
        sent.map_err(|error| self.failed(&format!("the gate does not read: {error}")))
    }

    fn request(&mut self, method: &str, mut params: Value) -> Result<u64, String> {
        let id = self.next;
        self.next += 1;
        if let Some(params) = params.as_object_mut()
            && method != "initialize"
        {
            let meta = match self.stateless {
                true => stateless_meta(self.call_timeout),
                false => json!({ "timeoutMs": milliseconds(self.call_timeout) }),
            };
            params.insert("_meta".to_owned(), meta);
        }
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        Ok(id)
    }

    /// The answer to a request; those to others are dropped.
    fn answer(&mut self, id: u64) -> Option<Value> {
        self.answers(&[id]).remove(&id)
    }

    /// The answers to requests, as far as they come.
    fn answers(&mut self, ids: &[u64]) -> HashMap<u64, Value> {
        self.answers_until(ids, |answers, nameless| answers.len() + nameless.len() >= ids.len())
    }

    /// The answers to requests until it is enough. A line that the gate could not parse is answered without an id: such answers go to requests that have no
    /// other.
    fn answers_until(
        &mut self,
        ids: &[u64],
        is_enough: impl Fn(&HashMap<u64, Value>, &[Value]) -> bool,
    ) -> HashMap<u64, Value> {
        let (mut answers, mut nameless) = (HashMap::new(), Vec::new());
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        while !is_enough(&answers, &nameless) {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = match self.lines.recv_timeout(left) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            };
            let message: Value = serde_json::from_str(&line).unwrap_or_default();
            if message.get("method").is_some() {
                continue;
            }
            match message.get("id").and_then(Value::as_u64) {
                Some(id) if ids.contains(&id) => drop(answers.insert(id, message)),
                Some(_) => {}
                None => nameless.push(message),
            }
        }
        for id in ids {
            if !answers.contains_key(id)
                && let Some(answer) = nameless.pop()
            {
                answers.insert(*id, answer);
            }
        }
        answers
    }

    /// Makes calls together and waits for all of them.
    pub(super) fn call(&mut self, calls: &[HostileCall]) -> Result<Vec<GateAnswer>, String> {
        let sent = self.begin(calls)?;
        self.finish(sent)
    }

    /// Sends calls without waiting.
    pub(super) fn begin(&mut self, calls: &[HostileCall]) -> Result<Vec<SentCall>, String> {
        let mut sent = Vec::new();
        for call in calls {
            let tapped = self.tap.as_ref().and_then(|tap| tap.instead(call, &self.workspace));
            sent.push(match (tapped, &self.http) {
                (Some(answer), _) => SentCall::Answered(answer),
                (None, Some(http)) => SentCall::Runs(http.begin(call)),
                (None, None) => SentCall::Waits(
                    self.request("tools/call", json!({"name": call.tool, "arguments": call.arguments}))?,
                ),
            });
        }
        Ok(sent)
    }

    /// Waits for calls that were sent.
    pub(super) fn finish(&mut self, sent: Vec<SentCall>) -> Result<Vec<GateAnswer>, String> {
        let ids: Vec<u64> = sent.iter().filter_map(SentCall::id).collect();
        let mut answers = self.answers(&ids);
        Ok(sent.into_iter().map(|sent| sent.answer(&mut answers, HttpCall::finish)).collect())
    }

    /// Cancels calls, and waits until the gate has seen that: a later request is answered.
    pub(super) fn cancel(&mut self, sent: Vec<SentCall>) -> Result<Vec<GateAnswer>, String> {
        for id in sent.iter().filter_map(SentCall::id) {
            self.send(
                &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}),
            )?;
        }
        if self.http.is_some() {
            let mut none = HashMap::new();
            let answers = sent.into_iter().map(|sent| sent.answer(&mut none, HttpCall::cancel)).collect();
            // Answered after the gate has seen the ends of the connections.
            return self.tools().map(|_| answers);
        }
        let after = self.request("tools/list", json!({}))?;
        let mut ids: Vec<u64> = sent.iter().filter_map(SentCall::id).collect();
        ids.push(after);
        // A cancelled call is usually not answered. One that had ended is answered before the list.
        let mut answers = self.answers_until(&ids, |answers, _| answers.contains_key(&after));
        Ok(sent.into_iter().map(|sent| sent.answer(&mut answers, HttpCall::finish)).collect())
    }

    /// Sends a call again with a person's yes to a question.
    pub(super) fn approved(&mut self, call: &HostileCall, state: &Value) -> Result<GateAnswer, String> {
        let params = json!({
            "name": call.tool, "arguments": call.arguments, "requestState": state,
            "inputResponses": {"approval": {"action": "accept", "content": {"scope": "once"}}},
        });
        let id = self.request("tools/call", params)?;
        Ok(self.answer(id).map_or_else(GateAnswer::none, |answer| mcp_answer(&answer)))
    }

    /// Ends the gate; an error if it does not end, or ends badly.
    pub(super) fn end(&mut self, ending: Ending) -> Result<(), String> {
        if ending == Ending::Killed {
            kill(&mut self.child);
            return Ok(());
        }
        drop(self.input.take());
        let status = match self.http {
            Some(_) => terminate(&mut self.child, SHUTDOWN_TIMEOUT),
            None => crate::process::wait(&mut self.child, SHUTDOWN_TIMEOUT),
        };
        match status {
            Ok(Some(status)) if status.success() || self.http.is_some() => Ok(()),
            Ok(Some(status)) => Err(self.failed(&format!("the gate ended with {status}"))),
            Ok(None) => Err(self.failed("the gate did not end")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// A person answers the questions about calls in flight over HTTP: yes to the first call, twice. Returns whether the second yes counted.
    pub(super) fn answer_questions(&self, first: &HostileCall) -> Result<bool, String> {
        self.http.as_ref().map_or(Ok(false), |http| http.answer_questions(first))
    }

    /// Answers that arrived while the gate ended.
    pub(super) fn late(&mut self, sent: Vec<SentCall>) -> Vec<GateAnswer> {
        self.finish(sent).unwrap_or_default()
    }
}

impl Drop for GateProcess {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            kill(&mut self.child);
        }
    }
}

/// A call that is in flight.
pub(super) enum SentCall {
    Waits(u64),
    Runs(HttpCall),
    Answered(Value),
}

impl SentCall {
    fn id(&self) -> Option<u64> {
        match self {
            Self::Waits(id) => Some(*id),
            Self::Runs(_) | Self::Answered(_) => None,
        }
    }
}

impl SentCall {
    /// The answer, among those that have come.
    fn answer(self, answers: &mut HashMap<u64, Value>, end: fn(HttpCall) -> GateAnswer) -> GateAnswer {
        match self {
            Self::Answered(answer) => mcp_answer(&answer),
            Self::Waits(id) => {
                answers.remove(&id).map_or_else(GateAnswer::none, |answer| mcp_answer(&answer))
            }
            Self::Runs(running) => end(running),
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What a request of the stateless protocol says of its client.
pub(super) fn stateless_meta(call_timeout: Duration) -> Value {
    json!({
        "timeoutMs": milliseconds(call_timeout),
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "hostile", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    })
}

pub(super) fn mcp_answer(message: &Value) -> GateAnswer {
    let text = message.to_string();
    let result = message.get("result");
    let state = result.and_then(|result| result.get("requestState")).cloned();
    let ended = match result {
        None => AnswerKind::Refused,
        Some(_) if state.is_some() => AnswerKind::Asked,
        Some(result) if result.get("isError") == Some(&Value::Bool(true)) => AnswerKind::Failed,
        Some(_) => AnswerKind::Succeeded,
    };
    GateAnswer { text, ended, state, id: None }
}
