//! Manifests become tools only if every check passes.

use serde_json::json;
use toolgate_manifest::ConfigProblem;
use toolgate_tools::{LoadedTools, ManifestContext, SHIPPED, load_manifests};

const MOUNTS: &[(&str, bool)] = &[("@project", true), ("@docs", false)];

fn load(files: &[(&str, &str)]) -> Result<LoadedTools, Vec<ConfigProblem>> {
    load_manifests(files, &ManifestContext { mounts: MOUNTS, ..ManifestContext::default() })
}

/// A valid manifest with this command, and more at its end.
fn manifest(command: &str, rest: &str) -> String {
    format!(
        "tool: t\ndescription: Something\nclass: read\npermissions: [a:b]\n\
         input: {{properties: {{count: {{type: integer, minimum: 0}}}}, required: [count]}}\n\
         command: {command}\noutput: {{parse: lines}}\npolicy: {{\"*\": allow}}\n{rest}\n"
    )
}

#[test]
fn the_shipped_manifests_are_good_and_leave_nothing_to_warn_about() {
    let loaded = load(SHIPPED).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert!(loaded.warnings.is_empty(), "{:#?}", loaded.warnings);
    let names: Vec<&str> = loaded.specs().map(|spec| spec.name.as_str()).collect();
    assert_eq!(
        names,
        ["list_files", "read_file", "search_code", "git_log", "git_diff", "git_show_file", "echo_message"]
    );
    for spec in loaded.specs() {
        assert_eq!(spec.class, toolgate_types::ToolClass::Read, "{}", spec.name);
        assert!(spec.requirements.is_some() && spec.output_policy.is_some(), "{}", spec.name);
        assert!(!json!(spec.input_schema).to_string().contains("x-toolgate"), "{}", spec.name);
        assert_eq!(spec.input_schema["additionalProperties"], false, "{}", spec.name);
    }
}

#[test]
fn each_problem_is_told_with_its_place() {
    for (what, command, rest, message) in [
        ("condition", "[ls]", "elevated: {when: input.cuont > 2, permissions: [x:y]}", "cuont"),
        ("condition that errs", "[ls]", "elevated: {when: input.count, permissions: [x:y]}", "elevated"),
        ("mount", "[ls]", "cwd: \"@nowhere\"", "`@nowhere` is not mounted"),
        ("writable", "[ls]", "mounts: [\"@docs:rw\"]", "`@docs` is mounted read-only"),
        (
            "allowed example",
            "[ls]",
            "examples: [{input: {count: 1}, caller: {permissions: []}, expect: allowed}]",
            "would be denied: `example` lacks permission `a:b`",
        ),
        ("denied example", "[ls]", "examples: [{input: {count: 1}, expect: denied}]", "would be allowed"),
        (
            "elevated example",
            "[ls]",
            "elevated: {when: input.count > 2, permissions: [x:y]}\nexamples: [{input: {count: 1}, expect: elevated}]",
            "does not hold",
        ),
        ("host", "[ls]", "network: [\"*.co.uk\"]", "everybody"),
    ] {
        let text = manifest(command, rest);
        let Err(problems) = load(&[("t.yaml", &text)]) else { panic!("{what} was accepted") };
        assert_eq!(problems[0].file, "t.yaml", "{what}");
        let shown = problems[0].render();
        assert!(problems[0].line >= 6, "{what}: {shown}");
        assert!(shown.contains(message), "{what}: {shown}");
    }
}

#[test]
fn output_rules_that_mean_nothing_are_told_with_their_place() {
    let text = manifest("[ls]", "").replace("\"*\": allow", "\"a*\": allow");
    let Err(problems) = load(&[("t.yaml", &text)]) else { panic!("accepted") };
    assert!(problems[0].message.contains("beside other characters"), "{problems:?}");
}

#[test]
fn names_are_taken_once_over_all_files() {
    let (one, other) = (manifest("[ls]", ""), manifest("[cat]", ""));
    let Err(problems) = load(&[("one.yaml", &one), ("other.yaml", &other)]) else { panic!("accepted") };
    assert_eq!(problems.len(), 1);
    assert_eq!((problems[0].file.as_str(), problems[0].line), ("other.yaml", 1));
    assert!(problems[0].help.as_ref().unwrap().contains("one.yaml:1"));
    let surroundings = ManifestContext { mounts: MOUNTS, taken: &["t"], ..ManifestContext::default() };
    let Err(problems) = load_manifests(&[("one.yaml", &one)], &surroundings) else { panic!("accepted") };
    assert!(problems[0].message.contains("already"));
}

#[test]
fn programs_that_are_not_allowed_are_refused_when_loaded() {
    let text = manifest("[ls]", "");
    let with = |allowed| ManifestContext {
        mounts: MOUNTS,
        allowed_commands: Some(allowed),
        ..ManifestContext::default()
    };
    assert!(load_manifests(&[("t.yaml", &text)], &with(&["git", "ls"])).is_ok());
    for allowed in [&["git"][..], &[], &["/bin/ls"]] {
        let Err(problems) = load_manifests(&[("t.yaml", &text)], &with(allowed)) else { panic!("accepted") };
        assert!(problems[0].message.contains("`ls` is not among `allowed_commands`"), "{problems:?}");
    }
}

#[test]
fn every_file_is_looked_at_before_anything_is_refused() {
    let (bad, twice) = (manifest("[ls]", "cwd: \"@nowhere\""), "tool: [\n".to_owned());
    let Err(problems) = load(&[("bad.yaml", &bad), ("broken.yaml", &twice)]) else { panic!("accepted") };
    let files: Vec<&str> = problems.iter().map(|problem| problem.file.as_str()).collect();
    assert!(files.contains(&"bad.yaml") && files.contains(&"broken.yaml"), "{files:?}");
}

#[test]
fn rates_are_handed_on() {
    let text = manifest("[ls]", "rate: {calls: 5, per: 1m}");
    let loaded = load(&[("t.yaml", &text)]).unwrap_or_else(|problems| panic!("{problems:?}"));
    let rates: Vec<(String, u32)> =
        loaded.rates().map(|(name, rate)| (name.to_string(), rate.calls.get())).collect();
    assert_eq!(rates, [("t".to_owned(), 5)]);
}
