//! What people type: arguments as pairs, ids by their beginning, errors as JSON, manual pages, and the bare name.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::fixture::CliFixture;
use crate::pty::Pty;

/// The JSON on standard output and the exit code.
fn answered(place: &CliFixture, arguments: &[&str]) -> (i32, Value) {
    let output = place.run(arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"));
    (output.status.code().unwrap(), value)
}

#[test]
fn a_call_takes_pairs_by_the_schema_of_its_tool() {
    let place = CliFixture::new();
    std::fs::write(place.workspace.join("a=b.txt"), "1\n2\n3\n").unwrap();
    for (arguments, expected) in [
        (&["read_file", "path=a=b.txt", "start_line=2", "end_line=2"][..], "2\n"),
        (&["read_file", "path:=\"a=b.txt\"", "end_line:=1"], "1\n"),
        (&["search_files", "pattern=2", "case_sensitive=true"], "a=b.txt:2:2\n"),
        (&["write_file", "path=n.txt", "content=7"], "created n.txt"),
    ] {
        let told = place.must(&[&["call"], arguments].concat());
        assert!(told.starts_with(expected), "{arguments:?}: {told}");
    }
    // Text stays text, even where it looks like a number.
    assert_eq!(std::fs::read_to_string(place.workspace.join("n.txt")).unwrap(), "7");
    let records = place.records().len();
    for (arguments, message, help) in [
        (
            &["read_file", "path=n.txt", "start_line=two"][..],
            "`start_line` must be an integer, not `two`",
            Value::Null,
        ),
        (&["read_file", "pth=n.txt"], "there is no argument `pth`", json!("did you mean `path`?")),
        (
            &["read_file", "path=n.txt", "path=m.txt"],
            "`path` is given twice, and takes one value",
            json!("leave one of them out"),
        ),
    ] {
        let (code, told) = answered(&place, &[&["--json", "call"], arguments].concat());
        let error = json!({"error": {"code": "usage", "message": message, "help": help}});
        assert_eq!((code, told), (2, error), "{arguments:?}");
    }
    // Nothing of that reached the gate; an unknown tool is the gate's to answer.
    assert_eq!(place.records().len(), records);
    let (code, told) = answered(&place, &["--json", "call", "raed_file", "path=n.txt"]);
    assert_eq!((code, &told["code"]), (3, &json!("unknown_tool")));
}

#[test]
fn every_command_that_fails_says_why_as_json() {
    let place = CliFixture::new();
    for (arguments, code, name) in [
        (&["call", "read_file", "{x"][..], 2, "usage"),
        (&["call"], 2, "usage"),
        (&["no-such-command"], 2, "usage"),
        (&["--profile", "none", "tools"], 2, "usage"),
        (&["sessions", "show", "nothing"], 2, "usage"),
        (&["undo", "--call", "zzzz"], 2, "usage"),
        (&["audit", "show", "--since", "yesterday"], 2, "usage"),
        (&["mcp", "list", "nothing"], 2, "usage"),
        (&["mcp", "import", "nothing.json"], 2, "usage"),
        (&["mcp", "install", "--client", "telex"], 2, "usage"),
        (&["models", "nobody"], 2, "usage"),
        (&["chat"], 2, "usage"),
        (&["trust", "nothing.yaml"], 2, "usage"),
    ] {
        let (found, told) = answered(&place, &[&["--json"], arguments].concat());
        let error = &told["error"];
        assert_eq!((found, &error["code"]), (code, &json!(name)), "{arguments:?}: {told}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{told}");
        assert!(error.get("help").is_some(), "{told}");
    }
    // A misspelt command is guessed, as JSON too.
    let (_, told) = answered(&place, &["--json", "docter"]);
    assert_eq!(told["error"]["message"], "unrecognized subcommand 'docter'");
    assert_eq!(told["error"]["help"], "a similar subcommand exists: 'doctor'");
    // Standard output of `mcp` belongs to its client.
    let output = place.run(&["--json", "--profile", "none", "mcp"]);
    assert!(!String::from_utf8(output.stdout).unwrap().contains("\"error\":{\"code\":\"usage\""));
}

#[test]
fn ids_are_accepted_by_their_beginning() {
    let place = CliFixture::new();
    for (run, name) in [("spring-1", "a.txt"), ("summer-1", "b.txt"), ("summer-2", "c.txt")] {
        place.must(&["--run", run, "call", "write_file", &format!("path={name}"), "content=x"]);
    }
    let calls: Vec<String> = place.records().iter().map(|record| record.trace_id.to_string()).collect();
    let beginning = |call: &str| call[..call.len() - 2].to_owned();
    let shown = place.must(&["audit", "show", "--call", &beginning(&calls[1])]);
    assert!(shown.contains(&calls[1]) && shown.contains("created     @project/b.txt\n"), "{shown}");
    assert!(!shown.contains(&calls[0]) && !shown.contains(&calls[2]), "{shown}");
    // The listing has the last digits of each id, which are enough as well.
    let listed = place.must(&["audit", "show"]);
    for (call, line) in calls.iter().zip(listed.lines()) {
        assert!(line.contains(&call[28..]) && line.len() <= 100, "{line}");
        assert_eq!(
            place.must(&["audit", "show", "--json", "--call", &call[28..]]),
            place.must(&["audit", "show", "--json", "--call", call])
        );
    }
    // One line for each, whatever the zone; JSON has UTC.
    let in_zone = |options: &[&str]| {
        let arguments = [&["audit", "show"], options].concat();
        let output = place.toolgate().args(arguments).env("TZ", "Asia/Kolkata").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_ne!(in_zone(&[]), in_zone(&["--utc"]));
    assert_eq!(in_zone(&["--json"]), in_zone(&["--json", "--utc"]));
    let of_spring = place.must(&["changes", "--session", "spr"]);
    assert!(of_spring.contains(&calls[0]) && !of_spring.contains(&calls[1]), "{of_spring}");

    // All ids of a day begin alike: the candidates are listed, and nothing is undone.
    let (code, told) = answered(&place, &["--json", "undo", "--call", &calls[0][..4]]);
    let help = told["error"]["help"].as_str().unwrap();
    assert!(code == 2 && calls.iter().all(|call| help.contains(call)), "{told}");
    let (code, told) = answered(&place, &["--json", "undo", "--session", "summer"]);
    assert!(code == 2 && told["error"]["help"].as_str().unwrap().contains("summer-1, summer-2"), "{told}");
    assert!(place.workspace.join("b.txt").exists());

    place.must(&["undo", "--call", &beginning(&calls[0])]);
    assert!(!place.workspace.join("a.txt").exists() && place.workspace.join("b.txt").exists());
    place.must(&["undo", "--session", "summer-2"]);
    assert!(!place.workspace.join("c.txt").exists());
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let place = CliFixture::new();
    let page = place.must(&["man"]);
    assert!(page.contains(".TH toolgate 1") && page.contains("toolgate undo"), "{page}");
    place.must(&["man", "pages"]);
    let names = std::fs::read_dir(place.scratch.path().join("pages")).unwrap();
    let names: Vec<String> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    for name in ["toolgate.1", "toolgate-call.1", "toolgate-audit-show.1", "toolgate-mcp-install.1"] {
        assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
    }
    let call = std::fs::read_to_string(place.scratch.path().join("pages/toolgate-call.1")).unwrap();
    assert!(call.contains("Make one call through the whole gate") && call.contains("Examples"), "{call}");
}

/// The bare name, in the workspace, where nothing names a model.
fn bare(place: &CliFixture) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    command.current_dir(&place.workspace);
    command.env("HOME", &place.home).env("XDG_STATE_HOME", place.state_home());
    command.env("OLLAMA_HOST", "127.0.0.1:9");
    for name in
        ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "OPENROUTER_MODEL", "TOOLGATE_TOKEN"]
    {
        command.env_remove(name);
    }
    command
}

#[test]
fn the_bare_name_begins_a_chat_on_a_terminal_alone() {
    let place = CliFixture::new();
    let mut terminal = Pty::start(&bare(&place), 40, 100);
    terminal.wait_for("no model was chosen");
    terminal.wait_for("--model scripted/demo");
    assert_eq!(terminal.ended().code(), Some(2));

    let output = bare(&place).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("Usage: toolgate") && output.stdout.is_empty(), "{told}");
}
