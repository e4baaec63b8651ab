//! Snapshots of what a user or a model sees.

use insta::assert_snapshot;

use crate::scratch::{Scratch, within_a_day};
use crate::volatile::settled;

const PROFILES: [&str; 6] = ["native", "crew", "claw", "proxy", "sidecar", "studio"];

fn shown(command: &str) -> String {
    Scratch::new().shown(command)
}

#[test]
fn help() {
    assert_snapshot!("help", shown("toolgate --help"));
    assert_snapshot!("help-short", shown("toolgate -h"));
    assert_snapshot!("help-call", shown("toolgate call --help"));
    for command in [
        "tools",
        "tools new",
        "check",
        "trust",
        "grants",
        "grants revoke",
        "run",
        "chat",
        "scripted",
        "sessions",
        "sessions list",
        "sessions show",
        "sessions resume",
        "sessions export",
        "sessions delete",
        "mcp",
        "mcp install",
        "mcp uninstall",
        "mcp import",
        "mcp list",
        "mcp approve",
        "serve",
        "token mint",
        "audit",
        "changes",
        "undo",
        "doctor",
        "models",
        "eval",
        "eval hostile",
        "man",
        "completions",
    ] {
        let help = shown(&format!("toolgate {command} -h"));
        // The global options are in the snapshots above.
        let own = help.split("\nCommon options:").next().unwrap().to_owned();
        assert_snapshot!(format!("help-{}", command.replace(' ', "-")), own);
    }
}

#[test]
fn tools() {
    for profile in PROFILES {
        assert_snapshot!(format!("tools-{profile}"), shown(&format!("toolgate --profile {profile} tools")));
        for format in ["openai", "anthropic", "ollama", "mcp"] {
            let command = format!("toolgate --profile {profile} tools --format {format}");
            assert_snapshot!(format!("tools-{profile}-{format}"), shown(&command));
        }
    }
}

/// A small environment with some of everything.
fn furnished() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("notes.md", "# Shopping\n\n- apples\n- pears\n");
    scratch.write(".env", "API_KEY=nobody-should-read-this\n");
    scratch.write("broken.yaml", "profle: native\ntrust: gided\nlimits: {timeout: 30}\n");
    scratch.write("agents.yaml", "agents: {reviewer: {}}\n");
    scratch
}

fn transcript(commands: &[&str]) -> String {
    within_a_day(|| {
        let scratch = furnished();
        let shown = |command: &&str| format!("$ {command}\n{}\n", settled(&scratch.shown(command)));
        commands.iter().map(shown).collect()
    })
}

#[test]
fn mistakes_of_usage_and_configuration() {
    assert_snapshot!(
        "usage",
        transcript(&[
            "toolgate",
            "toolgate call",
            "toolgate cal read_file",
            "toolgate call --jsn read_file",
            "toolgate call read_file '{path: notes.md}'",
            "echo '{' | toolgate call read_file -",
            "toolgate --profile nativ tools",
            "toolgate --trust full tools",
            "toolgate --agent reviewer tools",
            "toolgate --config agents.yaml --agent reviewr tools",
            "toolgate --config missing.yaml tools",
            "toolgate --config broken.yaml tools",
            "toolgate --config agents.yaml --no-config tools",
            "cp agents.yaml toolgate.yaml && toolgate tools",
            "env -u HOME toolgate tools; rm toolgate.yaml",
            "toolgate check broken.yaml agents.yaml",
            "toolgate check --json broken.yaml",
            "toolgate check",
            "toolgate check missing.yaml",
            "toolgate --mount docs=. tools",
            "toolgate --mount @docs=missing:ro tools",
            "toolgate --mount @project=. tools",
            "toolgate --workspace notes.md tools",
            "toolgate --state-dir notes.md tools",
            "toolgate --run ../x tools",
            "toolgate tools --format yaml",
            "toolgate undo --call 1",
            "toolgate audit show --since yesterday",
            "toolgate audit show --decision maybe",
            "toolgate audit verify --public-key nonsense",
            "env -u HOME toolgate tools",
        ])
    );
}

#[test]
fn calls_that_are_not_done() {
    assert_snapshot!(
        "refusals",
        transcript(&[
            "toolgate call raed_file",
            "toolgate call nonsense",
            "toolgate call read_file",
            r#"toolgate call read_file '{"path": 5, "lines": 3}'"#,
            r#"toolgate call read_file '{"path": ""}'"#,
            r#"toolgate call read_file '{"path": "missing.md"}'"#,
            r#"toolgate call read_file '{"path": ".env"}'"#,
            r#"toolgate call read_file '{"path": "/etc/passwd"}'"#,
            r#"toolgate call read_file '{"path": "@docs/x"}'"#,
            r#"toolgate call read_file '{"path": "notes.md", "start_line": 9}'"#,
            r#"toolgate call edit_file '{"path": "notes.md", "old_text": "figs", "new_text": "plums"}'"#,
            r#"toolgate call edit_file '{"path": "notes.md", "old_text": "- ", "new_text": "* "}'"#,
            r#"toolgate call move_file '{"from": "notes.md", "to": "broken.yaml"}'"#,
            r#"toolgate call --trust guided delete_file '{"path": "notes.md"}'"#,
            r#"toolgate --config agents.yaml --agent reviewer call delete_file '{"path": "notes.md"}'"#,
            r#"toolgate -q call read_file '{"path": "missing.md"}'"#,
            "toolgate undo",
            "toolgate undo --call 01a1ddbb-88ae-7635-ae6c-503d3927592a",
            "toolgate changes",
        ])
    );
}

#[test]
fn a_record_that_was_tampered_with() {
    let log = "~/.local/state/toolgate/audit/20*.jsonl";
    assert_snapshot!(
        "audit",
        transcript(&[
            "toolgate audit show",
            "toolgate audit verify",
            r#"toolgate call read_file '{"path": "notes.md"}'"#,
            r#"toolgate -q call read_file '{"path": ".env"}'"#,
            "toolgate audit show",
            "toolgate audit show --decision error",
            "toolgate audit verify",
            &format!("sed -i 's/DENIED/ALLOWED/' {log}"),
            "toolgate audit verify",
            "toolgate audit verify --json",
        ])
    );
}
