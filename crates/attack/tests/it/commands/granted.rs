//! Commands of an agent with a restricted grant.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolgate_attack::{Tree, code_of, person};
use toolgate_gate::ApprovalReply;
use toolgate_tools::Profile;
use toolgate_types::{Caller, ErrorCode, Trust};

use super::{Desk, MAKER, holding, native, structured};
use crate::approval::Scripted;

#[test]
fn an_agent_sees_only_the_paths_that_it_was_granted() {
    const AGENTS: &str = "agents: {writer: {tool_permissions: {run_command: {allowed: true, paths: ['docs/**']}}}, reader: {}}";
    let desk = Desk::with(Profile::NATIVE, |options| options.config(AGENTS));
    desk.write("docs/a.txt", "granted\n");
    desk.write("other/b.txt", "withheld\n");
    let caller = |agent: &str| Caller { agent: Some(agent.parse().unwrap()), ..person("s1") };
    let run =
        |agent: &str, line: &str| desk.bench.call_as(caller(agent), desk.tool, json!({"command": line}));
    let before = Tree::of(&desk.workspace);
    // In one stream: the order of two is not deterministic.
    let line = "exec 2>&1; cat docs/a.txt; cat other/b.txt; echo done > /tmp/x && cat /tmp/x";
    let (text, _) = native(&run("writer", line));
    assert!(
        text.starts_with("granted\n") && text.ends_with("done\n") && !text.contains("withheld"),
        "{text}"
    );
    // A grant consists of names, and a process that can write can rename: nothing is changed, not even what was granted.
    for line in [
        "echo x > other/b.txt",
        "echo y > docs/c.txt",
        "echo y >> docs/a.txt",
        "mv docs other/docs",
        "mkdir -p new && echo z > new/z.txt",
        "ln -s ../other docs/link",
        "chmod 600 docs/a.txt",
    ] {
        let (text, answer) = native(&run("writer", line));
        assert_ne!(answer["exit_code"], 0, "{line}: {text}");
        assert_eq!(answer["denied"][0]["what"], "write", "{line}: {answer}");
        assert!(
            text.contains("this agent was granted only some files, so its commands run read-only"),
            "{text}"
        );
        assert!(before.differences(&Tree::of(&desk.workspace)).is_empty(), "{line}");
    }
    assert_eq!(code_of(&run("reader", "true")), Some(ErrorCode::NotPermitted));
    // A caller without restrictions can change files.
    native(&desk.run("echo y > docs/c.txt"));
    assert_eq!(std::fs::read_to_string(desk.workspace.join("docs/c.txt")).unwrap(), "y\n");
}

#[test]
fn whoever_is_asked_about_an_agent_of_some_files_reads_that_nothing_changes() {
    const AGENTS: &str =
        "agents: {writer: {tool_permissions: {run_command: {allowed: true, paths: ['docs/**']}}}}";
    let approver = Scripted::new([ApprovalReply::Denied(None)]);
    let asked = Arc::clone(&approver);
    let desk = Desk::with(Profile::NATIVE, |options| {
        options.config(AGENTS).approver(approver, Duration::from_secs(30))
    });
    let caller = Caller { agent: Some("writer".parse().unwrap()), trust: Trust::Guided, ..person("s1") };
    desk.bench.call_as(caller, desk.tool, json!({"command": "ls"}));
    assert_eq!(
        asked.asked().remove(0).preview.summary,
        [
            "run in @project",
            "may change nothing: this agent was granted only some files, so its commands run read-only",
            "network: none"
        ]
    );
}

#[test]
fn a_declared_tool_changes_nothing_for_an_agent_of_some_files() {
    const AGENTS: &str = "agents: {worker: {tool_permissions: {make_file: {allowed: true, paths: ['docs/**']}}}, whole: {tool_permissions: {make_file: {allowed: true}}}}";
    let maker = MAKER.replace("cwd: \"@project\"", "cwd: \"@project\"\nmounts: [\"@project:rw\"]");
    let maker = maker.replace("touch \"$1\"; printf", "touch \"$1\" && printf");
    let desk = Desk::with(Profile::PROXY, |options| options.manifest(&maker).config(AGENTS));
    let caller = |agent: &str| Caller { agent: Some(agent.parse().unwrap()), ..holding(&["files:write"]) };
    let call =
        |agent: &str| desk.bench.call_as(caller(agent), "make_file", json!({"name": "made", "note": "x"}));
    let called = call("worker");
    assert_eq!(code_of(&called), Some(ErrorCode::CommandFailed), "{}", called.answer.text);
    let error = structured(&called)["error"].clone();
    assert!(error.to_string().contains("its commands run read-only"), "{error}");
    assert!(!desk.workspace.join("made").exists());
    assert_eq!(code_of(&call("whole")), None);
    assert!(desk.workspace.join("made").exists());
}
