//! A gate as a client starts it, over standard input and output.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

/// Longer than any timeout of the gate: a request without an answer by then hangs.
const HANGS: Duration = Duration::from_secs(90);

/// The program under test.
pub(crate) struct Program(pub(crate) PathBuf);

/// How a gate is started.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) workspace: PathBuf,
    pub(crate) state: PathBuf,
    /// `deny` or `warn`.
    pub(crate) on_failure: &'static str,
    /// The wrapper command that starts the program, such as `setpriv`.
    pub(crate) wrapper: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
}

impl Settings {
    fn command(&self, program: &Program, words: &[&str]) -> Command {
        let config = self.state.with_extension(format!("{}.yaml", self.on_failure));
        let content = format!("audit: {{on_failure: {}}}\n", self.on_failure);
        std::fs::write(&config, content).unwrap();
        let program = program.0.to_string_lossy().into_owned();
        let mut line: Vec<String> = self.wrapper.clone();
        line.push(program);
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).args(words).arg("--config").arg(config);
        command.arg("--workspace").arg(&self.workspace).arg("--state-dir").arg(&self.state);
        command.envs(self.environment.iter().cloned()).current_dir("/");
        command
    }

    /// The output of `toolgate audit verify --json`, and its exit code.
    pub(crate) fn verify(&self, program: &Program) -> (i32, Value) {
        let ended = self.command(program, &["audit", "verify", "--json"]).output().unwrap();
        let told = serde_json::from_slice(&ended.stdout).unwrap_or_else(|error| {
            panic!("verify said no JSON ({error}): {}", String::from_utf8_lossy(&ended.stderr))
        });
        (ended.status.code().unwrap(), told)
    }

    /// How many changes can be undone, by `toolgate changes`.
    pub(crate) fn changes(&self, program: &Program) -> usize {
        let ended = self.command(program, &["changes", "--json"]).output().unwrap();
        let told: Value = serde_json::from_slice(&ended.stdout).unwrap();
        told.as_array().or_else(|| told["changes"].as_array()).map_or(0, Vec::len)
    }
}

/// A running gate. Its standard error is kept beside its state.
pub(crate) struct Gate {
    process: Child,
    pub(crate) log: PathBuf,
}

/// The client's pipe ends of a gate, for the thread that makes calls.
pub(crate) struct Client {
    input: ChildStdin,
    answers: mpsc::Receiver<Value>,
}

/// The gate has ended.
#[derive(Debug)]
pub(crate) struct Gone;

impl Gate {
    pub(crate) fn start(program: &Program, settings: &Settings) -> (Self, Client) {
        let log = settings.state.with_extension("log");
        let errors = std::fs::File::options().create(true).append(true).open(&log).unwrap();
        let mut command = settings.command(program, &["mcp", "--trust", "autonomous"]);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        (Self { process, log }, Client { input, answers: listen(output) })
    }

    /// Starts a gate and waits until it has recovered.
    pub(crate) fn open(program: &Program, settings: &Settings) -> (Self, Client) {
        let (gate, mut client) = Self::start(program, settings);
        if client.initialize().is_err() {
            panic!("no gate starts: {}", std::fs::read_to_string(&gate.log).unwrap());
        }
        (gate, client)
    }

    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads answers on a thread of its own, so that waiting for one can time out.
fn listen(output: ChildStdout) -> mpsc::Receiver<Value> {
    let (hear, heard) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { return };
            // A line that the kill truncated is ignored.
            let Ok(answer) = serde_json::from_str(&line) else { return };
            if hear.send(answer).is_err() {
                return;
            }
        }
    });
    heard
}

impl Client {
    /// Sends `initialize`. When it is answered, the gate has recovered.
    fn initialize(&mut self) -> Result<(), Gone> {
        let client = json!({"name": "torture", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        self.ask("hello", "initialize", hello)?;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    }

    /// Makes a call: its result, whether or not that is a success.
    pub(crate) fn call(&mut self, id: &str, tool: &str, arguments: Value) -> Result<Value, Gone> {
        let answer = self.ask(id, "tools/call", json!({"name": tool, "arguments": arguments}))?;
        Ok(answer["result"].clone())
    }

    fn ask(&mut self, id: &str, method: &str, parameters: Value) -> Result<Value, Gone> {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}))?;
        loop {
            match self.answers.recv_timeout(HANGS) {
                Ok(answer) if answer["id"] == id => return Ok(answer),
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(Gone),
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("{method} {id} was never answered"),
            }
        }
    }

    fn send(&mut self, message: &Value) -> Result<(), Gone> {
        let line = format!("{message}\n");
        self.input.write_all(line.as_bytes()).map_err(|_| Gone)
    }
}

/// Whether the result of a call is an error, and the first word of its text: the code.
pub(crate) fn refusal(result: &Value) -> Option<String> {
    (result["isError"] == true || result.is_null()).then(|| result["content"][0]["text"].to_string())
}

/// The records in a state directory, in the order of their files and lines.
pub(crate) fn records(state: &Path) -> Vec<Value> {
    let folder = state.join("audit");
    let mut days: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    days.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
    days.retain(|path| !path.ends_with("checkpoints.jsonl"));
    days.sort();
    let lines = days.iter().flat_map(|day| {
        let text = std::fs::read_to_string(day).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    });
    lines.collect()
}
