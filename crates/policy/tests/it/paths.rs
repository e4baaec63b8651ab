//! Paths in rules: what they resolve to matters, not how they are written.

use serde_json::{Value, json};
use toolgate_policy::{
    CallFacts, CallPaths, Condition, HeldPermissions, PathInput, PathInputs, PathSource, Policies,
    PolicyDecision, PolicyProblem, PolicySource, PolicyTool, ToolTyping,
};
use toolgate_types::ToolClass;

use crate::calls::caller;

fn input(name: &str, is_list: bool, has_default: bool) -> PathInput {
    PathInput { name: name.to_owned(), is_list, has_default, directory: "@project".to_owned() }
}

fn tools() -> Vec<(&'static str, ToolClass, Value, PathInputs)> {
    let text = || json!({"type": "string"});
    let schema = |properties: Value, required: &[&str]| json!({"type": "object", "additionalProperties": false, "properties": properties, "required": required});
    let mounts = || vec!["@project".to_owned(), "@inner".to_owned(), "@other".to_owned()];
    let paths =
        |arguments: &[PathInput]| PathInputs { mounts: mounts(), ..PathInputs::of(arguments.to_vec()) };
    vec![
        (
            "read",
            ToolClass::Read,
            schema(json!({"path": text()}), &["path"]),
            paths(&[input("path", false, false)]),
        ),
        ("list", ToolClass::Read, schema(json!({"path": text()}), &[]), paths(&[input("path", false, true)])),
        (
            "move",
            ToolClass::Write,
            schema(json!({"from": text(), "to": text()}), &["from", "to"]),
            paths(&[input("from", false, false), input("to", false, false)]),
        ),
        (
            "patch",
            ToolClass::Write,
            schema(json!({"patch": text()}), &["patch"]),
            PathInputs { has_patch: true, ..paths(&[]) },
        ),
        (
            "lint",
            ToolClass::Read,
            schema(json!({"files": {"type": "array", "items": text()}}), &[]),
            paths(&[input("files", true, false)]),
        ),
        ("echo", ToolClass::Read, schema(json!({"text": text()}), &["text"]), PathInputs::default()),
    ]
}

fn load(text: &str) -> Result<Policies, Vec<PolicyProblem>> {
    let tools = tools();
    let tools: Vec<PolicyTool<'_>> = tools
        .iter()
        .map(|(name, class, schema, paths)| PolicyTool {
            name,
            class: *class,
            schema: schema.as_object().unwrap(),
            paths,
        })
        .collect();
    Policies::load(&[PolicySource { file: "org.cedar", text }], &tools)
}

fn shown(problems: &[PolicyProblem]) -> String {
    problems.iter().map(|problem| format!("    {problem}\n")).collect()
}

fn real(paths: &[(&str, &[&str])]) -> CallPaths {
    let mut real = CallPaths::default();
    for (argument, places) in paths {
        real.add(
            PathSource::Argument((*argument).to_owned()),
            places.iter().map(|place| (*place).to_owned()).collect(),
        );
    }
    real
}

fn decide(policies: &Policies, tool: &str, input: &Value, paths: Option<&CallPaths>) -> PolicyDecision {
    let caller = caller(None, &[]);
    policies.decide(
        tool,
        &CallFacts { caller: &caller, held: HeldPermissions::Everything, input, paths, calls: 0 },
    )
}

#[test]
fn a_rule_sees_where_a_path_leads_and_nothing_of_its_text() {
    let policies = load(
        "forbid(principal, action == Action::\"read\", resource) when { context.input.path in Path::\"@project/secrets\" };
         forbid(principal, action == Action::\"read\", resource) when { context.input.path.location like \"*.pem\" };",
    )
    .unwrap_or_else(|problems| panic!("{}", shown(&problems)));
    for (text, place, allowed) in [
        ("anything", "@project/secrets/x", false),
        ("anything", "@project/secrets", false),
        ("anything", "@project/secrets/a/b/c", false),
        ("anything", "@project/a/key.pem", false),
        ("secrets/x", "@project/public/x", true),
        ("@project/secrets/x", "@project/secretsx", true),
        ("secrets/key.pem", "@other/secrets/x", true),
    ] {
        let paths = real(&[("path", &[place])]);
        let decision = decide(&policies, "read", &json!({"path": text}), Some(&paths));
        assert_eq!(decision.is_allowed(), allowed, "{text} at {place}: {decision:?}");
    }
    // A path that could not be resolved is denied, whatever its text.
    for paths in [None, Some(CallPaths::default()), Some(real(&[("other", &["@project/a"])]))] {
        assert!(!decide(&policies, "read", &json!({"path": "a"}), paths.as_ref()).is_allowed(), "{paths:?}");
    }
    assert!(decide(&policies, "echo", &json!({"text": "secrets/x"}), None).is_allowed(), "not about paths");
}

#[test]
fn a_file_in_a_mount_that_lies_in_another_is_meant_by_both_names() {
    let rule = |place: &str| {
        load(&format!(
            "forbid(principal, action, resource) when {{ context has path && context.path in Path::\"{place}\" }};"
        ))
        .unwrap_or_else(|problems| panic!("{}", shown(&problems)))
    };
    let paths = real(&[("path", &["@inner/x", "@project/inner/x"])]);
    for (place, allowed) in [
        ("@inner", false),
        ("@inner/x", false),
        ("@project/inner", false),
        ("@project/inner/x", false),
        ("@project", false),
        ("@project/x", true),
        ("@inner/inner", true),
    ] {
        let decision = decide(&rule(place), "read", &json!({"path": "x"}), Some(&paths));
        assert_eq!(decision.is_allowed(), allowed, "{place}");
    }
}

#[test]
fn every_path_of_a_call_is_asked_about() {
    let forbid = load("forbid(principal, action, resource) when { context has path && context.path in Path::\"@project/secrets\" };").unwrap();
    let permit = load("permit(principal, action, resource) when { context has path && context.path in Path::\"@project/src\" };").unwrap();
    let (src, secret, other): (&[&str], &[&str], &[&str]) =
        (&["@project/src/a"], &["@project/secrets/a"], &["@project/b"]);
    let moved = json!({"from": "a", "to": "b"});
    for (tool, input, paths, forbidden, permitted) in [
        ("move", &moved, real(&[("from", src), ("to", src)]), false, true),
        ("move", &moved, real(&[("from", src), ("to", secret)]), true, false),
        ("move", &moved, real(&[("from", secret), ("to", src)]), true, false),
        ("move", &moved, real(&[("from", src), ("to", other)]), false, false),
        ("patch", &json!({"patch": "…"}), real(&[("patch/0", src), ("patch/1", secret)]), true, false),
        ("patch", &json!({"patch": "…"}), real(&[("patch/0", src)]), false, true),
        ("patch", &json!({"patch": "…"}), real(&[]), true, false),
        ("lint", &json!({"files": ["a", "b"]}), real(&[("files/0", src), ("files/1", secret)]), true, false),
        ("lint", &json!({"files": []}), real(&[]), false, false),
        ("list", &json!({}), real(&[("path", secret)]), true, false),
        ("list", &json!({}), real(&[]), true, false),
    ] {
        let decision = |policies| decide(policies, tool, input, Some(&paths)).is_allowed();
        assert_eq!((!decision(&forbid), decision(&permit)), (forbidden, permitted), "{tool} {paths:?}");
    }
}

#[test]
fn a_condition_sees_paths_too() {
    let (_, _, schema, paths) = tools().swap_remove(2);
    let typing = || ToolTyping::of(&schema).with_paths(&paths);
    let caller = caller(None, &[]);
    let input = json!({"from": "secrets/x", "to": "b"});
    let holds = |text: &str, real: Option<&CallPaths>| {
        let condition =
            Condition::compile_for(text, typing()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(condition.needs_paths(), text.contains("Path::"), "{text}");
        condition.holds(&CallFacts {
            caller: &caller,
            held: HeldPermissions::default(),
            input: &input,
            paths: real,
            calls: 0,
        })
    };
    let away = real(&[("from", &["@project/a"]), ("to", &["@project/secrets/y"])]);
    for (text, expected) in [
        ("input.from in Path::\"@project/secrets\"", false),
        ("input.to in Path::\"@project/secrets\"", true),
        ("path in Path::\"@project/secrets\"", true),
        ("path in Path::\"@other\"", false),
        ("session.calls > 3", false),
    ] {
        assert_eq!(holds(text, Some(&away)), Ok(expected), "{text}");
        assert_eq!(holds(text, None).is_ok(), !text.contains("Path::"), "{text} without its paths");
    }
}

/// The remedy for a list works.
#[test]
fn a_condition_sees_each_path_of_a_list() {
    let (_, _, schema, paths) = tools().swap_remove(4);
    let text = "context has path && path in Path::\"@project/secrets\"";
    let condition = Condition::compile_for(text, ToolTyping::of(&schema).with_paths(&paths));
    let condition = condition.unwrap_or_else(|error| panic!("{error} {:?}", error.help));
    let caller = caller(None, &[]);
    let (src, secret): (&[&str], &[&str]) = (&["@project/src/a"], &["@project/secrets/a"]);
    for (input, real, expected) in [
        (json!({"files": ["a", "b"]}), real(&[("files/0", src), ("files/1", secret)]), true),
        (json!({"files": ["a"]}), real(&[("files/0", src)]), false),
        (json!({"files": []}), real(&[]), false),
        (json!({}), real(&[]), false),
    ] {
        let facts = CallFacts {
            caller: &caller,
            held: HeldPermissions::default(),
            input: &input,
            paths: Some(&real),
            calls: 0,
        };
        assert_eq!(condition.holds(&facts), Ok(expected), "{input}");
    }
}

#[test]
fn a_rule_about_the_text_of_a_path_is_refused_with_the_remedy() {
    let mut all = String::new();
    for clause in [
        "context.input.path like \"secrets/*\"",
        "context.input.path == \"secrets/x\"",
        "context.input.path != Path::\"@project/secrets/x\"",
        "[Path::\"@project/a\"].contains(context.input.path)",
        "context.input.path in Path::\"secrets\"",
        "context.input.path in [Path::\"@project/a\", Path::\"@project/b/../c\"]",
        "context.input.path in Path::\"@project/a/\"",
        "context.input.path.location like \"secrets/*\"",
        "context.input.path.location == \"secrets/x\"",
        "context.input.path.loc like \"*\"",
        "context.path like \"*secrets*\"",
        "context.input.path in Path::\"@Project/secrets\"",
        "context.input.path in Path::\"@docs\"",
        "context.input.path in Path::\"@project/a\\0b\"",
        "context.input.path in [Path::\"@project/a\", Path::\"@Project/b\"]",
        "context.input.path in (if context.session.calls > 3 then Path::\"@project/a\" else Path::\"@docs/b\")",
        "context.input.path.location like \"@project/./*\"",
        "context.input.path.location like \"@docs/*\"",
        "context.input.path.location like \"*/../*\"",
        "[\"@project/a\", \"secrets/x\"].contains(context.input.path.location)",
        "context.input.path.location == (if context.session.calls > 3 then \"@project/a\" else \"x\")",
        "(if context.session.calls > 3 then context.input.path.location else \"\") like \"secrets/*\"",
        "{a: context.input.path.location} == {a: \"@project/./b\"}",
        "{a: \"@Project/b\"}.a == context.input.path.location",
        "{a: context.input.path}.a == Path::\"@project/b\"",
    ] {
        let text = format!("forbid(principal, action == Action::\"read\", resource) when {{ {clause} }};");
        all += &format!("{clause}\n{}\n", shown(&load(&text).expect_err(clause)));
    }
    for clause in [
        "context.input has files && context.input.files.contains(Path::\"@project/a\")",
        "context.input has files && context.input.files in Path::\"@project/a\"",
    ] {
        let sets = format!("forbid(principal, action == Action::\"lint\", resource) when {{ {clause} }};");
        all += &format!("{clause}\n{}\n", shown(&load(&sets).unwrap_err()));
    }
    let (_, _, schema, paths) = tools().swap_remove(4);
    for condition in [
        "input has files && input.files.contains(Path::\"@project/a\")",
        "path in Path::\"@project/secrets\"",
        "input has files && input.files in Path::\"@project/a\"",
        "context has path && path in Path::\"@docs\"",
    ] {
        let error =
            Condition::compile_for(condition, ToolTyping::of(&schema).with_paths(&paths)).unwrap_err();
        all += &format!("{condition}\n    {error}; {}\n", error.help.clone().unwrap_or_default());
    }
    let (_, _, schema, paths) = tools().swap_remove(0);
    for condition in [
        "input.path like \"secrets/*\"",
        "input.path == \"x\"",
        "input.path == Path::\"@project/x\"",
        "path in Path::\"secrets\"",
    ] {
        let error =
            Condition::compile_for(condition, ToolTyping::of(&schema).with_paths(&paths)).unwrap_err();
        all += &format!("{condition}\n    {error}; {}\n", error.help.clone().unwrap_or_default());
    }
    insta::assert_snapshot!("refused_paths", all);
}

#[test]
fn examples_of_rules_mean_the_places_that_they_spell() {
    let rule = |example: &str| {
        let example = example.replace('"', "\\\"");
        load(&format!(
            "@denies(\"{example}\") forbid(principal, action, resource) when {{ context has path && context.path in Path::\"@project/secrets\" }};"
        ))
    };
    for example in [
        "read {\"path\": \"secrets/x\"}",
        "read {\"path\": \"./a/../secrets/x\"}",
        "read {\"path\": \"@project/secrets\"}",
        "move {\"from\": \"a\", \"to\": \"secrets/b\"}",
        "lint {\"files\": [\"a\", \"secrets/b\"]}",
    ] {
        assert!(rule(example).is_ok(), "{example}: {}", shown(&rule(example).unwrap_err()));
    }
    for example in
        ["read {\"path\": \"a\"}", "list {}", "patch {\"patch\": \"x\"}", "read {\"path\": \"/etc\"}"]
    {
        assert!(rule(example).is_err(), "{example}");
    }
}
