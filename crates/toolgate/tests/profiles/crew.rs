//! The profile `crew`.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};
use toolgate_types::Sha256;

use crate::fixture::{CliFixture, finish_call};
use crate::model_server::{ModelServer, Says, calls};

/// A digest that no file here has.
const OTHER: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The gate in this profile, in the run `r1`, with a package.
fn gate(place: &CliFixture) -> Command {
    in_run(place, place.toolgate())
}

fn in_run(place: &CliFixture, mut command: Command) -> Command {
    let package = place.scratch.path().join("pkg");
    std::fs::create_dir_all(&package).unwrap();
    command.args(["--profile", "crew", "--run", "r1", "--mount"]).arg(format!("@pkg={}", package.display()));
    command
}

/// The result of one call.
fn call(place: &CliFixture, tool: &str, arguments: &Value) -> Value {
    let (_, envelope) = finish_call(gate(place), tool, arguments);
    let result = envelope["structured"].clone();
    // The text that a model receives is the same.
    assert_eq!(serde_json::from_str::<Value>(envelope["text"].as_str().unwrap()).unwrap(), result);
    result
}

/// The error code of a call.
fn code(place: &CliFixture, tool: &str, arguments: &Value) -> String {
    let result = call(place, tool, arguments);
    assert_eq!(result["ok"], false, "{tool} {arguments}: {result}");
    result["error"]["code"].as_str().unwrap().to_owned()
}

/// Runs a task without a terminal.
fn run(place: &CliFixture, options: &[&str]) -> Output {
    gate(place).args(["run", "do it", "--trust", "autonomous"]).args(options).output().unwrap()
}

/// Runs a task with a model that plays a list of answers, over Chat Completions.
fn run_with(place: &CliFixture, server: &ModelServer, more: &str, options: &[&str]) -> Output {
    place.write("toolgate.yaml", &server.config("openai-chat", more));
    run(place, &[&["--model", "mine/m"], options].concat())
}

fn state(place: &CliFixture) -> PathBuf {
    place.state.join("runs/r1")
}

/// The events of the run.
fn log(place: &CliFixture) -> Vec<Value> {
    let text = std::fs::read_to_string(state(place).join("logs/execution.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn write(place: &CliFixture, path: &str, content: &str) {
    let path = place.workspace.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// "Normalize alias to forward slashes and strip leading `./` and `/`."
#[test]
fn what_stands_before_an_alias_is_dropped() {
    let place = CliFixture::new();
    write(&place, "src/a.txt", "x\n");
    for path in [
        "@project/src/a.txt",
        "./@project/src/a.txt",
        "/@project/src/a.txt",
        "././/@project//src/./a.txt",
        "@project\\src\\a.txt",
    ] {
        let read = call(&place, "fs.read", &json!({"path": path}));
        assert_eq!(
            (&read["path"], &read["content"]),
            (&json!("@project/src/a.txt"), &json!("x\n")),
            "{path}"
        );
    }
    // The alias alone is the root of the mount.
    let listed = call(&place, "fs.list", &json!({"path": "/@project"}));
    assert_eq!((&listed["path"], &listed["entries"][0]["name"]), (&json!("@project"), &json!("src")));
}

/// "Reject: missing/unknown mount, NUL bytes, absolute paths, any `..` segment."
#[test]
fn what_is_no_alias_path_is_refused() {
    let place = CliFixture::new();
    write(&place, "b", "x\n");
    for path in [
        "@foo/b",
        "b",
        "./b",
        "",
        "@",
        "@project/\0b",
        "/etc/passwd",
        "C:\\b",
        "\\\\server\\b",
        "@project/../evil.txt",
        "@project/a/../b",
        "@project\\..\\b",
        "./@project/..",
        "@project/..",
    ] {
        assert_eq!(code(&place, "fs.read", &json!({"path": path})), "E_SANDBOX_VIOLATION", "{path:?}");
        let written = code(&place, "fs.write", &json!({"path": path, "content": "x"}));
        assert_eq!(written, "E_SANDBOX_VIOLATION", "{path:?}");
    }
    assert!(!place.scratch.path().join("evil.txt").exists());
}

/// A refusal gives the true reason, and no hint recommends what the profile refuses.
#[test]
fn a_refusal_says_why_and_its_hint_can_be_followed() {
    let place = CliFixture::new();
    symlink("/etc", place.workspace.join("out")).unwrap();
    for (path, reason) in [
        ("@project/a/../b", "`@project/a/../b` has a `..` in it"),
        ("@project\\..\\b", "has a `..` in it"),
        ("a/../b", "does not begin with a mount alias"),
        ("/etc/passwd", "does not begin with a mount alias"),
        ("C:\\b", "does not begin with a mount alias"),
        ("@foo/b", "there is no mount `@foo`"),
        ("", "path must not be empty"),
        ("@project/out/passwd", "symbolic link that leads outside the workspace"),
    ] {
        let error = call(&place, "fs.read", &json!({"path": path}))["error"].clone();
        assert!(error["message"].as_str().unwrap().contains(reason), "{path:?}: {error}");
        let hint = error["details"]["hint"].as_str().unwrap();
        assert!(!hint.contains("relative") && !hint.contains("./"), "{path:?}: {hint}");
        for example in hint.split('`').skip(1).step_by(2).filter(|example| example.starts_with('@')) {
            let tried = call(&place, "fs.list", &json!({"path": example}));
            assert_ne!(tried["error"]["code"], "E_SANDBOX_VIOLATION", "{hint}: {tried}");
        }
    }
    let patched = json!({"path": "@pkg/x.md", "patch": {"operation": "updateFrontmatter", "update": {"updatedAt.set": "x"}}});
    let hint = call(&place, "fs.apply_patch", &patched)["error"]["details"]["hint"].clone();
    assert!(!hint.as_str().unwrap().contains("@pkg"), "{hint}");
}

/// "Strong sandboxing against symlink escapes", for reading and for writing: the symlink is the file, on the path, or dangling.
#[test]
fn a_symlink_that_leaves_is_refused_for_reading_and_writing() {
    let place = CliFixture::new();
    let outside = place.scratch.folder("outside");
    std::fs::write(outside.join("secret"), "x").unwrap();
    symlink(outside.join("secret"), place.workspace.join("file")).unwrap();
    symlink(&outside, place.workspace.join("folder")).unwrap();
    symlink(outside.join("new"), place.workspace.join("dangling")).unwrap();
    for path in ["@project/file", "@project/folder/secret", "@project/folder/new", "@project/dangling"] {
        assert_eq!(code(&place, "fs.read", &json!({"path": path})), "E_SANDBOX_VIOLATION", "{path}");
        let written = code(&place, "fs.write", &json!({"path": path, "content": "y"}));
        assert_eq!(written, "E_SANDBOX_VIOLATION", "{path}");
    }
    assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), "x");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

/// "`@project`: read/write; `@pkg`: read-only; `@state`: read/write", whatever access the mount of the package declares.
#[test]
fn only_project_and_state_are_written() {
    let place = CliFixture::new();
    let write = |path: &str| call(&place, "fs.write", &json!({"path": path, "content": "x\n"}));
    for path in ["@project/new/a.txt", "@state/notes.md"] {
        let sha256 = Sha256::of(b"x\n").to_string();
        assert_eq!(
            write(path),
            json!({"ok": true, "path": path, "bytesWritten": 2, "sha256After": sha256}),
            "{path}"
        );
    }
    assert_eq!(write("@pkg/a.txt")["error"]["code"], "E_SANDBOX_VIOLATION");
    let patch = json!({"path": "@pkg/workflow.md", "patch": {"operation": "updateFrontmatter", "update": {"updatedAt.set": "x"}}});
    assert_eq!(code(&place, "fs.apply_patch", &patch), "E_SANDBOX_VIOLATION");
    assert_eq!(std::fs::read_dir(place.scratch.path().join("pkg")).unwrap().count(), 0);
    assert_eq!(std::fs::read_to_string(place.workspace.join("new/a.txt")).unwrap(), "x\n");
}

/// "`@state` must be run-scoped."
#[test]
fn each_run_has_a_state_of_its_own() {
    let place = CliFixture::new();
    call(&place, "fs.write", &json!({"path": "@state/a.md", "content": "x"}));
    let mut other = place.toolgate();
    other.args(["--profile", "crew", "--run", "r2"]);
    let (_, read) = finish_call(other, "fs.read", &json!({"path": "@state/a.md"}));
    assert_eq!(read["structured"]["error"]["code"], "ENOENT", "{read}");
    assert!(state(&place).join("a.md").exists());
}

/// The `tools[]` definitions: five function tools with these names, arguments and bounds, and no others.
#[test]
fn the_tools_are_the_five_of_the_protocol() {
    let place = CliFixture::new();
    let tools: Value =
        serde_json::from_str(&place.must(&["--profile", "crew", "tools", "--format", "openai"])).unwrap();
    let told: Vec<String> = tools
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            let function = &tool["function"];
            let schema = &function["parameters"];
            assert_eq!((&tool["type"], &schema["additionalProperties"]), (&json!("function"), &json!(false)));
            let property = |(name, property): (&String, &Value)| {
                let minimum =
                    property.get("minimum").map(|minimum| format!(">={minimum}")).unwrap_or_default();
                format!("{name}:{}{minimum}", property["type"].as_str().unwrap())
            };
            let mut properties: Vec<String> =
                schema["properties"].as_object().unwrap().iter().map(property).collect();
            properties.sort();
            format!(
                "{} {} required {}",
                function["name"].as_str().unwrap(),
                properties.join(" "),
                schema["required"]
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            r#"fs.list path:string required ["path"]"#,
            r#"fs.read endLine:integer>=1 path:string startLine:integer>=1 required ["path"]"#,
            r#"fs.search after:integer>=0 before:integer>=0 maxMatches:integer>=1 path:string pattern:string required ["path","pattern"]"#,
            r#"fs.write content:string ifMatchSha256:string path:string required ["path","content"]"#,
            r#"fs.apply_patch patch:object path:string required ["path","patch"]"#,
        ]
    );
    let patch = &tools[4]["function"]["parameters"]["properties"]["patch"];
    assert_eq!(patch["properties"]["operation"]["const"], "updateFrontmatter");
    assert_eq!(
        (&patch["required"], &patch["additionalProperties"]),
        (&json!(["operation", "update"]), &json!(true))
    );
}

/// `fs.list`: direct children, without hidden entries and symbolic links; beyond 200 a preview, `truncated` and a hint.
#[test]
fn a_listing_leaves_out_hidden_entries_and_links_and_is_cut() {
    let place = CliFixture::new();
    for name in ["b.txt", ".hidden", "src/deep.txt"] {
        write(&place, name, "x");
    }
    symlink("b.txt", place.workspace.join("link")).unwrap();
    let listed = call(&place, "fs.list", &json!({"path": "@project"}));
    let names: Vec<&Value> =
        listed["entries"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, [&json!("b.txt"), &json!("src")], "{listed}");
    for number in 0..300 {
        write(&place, &format!("many/{number:03}"), "");
    }
    let listed = call(&place, "fs.list", &json!({"path": "@project/many"}));
    assert_eq!(
        (listed["entriesPreview"].as_array().unwrap().len(), &listed["truncated"]),
        (200, &json!(true))
    );
    assert!(listed["hint"].as_str().unwrap().contains("200 of 300") && listed.get("entries").is_none());
}

/// `fs.read`: lines are 1-based and inclusive, size and digest are of the whole file, and a reversed range is `E_INTERNAL`.
#[test]
fn a_window_of_lines_is_read_with_the_digest_of_the_whole_file() {
    let place = CliFixture::new();
    let text = "one\ntwo\nthree\nfour\n";
    write(&place, "a.txt", text);
    let read = |arguments: Value| call(&place, "fs.read", &arguments);
    let window = read(json!({"path": "@project/a.txt", "startLine": 2, "endLine": 3}));
    assert_eq!(window["content"], "two\nthree\n");
    for read in [window, read(json!({"path": "@project/a.txt"}))] {
        assert_eq!(
            (&read["bytes"], &read["sha256"]),
            (&json!(19), &json!(Sha256::of(text.as_bytes()).to_string()))
        );
    }
    let wrong = json!({"path": "@project/a.txt", "startLine": 3, "endLine": 2});
    assert_eq!(code(&place, "fs.read", &wrong), "E_INTERNAL");
    assert_eq!(code(&place, "fs.read", &json!({"path": "@project/none"})), "ENOENT");
}

/// `fs.read`: more than `maxReadBytes` (50,000) is a preview with a hint at line ranges and `fs.search`.
#[test]
fn a_long_file_is_cut_with_a_hint() {
    let place = CliFixture::new();
    write(&place, "long.txt", &"a line of text\n".repeat(5_000));
    let read = call(&place, "fs.read", &json!({"path": "@project/long.txt"}));
    assert_eq!((&read["truncated"], &read["bytes"]), (&json!(true), &json!(75_000)));
    assert!(read.get("content").is_none());
    let preview = read["contentPreview"].as_str().unwrap().len();
    assert!((49_000..=50_000).contains(&preview), "{preview}");
    let hint = read["hint"].as_str().unwrap();
    assert!(hint.contains("startLine/endLine") && hint.contains("fs.search"), "{hint}");
}

/// Limits are the agent's (`agent.tools.fs.maxReadBytes` and `maxWriteBytes`), and enforced whatever the prompt says.
#[test]
fn an_agent_has_limits_of_its_own() {
    let place = CliFixture::new();
    place.write("toolgate.yaml", "agents: {sm: {tools: {fs: {maxReadBytes: 10, maxWriteBytes: 5}}, tool_permissions: {fs.read: {allowed: true}, fs.write: {allowed: true}}}}\n");
    write(&place, "a.txt", "0123456789abcdef");
    let as_agent = |tool: &str, arguments: Value| {
        let mut command = gate(&place);
        command.args(["--agent", "sm"]);
        finish_call(command, tool, &arguments).1["structured"].clone()
    };
    assert_eq!(as_agent("fs.read", json!({"path": "@project/a.txt"}))["contentPreview"], "0123456789");
    let written = as_agent("fs.write", json!({"path": "@project/b", "content": "123456"}));
    assert_eq!(written["error"]["code"], "E_WRITE_LIMIT", "{written}");
    assert!(!place.workspace.join("b").exists());
    assert_eq!(log(&place)[0]["agentId"], "sm");
}

/// `fs.search` skips `.git`, `node_modules` and hidden directories, but not hidden files.
#[test]
fn a_search_skips_hidden_directories_and_not_hidden_files() {
    let place = CliFixture::new();
    for name in
        ["a.txt", ".hidden.txt", "src/.eslintrc", ".cache/x", "src/.config/x", "node_modules/m/x", ".git/x"]
    {
        write(&place, name, "needle\n");
    }
    write(&place, ".gitignore", "a.txt\n");
    let found = call(&place, "fs.search", &json!({"path": "@project", "pattern": "needle"}));
    let paths: Vec<&str> =
        found["matches"].as_array().unwrap().iter().map(|found| found["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["@project/.hidden.txt", "@project/a.txt", "@project/src/.eslintrc"]);
}

/// `fs.search`: one line before and after, 50 matches, paths with the alias, lines from 1, literal text unless the pattern is `/…/` or `/…/i`.
#[test]
fn a_search_answers_structured_matches_with_neighbours() {
    let place = CliFixture::new();
    write(&place, "a.txt", "one\nTwo.\nthree\nfour\n");
    let search = |arguments: Value| call(&place, "fs.search", &arguments);
    let found = search(json!({"path": "@project", "pattern": "Two"}));
    let expected =
        json!({"path": "@project/a.txt", "line": 2, "text": "Two.", "before": ["one"], "after": ["three"]});
    assert_eq!((&found["matches"], &found["truncated"]), (&json!([expected]), &json!(false)));
    let alone = search(json!({"path": "@project/a.txt", "pattern": "/^two\\./i", "before": 0, "after": 0}));
    assert_eq!((&alone["matches"][0]["line"], &alone["matches"][0]["before"]), (&json!(2), &json!([])));
    assert_eq!(search(json!({"path": "@project", "pattern": "T.o"}))["matches"], json!([]));
    write(&place, "many.txt", &"hit\n".repeat(80));
    let many = search(json!({"path": "@project", "pattern": "hit"}));
    assert_eq!((many["matches"].as_array().unwrap().len(), &many["truncated"]), (50, &json!(true)));
}

/// A line past 2,000 bytes is cut, marked `textTruncated`, and counts as `truncated`.
#[test]
fn a_long_line_is_cut_with_a_mark() {
    let place = CliFixture::new();
    write(&place, "a.txt", &format!("needle{}\nshort needle\n", "x".repeat(5_000)));
    let found = call(
        &place,
        "fs.search",
        &json!({"path": "@project/a.txt", "pattern": "needle", "before": 0, "after": 0}),
    );
    let [long, short] = &found["matches"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!((long["text"].as_str().unwrap().len(), &long["textTruncated"]), (2_000, &json!(true)));
    assert_eq!((&short["text"], short.get("textTruncated")), (&json!("short needle"), None));
    assert_eq!(found["truncated"], true);
    let neighbour =
        call(&place, "fs.search", &json!({"path": "@project/a.txt", "pattern": "short", "before": 1}));
    assert_eq!((&neighbour["truncated"], neighbour["matches"][0].get("textTruncated")), (&json!(true), None));
}

/// `filesMatched` and `matchesReturned` agree with the returned matches, also if the search was truncated.
#[test]
fn the_figures_of_a_search_are_those_of_its_answer() {
    let place = CliFixture::new();
    for number in 0..40 {
        write(&place, &format!("f{number:02}.txt"), "hit\nhit\nhit\n");
    }
    for most in [1, 4, 7, 200] {
        let found =
            call(&place, "fs.search", &json!({"path": "@project", "pattern": "hit", "maxMatches": most}));
        let matches = found["matches"].as_array().unwrap();
        let files: std::collections::HashSet<&str> =
            matches.iter().map(|found| found["path"].as_str().unwrap()).collect();
        assert_eq!(found["stats"]["matchesReturned"], matches.len(), "{most}");
        assert_eq!(found["stats"]["filesMatched"], files.len(), "{most}");
        assert_eq!((matches.len(), &found["truncated"]), (most.min(120), &json!(most < 120)));
    }
}

/// `fs.write`: at most 100,000 bytes, checked before any write; parents are created; no other file is left.
#[test]
fn a_write_is_bounded_and_leaves_no_other_file() {
    let place = CliFixture::new();
    let fits = "x".repeat(100_000);
    let written = call(&place, "fs.write", &json!({"path": "@project/a/b/c.txt", "content": fits}));
    assert_eq!(written["bytesWritten"], 100_000);
    let long = json!({"path": "@project/a/b/c.txt", "content": fits + "x"});
    assert_eq!(code(&place, "fs.write", &long), "E_WRITE_LIMIT");
    let names: Vec<_> = std::fs::read_dir(place.workspace.join("a/b"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["c.txt"]);
    assert_eq!(std::fs::metadata(place.workspace.join("a/b/c.txt")).unwrap().len(), 100_000);
}

/// `ifMatchSha256`: another digest fails the precondition, and so does one that is not 64 hex digits; the right one writes.
#[test]
fn a_digest_that_is_another_or_none_fails_the_precondition() {
    let place = CliFixture::new();
    write(&place, "a.txt", "old");
    call(&place, "fs.write", &json!({"path": "@state/a.md", "content": "---\na: 1\n---\n"}));
    let right = Sha256::of(b"old").to_string();
    for digest in [OTHER, "abc", "", "sha256:x", &right[..63], &format!("{right}0")] {
        let write = json!({"path": "@project/a.txt", "content": "new", "ifMatchSha256": digest});
        assert_eq!(code(&place, "fs.write", &write), "E_PRECONDITION_FAILED", "{digest}");
        let patch = json!({"operation": "updateFrontmatter", "update": {"updatedAt.set": "x"}, "ifMatchSha256": digest});
        let patched = code(&place, "fs.apply_patch", &json!({"path": "@state/a.md", "patch": patch}));
        assert_eq!(patched, "E_PRECONDITION_FAILED", "{digest}");
    }
    assert_eq!(std::fs::read_to_string(place.workspace.join("a.txt")).unwrap(), "old");
    let write = json!({"path": "@project/a.txt", "content": "new", "ifMatchSha256": right.to_uppercase()});
    assert_eq!(call(&place, "fs.write", &write)["ok"], true);
}

/// `fs.apply_patch`: each operation, twice; strings are kept once, objects each time; body and digests.
#[test]
fn frontmatter_is_updated_and_the_body_stays() {
    let place = CliFixture::new();
    let before = "---\ncurrentNodeId: a\nstepsCompleted: [x]\nvariables: {kept: 1, changed: 1}\n---\n# Body\r\nwith its own ends";
    call(&place, "fs.write", &json!({"path": "@state/doc.md", "content": before}));
    let update = json!({
        "stepsCompleted.append": ["x", "y"], "variables.set": {"changed": 2, "new": "n"}, "decisionLog.append": {"d": 1},
        "artifacts.append": "out.md", "currentNodeId.set": "b", "updatedAt.set": "2026-01-03",
    });
    let patch =
        json!({"path": "@state/doc.md", "patch": {"operation": "updateFrontmatter", "update": update}});
    let first = call(&place, "fs.apply_patch", &patch);
    assert_eq!((&first["ok"], &first["path"]), (&json!(true), &json!("@state/doc.md")));
    assert_eq!(first["sha256Before"], Sha256::of(before.as_bytes()).to_string());
    let second = call(&place, "fs.apply_patch", &patch);
    assert_eq!(second["sha256Before"], first["sha256After"]);
    let after = std::fs::read_to_string(state(&place).join("doc.md")).unwrap();
    assert_eq!(second["sha256After"], Sha256::of(after.as_bytes()).to_string());
    let yaml = after.strip_prefix("---\n").unwrap().strip_suffix("---\n# Body\r\nwith its own ends").unwrap();
    let shown: Vec<&str> =
        ["x", "y", "out.md"].into_iter().filter(|item| yaml.matches(item).count() != 1).collect();
    assert!(shown.is_empty(), "{shown:?}: {yaml}");
    assert_eq!(yaml.matches("d: 1").count(), 2, "{yaml}");
    for line in ["currentNodeId: b", "updatedAt: ", "kept: 1", "changed: 2", "new: \"n\""] {
        assert!(yaml.contains(line), "{line}: {yaml}");
    }
}

/// `fs.apply_patch`: only in `@state`; invalid YAML is `E_INVALID_FRONTMATTER`; a document without frontmatter gets one.
#[test]
fn a_document_without_frontmatter_begins_one_and_a_broken_one_is_refused() {
    let place = CliFixture::new();
    let patch = |path: &str| json!({"path": path, "patch": {"operation": "updateFrontmatter", "update": {"currentNodeId.set": "plan"}}});
    call(&place, "fs.write", &json!({"path": "@state/plain.md", "content": "# Title\n"}));
    assert_eq!(call(&place, "fs.apply_patch", &patch("@state/plain.md"))["ok"], true);
    let after = std::fs::read_to_string(state(&place).join("plain.md")).unwrap();
    assert_eq!(after, "---\ncurrentNodeId: plan\n---\n# Title\n");
    call(&place, "fs.write", &json!({"path": "@state/broken.md", "content": "---\na: [\n---\nx\n"}));
    assert_eq!(code(&place, "fs.apply_patch", &patch("@state/broken.md")), "E_INVALID_FRONTMATTER");
    write(&place, "doc.md", "---\na: 1\n---\n");
    assert_eq!(code(&place, "fs.apply_patch", &patch("@project/doc.md")), "E_SANDBOX_VIOLATION");
    assert_eq!(code(&place, "fs.apply_patch", &patch("@state/none.md")), "ENOENT");
}

/// "Each tool execution emits exactly one event (even on failures)": also if the arguments are not JSON or no object, if the tool is unknown, and if
/// a limit prevents the call.
#[test]
fn every_call_of_a_run_has_exactly_one_event() {
    let place = CliFixture::new();
    write(&place, "a.txt", "x");
    let read = json!({"path": "@project/a.txt"}).to_string();
    let server = ModelServer::new(vec![
        Says::Calls(vec![
            ("fs_read", read.clone()),
            ("fs_read", "{\"path\": ".to_owned()),
            ("fs_read", "[1]".to_owned()),
            ("fs_read", "\"text\"".to_owned()),
            ("fs_nothing", "{}".to_owned()),
            ("fs_read", "{\"path\": \"@project/../x\"}".to_owned()),
        ]),
        // Tools are disabled for this step, and the model calls one anyway.
        Says::Calls(vec![("fs_read", read)]),
    ]);
    let output = run_with(&place, &server, "", &["--max-iterations", "1"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let events = log(&place);
    let ids: Vec<&str> = events.iter().map(|event| event["toolCallId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["c0x0", "c0x1", "c0x2", "c0x3", "c0x4", "c0x5", "c1x0"]);
    let oks: Vec<bool> = events.iter().map(|event| event["output"]["ok"].as_bool().unwrap()).collect();
    assert_eq!(oks, [true, false, false, false, false, false, false]);
    assert!(events[6]["output"]["error"]["message"].as_str().unwrap().starts_with("not made"));
    assert_eq!(place.records().len(), events.len());
}

/// A run of two steps whose log is replaced by a directory before the second: `open` fails with `EISDIR`.
fn run_without_log(config: &str) -> (ModelServer, Output) {
    let place = CliFixture::new();
    write(&place, "a.txt", "x");
    let read = calls("fs_read", &json!({"path": "@project/a.txt"}));
    let log = state(&place).join("logs/execution.jsonl");
    let server = ModelServer::with(vec![read.clone(), read.clone(), read], move |number| {
        if number == 1 {
            std::fs::remove_file(&log).unwrap();
            std::fs::create_dir(&log).unwrap();
        }
    });
    place.write("toolgate.yaml", &(server.config("openai-chat", "") + config));
    let mut command = in_run(&place, place.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate"))));
    command.args(["run", "do it", "--trust", "autonomous", "--model", "mine/m", "--json"]);
    let output = command.output().unwrap();
    (server, output)
}

/// The warnings about the log on standard error.
fn complaints(output: &Output) -> Vec<String> {
    let about_the_log = |line: &&str| line.contains("`@state/logs/execution.jsonl` cannot be written");
    String::from_utf8_lossy(&output.stderr).lines().filter(about_the_log).map(str::to_owned).collect()
}

/// "Each tool execution emits exactly one event": if that is impossible, the run ends if calls must be recorded; otherwise the operator is warned
/// once.
#[test]
fn a_log_that_cannot_be_written_ends_the_run_and_is_reported() {
    let (server, output) = run_without_log("audit: {on_failure: deny}\n");
    assert_eq!((output.status.code(), server.asked().len()), (Some(1), 2), "{output:?}");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("\"code\":\"run_log_unavailable\""), "{told}");
    assert!(complaints(&output).iter().any(|line| line.starts_with("error: ")), "{output:?}");
    let (server, output) = run_without_log("audit: {on_failure: warn}\n");
    assert_eq!((output.status.code(), server.asked().len()), (Some(0), 4), "{output:?}");
    assert_eq!(complaints(&output).len(), 1, "{output:?}");
}

/// The fields of an event; contents appear as size, digest and a preview.
#[test]
fn an_event_has_the_fields_of_the_protocol_and_no_contents() {
    let place = CliFixture::new();
    let secret = "the whole of a text that is nowhere in the log, not even in parts of it that are long";
    call(&place, "fs.write", &json!({"path": "@project/a.txt", "content": secret}));
    call(&place, "fs.read", &json!({"path": "@project/a.txt", "startLine": 1}));
    let [written, read] = &log(&place)[..] else { panic!("two events") };
    for (event, tool) in [(written, "fs.write"), (read, "fs.read")] {
        let names: Vec<&str> = event.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["ts", "kind", "toolCallId", "toolName", "agentId", "input", "output", "durationMs"]
        );
        assert_eq!((&event["kind"], &event["toolName"]), (&json!("tool.exec"), &json!(tool)));
        assert!(event["ts"].as_str().unwrap().ends_with('Z') && event["durationMs"].is_u64(), "{event}");
    }
    let sha256 = Sha256::of(secret.as_bytes()).to_string();
    assert_eq!(
        (&written["input"]["content"]["sha256"], &read["output"]["sha256"]),
        (&json!(sha256), &json!(sha256))
    );
    assert_eq!(read["input"], json!({"path": "@project/a.txt", "startLine": 1}));
    assert!(!format!("{written}{read}").contains(secret));
}

/// "Rejected sandbox calls must include enough detail to debug (mount + normalized path + reason)."
#[test]
fn a_refused_call_is_logged_with_mount_path_and_reason() {
    let place = CliFixture::new();
    symlink("/etc", place.workspace.join("out")).unwrap();
    for (path, mount, normalised, reason) in [
        ("./@project//a/../b", json!("@project"), "@project/a/../b", "`..`"),
        ("@project/out/./passwd", json!("@project"), "@project/out/passwd", "symbolic link"),
        ("@pkg\\x", json!("@pkg"), "@pkg/x", "read-only"),
        ("@foo/x", json!("@foo"), "@foo/x", "no mount"),
        ("/etc/passwd", Value::Null, "/etc/passwd", "alias"),
    ] {
        let result = call(&place, "fs.write", &json!({"path": path, "content": "x"}));
        let event = log(&place).pop().unwrap();
        for details in [&event["output"]["error"]["details"], &result["error"]["details"]] {
            assert_eq!(
                (&details["mount"], &details["path"]),
                (&mount, &json!(normalised)),
                "{path}: {details}"
            );
            assert!(details["reason"].as_str().unwrap().contains(reason), "{path}: {details}");
        }
    }
}

/// Results go back as `role: tool`, with the call's id and the result as JSON in a string.
#[test]
fn results_go_back_as_json_in_a_tool_message() {
    let place = CliFixture::new();
    write(&place, "a.txt", "x");
    let server = ModelServer::new(vec![Says::Calls(vec![
        ("fs_read", json!({"path": "@project/a.txt"}).to_string()),
        ("fs_read", json!({"path": "@project/none"}).to_string()),
    ])]);
    run_with(&place, &server, "", &[]);
    let asked = server.asked();
    let messages = asked[1]["messages"].as_array().unwrap();
    let results: Vec<&Value> = messages.iter().filter(|message| message["role"] == "tool").collect();
    let content =
        |message: &Value| serde_json::from_str::<Value>(message["content"].as_str().unwrap()).unwrap();
    assert_eq!((&results[0]["tool_call_id"], &results[1]["tool_call_id"]), (&json!("c0x0"), &json!("c0x1")));
    assert_eq!(
        (&content(results[0])["content"], &content(results[1])["error"]["code"]),
        (&json!("x"), &json!("ENOENT"))
    );
}

/// The system prompt requires an alias, and names every mount with its access.
#[test]
fn the_system_prompt_requires_an_alias_and_names_every_mount() {
    let place = CliFixture::new();
    let server = ModelServer::new(Vec::new());
    run_with(&place, &server, "", &[]);
    let system = server.asked()[0]["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(system.contains("Every path begins with a mount alias"), "{system}");
    assert!(!system.contains("relative to the workspace"), "{system}");
    assert!(
        system.contains("Mounts: @project (read and write), @pkg (read only), @state (read and write)."),
        "{system}"
    );
}

/// Stable names: `fs.read` unchanged if the server accepts it, as Ollama does, and a compatible one with `exact_tool_names`.
#[test]
fn dotted_names_go_out_where_the_server_takes_them() {
    for (wire, more, name) in [
        ("ollama", "", "fs.read"),
        ("openai-chat", ", exact_tool_names: true", "fs.read"),
        ("openai-chat", "", "fs_read"),
    ] {
        let place = CliFixture::new();
        write(&place, "a.txt", "x");
        let server = ModelServer::new(vec![calls(name, &json!({"path": "@project/a.txt"}))]);
        place.write("toolgate.yaml", &server.config(wire, more));
        let output = run(&place, &["--model", "mine/m"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let asked = server.asked();
        let offered: Vec<&Value> =
            asked[0]["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
        assert!(offered.contains(&&json!(name)) && offered.len() == 5, "{wire}{more}: {offered:?}");
        assert_eq!(log(&place)[0]["output"]["ok"], true, "{wire}{more}");
    }
}

/// History keeps one form of a name: a call as `fs_read` over one wire format goes out as `fs.read` over another, and vice versa.
#[test]
fn history_keeps_one_spelling() {
    let place = CliFixture::new();
    write(&place, "a.txt", "x");
    let restricted = ModelServer::new(vec![calls("fs_read", &json!({"path": "@project/a.txt"}))]);
    run_with(&place, &restricted, "", &[]);
    // A model that has seen the restricted form uses it even where the exact one was offered.
    let exact = ModelServer::new(vec![calls("fs_read", &json!({"path": "@project/a.txt"}))]);
    place.write("toolgate.yaml", &exact.config("ollama", ""));
    let output = run(&place, &["--model", "mine/m", "--continue"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let named = |message: &Value| message["tool_calls"][0]["function"]["name"].clone();
    let asked = exact.asked();
    let said: Vec<Value> =
        asked[1]["messages"].as_array().unwrap().iter().map(named).filter(|name| !name.is_null()).collect();
    assert_eq!(said, [json!("fs.read"), json!("fs.read")]);
    let again = ModelServer::new(Vec::new());
    place.write("toolgate.yaml", &again.config("openai-chat", ""));
    run(&place, &["--model", "mine/m", "--continue"]);
    let asked = again.asked();
    let said: Vec<Value> =
        asked[0]["messages"].as_array().unwrap().iter().map(named).filter(|name| !name.is_null()).collect();
    assert_eq!(said, [json!("fs_read"), json!("fs_read")]);
    let tools: Vec<Value> = log(&place).iter().map(|event| event["toolName"].clone()).collect();
    assert_eq!(tools, [json!("fs.read"), json!("fs.read")]);
}
