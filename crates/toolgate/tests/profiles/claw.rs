//! The profile `claw`.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::fixture::{CliFixture, finish_call};
use crate::model_server::{ModelServer, Says, calls};

fn gate(place: &CliFixture) -> Command {
    let mut command = place.toolgate();
    command.args(["--profile", "claw"]);
    command
}

/// The text that a model receives for one call.
fn call(place: &CliFixture, tool: &str, arguments: &Value) -> String {
    finish_call(gate(place), tool, arguments).1["text"].as_str().unwrap().to_owned()
}

/// Runs a task with a model that plays a list of answers.
fn run(place: &CliFixture, server: &ModelServer, config: &str, options: &[&str]) -> Output {
    place.write("toolgate.yaml", &(server.config("openai-chat", "") + config));
    let mut command = gate(place);
    command.args(["run", "do it", "--trust", "autonomous", "--model", "mine/m"]).args(options);
    command.output().unwrap()
}

/// The events of a run with `--json`.
fn events(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The data of the last event, which must be `chat:stream-end`.
fn end(output: &Output) -> Value {
    let last = events(output).pop().unwrap_or_else(|| panic!("{output:?}"));
    assert_eq!(last["event"], "chat:stream-end");
    last["data"].clone()
}

/// The tool results in a request to the model.
fn results(asked: &Value) -> Vec<String> {
    let messages = asked["messages"].as_array().unwrap().iter();
    let results = messages.filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

/// The standard error.
fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn write(place: &CliFixture, path: &str, content: &str) {
    let path = place.workspace.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// "Can successfully use all five tools within workspace", in one run, and answers at the end.
#[test]
fn a_run_uses_all_five_tools() {
    let place = CliFixture::new();
    let server = ModelServer::new(vec![
        calls("write_file", &json!({"path": "notes/a.txt", "content": "one\n"})),
        calls("append_file", &json!({"path": "notes/a.txt", "content": "two\n"})),
        calls("edit_file", &json!({"path": "notes/a.txt", "old_text": "one", "new_text": "1"})),
        calls("list_dir", &json!({"path": "notes"})),
        calls("read_file", &json!({"path": "notes/a.txt"})),
        Says::Words("It is there."),
    ]);
    let output = run(&place, &server, "", &[]);
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(0), b"It is there.\n".as_slice()),
        "{output:?}"
    );
    assert_eq!(
        results(server.asked().last().unwrap()),
        [
            "ok: wrote 4 bytes to notes/a.txt",
            "ok: appended 4 bytes to notes/a.txt (now 8 bytes)",
            "ok: replaced 1 of 1 matches in notes/a.txt",
            "ok: 1 entries in notes\na.txt  6\n",
            "ok: read 6 bytes from notes/a.txt\n1\ntwo\n",
        ]
    );
    assert_eq!(std::fs::read_to_string(place.workspace.join("notes/a.txt")).unwrap(), "1\ntwo\n");
}

/// The tool names are exactly these five, with these arguments; every field has a description.
#[test]
fn the_tools_have_the_names_and_arguments_of_the_plan() {
    let place = CliFixture::new();
    let tools: Value =
        serde_json::from_str(&place.must(&["--profile", "claw", "tools", "--format", "openai"])).unwrap();
    let told = |tool: &Value| {
        let (function, schema) = (&tool["function"], &tool["function"]["parameters"]);
        let properties = schema["properties"].as_object().unwrap();
        assert!(properties.values().all(|property| property["description"].is_string()), "{function}");
        let mut names: Vec<&str> = properties.keys().map(String::as_str).collect();
        names.sort_unstable();
        format!(
            "{} {} required {}",
            function["name"].as_str().unwrap(),
            names.join(" "),
            schema.get("required").unwrap_or(&json!([]))
        )
    };
    let told: Vec<String> = tools.as_array().unwrap().iter().map(told).collect();
    assert_eq!(
        told,
        [
            r#"read_file path required ["path"]"#,
            r#"write_file content path required ["path","content"]"#,
            r#"append_file content path required ["path","content"]"#,
            "list_dir path required []",
            r#"edit_file new_text old_text path replace_all required ["path","old_text","new_text"]"#,
        ]
    );
}

/// The stable categories, each at the beginning of the answer.
#[test]
fn each_failure_begins_with_its_category() {
    let place = CliFixture::new();
    write(&place, "a.txt", "x y x\n");
    std::fs::write(place.workspace.join("nul.bin"), b"a\0b").unwrap();
    std::fs::write(place.workspace.join("latin1.txt"), b"\xe4").unwrap();
    write(&place, ".env", "KEY=1");
    symlink("/etc", place.workspace.join("out")).unwrap();
    let edit = |old: &str| json!({"path": "a.txt", "old_text": old, "new_text": "z"});
    for (tool, arguments, category) in [
        ("read_file", json!({"path": ""}), "invalid_path: path must not be empty"),
        ("read_file", json!({"path": "../a"}), "outside_workspace: "),
        ("read_file", json!({"path": "a/../../b"}), "outside_workspace: "),
        ("read_file", json!({"path": "/etc/passwd"}), "outside_workspace: "),
        ("read_file", json!({"path": "out/passwd"}), "outside_workspace: "),
        ("write_file", json!({"path": "out/new", "content": "x"}), "outside_workspace: "),
        ("list_dir", json!({"path": "out"}), "outside_workspace: "),
        ("read_file", json!({"path": "none"}), "path_not_found: "),
        ("read_file", json!({"path": ".env"}), "permission_denied: "),
        (
            "read_file",
            json!({"path": "nul.bin"}),
            "io_error: `nul.bin` appears to be binary or invalid UTF-8",
        ),
        ("read_file", json!({"path": "latin1.txt"}), "io_error: "),
        ("edit_file", edit("none"), "edit_not_found: "),
        ("edit_file", edit("x"), "ambiguous_edit: "),
    ] {
        let text = call(&place, tool, &arguments);
        assert!(text.starts_with(category), "{tool} {arguments}: {text}");
        assert!(!text.contains(place.scratch.path().to_str().unwrap()), "{text}");
    }
    assert_eq!(
        call(
            &place,
            "edit_file",
            &json!({"path": "a.txt", "old_text": "x", "new_text": "z", "replace_all": true})
        ),
        "ok: replaced 2 of 2 matches in a.txt"
    );
    let missing = call(&place, "write_file", &json!({"path": "b.txt"}));
    assert!(missing.starts_with("invalid_arguments: ") && missing.contains("content"), "{missing}");
}

/// A path may be relative, or absolute inside the workspace; answers name it by the workspace.
#[test]
fn paths_are_of_the_workspace_and_so_are_those_of_answers() {
    let place = CliFixture::new();
    write(&place, "src/a.txt", "x");
    let absolute = place.workspace.join("src/../src/a.txt");
    for path in ["src/a.txt", "./src//a.txt", absolute.to_str().unwrap()] {
        assert_eq!(call(&place, "read_file", &json!({"path": path})), "ok: read 1 bytes from src/a.txt\nx");
    }
    assert_eq!(call(&place, "list_dir", &json!({})), "ok: 1 entries in .\nsrc/\n");
}

/// `agents.defaults.workspace` is trimmed, `~` expanded, made absolute, and created.
#[test]
fn the_workspace_of_the_defaults_is_expanded_and_made() {
    let place = CliFixture::new();
    std::fs::create_dir_all(&place.home).unwrap();
    place.write(
        "toolgate.yaml",
        "agents: {defaults: {workspace: '  ~/work/space  ', restrict_to_workspace: true}}\nprofile: claw\n",
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    command.args(["--state-dir"]).arg(&place.state).arg("--quiet").current_dir(place.scratch.path());
    command.env("HOME", &place.home).env("XDG_STATE_HOME", place.state_home()).env_remove("TOOLGATE_TOKEN");
    place.configured(&mut command);
    let (_, written) = finish_call(command, "write_file", &json!({"path": "a.txt", "content": "x"}));
    assert_eq!(written["text"], "ok: wrote 1 bytes to a.txt");
    assert_eq!(std::fs::read_to_string(place.home.join("work/space/a.txt")).unwrap(), "x");
}

/// `restrict_to_workspace: false` is refused with the reason, and `mounts` as the remedy; nothing but the three keys is known there.
#[test]
fn leaving_the_workspace_is_not_to_be_had() {
    let place = CliFixture::new();
    for (defaults, told) in [
        ("{restrict_to_workspace: false}", ["no tool reaches beyond the workspace", "`mounts`"]),
        (
            "{restrict_to_workspce: true}",
            ["unknown key `restrict_to_workspce`", "did you mean `restrict_to_workspace`?"],
        ),
        ("{max_tool_iterations: many}", ["`many` is not a count", "write a whole number"]),
    ] {
        place.write("d.yaml", &format!("agents: {{defaults: {defaults}}}\n"));
        let checked = place.run(&["check", place.scratch.path().join("d.yaml").to_str().unwrap()]);
        let text = String::from_utf8(checked.stdout.clone()).unwrap() + &errors(&checked);
        assert_eq!(checked.status.code(), Some(2), "{checked:?}");
        assert!(told.iter().all(|told| text.contains(told)), "{defaults}: {text}");
    }
    place.write("d.yaml", "workspace: a\nagents: {defaults: {workspace: b}}\n");
    let checked = place.run(&["check", place.scratch.path().join("d.yaml").to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(2), "said twice: {checked:?}");
}

/// Reads another file each time, so that loop detection does not apply.
fn readings(count: usize) -> Vec<Says> {
    (0..count).map(|number| calls("read_file", &json!({"path": format!("{number}.txt")}))).collect()
}

/// "If unset or <= 0: use safe default (20)", in `agents.defaults`, `conversation`, and on the command line.
#[test]
fn a_bound_of_steps_that_is_none_is_twenty() {
    for (config, options, steps) in [
        ("", &[][..], 20),
        ("agents: {defaults: {max_tool_iterations: 0}}\n", &[], 20),
        ("agents: {defaults: {max_tool_iterations: -5}}\n", &[], 20),
        ("agents: {defaults: {max_tool_iterations: 3}}\n", &[], 3),
        ("conversation: {max_tool_iterations: 0}\n", &[], 20),
        ("conversation: {max_tool_iterations: 2}\n", &[], 2),
        ("conversation: {max_tool_iterations: 2}\n", &["--max-iterations", "0"], 20),
        ("", &["--max-iterations", "-1"], 20),
        ("", &["--max-iterations", "4"], 4),
    ] {
        let place = CliFixture::new();
        let mut answers = readings(steps);
        answers.push(Says::Words("Enough."));
        let server = ModelServer::new(answers);
        let output = run(&place, &server, config, &[&["--json"], options].concat());
        let end = end(&output);
        assert_eq!(
            (&end["reason"], &end["iterations"]),
            (&json!("iteration_limit"), &json!(steps)),
            "{config}{options:?}"
        );
        assert_eq!(output.status.code(), Some(4));
    }
}

/// "On iteration-limit hit, run one final step with tools disabled to produce a user-facing summary."
#[test]
fn at_the_bound_there_is_one_last_answer_without_tools() {
    let place = CliFixture::new();
    let mut answers = readings(2);
    answers.push(Says::Words("I read two files."));
    let server = ModelServer::new(answers);
    let output = run(&place, &server, "", &["--json", "--max-iterations", "2"]);
    let (asked, end) = (server.asked(), end(&output));
    assert_eq!((asked.len(), &end["text"]), (3, &json!("I read two files.")));
    assert_eq!(asked[1].get("tool_choice").and_then(Value::as_str), None);
    assert_eq!(asked[2]["tool_choice"], "none", "{}", asked[2]);
}

/// "Multi-turn tool sessions retain tool-call/result context in history", and no session sees another's.
#[test]
fn a_later_turn_has_the_calls_and_results_of_the_one_before() {
    let place = CliFixture::new();
    write(&place, "0.txt", "kept words");
    let first = ModelServer::new(readings(1));
    run(&place, &first, "", &[]);
    let second = ModelServer::new(Vec::new());
    run(&place, &second, "", &["--continue"]);
    let asked = second.asked()[0].clone();
    assert_eq!(results(&asked), ["ok: read 10 bytes from 0.txt\nkept words"]);
    let messages = asked["messages"].as_array().unwrap();
    let called = messages.iter().find(|message| message["tool_calls"].is_array()).unwrap();
    assert_eq!(called["tool_calls"][0]["function"]["name"], "read_file");
    let other = ModelServer::new(Vec::new());
    run(&place, &other, "", &[]);
    assert!(!other.asked()[0].to_string().contains("kept words"));
}

/// `read_file` is cut at 256 KiB with a notice that says so; `list_dir` at 500 entries, sorted.
#[test]
fn reading_and_listing_are_cut_with_a_notice() {
    let place = CliFixture::new();
    write(&place, "long.txt", &"0123456789abcde\n".repeat(20_000));
    let text = call(&place, "read_file", &json!({"path": "long.txt"}));
    assert!(
        text.ends_with("\n[truncated: first 262144 of 320000 bytes shown]"),
        "{}",
        &text[text.len() - 80..]
    );
    assert!(text.starts_with("ok: read 262144 bytes from long.txt\n"));
    for number in (0..600).rev() {
        write(&place, &format!("many/{number:03}"), "");
    }
    let text = call(&place, "list_dir", &json!({"path": "many"}));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines[0], lines[501]), ("ok: 600 entries in many", "[truncated: 500 of 600 entries shown]"));
    assert!(lines[1..=500].is_sorted() && lines[1] == "000  0", "{}", lines[1]);
}

/// `write_file`: at most 1 MiB, checked before the disk is touched; new files are 0644 with parents, old ones keep their mode, line ends stay.
#[test]
fn a_write_is_bounded_and_keeps_what_it_should() {
    let place = CliFixture::new();
    let mode =
        |path: &str| std::fs::metadata(place.workspace.join(path)).unwrap().permissions().mode() & 0o7777;
    let written =
        |path: &str, content: &str| call(&place, "write_file", &json!({"path": path, "content": content}));
    assert_eq!(written("a/b/new.txt", "one\r\ntwo"), "ok: wrote 8 bytes to a/b/new.txt");
    assert_eq!(mode("a/b/new.txt"), 0o644);
    std::fs::set_permissions(place.workspace.join("a/b/new.txt"), std::fs::Permissions::from_mode(0o750))
        .unwrap();
    written("a/b/new.txt", "three\r\n");
    assert_eq!(
        (mode("a/b/new.txt"), std::fs::read(place.workspace.join("a/b/new.txt")).unwrap()),
        (0o750, b"three\r\n".to_vec())
    );
    let refused = written("made/by/no/one.txt", &"x".repeat((1 << 20) + 1));
    assert_eq!(
        refused,
        "io_error: 1048577 bytes are more than the 1048576 that may be written to `made/by/no/one.txt` at once; write less at once"
    );
    assert!(!place.workspace.join("made").exists());
}

/// `append_file` is bounded by the appended text, whatever the size of the file; it creates a missing file.
#[test]
fn an_append_is_bounded_by_what_is_appended() {
    let place = CliFixture::new();
    let append =
        |path: &str, content: &str| call(&place, "append_file", &json!({"path": path, "content": content}));
    assert_eq!(append("new/log.txt", "x"), "ok: appended 1 bytes to new/log.txt (now 1 bytes)");
    let full = "x".repeat(1 << 20);
    write(&place, "log.txt", &full);
    assert_eq!(append("log.txt", &full), "ok: appended 1048576 bytes to log.txt (now 2097152 bytes)");
    assert_eq!(append("log.txt", "x"), "ok: appended 1 bytes to log.txt (now 2097153 bytes)");
    let refused = append("log.txt", &(full + "x"));
    assert_eq!(
        refused,
        "io_error: 1048577 bytes are more than the 1048576 that may be appended to `log.txt` at once; append it in several calls"
    );
    assert_eq!(std::fs::metadata(place.workspace.join("log.txt")).unwrap().len(), (2 << 20) + 1);
}

/// `edit_file` is bounded by its result: a longer file may be shortened, and a short one may not exceed the limit.
#[test]
fn an_edit_is_bounded_by_its_result() {
    let place = CliFixture::new();
    let edit = |path: &str, old: &str, new: &str| {
        call(
            &place,
            "edit_file",
            &json!({"path": path, "old_text": old, "new_text": new, "replace_all": true}),
        )
    };
    let size = |path: &str| std::fs::metadata(place.workspace.join(path)).unwrap().len();
    write(&place, "long.txt", &"ab".repeat(1 << 20));
    assert_eq!(edit("long.txt", "ab", "c"), "ok: replaced 1048576 of 1048576 matches in long.txt");
    assert_eq!(size("long.txt"), 1 << 20);
    write(&place, "short.txt", &"ab".repeat(1 << 18));
    let refused = edit("short.txt", "ab", "abcde");
    assert!(
        refused.starts_with("io_error: the file would have ")
            && refused.contains("more than the 1048576 that may be written"),
        "{refused}"
    );
    assert_eq!(size("short.txt"), 1 << 19);
}

/// "Recoverable tool failures … do not abort agent loop."
#[test]
fn what_a_call_gets_wrong_is_answered_and_the_run_goes_on() {
    let place = CliFixture::new();
    let server = ModelServer::new(vec![
        Says::Calls(vec![
            ("read_file", json!({"path": "none"}).to_string()),
            ("read_file", json!({"path": "../x"}).to_string()),
            ("no_such_tool", "{}".to_owned()),
            ("read_file", "not json".to_owned()),
        ]),
        Says::Words("I could not."),
    ]);
    let output = run(&place, &server, "", &[]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"I could not.\n".as_slice()));
    let categories: Vec<String> =
        results(&server.asked()[1]).iter().map(|text| text.split(':').next().unwrap().to_owned()).collect();
    assert_eq!(categories, ["path_not_found", "outside_workspace", "unknown_tool", "invalid_arguments"]);
}

/// A run with a disturbance before the answer of the second step.
fn disturbed(
    config: &str,
    disturb: impl Fn(&Path, &Path) + Send + 'static,
) -> (CliFixture, ModelServer, Output) {
    let place = CliFixture::new();
    write(&place, "0.txt", "x");
    let (workspace, state) = (place.workspace.clone(), place.state.clone());
    let mut answers = readings(1);
    answers.push(Says::Calls(vec![
        ("list_dir", "{}".to_owned()),
        ("write_file", json!({"path": "new.txt", "content": "x"}).to_string()),
    ]));
    answers.push(Says::Words("Went on."));
    let server = ModelServer::with(answers, move |number| {
        if number == 1 {
            disturb(&workspace, &state);
        }
    });
    let output = run(&place, &server, config, &["--json"]);
    (place, server, output)
}

/// The run ended with a reason, an exit code other than 0, and a line on standard error; the model was not asked again.
fn ended_by_fault(server: &ModelServer, output: &Output, code: &str, told: &str) {
    let end = end(output);
    assert_eq!(end["reason"], "failed", "{output:?}");
    assert!(end["text"].as_str().unwrap().contains(told), "{end}");
    let error = events(output).into_iter().find(|event| event["event"] == "chat:error").unwrap();
    assert_eq!(error["data"]["code"], code);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors(output).lines().any(|line| line.starts_with("error: ") && line.contains(told)),
        "{output:?}"
    );
    assert_eq!(server.asked().len(), 2);
}

/// Fatal: the workspace is gone. Every call of the message still gets its result.
#[test]
fn a_workspace_that_is_removed_ends_the_run() {
    let (_place, server, output) = disturbed("", |workspace, _| std::fs::remove_dir_all(workspace).unwrap());
    ended_by_fault(&server, &output, "workspace_gone", "the directory of `@project` was removed");
    let results = events(&output).into_iter().filter(|event| event["event"] == "chat:tool-result");
    assert_eq!(results.count(), 3);
}

/// Fatal: an audit log that cannot be written where calls must be recorded, and one that cannot even count them. If it can, with `warn`, it is
/// reported, and the run continues.
#[test]
fn a_record_that_cannot_be_written_ends_the_run_where_it_must_be() {
    let remove = |_: &Path, state: &Path| std::fs::remove_dir_all(state.join("audit")).unwrap();
    let (_place, server, output) = disturbed("audit: {on_failure: deny}\n", remove);
    ended_by_fault(&server, &output, "audit_unavailable", "calls cannot be recorded");
    let (_place, server, output) = disturbed("audit: {on_failure: warn}\n", remove);
    ended_by_fault(&server, &output, "audit_unavailable", "calls cannot be recorded");
    let replace = |_: &Path, state: &Path| {
        let files = std::fs::read_dir(state.join("audit")).unwrap().map(|entry| entry.unwrap().path());
        let day =
            files.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")).last().unwrap();
        std::fs::rename(&day, state.join("aside")).unwrap();
        std::fs::create_dir(&day).unwrap();
    };
    let (place, server, output) = disturbed("audit: {on_failure: warn}\n", replace);
    assert_eq!((&end(&output)["reason"], output.status.code()), (&json!("done"), Some(0)), "{output:?}");
    assert_eq!(server.asked().len(), 3);
    assert!(!place.workspace.join("new.txt").exists(), "nothing is changed without a record");
}

/// Fatal: unreadable state, of the undo journal and of the conversation database.
#[test]
fn state_that_is_removed_ends_the_run() {
    let (_place, server, output) =
        disturbed("", |_, state| std::fs::remove_dir_all(state.join("journal.toolgate")).unwrap());
    ended_by_fault(&server, &output, "state_gone", "the undo journal was removed");
    let (_place, server, output) =
        disturbed("", |_, state| std::fs::remove_dir_all(state.join("sessions.toolgate")).unwrap());
    ended_by_fault(&server, &output, "session", "was removed or replaced while it was in use");
}

/// The log of a command, line by line.
fn logged(output: &Output) -> Vec<Value> {
    errors(output).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// "Structured logs around tool execution: tool name, normalized target path (safe form), success or failure, duration, error category"; never contents.
#[test]
fn each_call_is_logged_with_its_path_category_and_duration() {
    let place = CliFixture::new();
    write(&place, "src/a.txt", "the content of the file");
    let absolute = place.workspace.join("src/a.txt");
    let server = ModelServer::new(vec![Says::Calls(vec![
        ("read_file", json!({"path": "./src//a.txt"}).to_string()),
        ("read_file", json!({"path": absolute}).to_string()),
        ("read_file", json!({"path": "src/none"}).to_string()),
        ("read_file", json!({"path": "/etc/passwd"}).to_string()),
        ("write_file", "not json".to_owned()),
    ])]);
    let output = run(&place, &server, "", &["--log", "json"]);
    let lines = logged(&output);
    let told: Vec<_> = lines
        .iter()
        .map(|line| {
            assert!(
                line["duration_ms"].is_f64() && line["ts"].is_string() && line["call"].is_string(),
                "{line}"
            );
            let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            [text("level"), text("tool"), text("path"), text("result"), text("category")].join(" ")
        })
        .collect();
    assert_eq!(
        told,
        [
            "INFO read_file @project/src/a.txt success ok",
            "INFO read_file @project/src/a.txt success ok",
            "WARN read_file @project/src/none failure path_not_found",
            "WARN read_file (outside) failure outside_workspace",
            "WARN write_file - failure invalid_arguments",
        ]
    );
    let text = errors(&output);
    assert!(
        !text.contains("the content")
            && !text.contains("passwd")
            && !text.contains(place.scratch.path().to_str().unwrap()),
        "{text}"
    );
}

/// Levels: `warn` logs only failures, `debug` also starts; without `--log` there is nothing; `text` is one line as well.
#[test]
fn the_log_has_levels_and_two_formats() {
    let place = CliFixture::new();
    write(&place, "a.txt", "x");
    let with = |options: &[&str], path: &str| {
        let arguments = json!({"path": path}).to_string();
        errors(&gate(&place).args(options).args(["call", "read_file", &arguments]).output().unwrap())
    };
    assert_eq!(with(&[], "a.txt"), "");
    assert_eq!(with(&["--log", "json", "--log-level", "warn"], "a.txt"), "");
    assert_eq!(with(&["--log", "json", "--log-level", "warn"], "none").lines().count(), 1);
    assert_eq!(with(&["--log", "json", "--log-level", "debug"], "a.txt").lines().count(), 2);
    let text = with(&["--log", "text"], "a.txt");
    assert_eq!(text.lines().count(), 1);
    assert!(
        text.contains(" INFO toolgate::call call ")
            && text.contains(" tool=read_file path=@project/a.txt result=success "),
        "{text}"
    );
}

/// Arguments that are almost JSON, by the kind of mistake.
const MISTAKES: [(&str, &str); 6] = [
    ("trailing_comma", r#"{"path": "a.txt",}"#),
    ("single_quotes", r#"{"path": 'a.txt'}"#),
    ("unquoted_key", r#"{path: "a.txt"}"#),
    ("missing_brace", r#"{"path": "a.txt""#),
    ("fence", "```json\n{\"path\": \"a.txt\"}\n```"),
    ("quoted", r#""{\"path\": \"a.txt\"}""#),
];

fn mistaken() -> Vec<Says> {
    vec![Says::Calls(MISTAKES.iter().map(|(_, arguments)| ("read_file", (*arguments).to_owned())).collect())]
}

/// "Phase 1 default: do not enable auto-repair."
#[test]
fn without_being_asked_nothing_is_repaired() {
    let place = CliFixture::new();
    write(&place, "a.txt", "x");
    let server = ModelServer::new(mistaken());
    run(&place, &server, "", &[]);
    let results = results(&server.asked()[1]);
    assert!(
        results.len() == 6 && results.iter().all(|result| result.starts_with("invalid_arguments: ")),
        "{results:?}"
    );
    assert!(place.records().iter().all(|record| record.request.repairs.is_empty()));
}

/// With `repair_calls: true` each mistake of the list is repaired, and the audit log names it; arguments that may have lost data are refused.
#[test]
fn each_repair_is_made_where_it_was_asked_for_and_recorded() {
    let place = CliFixture::new();
    write(&place, "a.txt", "x");
    let mut answers = mistaken();
    answers.push(Says::Calls(vec![
        ("read_file", r#"{"path": "a.tx"#.to_owned()),
        ("read_file", r#"{"path": "a.txt", "#.to_owned()),
        ("read_file", json!({"path": "a.txt"}).to_string()),
    ]));
    let server = ModelServer::new(answers);
    run(&place, &server, "conversation: {repair_calls: true}\n", &[]);
    let told = results(&server.asked()[2]);
    assert!(told[..6].iter().all(|result| result == "ok: read 1 bytes from a.txt\nx"), "{told:?}");
    assert!(told[6..8].iter().all(|result| result.starts_with("invalid_arguments: ")), "{told:?}");
    let recorded: Vec<Vec<&str>> = place
        .records()
        .iter()
        .map(|record| record.request.repairs.iter().map(|repair| repair.as_str()).collect())
        .collect();
    for ((name, _), repairs) in MISTAKES.iter().zip(&recorded) {
        assert_eq!(repairs, &[*name]);
    }
    assert!(recorded.len() == 9 && recorded[6..].iter().all(Vec::is_empty), "{recorded:?}");
    assert!(place.must(&["audit", "verify"]).contains("ok"));
}

/// Calls of one message are made sequentially, in order.
#[test]
fn calls_of_one_message_are_made_in_their_order() {
    let place = CliFixture::new();
    let server = ModelServer::new(vec![Says::Calls(vec![
        ("write_file", json!({"path": "a.txt", "content": "1"}).to_string()),
        ("append_file", json!({"path": "a.txt", "content": "2"}).to_string()),
        ("read_file", json!({"path": "a.txt"}).to_string()),
    ])]);
    let output = run(&place, &server, "", &["--json"]);
    let order: Vec<String> = events(&output)
        .iter()
        .filter(|event| ["chat:tool-start", "chat:tool-result"].contains(&event["event"].as_str().unwrap()))
        .map(|event| {
            format!("{} {}", event["event"].as_str().unwrap(), event["data"]["toolName"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        order,
        [
            "chat:tool-start write_file",
            "chat:tool-result write_file",
            "chat:tool-start append_file",
            "chat:tool-result append_file",
            "chat:tool-start read_file",
            "chat:tool-result read_file",
        ]
    );
    assert_eq!(results(&server.asked()[1])[2], "ok: read 2 bytes from a.txt\n12");
}
