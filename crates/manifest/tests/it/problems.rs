//! Every file in `bad/` has problems; one snapshot holds what an operator sees of each.

use std::path::PathBuf;

use toolgate_manifest::{Config, ConfigProblems};

fn bad_files() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/bad");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn problems_of(file: &PathBuf) -> ConfigProblems {
    let label = file.file_name().unwrap().to_str().unwrap();
    Config::parse_bytes(label, &std::fs::read(file).unwrap()).expect_err(label)
}

#[test]
fn every_bad_file_is_explained() {
    let files = bad_files();
    assert!(files.len() >= 25, "only {} cases were found", files.len());
    let told: Vec<String> = files.iter().map(|file| problems_of(file).render()).collect();
    insta::assert_snapshot!("bad_files", told.join("\n"));
}

#[test]
fn problems_have_a_form_for_programs() {
    let problems = Config::parse("toolgate.yaml", "trust: guided\nlimit: {}\n\"<<\": 1").unwrap_err();
    let json = serde_json::to_string_pretty(&problems).unwrap();
    insta::assert_snapshot!("json", json);
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let text = format!("#{}\n", "x".repeat(1 << 20));
    let problems = Config::parse("toolgate.yaml", &text).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "toolgate.yaml:1:1: the file has 1048578 bytes and at most 1048576 are read"
    );
}

#[test]
fn unknown_tools_are_reported_with_the_nearest() {
    let text = "agents:\n  sm:\n    tool_permissions:\n      raed_file: {allowed: true}\n      \
                read_file: {allowed: true}\n      launch: {allowed: false}\n";
    let config = Config::parse("toolgate.yaml", text).unwrap();
    let told: String =
        config.check_tools(&["read_file", "write_file"]).iter().map(|problem| problem.render()).collect();
    insta::assert_snapshot!("unknown_tools", told);
    assert!(config.check_tools(&["raed_file", "read_file", "launch"]).is_empty());
}

#[test]
fn unknown_wires_are_reported_with_those_that_exist() {
    let text = "models:\n  near: {wire: grpc}\n  far: {wire: ollama}\n";
    let parsed = || Config::parse("toolgate.yaml", text).unwrap();
    let problems = parsed().require_wires(&["anthropic", "ollama"]).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "toolgate.yaml:2:16: `grpc` is not a wire — use `anthropic` or `ollama`"
    );
    assert!(parsed().require_wires(&["grpc", "ollama"]).is_ok());
}

#[test]
fn later_checks_can_point_into_the_file() {
    let config = Config::parse("toolgate.yaml", "# first\nworkspace: ./gone\n").unwrap();
    let problem = config.problem_at(config.workspace.as_ref().unwrap(), "no such folder", None);
    assert_eq!(
        problem.render(),
        "toolgate.yaml:2:12: no such folder\n 2 | workspace: ./gone\n   |            ^^^^^^\n"
    );
}
