//! The cost of storing a conversation: opening a long one compared with reading the same messages from a file of lines, and appending one message
//! compared with writing and syncing it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints its figures and may stop at the first failure"
)]
#![allow(clippy::disallowed_methods, reason = "the floor reads and writes its own files")]

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use tokio::runtime::Runtime;
use toolgate_benches::{in_turns, report, report_extra};
use toolgate_llm::{AssistantMessage, CallResult, Message, MessagePart, ModelCall, ModelName};
use toolgate_session::{NewSession, SessionStore};
use toolgate_types::SessionId;

const MESSAGES: usize = 2000;
const OTHERS: usize = 6;
/// The maximum time to open a conversation of that length.
const PATIENCE: Duration = Duration::from_millis(50);
/// The maximum overhead of a message besides the disk: a round trip to the database thread, and SQLite.
const KEEPING: Duration = Duration::from_micros(500);

fn main() {
    let scratch = tempfile::tempdir_in(".").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let messages = conversation();
    let database = scratch.path().join("sessions/sessions.db");
    runtime.block_on(furnish(&database, &messages));
    let lines = scratch.path().join("lines.jsonl");
    let text: String =
        messages.iter().map(|message| serde_json::to_string(message).unwrap() + "\n").collect();
    std::fs::write(&lines, &text).unwrap();
    println!(
        "a conversation of {MESSAGES} messages, {} KiB, and {OTHERS} others of the same length",
        text.len() / 1024
    );
    opening(&runtime, &database, &lines, &messages);
    appending(&runtime, &database, &scratch.path().join("appended"));
}

fn opening(runtime: &Runtime, database: &Path, lines: &Path, messages: &[Message]) {
    let from_lines = || {
        let text = std::fs::read_to_string(lines).unwrap();
        let read: Vec<Message> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read.len(), messages.len());
    };
    // A cold start, as for a command: the file is opened, its schema is checked, and the session is locked.
    let cold = || {
        runtime.block_on(async {
            let store = SessionStore::open(database).await.unwrap();
            assert_eq!(store.open_session(&id(OTHERS / 2)).await.unwrap().messages().len(), messages.len());
        });
    };
    let (ours, floor) = in_turns(41, cold, from_lines);
    report("session/open-2000", ours, floor, "parse_jsonl", 4.0);
    report_extra("session/open-2000-at-most-50ms", ours, Duration::ZERO, "nothing", PATIENCE);
    let store = runtime.block_on(SessionStore::open(database)).unwrap();
    let warm = || {
        let session = runtime.block_on(store.open_session(&id(OTHERS / 2))).unwrap();
        assert_eq!(session.messages().len(), messages.len());
    };
    let (ours, floor) = in_turns(41, warm, from_lines);
    report("session/open-2000-in-an-open-store", ours, floor, "parse_jsonl", 4.0);
}

fn appending(runtime: &Runtime, database: &Path, file: &Path) {
    let store = runtime.block_on(SessionStore::open(database)).unwrap();
    let mut session = runtime.block_on(store.open_session(&id(0))).unwrap();
    let message = Message::user("a question of a usual length ".repeat(10));
    let line = serde_json::to_string(&message).unwrap() + "\n";
    let mut file = File::create_new(file).unwrap();
    let keep = || runtime.block_on(session.append(message.clone())).unwrap();
    let write = || {
        file.write_all(line.as_bytes()).unwrap();
        file.sync_data().unwrap();
    };
    let (ours, floor) = in_turns(401, keep, write);
    report_extra("session/append", ours, floor, "write+fdatasync", KEEPING);
}

fn id(number: usize) -> SessionId {
    format!("s{number}").parse().unwrap()
}

/// The measured conversation, interleaved with others, so that none is stored contiguously.
async fn furnish(database: &Path, messages: &[Message]) {
    let store = SessionStore::open(database).await.unwrap();
    let mut sessions = Vec::new();
    for number in 0..=OTHERS {
        let new = NewSession {
            id: id(number),
            title: "a conversation".to_owned(),
            agent: None,
            model: model(),
            profile: "native".to_owned(),
            workspace: "/work".into(),
            owner: toolgate_session::SessionOwner::Person,
            trust: None,
        };
        sessions.push(store.create(new).await.unwrap());
    }
    for message in messages {
        for session in &mut sessions {
            session.append(message.clone()).await.unwrap();
        }
    }
}

fn model() -> ModelName {
    ModelName { provider: "scripted".to_owned(), name: "demo".to_owned() }
}

/// Turns of four messages: a prompt, two calls, their results, an answer.
fn conversation() -> Vec<Message> {
    (0..MESSAGES / 4).flat_map(turn).collect()
}

fn turn(number: usize) -> [Message; 4] {
    let call = |name: &str| ModelCall {
        id: format!("call_{number}_{name}"),
        name: name.to_owned(),
        arguments: format!("{{\"path\":\"src/file_{number}.rs\",\"start_line\":1,\"end_line\":80}}"),
    };
    let result = |name: &str| CallResult {
        call: format!("call_{number}_{name}"),
        name: name.to_owned(),
        text: "    let line = of_a_file.that_was(read);\n".repeat(25),
        is_error: false,
        recorded: None,
    };
    let text = |text: String| MessagePart::Text { text };
    let calls = vec![
        text(format!("I will look at file {number}.")),
        MessagePart::Call(call("read_file")),
        MessagePart::Call(call("search_files")),
    ];
    let answer = vec![text("It does this and that, for these reasons.\n".repeat(10))];
    let said = |parts| Message::Assistant(AssistantMessage { parts, model: Some(model()) });
    [
        Message::user(format!("What does file {number} do?")),
        said(calls),
        Message::Results { results: vec![result("read_file"), result("search_files")] },
        said(answer),
    ]
}
