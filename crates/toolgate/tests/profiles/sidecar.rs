//! The profile `sidecar`: five tools for small local models, with JSON observations and a sandbox around every path and command.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::fixture::{CliFixture, finish_call};
use crate::proxy::Client;

const TOOLS: [&str; 5] = ["read_file", "write_file", "list_directory", "search_files", "run_command"];

/// A fixture with this profile.
fn sidecar() -> CliFixture {
    let place = CliFixture::new();
    place.write("toolgate.yaml", "profile: sidecar\n");
    place
}

/// The observation that a model receives.
fn observe(place: &CliFixture, tool: &str, arguments: &Value) -> Value {
    let (_, envelope) = finish_call(place.toolgate(), tool, arguments);
    serde_json::from_str(envelope["text"].as_str().unwrap()).unwrap()
}

fn failed(place: &CliFixture, tool: &str, arguments: &Value) -> String {
    let observation = observe(place, tool, arguments);
    assert_eq!(
        (&observation["success"], &observation["output"]),
        (&json!(false), &Value::Null),
        "{observation}"
    );
    assert_eq!(observation["tool"], tool);
    assert!(observation["error"]["message"].is_string(), "{observation}");
    observation["error"]["code"].as_str().unwrap().to_owned()
}

fn done(place: &CliFixture, tool: &str, arguments: &Value) -> Value {
    let observation = observe(place, tool, arguments);
    assert_eq!(
        (&observation["success"], &observation["error"]),
        (&json!(true), &Value::Null),
        "{observation}"
    );
    assert_eq!(observation["tool"], tool);
    observation["output"].clone()
}

/// Locked decision "5 tools exactly", and pattern 1: how they are described to Ollama.
#[test]
fn there_are_exactly_five_tools_in_the_shape_of_ollama() {
    let place = sidecar();
    let listed: Value = serde_json::from_str(&place.must(&["tools", "--format", "ollama"])).unwrap();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, TOOLS);
    for tool in listed.as_array().unwrap() {
        assert_eq!(
            (&tool["type"], &tool["function"]["parameters"]["type"]),
            (&json!("function"), &json!("object"))
        );
        assert!(tool["function"]["description"].is_string());
    }
    let read = &listed[0]["function"]["parameters"];
    assert_eq!(read["required"], json!(["path"]));
    for (name, kind) in [("path", "string"), ("start_line", "integer"), ("end_line", "integer")] {
        assert_eq!(read["properties"][name]["type"], kind);
        assert!(read["properties"][name]["description"].is_string());
    }
    // No tool reaches the network, and none can be declared in this profile.
    assert!(!place.must(&["tools"]).contains("web_search"));
}

const SIXTH: &str = "tool: sixth\ndescription: one too many\nclass: read\npermissions: [sixth:use]\ninput: {properties: {}}\n\
    command: [echo, hello]\npolicy: {\"*\": allow}\n";

/// Locked decision "above 5 falls back to XML": a sixth tool is refused when it is loaded, with the remedy.
#[test]
fn a_sixth_tool_is_refused_at_load_with_the_remedy() {
    for (config, kind) in [
        ("tools: [sixth.yaml]\n", "sixth"),
        ("mcp_servers: {more: {command: \"true\", class: read}}\n", "more"),
    ] {
        let place = CliFixture::new();
        place.write("sixth.yaml", SIXTH);
        place.write("toolgate.yaml", &format!("profile: sidecar\n{config}"));
        for arguments in [&["check"][..], &["tools"], &["call", "list_directory"]] {
            let output = place.run(arguments);
            let said = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
            assert!(
                said.contains("has all the tools that it can have") && said.contains(&format!("`{kind}`")),
                "{said}"
            );
            assert!(said.contains("use another profile"), "{said}");
        }
        // A profile with room accepts it, and a disabled server adds nothing.
        place.write("toolgate.yaml", config);
        assert!(place.must(&["check"]).contains("no problems"));
        place.write(
            "toolgate.yaml",
            &format!("profile: sidecar\n{}", config.replace("class: read", "class: read, disabled: true")),
        );
        assert_eq!(place.run(&["tools"]).status.code() == Some(0), kind == "more");
    }
}

/// The same on reload: an edit that would add a sixth tool is rejected, and the operator gets the reason.
#[test]
fn a_sixth_tool_does_not_come_with_an_edit() {
    let place = sidecar();
    place.write("sixth.yaml", SIXTH);
    let mut client = Client::start(&place);
    place.write("toolgate.yaml", "profile: sidecar\ntools: [sixth.yaml]\n");
    let said = client.told("nothing was reloaded");
    let listed = client.ask("tools/list", &json!({}));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 5);
    assert!(said.contains("has all the tools that it can have"), "{said}");
}

/// Pattern 2: every observation has the same four fields, also for an unknown tool.
#[test]
fn every_observation_has_the_same_shape() {
    let place = sidecar();
    place.write("w/src/index.js", "one\ntwo\n");
    let output = done(&place, "read_file", &json!({"path": "src/index.js"}));
    assert_eq!(
        (&output["content"], &output["lines"], &output["path"]),
        (&json!("one\ntwo\n"), &json!(2), &json!("src/index.js"))
    );
    let fields = |observation: Value| observation.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for (tool, arguments) in [
        ("read_file", json!({"path": "src/index.js"})),
        ("read_file", json!({"path": "../x"})),
        ("list_directory", json!({})),
        ("search_files", json!({"pattern": "two"})),
        ("run_command", json!({"command": "exit 3"})),
        ("nothing", json!({})),
        ("read_file", json!({"path": 7})),
    ] {
        assert_eq!(
            fields(observe(&place, tool, &arguments)),
            ["success", "tool", "output", "error"],
            "{tool}"
        );
    }
    assert_eq!(failed(&place, "nothing", &json!({})), "UNKNOWN_TOOL");
    assert_eq!(failed(&place, "read_file", &json!({})), "INVALID_ARGUMENTS");
    assert_eq!(failed(&place, "read_file", &json!({"path": "none.txt"})), "ENOENT");
    assert_eq!(failed(&place, "read_file", &json!({"path": "src"})), "EISDIR");
}

/// Locked decision "workspace sandbox is non-negotiable", pattern 3 and pitfalls 1 and 2: no path spelling and no symlink leaves the workspace, for
/// any tool.
#[test]
fn no_path_leads_out_of_the_workspace() {
    let place = sidecar();
    place.write("outside/secret.txt", "needle of the outside\n");
    // A directory whose name begins with the workspace's.
    place.write("w-evil/secret.txt", "needle of the neighbour\n");
    symlink(place.scratch.path().join("outside"), place.workspace.join("link")).unwrap();
    symlink(place.scratch.path().join("outside/secret.txt"), place.workspace.join("file")).unwrap();
    symlink(place.scratch.path().join("outside/new.txt"), place.workspace.join("dangling")).unwrap();
    let neighbour = place.scratch.path().join("w-evil/secret.txt");
    let spellings = [
        ("../../etc/passwd", "PATH_OUTSIDE_WORKSPACE"),
        ("../outside/secret.txt", "PATH_OUTSIDE_WORKSPACE"),
        ("../w-evil/secret.txt", "PATH_OUTSIDE_WORKSPACE"),
        (neighbour.to_str().unwrap(), "PATH_OUTSIDE_WORKSPACE"),
        ("a/../../outside/secret.txt", "PATH_OUTSIDE_WORKSPACE"),
        ("/etc/passwd", "PATH_OUTSIDE_WORKSPACE"),
        ("C:\\Windows\\win.ini", "PATH_OUTSIDE_WORKSPACE"),
        ("\\\\server\\share\\x", "PATH_OUTSIDE_WORKSPACE"),
        ("link/secret.txt", "SYMLINK_OUTSIDE_WORKSPACE"),
        ("file", "SYMLINK_OUTSIDE_WORKSPACE"),
        ("dangling", "SYMLINK_OUTSIDE_WORKSPACE"),
    ];
    for (path, code) in spellings {
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "x"})),
            ("list_directory", json!({"path": path})),
            ("search_files", json!({"pattern": "needle", "path": path})),
        ] {
            assert_eq!(failed(&place, tool, &arguments), code, "{tool} {path}");
        }
    }
    assert_eq!(
        std::fs::read_to_string(place.scratch.path().join("outside/secret.txt")).unwrap(),
        "needle of the outside\n"
    );
    assert!(!place.scratch.path().join("outside/new.txt").exists());
    let found = done(&place, "search_files", &json!({"pattern": "needle"}));
    assert_eq!(found["count"], 0, "a search follows no symlink out: {found}");
}

/// Pattern 4: a command that exceeds its timeout gets SIGTERM, then SIGKILL, and no process of it survives.
#[test]
fn a_command_that_ignores_the_signal_is_killed() {
    let place = sidecar();
    let mark = format!("3{}", std::process::id());
    let line = format!("trap '' TERM; echo begun; (trap '' TERM; sleep {mark}) & sleep {mark}");
    let observation = observe(&place, "run_command", &json!({"command": line, "timeout_ms": 300}));
    assert_eq!(observation["error"]["code"], "TIMEOUT", "{observation}");
    assert!(
        observation["error"]["message"].as_str().unwrap().contains("begun"),
        "what it said until then: {observation}"
    );
    let running = Command::new("pgrep")
        .args(["-f", &format!("^sleep {mark}$")])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(running.code(), Some(1), "something of it is still there");
}

/// "Don't hand-roll" and anti-pattern `exec()`: output is streamed and truncated, not collected in memory.
#[test]
fn a_flood_of_output_is_cut() {
    let place = sidecar();
    let output = done(&place, "run_command", &json!({"command": "yes | head -c 3000000"}));
    assert_eq!(
        (&output["truncated"], &output["exit_code"]),
        (&json!(true), &json!(0)),
        "{}",
        output["exit_code"]
    );
    assert!(output["stdout"].as_str().unwrap().len() < 200_000);
}

/// Pitfall 3 and "Sandbox Blocked Commands": a listed command is not run, wherever it is in the line.
#[test]
fn dangerous_commands_are_blocked() {
    let place = sidecar();
    place.write("w/keep.txt", "kept\n");
    for line in [
        "sudo ls",
        "rm -rf /",
        "rm -rf ~",
        "shutdown now",
        "reboot",
        "format c:",
        "mkfs /dev/sda",
        "dd if=/dev/zero of=keep.txt",
        "chmod 777 keep.txt",
        "curl http://example.com",
        "wget http://example.com",
        "nc -l 9",
        "netcat example.com 9",
        "  sudo ls",
        "true; sudo ls",
        "true && rm -rf /",
        "echo $(curl http://example.com)",
        "ls | sudo tee x",
    ] {
        assert_eq!(failed(&place, "run_command", &json!({"command": line})), "COMMAND_BLOCKED", "{line}");
    }
    assert_eq!(std::fs::read_to_string(place.workspace.join("keep.txt")).unwrap(), "kept\n");
}

/// Open question 1, and the anti-pattern of chaining; the design decides: a shell line with pipes and redirects, in a sandbox that is the boundary.
#[test]
fn a_line_may_have_pipes_and_redirects_and_stays_in_its_sandbox() {
    let place = sidecar();
    place.write("outside.txt", "outside\n");
    let output = done(
        &place,
        "run_command",
        &json!({"command": "echo hello | tr a-z A-Z > out.txt; cat out.txt 2>&1"}),
    );
    assert_eq!((&output["stdout"], &output["exit_code"]), (&json!("HELLO\n"), &json!(0)));
    let outside = place.scratch.path().join("outside.txt");
    let line =
        format!("cat {}; echo pwned > {}; getent hosts example.com", outside.display(), outside.display());
    let output = done(&place, "run_command", &json!({"command": line}));
    assert!(output["exit_code"] != 0 && !output["stdout"].as_str().unwrap().contains("outside"), "{output}");
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "outside\n");
}

/// Pitfall 4: a file over 1 MB is refused with the advice to request lines, and a request for lines succeeds.
#[test]
fn a_large_file_is_refused_and_its_lines_are_given() {
    let place = sidecar();
    let lines: String = (1..=100_000).map(|number| format!("line {number}\n")).collect();
    place.write("w/large.txt", &lines);
    let observation = observe(&place, "read_file", &json!({"path": "large.txt"}));
    assert_eq!(observation["error"]["code"], "FILE_TOO_LARGE");
    assert!(
        observation["error"]["message"].as_str().unwrap().contains("ask for a range of lines"),
        "{observation}"
    );
    let output =
        done(&place, "read_file", &json!({"path": "large.txt", "start_line": 99_999, "end_line": 100_000}));
    assert_eq!(
        (&output["content"], &output["start_line"], &output["end_line"]),
        (&json!("line 99999\nline 100000\n"), &json!(99_999), &json!(100_000))
    );
    assert_eq!(output["lines"], 100_000);
}

/// "Returns content with line numbers": the result is what the description says.
#[test]
fn read_file_answers_as_its_description_says() {
    let place = sidecar();
    place.write("w/a.txt", "one\ntwo\nthree\n");
    let listed: Value = serde_json::from_str(&place.must(&["tools", "--format", "ollama"])).unwrap();
    let description = listed[0]["function"]["description"].as_str().unwrap();
    assert!(
        description.contains("content as it is, and the line numbers of its first and last line"),
        "{description}"
    );
    let output = done(&place, "read_file", &json!({"path": "a.txt", "start_line": 2}));
    assert_eq!(
        (&output["content"], &output["start_line"], &output["end_line"]),
        (&json!("two\nthree\n"), &json!(2), &json!(3))
    );
    // So that it can be written back.
    done(&place, "write_file", &json!({"path": "a.txt", "content": output["content"]}));
    assert_eq!(std::fs::read_to_string(place.workspace.join("a.txt")).unwrap(), "two\nthree\n");
}

/// Open question 3: a binary file is answered with its size and its type, by content and not by name.
#[test]
fn a_binary_file_answers_with_size_and_type() {
    let place = sidecar();
    // Lines of a binary file over 1 MB cannot be requested.
    let mut large = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    large.resize(2_000_000, 0);
    for (name, bytes, kind) in [
        ("large.png", &large[..], "image/png"),
        ("a.png", &b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], "image/png"),
        ("lies.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
        ("b.pdf", b"%PDF-1.7\n\0\xff", "application/pdf"),
        ("c.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "application/gzip"),
        ("d.zip", b"PK\x03\x04\x14\0\0\0\x08\0", "application/zip"),
        ("e", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "application/x-executable"),
        ("f.bin", b"\0\x01\x02\x03", "application/octet-stream"),
        ("g.png", b"\xff\xfe\xfd", "application/octet-stream"),
    ] {
        std::fs::write(place.workspace.join(name), bytes).unwrap();
        let output = done(&place, "read_file", &json!({"path": name}));
        assert_eq!((&output["type"], &output["size"], &output["binary"]), (&json!(kind), &json!(bytes.len()), &json!(true)), "{name}");
        assert!(output.get("content").is_none(), "{output}");
    }
    let ranged = done(&place, "read_file", &json!({"path": "a.png", "start_line": 1, "end_line": 1}));
    assert_eq!(ranged["type"], "image/png", "of a range of lines, too");
}

/// There is no web search in this profile: configuring one causes a warning.
#[test]
fn a_web_search_that_is_configured_is_warned_of() {
    let place = sidecar();
    place.write(
        "toolgate.yaml",
        "profile: sidecar\nweb_search: {backend: searxng, url: 'http://127.0.0.1:1'}\n",
    );
    let said = place.must(&["check"]);
    assert!(said.contains("`web_search` has no effect: profile `sidecar` has no such tool"), "{said}");
    assert_eq!(place.run(&["check", "--strict"]).status.code(), Some(2));
}

/// Locked decision "pure search": at most 50 matches, and no pattern runs for ever (pitfall 5).
#[test]
fn a_search_is_bounded_in_matches_and_time() {
    let place = sidecar();
    place.write("w/many.txt", &"needle\n".repeat(80));
    place.write("w/evil.txt", &format!("{}!\n", "a".repeat(50_000)));
    let found = done(&place, "search_files", &json!({"pattern": "needle"}));
    assert_eq!((&found["count"], &found["truncated"]), (&json!(50), &json!(true)));
    assert_eq!(found["matches"][0], json!({"file": "many.txt", "line": 1, "text": "needle"}));
    let found = done(&place, "search_files", &json!({"pattern": "(a+)+$", "regex": true}));
    assert_eq!((&found["count"], &found["truncated"]), (&json!(0), &json!(false)), "{found}");
    assert_eq!(failed(&place, "search_files", &json!({"pattern": "(", "regex": true})), "INVALID_PATTERN");
}

/// Open question 2: parent directories are created.
#[test]
fn writing_makes_the_directories_on_the_way() {
    let place = sidecar();
    let output = done(&place, "write_file", &json!({"path": "new/deep/a.txt", "content": "x\n"}));
    assert_eq!((&output["path"], &output["created"]), (&json!("new/deep/a.txt"), &json!(true)));
    assert_eq!(std::fs::read_to_string(place.workspace.join("new/deep/a.txt")).unwrap(), "x\n");
    let listed = done(&place, "list_directory", &json!({"path": "new/deep"}));
    assert_eq!(listed["entries"], json!([{"name": "a.txt", "type": "file", "size": 2}]));
}

/// End to end over Ollama's wire format: a small model is offered the five tools, calls them, and reads observations.
#[test]
fn a_model_behind_ollama_works_with_the_five() {
    let place = sidecar();
    let script = r#"
steps:
  - when: {offered: search_files}
    calls: [{tool: write_file, arguments: {path: a.txt, content: "hello\n"}}]
  - when: {result: write_file, contains: '"success":true'}
    calls: [{tool: run_command, arguments: {command: cat a.txt}}]
  - when: {result: run_command, contains: '"stdout":"hello'}
    calls: [{tool: read_file, arguments: {path: ../a.txt}}]
  - when: {result: read_file, contains: PATH_OUTSIDE_WORKSPACE}
    say: Done.
  - say: "unexpected: {{last_result}}"
"#;
    place.write("script.yaml", script);
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(env!("CARGO_BIN_EXE_toolgate"));
    let mut command = place.beneath(command);
    command.args(["run", "do it", "--trust", "autonomous", "--model", "scripted/script.yaml?wire=ollama"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "Done.\n");
}
