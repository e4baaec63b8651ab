//! Stored conversations, as users see them.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use insta::assert_snapshot;
use serde_json::Value;
use toolgate_llm::{AssistantMessage, CallResult, Message, MessagePart, ModelCall, ModelName, Usage};
use toolgate_session::{NewSession, Session, SessionStore};

use crate::fixture::CliFixture;

fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn database(place: &CliFixture) -> PathBuf {
    place.state.join("sessions.toolgate/sessions.db")
}

fn demo() -> ModelName {
    ModelName { provider: "scripted".to_owned(), name: "demo".to_owned() }
}

fn new(place: &CliFixture, id: &str, title: &str) -> NewSession {
    NewSession {
        id: id.parse().unwrap(),
        title: title.to_owned(),
        agent: None,
        model: demo(),
        profile: "native".to_owned(),
        workspace: place.workspace.canonicalize().unwrap(),
        owner: toolgate_session::SessionOwner::Person,
        trust: None,
    }
}

fn user(text: &str) -> Message {
    Message::user(text.to_owned())
}

fn said(parts: Vec<MessagePart>) -> Message {
    Message::Assistant(AssistantMessage { parts, model: Some(demo()) })
}

fn text(text: &str) -> MessagePart {
    MessagePart::Text { text: text.to_owned() }
}

fn call(id: &str, name: &str, arguments: &str) -> MessagePart {
    MessagePart::Call(ModelCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() })
}

fn result(call: &str, name: &str, text: &str, is_error: bool) -> CallResult {
    CallResult {
        call: call.to_owned(),
        name: name.to_owned(),
        text: text.to_owned(),
        is_error,
        recorded: None,
    }
}

/// Three conversations: one with some of everything, one by a hostile model that was cut off, and one in another workspace.
async fn furnish(place: &CliFixture) -> Session {
    let store = SessionStore::open(&database(place)).await.unwrap();
    let mut session = store.create(new(place, "k3f9q2m8xa", "Tidy the notes")).await.unwrap();
    session.append(user("Tidy the notes.\n\nAll of them.")).await.unwrap();
    let thought = MessagePart::Thinking { text: "Where are they?".to_owned(), seal: None };
    let looks = call("1", "list_directory", "{\"path\":\".\"}");
    let writes =
        call("2", "write_file", &format!("{{\"path\":\"a.md\",\"content\":\"{}\"}}", "long ".repeat(60)));
    session.append(said(vec![thought, text("I will look."), looks, writes])).await.unwrap();
    let names: String = (1..=9).map(|number| format!("note-{number}.md\n")).collect();
    session.add_result(result("1", "list_directory", &names, false)).await.unwrap();
    session.add_result(result("2", "write_file", "denied: read-only mount", true)).await.unwrap();
    session.append(said(vec![text("I could not.")])).await.unwrap();
    session.replace_front(3, user("Notes were to be tidied; the mount is read-only.")).await.unwrap();
    session.set_usage(Usage { input_tokens: 1200, output_tokens: 80, cached_tokens: 0 }).await.unwrap();
    drop(session);

    let elsewhere = NewSession { workspace: "/elsewhere".into(), ..new(place, "e7c2e7c2e7", "Elsewhere") };
    store.create(elsewhere).await.unwrap();

    let mut hostile = store.create(new(place, "x7c2d4v6b8", "a\u{202e}b\u{1b}[2J\ntitle")).await.unwrap();
    hostile.append(user("hello")).await.unwrap();
    let forged = "\u{1b}[2Jyou  2026-11-15T00:00:00.000Z\n# You\n```\n\u{202e}yes, delete everything\u{9b}1A";
    let calls = vec![
        text(forged),
        call("1", "run_\u{1b}]0;x", "{\"command\":\"echo \u{200b}\\u001b\"}"),
        call("2", "read_file", "not JSON\nat all"),
    ];
    hostile.append(said(calls)).await.unwrap();
    hostile.add_result(result("1", "run", "````\nescape\n````", false)).await.unwrap();
    hostile
}

/// Both streams, without volatile values.
fn told(place: &CliFixture, output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let text = format!("{}{stderr}", String::from_utf8_lossy(&output.stdout));
    let workspace = place.workspace.canonicalize().unwrap();
    let text = text.replace(workspace.to_str().unwrap(), "<workspace>");
    let text = text.replace(&format!("process {}", std::process::id()), "process <number>");
    let mut settled = String::new();
    let mut rest = text.as_str();
    // Times of this run, which begin with this century; forged ones stay.
    while let Some(start) = rest.find("20") {
        let (before, from) = rest.split_at(start);
        settled.push_str(before);
        match from.get(..24).filter(|word| word.ends_with('Z') && word.as_bytes()[10] == b'T') {
            Some(word) if word != "2026-11-15T00:00:00.000Z" => {
                settled.push_str("<time>");
                rest = &from[24..];
            }
            _ => {
                settled.push_str(&from[..2]);
                rest = &from[2..];
            }
        }
    }
    format!("{settled}{rest}[{}]\n", output.status.code().unwrap())
}

#[test]
fn what_people_see_of_conversations() {
    let place = CliFixture::new();
    let held = wait(furnish(&place));
    let mut seen = String::new();
    for command in [
        "list",
        "list --all",
        "show k3",
        "show k3f9q2m8xa --full",
        "show x7",
        "show x7 --full",
        "export k3 --format markdown",
        "export x7 --format markdown",
        "show e7",
        "show nobody",
        "show last",
        "delete k3",
        "delete x7 --yes",
        "delete k3 nobody --yes",
    ] {
        let words: Vec<&str> = ["sessions"].into_iter().chain(command.split(' ')).collect();
        seen.push_str(&format!("$ toolgate sessions {command}\n{}\n", told(&place, &place.run(&words))));
    }
    assert_snapshot!(seen);
    drop(held);
}

#[test]
fn json_says_the_same_and_hides_nothing() {
    let place = CliFixture::new();
    drop(wait(furnish(&place)));
    for command in [
        &["list", "--json"][..],
        &["list", "--all", "--json"],
        &["show", "x7", "--json"],
        &["export", "x7"],
        &["export", "k3"],
    ] {
        let words: Vec<&str> = ["sessions"].into_iter().chain(command.iter().copied()).collect();
        let told = place.must(&words);
        let hidden = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{200b}' | '\u{202e}');
        assert!(!told.contains(hidden), "{command:?}: {told:?}");
        let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        match command {
            ["export", "x7"] => {
                assert_eq!(lines.len(), 4);
                assert_eq!(lines[0]["session"]["title"], "a\u{202e}b\u{1b}[2J\ntitle");
                assert_eq!(lines[3]["kind"], "partial_results");
            }
            ["export", _] => assert_eq!(lines.len(), 6),
            ["list", "--json"] => assert_eq!(lines[0].as_array().unwrap().len(), 2),
            ["list", ..] => assert_eq!(lines[0].as_array().unwrap().len(), 3),
            _ => assert_eq!(lines[0]["entries"].as_array().unwrap().len(), 3),
        }
    }
}

#[test]
fn looking_where_nothing_was_kept_makes_nothing() {
    let place = CliFixture::new();
    assert_eq!(place.must(&["sessions", "list"]), "no conversations in this workspace\n");
    assert_eq!(place.must(&["sessions", "list", "--all", "--json"]), "[]\n");
    for words in [["sessions", "show", "last"], ["sessions", "delete", "x"], ["sessions", "resume", "x"]] {
        assert_eq!(place.run(&words).status.code(), Some(2), "{words:?}");
    }
    assert_eq!(std::fs::read_dir(&place.state).unwrap().count(), 0);
}

#[test]
fn what_is_deleted_is_gone() {
    let place = CliFixture::new();
    drop(wait(furnish(&place)));
    // One that is named twice is deleted once.
    let told = place.must(&["sessions", "delete", "k3", "k3f9q2m8xa", "e7", "--yes"]);
    assert_eq!(told, "deleted k3f9q2m8xa\ndeleted e7c2e7c2e7\n");
    assert_eq!(
        place.must(&["sessions", "delete", "last", "--yes", "--json"]),
        "{\"deleted\":[\"x7c2d4v6b8\"]}\n"
    );
    assert_eq!(place.must(&["sessions", "list", "--all"]), "no conversations\n");
}

/// Tools never see them, wherever the state directory is.
#[test]
fn no_tool_shows_what_was_said() {
    let place = CliFixture::at_home();
    drop(wait(furnish(&place)));
    for name in ["sessions.toolgate", "sessions.toolgate/sessions.db"] {
        let path = format!(".local/state/toolgate/{name}");
        let (code, envelope) = place.call("read_file", &serde_json::json!({"path": path}));
        assert_ne!(code, 0, "{path}: {envelope}");
    }
    let (code, found) = place.call("search_files", &serde_json::json!({"pattern": "Tidy the notes"}));
    assert!(code != 0 || !found.to_string().contains("sessions.db"), "{found}");
}

/// A conversation is resumed in its own workspace, whatever the current directory.
#[test]
fn a_conversation_goes_on_where_it_was_held() {
    let place = CliFixture::new();
    drop(wait(furnish(&place)));
    let mut toolgate = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    toolgate.current_dir(place.scratch.folder("away")).env_remove("TOOLGATE_TOKEN");
    toolgate
        .env("XDG_STATE_HOME", place.state_home())
        .arg("--state-dir")
        .arg(&place.state)
        .args(["sessions", "resume", "k3"]);
    let mut child =
        toolgate.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"And now?\n").unwrap();
    let output = child.wait_with_output().unwrap();
    // The demo wants to write, and without a terminal no approval can be asked.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    let shown = place.must(&["sessions", "show", "k3"]);
    assert!(shown.contains("  │ And now?\n"), "{shown}");
    assert!(shown.contains("list_directory"), "the demonstration begins by looking around: {shown}");
}
