//! A model server that plays a list of answers, over Chat Completions or Ollama's wire format, and records the requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// One answer.
#[derive(Clone)]
pub(crate) enum Says {
    Words(&'static str),
    /// Calls of tools by name, with the exact text of their arguments.
    Calls(Vec<(&'static str, String)>),
}

/// One call.
pub(crate) fn calls(tool: &'static str, arguments: &Value) -> Says {
    Says::Calls(vec![(tool, arguments.to_string())])
}

pub(crate) struct ModelServer {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl ModelServer {
    pub(crate) fn new(answers: Vec<Says>) -> Self {
        Self::with(answers, |_| {})
    }

    /// Runs `before` with the index of each answer, from 0.
    pub(crate) fn with(answers: Vec<Says>, before: impl Fn(usize) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                serve(stream, &answers, &heard, &before);
            }
        });
        Self { port, asked }
    }

    /// The bodies of the requests.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }

    /// `models` with one server, `mine`, with this wire format; `more` are further keys of it.
    pub(crate) fn config(&self, wire: &str, more: &str) -> String {
        let path = if wire == "ollama" { "" } else { "/v1" };
        format!(
            "models: {{mine: {{wire: {wire}, base_url: 'http://127.0.0.1:{}{path}', supports_tools: true, context_window: 100000, max_output_tokens: 4000{more}}}}}\n",
            self.port
        )
    }
}

fn serve(mut stream: TcpStream, answers: &[Says], heard: &Mutex<Vec<Value>>, before: &dyn Fn(usize)) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while reader.read_line(&mut head).unwrap_or(0) > 2 {}
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let is_ollama = head.contains("/api/");
    let answer = if head.contains("/api/show") {
        json!({"capabilities": ["completion", "tools"], "model_info": {}}).to_string()
    } else {
        let number = {
            let mut heard = heard.lock().unwrap();
            heard.push(serde_json::from_slice(&body).unwrap());
            heard.len() - 1
        };
        before(number);
        let says = answers.get(number).cloned().unwrap_or(Says::Words("The end."));
        if is_ollama { ollama(&says) } else { chat(&says, number) }
    };
    let kind = if is_ollama { "application/x-ndjson" } else { "text/event-stream" };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    let _ = stream.write_all((head + &answer).as_bytes());
}

fn chat(says: &Says, number: usize) -> String {
    let (delta, reason) = match says {
        Says::Words(words) => (json!({"role": "assistant", "content": words}), "stop"),
        Says::Calls(calls) => {
            let call = |(index, (tool, arguments)): (usize, &(&str, String))| json!({"index": index, "id": format!("c{number}x{index}"), "type": "function", "function": {"name": tool, "arguments": arguments}});
            let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
            (json!({"role": "assistant", "tool_calls": calls}), "tool_calls")
        }
    };
    let chunk = |delta: Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        format!("data: {}\n\n", json!({"id": "x", "object": "chat.completion.chunk", "choices": [choice]}))
    };
    chunk(delta, Value::Null) + &chunk(json!({}), json!(reason)) + "data: [DONE]\n\n"
}

fn ollama(says: &Says) -> String {
    let message = match says {
        Says::Words(words) => json!({"role": "assistant", "content": words}),
        Says::Calls(calls) => {
            let call = |(tool, arguments): &(&str, String)| {
                let arguments: Value = serde_json::from_str(arguments).unwrap();
                json!({"function": {"name": tool, "arguments": arguments}})
            };
            let calls: Vec<Value> = calls.iter().map(call).collect();
            json!({"role": "assistant", "content": "", "tool_calls": calls})
        }
    };
    let end = json!({"model": "m", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop"});
    format!("{}\n{end}\n", json!({"model": "m", "message": message, "done": false}))
}
