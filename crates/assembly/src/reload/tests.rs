#![allow(clippy::disallowed_methods, reason = "tests arrange files by hand")]

use std::path::Path;

use tokio::runtime::Runtime;
use toolgate_gate::Gate;

use super::*;
use crate::gate_builder::GateBuildOptions;
use crate::servers::ServerSelection;
use crate::trust::TrustPrompt;

struct Running {
    folder: tempfile::TempDir,
    gate: Arc<Gate>,
    settings: Settings,
    reloader: Reloader,
}

fn manifest(name: &str) -> String {
    format!(
        "tool: {name}\ndescription: says a word\nclass: read\npermissions: []\ninput: {{properties: {{}}}}\ncommand: [echo, {name}]\npolicy: {{\"*\": allow}}\n"
    )
}

fn write(folder: &Path, name: &str, content: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

const CONFIG: &str = "workspace: w\nstate_dir: s\ntools: [tools.d]\npolicies: [rules]\n";

/// Without the default state directory of the user who runs the tests.
fn alone(settings: Settings) -> Settings {
    Settings { default_state_dir: None, ..settings }
}

impl Running {
    fn start() -> Self {
        Self::start_as(None, "")
    }

    /// Acts as an agent, with more lines in the configuration.
    fn start_as(agent: Option<&str>, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "toolgate.yaml", &format!("{CONFIG}{more}"));
        write(folder.path(), "tools.d/one.yaml", &manifest("one"));
        std::fs::create_dir(folder.path().join("rules")).unwrap();
        let config = Some(folder.path().join("toolgate.yaml"));
        let agent = agent.map(|agent| agent.parse().unwrap());
        let overrides = SettingsOverrides { config, agent, ..SettingsOverrides::default() };
        let settings = alone(
            crate::settings::resolve_settings(
                &overrides,
                Trust::Guided,
                HostEnvironment::detect().unwrap(),
                TrustPrompt::Never,
            )
            .unwrap(),
        );
        let seen = fingerprints(&settings);
        let built = gate_builder::build_gate(
            &settings,
            GateBuildOptions::without_servers(
                Arc::new(toolgate_gate::NoApprover { remedy: String::new() }),
                TokenVerification::Enabled,
            ),
        )
        .unwrap();
        let gate = Arc::clone(built.gate.gate());
        let reloader = Reloader::new(&overrides, &settings, &built, seen);
        Self { folder, gate, settings, reloader }
    }

    fn write(&self, name: &str, content: &str) {
        write(self.folder.path(), name, content);
    }

    /// The declared tools that the caller sees.
    fn tools(&self) -> Vec<String> {
        let built_in = self.settings.profile.tool_names();
        let tools = self.gate.visible_tools(&self.settings.caller);
        let names = tools.iter().map(|tool| tool.spec().name.as_str().to_owned());
        names.filter(|name| !built_in.contains(&name.as_str())).collect()
    }
}

#[test]
fn what_is_edited_holds_from_the_next_look() {
    let mut running = Running::start();
    assert_eq!(running.tools(), ["one"]);
    assert!(matches!(running.reloader.check(), ReloadOutcome::Unchanged));

    running.write("tools.d/two.yaml", &manifest("two"));
    assert!(matches!(running.reloader.check(), ReloadOutcome::Replaced { generation: 1 }));
    assert_eq!(running.tools(), ["one", "two"]);
    assert!(matches!(running.reloader.check(), ReloadOutcome::Unchanged));

    running.write("tools.d/two.yaml", &manifest("three"));
    assert!(matches!(running.reloader.check(), ReloadOutcome::Replaced { generation: 2 }));
    assert_eq!(running.tools(), ["one", "three"]);

    std::fs::remove_file(running.folder.path().join("tools.d/one.yaml")).unwrap();
    assert!(matches!(running.reloader.check(), ReloadOutcome::Replaced { generation: 3 }));
    assert_eq!(running.tools(), ["three"]);

    running.write("more.yaml", &manifest("four"));
    running.write("toolgate.yaml", &CONFIG.replace("[tools.d]", "[tools.d, more.yaml]"));
    assert!(matches!(running.reloader.check(), ReloadOutcome::Replaced { generation: 4 }));
    assert_eq!(running.tools(), ["three", "four"]);
}

#[test]
fn what_cannot_be_used_changes_nothing_and_is_told_once() {
    let mut running = Running::start();
    for (file, content, told) in [
        ("tools.d/one.yaml", "tool: one\n", "one.yaml:1"),
        ("tools.d/one.yaml", &manifest("read_file"), "read_file"),
        ("rules/bad.cedar", "forbid(principal, action, resource) when { nonsense };", "bad.cedar:1"),
        (
            "toolgate.yaml",
            "tools: [nowhere]\n",
            "`state_dir`, `audit.directory` cannot change while the gate runs",
        ),
        ("toolgate.yaml", "tool: [tools.d]\n", "unknown key"),
    ] {
        running.write(file, content);
        match running.reloader.check() {
            ReloadOutcome::Rejected(failed) => {
                assert!(failed.message.contains(told), "{file}: {}", failed.message)
            }
            other => panic!("{file}: {other:?}"),
        }
        assert_eq!(running.tools(), ["one"], "{file}");
        assert!(matches!(running.reloader.check(), ReloadOutcome::Unchanged), "{file} is told twice");
        // Restore the file, except for what is wrong now.
        if file.starts_with("tools.d") {
            running.write(file, &manifest("one"));
        }
    }
    std::fs::remove_file(running.folder.path().join("toolgate.yaml")).unwrap();
    assert!(matches!(running.reloader.check(), ReloadOutcome::Rejected(_)));
    assert_eq!(running.gate.generation(), 0);

    running.write("toolgate.yaml", CONFIG);
    running.write("tools.d/one.yaml", &manifest("mended"));
    std::fs::remove_file(running.folder.path().join("rules/bad.cedar")).unwrap();
    assert!(matches!(running.reloader.check(), ReloadOutcome::Replaced { generation: 1 }));
    assert_eq!(running.tools(), ["mended"]);
}

impl Running {
    /// The error code of a call; `None` if it succeeded.
    fn call(&self, tool: &str, arguments: serde_json::Value) -> Option<toolgate_types::ErrorCode> {
        let call = toolgate_types::ToolCall::new(tool, arguments);
        let calling = self.gate.call(call, self.settings.caller.clone(), Default::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        match runtime.block_on(calling).outcome {
            toolgate_types::Outcome::Done(_) => None,
            toolgate_types::Outcome::Failed { failure, .. } => Some(failure.code),
        }
    }
}

#[test]
fn a_trust_level_that_asks_more_counts_from_the_next_look_and_one_that_asks_less_does_not() {
    use serde_json::json;
    use toolgate_types::ErrorCode::ApprovalUnavailable;

    let mut running = Running::start();
    running.settings.caller.trust = Trust::Autonomous;
    let (write, list) = (json!({"path": "a", "content": "x"}), json!({}));
    for (said, writing, listing) in [
        ("", None, None),
        ("trust: guided\n", Some(ApprovalUnavailable), None),
        ("trust: supervised\ndeny: [x]\n", Some(ApprovalUnavailable), Some(ApprovalUnavailable)),
        ("# the same\ndeny: [y]\ntrust: supervised\n", Some(ApprovalUnavailable), Some(ApprovalUnavailable)),
        ("trust: autonomous\n", None, None),
    ] {
        running.write("toolgate.yaml", &format!("{CONFIG}{said}"));
        running.reloader.check();
        let found = (running.call("write_file", write.clone()), running.call("list_directory", list.clone()));
        assert_eq!(found, (writing, listing), "{said:?}");
    }
    // A caller with a stricter trust level keeps it.
    running.settings.caller.trust = Trust::Supervised;
    assert_eq!(running.call("list_directory", list), Some(ApprovalUnavailable));
}

#[test]
fn keys_that_count_after_a_restart_are_named_once() {
    let mut running = Running::start();
    for (said, told) in [
        ("approval: {timeout: 5s}\n", vec!["approval.timeout"]),
        (
            "approval: {timeout: 5s}\naudit: {on_failure: deny}\n",
            vec!["approval.timeout", "audit.on_failure"],
        ),
        ("serve: {listen: \"127.0.0.1:1\"}\ntrust: autonomous\n", vec!["serve.listen", "trust"]),
        ("retention: {undo: {max_bytes: 2GiB}}\n", vec!["retention.undo"]),
        ("trust: supervised\ndeny: [x]\nlimits: {max_entries: 5}\n", vec![]),
        ("", vec![]),
    ] {
        running.write("toolgate.yaml", &format!("{CONFIG}{said}"));
        assert!(matches!(running.reloader.check(), ReloadOutcome::Replaced { .. }), "{said:?}");
        assert_eq!(running.reloader.reported_keys, told, "{said:?}");
    }
}

#[test]
fn an_edit_that_removes_the_agent_counts_as_a_whole_and_its_calls_are_denied() {
    use serde_json::json;
    use toolgate_types::ErrorCode::{ApprovalUnavailable, DeniedPath, Unauthenticated};

    let with_agent = "agents: {night: {tool_permissions: {read_file: {allowed: true}}}}\n";
    let mut running = Running::start_as(Some("night"), with_agent);
    running.write("w/a.txt", "x");
    let agent = running.settings.caller.agent.clone();
    let read = |running: &Running| running.call("read_file", json!({"path": "a.txt"}));
    let as_person = |running: &mut Running| {
        running.settings.caller.agent = None;
        let found = read(running);
        running.settings.caller.agent = agent.clone();
        found
    };
    assert_eq!((read(&running), as_person(&mut running)), (None, None));
    // What is written together with the removal takes effect immediately: the denial, and then the trust level.
    for (rest, of_person) in
        [("deny: [a.txt]\n", Some(DeniedPath)), ("trust: supervised\n", Some(ApprovalUnavailable))]
    {
        running.write("toolgate.yaml", &format!("{CONFIG}{rest}"));
        assert!(matches!(running.reloader.check(), ReloadOutcome::Replaced { .. }), "{rest}");
        assert_eq!((read(&running), as_person(&mut running)), (Some(Unauthenticated), of_person), "{rest}");
    }
    running.write("toolgate.yaml", &format!("{CONFIG}{with_agent}"));
    running.reloader.check();
    assert_eq!(read(&running), None, "declared again");
}

/// A gate whose upstream servers are all dead, so that nothing has to be installed for them.
fn with_servers(folder: &Path, runtime: &Runtime) -> (AssembledGate, Reloader) {
    let overrides =
        SettingsOverrides { config: Some(folder.join("toolgate.yaml")), ..SettingsOverrides::default() };
    let settings = alone(
        crate::settings::resolve_settings(
            &overrides,
            Trust::Guided,
            HostEnvironment::detect().unwrap(),
            TrustPrompt::Never,
        )
        .unwrap(),
    );
    let seen = fingerprints(&settings);
    let servers = Some((ServerSelection::All, runtime.handle().clone()));
    let how = GateBuildOptions {
        servers,
        ..GateBuildOptions::without_servers(
            Arc::new(toolgate_gate::NoApprover { remedy: String::new() }),
            TokenVerification::Enabled,
        )
    };
    let built = gate_builder::build_gate(&settings, how).unwrap();
    let reloader = Reloader::new(&overrides, &settings, &built, seen);
    (built, reloader)
}

#[test]
fn servers_follow_the_file_and_stay_when_it_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let config = |rest: &str| write(folder.path(), "toolgate.yaml", &format!("{CONFIG}{rest}"));
    write(folder.path(), "tools.d/one.yaml", &manifest("one"));
    write(folder.path(), "rules/good.cedar", "forbid(principal, action == Action::\"one\", resource);");
    config("");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (built, mut reloader) = with_servers(folder.path(), &runtime);
    let servers = built.servers.as_deref().unwrap();
    let names = || servers.names().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(
        matches!(reloader.check(), ReloadOutcome::Unchanged),
        "there is no news before anything happened"
    );

    config("mcp_servers: {a: {command: \"false\"}, b: {command: \"false\", disabled: true}}\n");
    assert!(matches!(reloader.check(), ReloadOutcome::Replaced { .. }));
    assert_eq!(names(), ["a"]);

    // The error is found after the servers were asked for their tools.
    write(folder.path(), "rules/bad.cedar", "forbid(principal, action == Action::\"nothing\", resource);");
    config("mcp_servers: {c: {command: \"false\"}}\n");
    assert!(matches!(reloader.check(), ReloadOutcome::Rejected(_)));
    assert_eq!(names(), ["a"]);

    std::fs::remove_file(folder.path().join("rules/bad.cedar")).unwrap();
    assert!(matches!(reloader.check(), ReloadOutcome::Replaced { .. }));
    assert_eq!(names(), ["c"]);
    runtime.block_on(servers.close());
}
