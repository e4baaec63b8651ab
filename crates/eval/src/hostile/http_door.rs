//! The ways in over HTTP: the API, and MCP at `/mcp`.

use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::door::{AnswerKind, GateAnswer, mcp_answer, stateless_meta};
use super::sequence::HostileCall;
use crate::evidence::field;
use crate::http_client::HttpClient;

/// How long a question may take to be listed.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);

/// How often open questions are listed.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What is spoken over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpProtocol {
    /// `POST /api/v1/calls`.
    Api,
    /// MCP at `/mcp`, stateless protocol.
    Mcp,
}

/// A gate that is served.
pub(super) struct HttpDoor {
    pub(super) client: HttpClient,
    pub(super) protocol: HttpProtocol,
    pub(super) call_timeout: Duration,
}

/// A call in flight, on a connection of its own.
pub(super) struct HttpCall {
    answer: JoinHandle<GateAnswer>,
    connection: Receiver<TcpStream>,
}

impl HttpCall {
    /// Waits for the answer.
    pub(super) fn finish(self) -> GateAnswer {
        self.answer.join().unwrap_or_else(|_| GateAnswer::none())
    }

    /// Ends the connection, so that no client waits for the answer.
    pub(super) fn cancel(self) -> GateAnswer {
        if let Ok(connection) = self.connection.recv_timeout(QUESTION_TIMEOUT) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        self.finish()
    }
}

impl HttpDoor {
    /// The tools that a model is shown.
    pub(super) fn tools(&self) -> Result<Value, String> {
        if self.protocol == HttpProtocol::Mcp {
            let answer = mcp_request(&self.client, self.call_timeout, "tools/list", json!({}), None)?;
            return Ok(answer.pointer("/result/tools").cloned().unwrap_or_default());
        }
        let listed = self.client.send("GET", "/api/v1/tools", "")?;
        let usable = |tool: &&Value| tool.get("available") == Some(&Value::Bool(true));
        Ok(listed
            .get("items")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter(usable)
            .cloned()
            .collect())
    }

    /// Sends a call without waiting.
    pub(super) fn begin(&self, call: &HostileCall) -> HttpCall {
        let (client, call, timeout) = (self.client.clone(), call.clone(), self.call_timeout);
        let (opened, connection) = channel();
        let protocol = self.protocol;
        let answer = std::thread::spawn(move || match protocol {
            HttpProtocol::Mcp => {
                let params = json!({"name": call.tool, "arguments": call.arguments});
                match mcp_request(&client, timeout, "tools/call", params, Some(&opened)) {
                    Ok(answer) => mcp_answer(&answer),
                    Err(problem) => GateAnswer { text: problem, ..GateAnswer::none() },
                }
            }
            HttpProtocol::Api => api_call(&client, timeout, &call, &opened),
        });
        HttpCall { answer, connection }
    }

    /// A person says yes to the question about the first call, twice, and no to all others. Returns whether the second yes counted.
    pub(super) fn answer_questions(&self, first: &HostileCall) -> Result<bool, String> {
        let deadline = Instant::now() + QUESTION_TIMEOUT;
        let is_first = |question: &Value| {
            field(question, "/toolName") == first.tool && question.get("input") == Some(&first.arguments)
        };
        while Instant::now() < deadline {
            let open = self.questions()?;
            let Some(question) = open.iter().find(|question| is_first(question)) else {
                std::thread::sleep(POLL_INTERVAL);
                continue;
            };
            for other in open.iter().filter(|other| !is_first(other)) {
                self.answer_question(other, false)?;
            }
            self.answer_question(question, true)?;
            return self.answer_question(question, true);
        }
        Ok(false)
    }

    fn questions(&self) -> Result<Vec<Value>, String> {
        let listed = self.client.send("GET", "/api/v1/approvals", "")?;
        Ok(listed.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// Whether the answer counted.
    fn answer_question(&self, question: &Value, approved: bool) -> Result<bool, String> {
        let path = format!("/api/v1/approvals/{}", field(question, "/id"));
        let told =
            self.client.send("POST", &path, &json!({"approved": approved, "scope": "once"}).to_string())?;
        // A problem document has a code.
        Ok(told.get("code").is_none())
    }
}

fn api_call(
    client: &HttpClient,
    timeout: Duration,
    call: &HostileCall,
    opened: &std::sync::mpsc::Sender<TcpStream>,
) -> GateAnswer {
    let timeout = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let body = json!({"tool": call.tool, "arguments": call.arguments, "timeoutMs": timeout}).to_string();
    match client.exchange("POST /api/v1/calls", "", &body, Some(opened)) {
        Ok(answer) => GateAnswer {
            ended: match (field(&answer, "/decision"), answer.get("callId")) {
                ("ALLOWED", _) => AnswerKind::Succeeded,
                (_, Some(_)) => AnswerKind::Failed,
                _ => AnswerKind::Refused,
            },
            id: answer.get("callId").and_then(Value::as_str).map(str::to_owned),
            text: answer.to_string(),
            state: None,
        },
        Err(problem) => GateAnswer { text: problem, ..GateAnswer::none() },
    }
}

/// A request of the stateless protocol.
fn mcp_request(
    client: &HttpClient,
    timeout: Duration,
    method: &str,
    mut params: Value,
    opened: Option<&std::sync::mpsc::Sender<TcpStream>>,
) -> Result<Value, String> {
    let name: Option<String> = params.get("name").and_then(Value::as_str).map(|name| {
        // What no header can hold differs from the name in the body, and the request is refused for that.
        name.chars().map(|letter| if letter.is_ascii_graphic() { letter } else { '?' }).collect()
    });
    let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
    let headers = format!(
        "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}"
    );
    if let Some(params) = params.as_object_mut() {
        params.insert("_meta".to_owned(), stateless_meta(timeout));
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    client.exchange("POST /mcp", &headers, &body, opened)
}
