//! The events of a call: its input, its output, its result.

use serde_json::{Value, json};

use super::server::Server;
use super::{Studio, Told};

fn script(calls: &[&str]) -> String {
    let steps: String = calls.iter().map(|call| format!("  - calls: [{call}]\n")).collect();
    format!("steps:\n{steps}  - say: Done.\n")
}

fn results(told: &Told) -> Vec<&Value> {
    told.all("chat:tool-result")
}

/// `tool_call_start` → `tool_call_delta` → `tool_call_end`: "providers that don't stream tool input incrementally (Ollama) emit … single
/// `tool_call_delta` with full input"; "same sequence, no special case".
#[test]
fn the_input_of_a_call_is_told_as_it_is_written_over_every_wire() {
    for wire in ["anthropic", "openai", "openai-chat", "ollama"] {
        let studio = Studio::new("");
        let call = "{tool: file_write, arguments: {path: a.txt, content: 'a text that is longer than one delta of a wire'}}";
        let told = studio.run(&script(&[call]), &["--model", &format!("scripted/script.yaml?wire={wire}")]);
        let deltas = told.all("chat:tool-input-delta");
        assert!(!deltas.is_empty() && (wire != "ollama" || deltas.len() == 1), "{wire}: {:?}", told.output);
        let start = told.all("chat:tool-start")[0];
        let written: String = deltas.iter().map(|delta| delta["chunk"].as_str().unwrap()).collect();
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), start["input"], "{wire}");
        for delta in deltas {
            for field in ["messageId", "toolId", "toolName"] {
                assert_eq!(delta[field], start[field], "{wire} {field}");
            }
        }
        let order: Vec<&str> = told.events.iter().filter_map(|event| event["event"].as_str()).collect();
        let first = |name: &str| order.iter().position(|event| *event == name).unwrap();
        assert!(first("chat:tool-input-delta") < first("chat:tool-start"), "{wire}");
        assert!(first("chat:tool-start") < first("chat:tool-result"), "{wire}");
    }
}

/// "`status` is `success` or `error`"; "`metadata` is optional, tool-specific (file path, exit code, line count)"; "`input` is parsed JSON object";
/// "all field names: camelCase".
#[test]
fn a_result_is_a_success_or_an_error_and_says_what_the_tool_knows() {
    let studio = Studio::new("on_violation: answer\n");
    studio.0.write("w/a.txt", "one\ntwo\n");
    let told = studio.run(
        &script(&[
            "{tool: bash, arguments: {command: 'echo out'}}",
            "{tool: bash, arguments: {command: 'exit 3'}}",
            "{tool: file_read, arguments: {path: a.txt}}",
            "{tool: file_read, arguments: {path: missing}}",
            "{tool: file_write, arguments: {path: b.txt, content: hello}}",
            "{tool: file_read, arguments: {path: ../outside}}",
            "{tool: nothing, arguments: {}}",
        ]),
        &[],
    );
    let expected = [
        ("success", "ALLOWED", json!({"exitCode": 0, "bytes": 4})),
        ("error", "ALLOWED", json!({"exitCode": 3})),
        ("success", "ALLOWED", json!({"path": "a.txt", "bytes": 8, "lineCount": 2})),
        ("error", "ERROR", json!({"code": "not_found"})),
        ("success", "ALLOWED", json!({"path": "b.txt", "bytes": 5, "created": true})),
        ("error", "DENIED", json!({"code": "outside_workspace", "violation": true})),
        ("error", "DENIED", json!({"code": "unknown_tool"})),
    ];
    assert_eq!(results(&told).len(), expected.len(), "{:?}", told.output);
    for (result, (status, decision, facts)) in results(&told).iter().zip(expected) {
        assert_eq!(
            (&result["status"], &result["metadata"]["decision"]),
            (&status.into(), &decision.into()),
            "{result}"
        );
        for (name, value) in facts.as_object().unwrap() {
            assert_eq!(&result["metadata"][name], value, "{name}: {result}");
        }
        for object in [*result, &result["metadata"]] {
            assert!(object.as_object().unwrap().keys().all(|name| !name.contains('_')), "{object}");
        }
        let start = told.all("chat:tool-start").into_iter().find(|start| start["toolId"] == result["toolId"]);
        assert!(
            start
                .is_some_and(|start| start["input"].is_object() && start["messageId"] == result["messageId"])
        );
    }
    assert_eq!(told.end()["reason"], "done");
}

/// The output of a program is its result, and not the gate's metadata of the call.
#[test]
fn a_program_cannot_forge_the_metadata_of_its_call() {
    for profile in ["studio", "native"] {
        let studio = Studio::new("");
        let agents = "agents: {dev: {tool_permissions: {forger: {allowed: true}}}}\n";
        studio.0.write("toolgate.yaml", &format!("profile: {profile}\ntools: [tools.d]\n{agents}"));
        studio.0.write("tools.d/forger.yaml", FORGER);
        studio.0.write("w/answer.json", r#"{"exitCode": 0, "path": "a.txt", "word": "hello"}"#);
        let told = studio.run(&script(&["{tool: forger, arguments: {}}"]), &[]);
        let [result] = results(&told)[..] else { panic!("{:?}", told.output) };
        assert_eq!(result["status"], "success", "{result}");
        assert!(result["result"].as_str().unwrap().contains("hello"), "{result}");
        assert!(result["metadata"]["structured"].to_string().contains("hello"), "{result}");
        for name in ["exitCode", "path", "word"] {
            assert!(result["metadata"].get(name).is_none(), "{profile}: {result}");
        }
    }
}

const FORGER: &str = r#"tool: forger
title: Forger
description: Answers with what a file says
class: read
permissions: []
input: {properties: {}}
command: [cat, answer.json]
cwd: "@project"
output:
  parse: json
  schema: {type: object, properties: {exitCode: {type: integer}, path: {type: string}, word: {type: string}}}
policy: {"*": allow}
"#;

/// "Tools with no streaming output (file_read) emit start then immediately result with no deltas. Tools with streaming output (bash …) emit deltas during
/// execution."
#[test]
fn only_a_tool_with_output_emits_deltas_between_start_and_result() {
    let studio = Studio::new("");
    studio.0.write("w/a.txt", "a\n");
    let told = studio.run(
        &script(&[
            "{tool: file_read, arguments: {path: a.txt}}",
            "{tool: bash, arguments: {command: 'echo out'}}",
        ]),
        &[],
    );
    let of_calls = ["chat:tool-start", "chat:tool-delta", "chat:tool-result"];
    let names: Vec<&str> = told.events.iter().filter_map(|event| event["event"].as_str()).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| of_calls.contains(name)).collect();
    assert_eq!(names, [of_calls[0], of_calls[2], of_calls[0], of_calls[1], of_calls[2]]);
    assert_eq!(told.all("chat:tool-delta")[0]["chunk"], "out\n");
}

/// "Output truncated at 100KB to prevent context explosion".
#[test]
fn a_command_shows_100000_bytes_of_its_output_and_tells_both_sizes() {
    let output = |command: &str| {
        let studio = Studio::new("");
        let told =
            studio.run(&script(&[&format!("{{tool: bash, arguments: {{command: {command:?}}}}}")]), &[]);
        let result: Value = serde_json::from_str(results(&told)[0]["result"].as_str().unwrap()).unwrap();
        result["output"].as_str().unwrap().to_owned()
    };
    // Cut at the end of a line.
    let lines = output("seq 1 100000");
    let (shown, notice) = lines.split_once("[truncated: ").unwrap();
    assert!((99_990..=100_000).contains(&shown.len()) && shown.ends_with('\n'), "{}", shown.len());
    assert!(notice.starts_with(&format!("{} of 588895 bytes shown", shown.len())), "{notice}");
    // Cut within a long line, at a character boundary.
    let letters = output("printf 'é%.0s' $(seq 1 60000)");
    let (shown, notice) = letters.split_once("\n[truncated: ").unwrap();
    assert_eq!((shown.len(), shown.chars().all(|letter| letter == 'é')), (100_000, true));
    assert!(notice.starts_with("100000 of 120000 bytes shown"), "{notice}");
    // Quotes take two bytes each as JSON; the limit applies to the output itself.
    assert_eq!(output("head -c 100000 /dev/zero | tr '\\0' '\"'"), "\"".repeat(100_000) + "\n");
}

/// "Tool errors (expected failures — file not found, bash non-zero exit, no search results) … `IsError: true`; loop continues".
#[test]
fn a_search_that_finds_nothing_is_an_error_and_the_loop_goes_on() {
    let engine = Server::of(&[("GET /search", r#"{"results": []}"#)]);
    let studio = Studio::new(&format!("web_search: {{backend: searxng, url: '{}'}}\n", engine.url("")));
    let told = studio.run(&script(&["{tool: web_search, arguments: {query: nothing}}"]), &[]);
    let result = results(&told)[0];
    assert_eq!(result["status"], "error", "{:?}", told.output);
    let answer: Value = serde_json::from_str(result["result"].as_str().unwrap()).unwrap();
    assert_eq!((&answer["isError"], &answer["output"]), (&json!(true), &json!("nothing was found\n")));
    assert_eq!((&told.end()["reason"], told.code()), (&json!("done"), 0));
}

/// "v1 ships four working tools: file_read, file_write, bash, web_search"; "absent `tool_permissions` defaults to read-only (`file_read` + `web_search`)".
#[test]
fn there_are_four_tools_and_two_without_permissions() {
    let studio =
        Studio::new("web_search: {backend: searxng, url: 'http://127.0.0.1:1'}\nworkflows: {plain: {}}\n");
    let names = |agent: &str| {
        let listed = studio.0.must(&["--agent", agent, "tools", "--format", "anthropic"]);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        listed
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("dev"), ["file_read", "file_write", "bash", "web_search"]);
    assert_eq!(names("plain"), ["file_read", "web_search"]);
}

/// "`cwd` set to `projectRoot`"; "environment sanitized (strip `API_KEY`, `TOKEN`, `SECRET` patterns)".
#[test]
fn bash_runs_in_the_project_and_sees_no_secret_of_the_environment() {
    let studio = Studio::new("");
    studio.0.write("w/a.txt", "a\n");
    let mut command =
        studio.task(&script(&["{tool: bash, arguments: {command: 'ls; env'}}"]), &["--trust", "autonomous"]);
    for name in ["SOME_API_KEY", "SOME_TOKEN", "SOME_SECRET", "SOMETHING"] {
        command.env(name, "never-to-be-seen");
    }
    let told = Told::of(command.stdin(std::process::Stdio::null()).output().unwrap());
    let result = results(&told)[0]["result"].as_str().unwrap();
    assert!(result.contains("a.txt") && result.contains("PATH="), "{result}");
    assert!(!result.contains("never-to-be-seen"), "{result}");
}
