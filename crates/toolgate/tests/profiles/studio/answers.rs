//! Approval questions, and answers on standard input.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Studio, Told};

/// The timeout for every expected event.
const DEADLINE: Duration = Duration::from_secs(120);

/// A running task, and the program that controls it.
struct Program {
    process: Child,
    input: Option<ChildStdin>,
    events: Receiver<Value>,
    told: Vec<Value>,
}

impl Program {
    fn start(studio: &Studio, script: &str) -> Self {
        let mut command = studio.task(script, &[]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (process.stdin.take(), process.stdout.take().unwrap());
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let event = serde_json::from_str(&line.unwrap()).unwrap();
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        Self { process, input, events, told: Vec::new() }
    }

    /// The data of the next event of this name.
    fn next(&mut self, name: &str) -> Value {
        loop {
            let event =
                self.events.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("no {name}: {:?}", self.told));
            self.told.push(event.clone());
            if event["event"] == name {
                return event["data"].clone();
            }
        }
    }

    /// The data of the next event of each of these names, in any order.
    fn next_of<const N: usize>(&mut self, names: [&str; N]) -> [Value; N] {
        let seen = self.told.len();
        names.map(|name| {
            let found = self.told.iter().skip(seen).find(|event| event["event"] == name);
            found.map(|event| event["data"].clone()).unwrap_or_else(|| self.next(name))
        })
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn answer(&mut self, data: Value) {
        self.say(&json!({"event": "chat:tool-approve", "data": data}).to_string());
    }

    /// Closes the input; returns how the task ended.
    fn end(mut self) -> (i32, Value) {
        self.input = None;
        let end = self.next("chat:stream-end");
        (self.process.wait().unwrap().code().unwrap(), end)
    }
}

fn writes(paths: &[&str]) -> String {
    let step =
        |path: &&str| format!("  - calls: [{{tool: file_write, arguments: {{path: {path}, content: x}}}}]\n");
    format!("steps:\n{}  - say: 'Ended: {{{{last_result}}}}'\n", paths.iter().map(step).collect::<String>())
}

fn is_written(studio: &Studio, path: &str) -> bool {
    studio.0.workspace.join(path).exists()
}

/// "`chat:tool-confirm` → { messageId, toolId, toolName, input }", "`chat:tool-approve` → { toolId, approved }"; a refusal takes its reason to the model.
#[test]
fn a_program_approves_and_refuses_on_standard_input() {
    let studio = Studio::new("");
    let mut program = Program::start(&studio, &writes(&["a.txt", "b.txt"]));
    let first = program.next("chat:tool-confirm");
    assert_eq!(
        (&first["toolName"], &first["input"]["path"]),
        (&json!("file_write"), &json!("a.txt")),
        "{first}"
    );
    assert!(first["messageId"].is_string() && !is_written(&studio, "a.txt"), "{first}");
    program.answer(json!({"toolId": first["toolId"], "approved": true}));
    let second = program.next("chat:tool-confirm");
    assert!(is_written(&studio, "a.txt"), "approved before it was asked about the next");
    program.answer(json!({"toolId": second["toolId"], "approved": false, "reason": "use c.txt"}));
    let (code, end) = program.end();
    assert!(!is_written(&studio, "b.txt"));
    assert!(end["text"].as_str().unwrap().contains("a person refused this call: use c.txt"), "{end}");
    assert_eq!((code, &end["reason"]), (0, &json!("done")));
}

/// `input` runs the call with the arguments that the person left; the model is given what was run.
#[test]
fn a_program_approves_with_other_arguments() {
    let studio = Studio::new("");
    let mut program = Program::start(&studio, &writes(&["a.txt"]));
    let first = program.next("chat:tool-confirm");
    program.answer(
        json!({"toolId": first["toolId"], "approved": true, "input": {"path": "b.txt", "content": "y"}}),
    );
    let result = program.next("chat:tool-result");
    assert_eq!(result["metadata"]["changedInput"], json!({"path": "b.txt", "content": "y"}), "{result}");
    assert!(is_written(&studio, "b.txt") && !is_written(&studio, "a.txt"), "{result}");
    let (code, end) = program.end();
    let told = end["text"].as_str().unwrap();
    assert!(
        told.contains("a person changed this call before approving it") && told.contains("b.txt"),
        "{end}"
    );
    assert_eq!(code, 0);
}

/// `scope: session` covers later calls of the tool, `once` does not.
#[test]
fn an_answer_for_the_session_covers_later_calls_of_the_tool() {
    let studio = Studio::new("");
    let mut program = Program::start(&studio, &writes(&["a.txt", "b.txt", "c.txt"]));
    let first = program.next("chat:tool-confirm");
    program.answer(json!({"toolId": first["toolId"], "approved": true, "scope": "once"}));
    let second = program.next("chat:tool-confirm");
    program.answer(json!({"toolId": second["toolId"], "approved": true, "scope": "session"}));
    let (code, end) = program.end();
    assert!(["a.txt", "b.txt", "c.txt"].iter().all(|path| is_written(&studio, path)), "{end}");
    assert_eq!(code, 0);
}

/// The end of input denies the open question and all that follow.
#[test]
fn the_end_of_input_is_a_no() {
    let studio = Studio::new("");
    let mut program = Program::start(&studio, &writes(&["a.txt", "b.txt"]));
    program.next("chat:tool-confirm");
    program.input = None;
    let open = program.next("chat:tool-result");
    assert_eq!(open["metadata"]["code"], "approval_unavailable", "not when its time is up: {open}");
    let (code, end) = program.end();
    assert!(!is_written(&studio, "a.txt") && !is_written(&studio, "b.txt"));
    assert!(end["text"].as_str().unwrap().contains("approval_unavailable"), "{end}");
    assert_eq!(code, 3);
}

/// An invalid line, an unknown call and a second answer decide nothing, and are reported to the program.
#[test]
fn what_is_no_answer_decides_nothing_and_is_told() {
    let studio = Studio::new("");
    let mut program = Program::start(&studio, &writes(&["a.txt", "b.txt"]));
    let first = program.next("chat:tool-confirm");
    let id = first["toolId"].as_str().unwrap().to_owned();
    let other = "01a1e5ad-d438-73d9-91cc-8e1f5b1d3cc4";
    for (line, code) in [
        ("yes".to_owned(), "invalid_answer"),
        (json!(["chat:tool-approve", [id, true, null, "session"]]).to_string(), "invalid_answer"),
        (json!({"event": "chat:cancel", "data": {}}).to_string(), "invalid_answer"),
        (json!({"event": "chat:tool-approve", "data": {"toolId": id}}).to_string(), "invalid_answer"),
        (json!({"event": "chat:tool-approve", "data": {"toolId": id, "approved": "true"}}).to_string(), "invalid_answer"),
        (json!({"event": "chat:tool-approve", "data": {"toolId": id, "approved": true, "scope": "always"}}).to_string(), "invalid_answer"),
        (json!({"event": "chat:tool-approve", "data": {"toolId": other, "approved": true}}).to_string(), "unknown_question"),
        ("x".repeat(100_000), "invalid_answer"),
    ] {
        program.say(&line);
        assert_eq!(program.next("chat:error")["code"], code, "{line}");
    }
    assert!(!is_written(&studio, "a.txt"));
    program.answer(json!({"toolId": id, "approved": false}));
    program.answer(json!({"toolId": id, "approved": true}));
    // The refused call lets the loop go on, so the next question and the error may come in either order.
    let told = program.next_of(["chat:error", "chat:tool-confirm"]);
    assert_eq!(told[0]["code"], "unknown_question", "the first answer counts");
    program.end();
    assert!(!is_written(&studio, "a.txt"));
}

/// "blocks on channel until approval or 30s timeout": without an answer the call is refused, and a late answer has no effect.
#[test]
fn a_late_answer_does_not_count() {
    let studio = Studio::new("approval: {timeout: 1s}\n");
    let mut program = Program::start(&studio, &writes(&["a.txt", "b.txt"]));
    let first = program.next("chat:tool-confirm");
    assert_eq!(first["timeoutMs"], 1000);
    let expires: jiff::Timestamp = first["expiresAt"].as_str().unwrap().parse().unwrap();
    let withdrawn = program.next("chat:tool-withdrawn");
    assert_eq!((&withdrawn["toolId"], &withdrawn["messageId"]), (&first["toolId"], &first["messageId"]));
    let result = program.next("chat:tool-result");
    assert!(expires <= jiff::Timestamp::now(), "{first}");
    assert_eq!(result["metadata"]["code"], "approval_expired");
    let waited = result["metadata"]["waitedMs"].as_u64().unwrap();
    assert!(waited >= 1000, "the time of the question is counted apart: {result}");
    program.answer(json!({"toolId": first["toolId"], "approved": true}));
    assert_eq!(program.next("chat:error")["code"], "unknown_question");
    program.end();
    assert!(!is_written(&studio, "a.txt"));
    // The default timeout is 30 s.
    let studio = Studio::new("");
    let mut program = Program::start(&studio, &writes(&["a.txt"]));
    assert_eq!(program.next("chat:tool-confirm")["timeoutMs"], 30_000);
    program.end();
}

/// "Supervised: every tool call requires user confirmation"; "Guided: dangerous tools (bash, file_write) require confirmation; safe tools (file_read,
/// web_search) auto-approved"; "Autonomous: all tools pre-approved".
#[test]
fn trust_levels_ask_about_what_they_say() {
    for (trust, expected) in [
        (Some("supervised"), vec!["file_read", "file_write", "bash"]),
        (Some("guided"), vec!["file_write", "bash"]),
        (None, vec!["file_write", "bash"]),
        (Some("autonomous"), vec![]),
    ] {
        let studio = Studio::new("");
        studio.0.write("w/a.txt", "a\n");
        let script = "steps:\n  - calls:\n    - {tool: file_read, arguments: {path: a.txt}}\n    \
                      - {tool: file_write, arguments: {path: b.txt, content: x}}\n    \
                      - {tool: bash, arguments: {command: 'true'}}\n  - say: Done.\n";
        let options: Vec<&str> = trust.map(|trust| vec!["--trust", trust]).unwrap_or_default();
        let told = Told::of(studio.task(script, &options).stdin(Stdio::null()).output().unwrap());
        let asked: Vec<&str> =
            told.all("chat:tool-confirm").iter().map(|asked| asked["toolName"].as_str().unwrap()).collect();
        assert_eq!(asked, expected, "{trust:?}");
    }
}
