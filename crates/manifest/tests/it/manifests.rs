//! What tool manifests mean, and the problems and warnings of bad ones.

use std::path::PathBuf;

use serde_json::{Value, json};
use toolgate_manifest::{
    ConfigWarning, Expectation, OutputParse, RealPaths, StderrRule, ToolManifest, Treatment,
};
use toolgate_types::ToolClass;

/// The example of the documentation, verbatim.
pub(crate) const GIT_LOG: &str = r#"tool: git_log
description: Recent commits
class: read                       # read | write | destructive
permissions: [git:read]
input:
  properties: {count: {type: integer, minimum: 1, maximum: 50}}
  required: [count]
elevated: {when: input.count > 20, permissions: [git:deep]}
command: [git, log, --oneline, "--max-count={count}"]
cwd: "@project"
timeout: 30s
output: {parse: lines, schema: {type: array, items: {type: string}}}
policy: {"*": allow}
"#;

fn parse(text: &str) -> ToolManifest {
    match ToolManifest::parse_bytes("tool.yaml", text.as_bytes()) {
        Ok((tool, _)) => tool,
        Err(problems) => panic!("{}", problems.render()),
    }
}

/// The files of a directory of cases, by name.
fn cases(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(folder);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let name = |file: &PathBuf| file.file_name().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|file| (name(file), std::fs::read(file).unwrap())).collect()
}

#[test]
fn every_bad_manifest_is_explained() {
    let cases = cases("tools_bad");
    assert!(cases.len() >= 15, "only {} cases were found", cases.len());
    let told = cases.iter().map(|(name, bytes)| {
        ToolManifest::parse_all_bytes(name, bytes).map(|_| ()).expect_err(name).render()
    });
    insta::assert_snapshot!("bad_manifests", told.collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_doubtful_manifest_is_warned_about() {
    let cases = cases("tools_warned");
    let told = cases.iter().map(|(name, bytes)| match ToolManifest::parse_all_bytes(name, bytes) {
        Ok((_, warnings)) => {
            assert!(!warnings.is_empty(), "{name}");
            warnings.iter().map(ConfigWarning::render).collect::<String>()
        }
        Err(problems) => panic!("{}", problems.render()),
    });
    insta::assert_snapshot!("warned_manifests", told.collect::<Vec<_>>().join("\n"));
}

#[test]
fn good_manifests_have_no_warnings() {
    let good = cases("tools_good").into_iter().chain([("git_log".to_owned(), GIT_LOG.as_bytes().to_vec())]);
    for (name, bytes) in good {
        match ToolManifest::parse_all_bytes(&name, &bytes) {
            Ok((_, warnings)) => {
                assert!(
                    warnings.is_empty(),
                    "{}",
                    warnings.iter().map(ConfigWarning::render).collect::<String>()
                );
            }
            Err(problems) => panic!("{}", problems.render()),
        }
    }
}

#[test]
fn the_documented_example_means_what_it_says() {
    let tool = parse(GIT_LOG);
    assert_eq!(tool.name.value.as_str(), "git_log");
    assert_eq!(tool.class.value, ToolClass::Read);
    assert_eq!(tool.permissions[0].value, "git:read");
    let elevated = tool.elevated.as_ref().unwrap();
    assert_eq!((&*elevated.when.value, &*elevated.permissions[0].value), ("input.count > 20", "git:deep"));
    assert_eq!(
        tool.input,
        json!({
            "type": "object",
            "properties": {"count": {"type": "integer", "minimum": 1, "maximum": 50}},
            "required": ["count"],
            "additionalProperties": false
        })
    );
    assert_eq!(
        tool.command.template.render(&json!({"count": 5})).unwrap(),
        ["git", "log", "--oneline", "--max-count=5"]
    );
    assert_eq!(tool.command.directory.as_ref().unwrap().value.inside(), "/mnt/project");
    let mounts: Vec<(&str, bool)> =
        tool.command.mounts.iter().map(|mount| (mount.alias.value.as_str(), mount.writable)).collect();
    assert_eq!(mounts, [("@project", false)]);
    assert_eq!(tool.timeout.unwrap().as_secs(), 30);
    assert_eq!(tool.output.parse, OutputParse::Lines);
    assert_eq!(tool.output.schema, Some(json!({"type": "array", "items": {"type": "string"}})));
    assert_eq!((&*tool.policy[0].path.value, tool.policy[0].treatment), ("*", Treatment::Allow));
    assert_eq!(tool.command.success_codes, [0]);
    assert!(tool.command.network.is_empty() && tool.command.stdin.is_none() && tool.rate.is_none());
}

#[test]
fn every_key_is_read() {
    let (_, bytes) = cases("tools_good").into_iter().find(|(name, _)| name == "search_code.yaml").unwrap();
    let tool = parse(std::str::from_utf8(&bytes).unwrap());
    assert_eq!(tool.command.success_codes, [0, 1]);
    let limits = tool.command.limits;
    assert_eq!(
        (limits.memory, limits.processes, limits.file_size),
        (Some(512 << 20), Some(8), Some(1 << 20))
    );
    assert_eq!(
        (limits.open_files, limits.cpu_time.unwrap().as_secs(), limits.output),
        (Some(64), 20, Some(1 << 20))
    );
    assert_eq!(tool.output.max_bytes, Some(64 << 10));
    let rate = tool.rate.unwrap();
    assert_eq!((rate.calls.get(), rate.per.as_secs(), rate.burst.unwrap().get()), (60, 60, 10));
    let [_, everything, denied] = &tool.examples[..] else { panic!("three examples") };
    let caller = everything.caller.as_ref().unwrap();
    assert_eq!((caller.subject.as_deref(), &*caller.permissions[0].value), (Some("someone"), "files:read"));
    assert_eq!(caller.agent.as_ref().unwrap().value.as_str(), "reviewer");
    assert_eq!(
        (everything.name.as_deref(), everything.expect.value),
        (Some("everything"), Expectation::Allowed)
    );
    assert_eq!(denied.input.value, json!({"pattern": "x", "directory": "/etc"}));
}

#[test]
fn a_file_may_hold_several_tools() {
    let (name, bytes) = cases("tools_good").into_iter().find(|(name, _)| name == "several.yaml").unwrap();
    let (tools, _) = ToolManifest::parse_all_bytes(&name, &bytes).unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.value.as_str()).collect();
    assert_eq!(names, ["today", "post"]);
    assert_eq!(tools[0].input, json!({"type": "object", "properties": {}, "additionalProperties": false}));
    let variables: Vec<(&str, &str)> =
        tools[0].command.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(variables, [("LC_ALL", "C"), ("TZ", "UTC")]);
    assert!(tools[0].command.mounts.is_empty());
    let stdin = tools[1].command.stdin.as_ref().unwrap();
    let document = json!({"document": {"a": ["-x", "@y", "z\n"]}});
    assert_eq!(
        stdin.render(&document, &RealPaths::default()).unwrap().unwrap(),
        r#"{"a":["-x","@y","z\n"]}"#
    );
    assert_eq!(stdin.render(&json!({}), &RealPaths::default()).unwrap(), None);

    let problems = ToolManifest::parse_bytes(&name, &bytes).unwrap_err();
    assert_eq!(problems.to_string(), "several.yaml:11:7: this is a second tool — keep one tool in this file");
}

#[test]
fn a_tool_that_writes_may_write_where_it_runs() {
    for (class, writable) in [("read", false), ("write", true), ("destructive", true)] {
        let tool = parse(&GIT_LOG.replace("class: read  ", &format!("class: {class}  ")));
        assert_eq!(tool.command.mounts[0].writable, writable, "{class}");
    }
}

#[test]
fn later_checks_can_point_into_the_manifest() {
    let tool = parse(GIT_LOG);
    let when = &tool.elevated.as_ref().unwrap().when;
    let problem = tool.problem_within(when, 6, "no such field", None);
    assert_eq!((problem.line, problem.column), (8, 24));
    assert!(problem.render().ends_with("   |                        ^\n"), "{}", problem.render());

    let text = GIT_LOG.replace("input.count > 20,", "\"input.count > 20\",");
    let tool = parse(&text);
    let when = &tool.elevated.as_ref().unwrap().when;
    assert_eq!(tool.problem_within(when, 6, "no such field", None).column, 25);
    assert_eq!(tool.problem_within(when, 600, "past the end", None).column, 18);

    assert_eq!(
        tool.check_mounts(&["@projects", "@docs"])[0].to_string(),
        "tool.yaml:10:6: `@project` is not mounted — did you mean `@projects`?"
    );
    assert!(tool.check_mounts(&["@project"]).is_empty());
    let warning = tool.warning_at(&tool.command.program, "no such program", None);
    assert_eq!(warning.to_string(), "tool.yaml:9:11: warning: no such program");
}

#[test]
fn answers_have_a_schema_even_when_none_is_declared() {
    for (parse_word, expected) in [
        ("text", json!({"type": "string"})),
        ("lines", json!({"type": "array", "items": {"type": "string"}})),
        ("jsonl", json!({"type": "array"})),
        ("json", json!({})),
    ] {
        let text = format!("{}output: {{parse: {parse_word}}}\n", without_output());
        assert_eq!(parse(&text).output_schema(), expected, "{parse_word}");
    }
    assert_eq!(parse(&without_output()).output_schema(), json!({"type": "string"}));
}

fn without_output() -> String {
    GIT_LOG.lines().filter(|line| !line.starts_with("output")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn bytes_that_are_not_text_are_a_problem() {
    let problems = ToolManifest::parse_all_bytes("t.yaml", b"tool: \xff").unwrap_err();
    assert_eq!(problems.to_string(), "t.yaml:1:7: this is not UTF-8 text — save the file as UTF-8");
    let empty: Value = json!(null);
    assert!(parse(GIT_LOG).command.template.render(&empty).is_err());
}

#[test]
fn versions_standard_error_and_the_breaker_are_read() {
    let (_, bytes) = cases("tools_good").into_iter().find(|(name, _)| name == "versioned.yaml").unwrap();
    let tool = parse(std::str::from_utf8(&bytes).unwrap());
    assert_eq!((tool.version.as_deref(), tool.changelog.len()), (Some("2.1-beta"), 2));
    assert_eq!((tool.command.stderr, tool.exit_codes_break), (StderrRule::Show, true));
    let extensions = &tool.command.paths[0].extensions;
    for (location, fits) in [
        ("a.md", true),
        ("deep/b.txt", true),
        ("c.MD", true),
        ("d.rs", false),
        ("md", false),
        (".md", false),
        ("e.md/f", false),
    ] {
        assert_eq!(extensions.check(location, "file").is_ok(), fits, "{location}");
    }
    let plain = parse(include_str!("tools_good/list_files.yaml"));
    assert_eq!(
        (plain.version, plain.command.stderr, plain.exit_codes_break),
        (None, StderrRule::Hide, false)
    );
}

#[test]
fn what_is_left_unsaid_is_known() {
    let unsaid = |text: &str| -> Vec<String> {
        parse(text).unsaid().iter().map(|problem| format!("{}: {}", problem.line, problem.message)).collect()
    };
    let lines = "tool: t\ndescription: d\nclass: read\npermissions: []\ncommand: [date]\n";
    assert_eq!(
        unsaid(lines),
        [
            "4: `permissions: []` lets every caller use this tool",
            "1: a tool without `input` has no schema for its arguments"
        ]
    );
    let whole = lines.replace("[]", "[t:use]") + "input: {properties: {}}\n";
    assert!(unsaid(&whole).is_empty());
}
