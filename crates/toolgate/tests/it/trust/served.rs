//! A gate as a client starts it, over standard input and output.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// The timeout for every expected event.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// A gate that a client started.
pub(super) struct Served {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    errors: Receiver<String>,
    asked: u64,
}

impl Served {
    pub(super) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let lines = lines_of(process.stdout.take().unwrap());
        let errors = lines_of(process.stderr.take().unwrap());
        Self { process, input, lines, errors, asked: 0 }
    }

    pub(super) fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    /// The response to a request.
    pub(super) fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.asked += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": parameters}));
        loop {
            let line = self.lines.recv_timeout(DEADLINE).expect("there is no answer");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == self.asked {
                return message;
            }
        }
    }

    pub(super) fn initialize(&mut self) -> Value {
        let client = json!({"name": "c", "version": "1"});
        let parameters = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let answer = self.ask("initialize", parameters);
        if answer["result"].is_object() {
            self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        answer
    }

    pub(super) fn tools(&mut self) -> Vec<String> {
        let answer = self.ask("tools/list", json!({}));
        let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}")).iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(super) fn hear(&self, words: &str) -> String {
        loop {
            let line = self.errors.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("`{words}` is not said"));
            if line.contains(words) {
                return line;
            }
        }
    }

    pub(super) fn end(self) -> (Option<i32>, Vec<String>) {
        let Self { mut process, input, errors, .. } = self;
        drop(input);
        let code = process.wait().unwrap().code();
        (code, errors.iter().collect())
    }
}

fn lines_of(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    receiver
}
