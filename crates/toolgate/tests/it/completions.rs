//! What the shell's completion offers: names of the configuration, and ids of the state directory.

use std::process::Output;

use serde_json::json;

use crate::fixture::CliFixture;

/// What bash would offer for the last word of a line.
pub(crate) fn offered(place: &CliFixture, line: &[&str]) -> Vec<String> {
    let output = asked(place, line);
    assert!(output.status.success() && output.stderr.is_empty(), "{line:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn asked(place: &CliFixture, line: &[&str]) -> Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_toolgate"));
    command.current_dir(&place.workspace).env("HOME", &place.home).env("XDG_STATE_HOME", place.state_home());
    command.env("TOOLGATE_COMPLETE", "bash").arg("--").args(line);
    command.output().unwrap()
}

#[test]
fn tools_agents_servers_and_ids_are_offered() {
    let place = CliFixture::new();
    let state = place.state.to_str().unwrap();
    place.write(
        "toolgate.yaml",
        "agents: {reviewer: {}, writer: {}}\nmcp_servers: {files: {command: cat}, issues: {command: cat}}\n",
    );
    let config = place.scratch.path().join("toolgate.yaml");
    let options = ["--config", config.to_str().unwrap(), "--state-dir", state];
    let with = |words: &[&'static str]| -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        options.iter().map(|word| (*word).to_owned()).chain(words).collect()
    };
    let ask = |words: &[&'static str]| {
        let line = with(words);
        offered(&place, &line.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(ask(&["call", "re"]).contains(&"read_file".to_owned()));
    assert!(!ask(&["call", "re"]).contains(&"edit_file".to_owned()));
    assert_eq!(ask(&["tools", "--agent", "rev"]), ["reviewer"]);
    assert_eq!(ask(&["--trust", "gui"]), ["guided"]);
    assert_eq!(ask(&["mcp", "logs", ""]), ["files", "issues"]);
    assert_eq!(ask(&["mcp", "logs", "i"]), ["issues"]);
    assert!(!place.state.join("audit").exists(), "a question creates nothing");
    let (code, read) = place.call("read_file", &json!({"path": "missing"}));
    assert_eq!(code, 1);
    place.call("write_file", &json!({"path": "a.txt", "content": "a"}));
    let records = place.records();
    let [read_call, write_call] = [&records[0], &records[1]].map(|record| record.trace_id.to_string());
    assert_eq!(read["call"], json!(read_call), "{read}");
    let calls = ask(&["audit", "show", "--call", ""]);
    assert!(calls.contains(&read_call) && calls.contains(&write_call), "{calls:?}");
    let changes = ask(&["undo", "--call", ""]);
    assert!(!changes.contains(&read_call) && changes.contains(&write_call), "{changes:?}");
}

/// A configuration that was found and not agreed to gives no names, and nothing is asked or said.
#[test]
fn a_found_configuration_counts_only_if_it_was_agreed_to() {
    let place = CliFixture::new();
    std::fs::write(place.workspace.join("toolgate.yaml"), "agents: {evil: {}}\n").unwrap();
    let offered = offered(&place, &["tools", "--agent", ""]);
    assert!(!offered.contains(&"evil".to_owned()), "{offered:?}");
}

/// In a real bash, with the script that it would read.
#[test]
fn bash_completes_with_the_script() {
    let place = CliFixture::new();
    for shell in ["bash", "fish", "zsh"] {
        assert!(place.must(&["completions", shell]).contains("TOOLGATE_COMPLETE"), "{shell}");
    }
    for shell in ["elvish", "powershell"] {
        assert!(place.must(&["completions", shell]).contains("audit"), "{shell}");
    }
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_toolgate")).parent().unwrap().to_owned();
    let line = "source <(toolgate completions bash); COMP_WORDS=(toolgate audit sh); COMP_CWORD=2; _toolgate; echo \"${COMPREPLY[@]}\"; \
                complete -p toolgate";
    let mut command = std::process::Command::new("bash");
    command.args(["--noprofile", "--norc", "-c", line]).env("HOME", &place.home);
    command.env("PATH", format!("{}:/usr/bin:/bin", binary.display()));
    let output = command.output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.starts_with("show\ncomplete -o bashdefault -o default -F _toolgate toolgate"), "{shown}");
}
