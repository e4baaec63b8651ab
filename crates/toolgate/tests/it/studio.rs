//! A conversation in the profile `studio`: two zones, permissions of an agent, and a violation that ends it. In `proxy` a violation is answered.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use toolgate_types::Decision;

use crate::fixture::CliFixture;
use crate::running::events;

/// Permissions as a studio declares them, and a second, writable zone.
const CONFIG: &str = "
profile: studio
mounts:
  '@central': {path: c, access: rw}
agents:
  dev:
    tool_permissions:
      file_read: {allowed: true}
      file_write: {allowed: true, paths: ['src/**', '_bmad-output/**']}
      bash: {allowed: true, timeout: 60s}
  analyst: {}
";

struct Studio(CliFixture);

impl Studio {
    fn new() -> Self {
        let place = CliFixture::new();
        place.write("toolgate.yaml", CONFIG);
        let _central = place.scratch.folder("c");
        Self(place)
    }

    /// Runs a task with a scripted model, without a terminal.
    fn task(&self, agent: &str, steps: &str, options: &[&str]) -> Output {
        self.0.write("script.yaml", &format!("steps:\n{steps}"));
        let mut command = Command::new("setsid");
        command.arg("--wait").arg(env!("CARGO_BIN_EXE_toolgate"));
        let mut command = self.0.beneath(command);
        command.args(["run", "do it", "--json", "--trust", "autonomous", "--agent", agent]);
        command.args(["--model", "scripted/script.yaml"]).args(options);
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// The content of a file in either zone.
    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.0.scratch.path().join(path)).ok()
    }
}

/// The result of each call, as `tool status code`, and the end of the turn.
fn told(output: &Output) -> Vec<String> {
    let of_event = |event: &Value| {
        let data = &event["data"];
        let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        match event["event"].as_str().unwrap() {
            "chat:tool-result" => Some(format!(
                "{} {} {}",
                word(&data["toolName"]),
                word(&data["status"]),
                word(&data["metadata"]["code"])
            )),
            "chat:stream-end" => Some(word(&data["reason"])),
            _ => None,
        }
    };
    events(output).iter().filter_map(of_event).collect()
}

fn write(path: &str) -> String {
    format!("- calls: [{{tool: file_write, arguments: {{path: '{path}', content: made}}}}]\n")
}

#[test]
fn paths_hold_in_both_zones_and_commands_see_both() {
    let studio = Studio::new();
    let steps = [
        write("src/a.txt"),
        write("_bmad-output/deep/b.md"),
        write("@central/src/c.txt"),
        write("@project/src/d.txt"),
        "- calls: [{tool: bash, arguments: {command: 'cat src/a.txt /mnt/central/src/c.txt > src/both'}}]\n"
            .to_owned(),
        "- calls: [{tool: file_read, arguments: {path: src/both}}]\n".to_owned(),
        "- when: {result: file_read, contains: mademade}\n  say: Done.\n- say: 'Wrong: {{last_result}}'\n"
            .to_owned(),
    ];
    let output = studio.task("dev", &steps.concat(), &[]);
    let mut expected = vec!["file_write success -"; 4];
    expected.extend(["bash success -", "file_read success -", "done"]);
    assert_eq!(told(&output), expected, "{output:?}");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(events(&output).last().unwrap()["data"]["text"], "Done.");
    for path in ["w/src/a.txt", "w/_bmad-output/deep/b.md", "c/src/c.txt", "w/src/d.txt"] {
        assert_eq!(studio.read(path).as_deref(), Some("made"), "{path}");
    }
}

#[test]
fn a_trespass_ends_the_conversation_and_nothing_follows() {
    for (path, code) in [
        ("Makefile", "out_of_scope"),
        ("@central/other.txt", "out_of_scope"),
        ("src/../Makefile", "out_of_scope"),
        ("../c/src/x.txt", "outside_workspace"),
        ("/etc/hostname", "outside_workspace"),
        ("src/link/x.txt", "symlink_outside_workspace"),
        ("src/.env", "denied_path"),
    ] {
        let studio = Studio::new();
        std::fs::create_dir(studio.0.workspace.join("src")).unwrap();
        std::os::unix::fs::symlink("/tmp", studio.0.workspace.join("src/link")).unwrap();
        // A second call in the same step, and a second step.
        let both = format!(
            "- calls:\n  - {{tool: file_write, arguments: {{path: '{path}', content: x}}}}\n  \
             - {{tool: file_write, arguments: {{path: src/after.txt, content: x}}}}\n- say: Not said.\n"
        );
        let output = studio.task("dev", &both, &[]);
        let told = told(&output);
        assert_eq!(told.first().unwrap(), &format!("file_write error {code}"), "{path}: {output:?}");
        assert_eq!(told.last().unwrap(), "violation", "{path}");
        assert_eq!(output.status.code(), Some(3), "{path}");
        assert_eq!(studio.read("w/src/after.txt"), None, "{path}: nothing follows");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("Not said"), "{path}");
        let records = studio.0.records();
        assert_eq!(records.first().unwrap().decision, Decision::Denied, "{path}");
        assert!(!records.iter().any(|record| record.decision == Decision::Allowed), "{path}");
    }
}

#[test]
fn an_operator_can_let_the_model_go_on() {
    let studio = Studio::new();
    studio.0.write("toolgate.yaml", &format!("on_violation: answer\n{CONFIG}"));
    let output = studio.task("dev", &format!("{}- say: I see.\n", write("Makefile")), &[]);
    assert_eq!(told(&output), ["file_write error out_of_scope", "done"]);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn an_agent_has_its_own_tools_alone_and_a_tool_that_it_has_not_is_no_trespass() {
    let studio = Studio::new();
    let names = |agent: &str| {
        let told: Value =
            serde_json::from_str(&studio.0.must(&["--agent", agent, "tools", "--format", "anthropic"]))
                .unwrap();
        told.as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("dev"), ["file_read", "file_write", "bash"]);
    assert_eq!(names("analyst"), ["file_read"]);
    let steps = "- calls: [{tool: bash, arguments: {command: 'touch src'}}]\n- say: I see.\n";
    let output = studio.task("analyst", steps, &[]);
    assert_eq!(told(&output), ["bash error not_permitted", "done"], "{output:?}");
}

#[test]
fn no_call_extends_the_time_that_a_permission_gives_to_commands() {
    let studio = Studio::new();
    studio.0.write("toolgate.yaml", &CONFIG.replace("timeout: 60s", "timeout: 1s"));
    let steps =
        "- calls: [{tool: bash, arguments: {command: 'sleep 600', timeout_ms: 600000}}]\n- say: I see.\n";
    let output = studio.task("dev", steps, &[]);
    assert_eq!(told(&output), ["bash error timeout", "done"], "{output:?}");
}

/// The tools of `proxy` are commands; their path arguments are checked before they run.
#[test]
fn in_proxy_a_trespass_is_answered_unless_the_operator_says_otherwise() {
    for (on_violation, wanted, code) in [
        ("", vec!["read_file error denied_path", "done"], 0),
        ("on_violation: stop\n", vec!["read_file error denied_path", "violation"], 3),
    ] {
        let studio = Studio(CliFixture::new());
        let reader =
            "agents: {reader: {permissions: ['files:read'], tool_permissions: {read_file: {allowed: true}}}}";
        studio.0.write("toolgate.yaml", &format!("profile: proxy\n{on_violation}{reader}\n"));
        studio.0.write(".env", "KEY=secret");
        let steps = "- calls: [{tool: read_file, arguments: {path: .env}}]\n- say: I may not.\n";
        let output = studio.task("reader", steps, &[]);
        assert_eq!(told(&output), wanted, "{output:?}");
        assert_eq!(output.status.code(), Some(code));
        assert!(!String::from_utf8_lossy(&output.stdout).contains("KEY=secret"));
        assert!(!events(&output).last().unwrap()["data"]["text"].as_str().unwrap().is_empty());
    }
}
