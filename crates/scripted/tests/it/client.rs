//! A client independent of the adapters: it sends a given request and keeps the bytes of the answer.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use toolgate_scripted::{Script, ScriptServer, ServerOptions, Wire};

pub(crate) async fn serve(script: &str) -> ScriptServer {
    let script = Script::parse("test.yaml", script).unwrap_or_else(|problems| panic!("{problems}"));
    ScriptServer::start(script, ServerOptions::default()).await.unwrap()
}

/// An answer as far as it arrived.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Whether the response has an end marker and arrived completely.
    pub(crate) is_whole: bool,
}

impl Heard {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a response has a head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let rest = &bytes[end + 4..];
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let (body, is_whole) = match length {
            Some(length) => (rest.to_vec(), rest.len() == length.parse::<usize>().unwrap()),
            None => dechunked(rest),
        };
        Self { status, head, body, is_whole }
    }
}

fn dechunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        let chunk = &rest[end + 2..];
        if chunk.len() < size + 2 {
            body.extend_from_slice(chunk);
            return (body, false);
        }
        body.extend_from_slice(&chunk[..size]);
        rest = &chunk[size + 2..];
    }
    (body, false)
}

/// The path of a step request.
pub(crate) fn path(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "/v1/messages",
        Wire::Openai => "/v1/responses",
        Wire::OpenaiChat => "/v1/chat/completions",
        Wire::Ollama => "/api/chat",
    }
}

pub(crate) async fn begin(server: &ScriptServer, wire: Wire, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let body = body.to_string();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer any\r\n\
         anthropic-version: 2026-10-21\r\ncontent-length: {}\r\n\r\n",
        path(wire),
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    stream
}

/// Sends a request and reads the whole answer.
pub(crate) async fn post(server: &ScriptServer, wire: Wire, body: &Value) -> Heard {
    let mut stream = begin(server, wire, body).await;
    let mut bytes = Vec::new();
    // A broken connection ends in an error or in end of file; the bytes before count.
    let _ = stream.read_to_end(&mut bytes).await;
    Heard::parse(&bytes)
}

/// Sends a request, reads until some text has arrived, drops the server, and reads the rest.
pub(crate) async fn post_until(server: ScriptServer, wire: Wire, body: &Value, text: &str) -> Heard {
    let mut stream = begin(&server, wire, body).await;
    let mut bytes = Vec::new();
    while !bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "the answer ended before `{text}` came");
    }
    drop(server);
    let _ = stream.read_to_end(&mut bytes).await;
    Heard::parse(&bytes)
}

/// A request with a prompt and the default tools.
pub(crate) fn request(wire: Wire, prompt: &str, is_streamed: bool) -> Value {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let function = json!({"name": "read_file", "description": "reads", "parameters": schema});
    let message = json!([{"role": "user", "content": prompt}]);
    match wire {
        Wire::Anthropic => json!({
            "model": "demo", "max_tokens": 1024, "messages": message, "stream": is_streamed,
            "tools": [{"name": "read_file", "description": "reads", "input_schema": schema}],
        }),
        Wire::Openai => json!({
            "model": "demo", "input": message, "stream": is_streamed, "store": false, "reasoning": {"summary": "auto"},
            "include": ["reasoning.encrypted_content"],
            "tools": [{"type": "function", "name": "read_file", "description": "reads", "parameters": schema}],
        }),
        Wire::OpenaiChat => {
            let mut request = json!({
                "model": "demo", "messages": message, "stream": is_streamed, "tools": [{"type": "function", "function": function}],
            });
            if is_streamed {
                request["stream_options"] = json!({"include_usage": true});
            }
            request
        }
        Wire::Ollama => json!({
            "model": "demo", "messages": message, "stream": is_streamed, "tools": [{"type": "function", "function": function}],
        }),
    }
}

/// The same conversation after a complete answer, with this result for each of its calls.
pub(crate) fn continued(wire: Wire, request: &Value, answer: &Value, result: &str) -> Value {
    let mut request = request.clone();
    let key = if wire == Wire::Openai { "input" } else { "messages" };
    let messages = request[key].as_array_mut().unwrap();
    match wire {
        Wire::Anthropic => {
            let calls =
                answer["content"].as_array().unwrap().iter().filter(|block| block["type"] == "tool_use");
            let results: Value = calls
                .map(|call| json!({"type": "tool_result", "tool_use_id": call["id"], "content": result}))
                .collect();
            messages.push(json!({"role": "assistant", "content": answer["content"]}));
            messages.push(json!({"role": "user", "content": results}));
        }
        Wire::Openai => {
            let output = answer["output"].as_array().unwrap();
            messages.extend(output.iter().cloned());
            let calls = output.iter().filter(|item| item["type"] == "function_call");
            messages.extend(calls.map(
                |call| json!({"type": "function_call_output", "call_id": call["call_id"], "output": result}),
            ));
        }
        Wire::OpenaiChat => {
            let message = &answer["choices"][0]["message"];
            messages.push(message.clone());
            for call in message["tool_calls"].as_array().unwrap() {
                messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": result}));
            }
        }
        Wire::Ollama => {
            let message = &answer["message"];
            messages.push(message.clone());
            for call in message["tool_calls"].as_array().unwrap() {
                let name = &call["function"]["name"];
                messages.push(json!({"role": "tool", "tool_name": name, "content": result}));
            }
        }
    }
    request
}

/// The text of a complete answer.
pub(crate) fn words(wire: Wire, answer: &Value) -> String {
    let found = match wire {
        Wire::Anthropic => &answer["content"][0]["text"],
        Wire::Openai => &answer["output"][0]["content"][0]["text"],
        Wire::OpenaiChat => &answer["choices"][0]["message"]["content"],
        Wire::Ollama => &answer["message"]["content"],
    };
    found.as_str().unwrap_or_else(|| panic!("no words: {answer}")).to_owned()
}
