//! What tool manifests mean, and what is said about bad ones.

use serde_json::json;
use toolgate_manifest::{OutputParse, ToolManifest, Treatment};
use toolgate_types::ToolClass;

/// The example of the documentation, exactly as it is written there.
const GIT_LOG: &str = r#"tool: git_log
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
    assert_eq!(tool.command.directory.as_ref().unwrap().value.inside(), "/work/project");
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
