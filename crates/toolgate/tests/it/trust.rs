//! Trust on first use: a found configuration has no effect before the user agreed to exactly its content.

mod clone;
mod served;

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use clone::{CANARY, Clone, PRIVATE, SHELL, tool};
use served::Served;

/// Commands with their exit codes, with a configuration that the user has not agreed to.
const COMMANDS: &[(&[&str], i32)] = &[
    (&["call", "list_directory"], 2),
    (&["tools"], 2),
    (&["tools", "new", "x", "--", "true"], 2),
    (&["check"], 0),
    (&["check", "toolgate.yaml"], 0),
    (&["check", "tools.d/shell.yaml"], 0),
    (&["trust"], 3),
    (&["trust", "--json"], 3),
    (&["trust", "--list"], 0),
    (&["trust", "--revoke"], 0),
    (&["run", "hello"], 2),
    (&["chat"], 2),
    (&["scripted", "missing.yaml"], 2),
    (&["mcp"], 2),
    (&["mcp", "install", "--client", "cursor", "--yes"], 2),
    (&["mcp", "uninstall", "--client", "cursor", "--yes"], 2),
    (&["mcp", "import", "client.json", "--write"], 2),
    (&["mcp", "list"], 2),
    (&["mcp", "approve", "--yes"], 2),
    (&["serve", "--listen", "127.0.0.1:0"], 2),
    (&["token", "mint", "--subject", "x"], 2),
    (&["audit", "verify"], 2),
    (&["audit", "show"], 2),
    (&["audit", "tail"], 2),
    (&["sessions", "list"], 2),
    (&["changes"], 2),
    (&["grants"], 2),
    (&["grants", "revoke", "--all"], 2),
    (&["undo"], 2),
    (&["doctor"], 1),
    (&["models"], 2),
    (&["eval", "try_delete_file"], 0),
    (&["completions", "bash"], 0),
    (&["man"], 0),
    (&["help"], 0),
];

#[test]
fn nothing_of_a_found_configuration_has_an_effect_in_any_command() {
    let clone = Clone::new();
    clone.plant();
    clone.write("client.json", r#"{"mcpServers": {"a": {"command": "srv"}}}"#);
    let before = clone.tree_without_state();
    for (arguments, code) in COMMANDS {
        let output = clone.run(arguments);
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {output:?}");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(!said.contains(CANARY) && !said.contains(PRIVATE), "{arguments:?}: {said}");
        if *code == 2 && arguments[0] != "scripted" {
            assert!(said.contains("you have not agreed to it") && said.contains("toolgate trust"), "{said}");
        }
        assert_eq!(clone.tree_without_state(), before, "{arguments:?}");
        assert!(!clone.is_connected_to(), "{arguments:?}");
    }
    assert!(!clone.leaks());
    let help = clone.must(&["help"]);
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let commands =
        commands.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    for command in commands.filter_map(|line| line.split_whitespace().next()) {
        assert!(COMMANDS.iter().any(|(words, _)| words[0] == command), "{command} is not in the table");
    }
}

/// What the table above would have seen if the file had taken effect.
#[test]
fn a_configuration_that_is_named_has_all_its_effects() {
    let clone = Clone::new();
    clone.plant();
    let output = clone.run(&["--config", "toolgate.yaml", "tools"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(clone.is_connected_to());
    for made in ["planted-state", "planted-audit", "planted-workspace", "planted-mount/ran"] {
        assert!(clone.project.join(made).exists(), "{made}");
    }
}

#[test]
fn without_a_terminal_the_first_meeting_and_a_change_are_told_apart() {
    let clone = Clone::new();
    clone.write("toolgate.yaml", "tools: [tools.d]\n");
    clone.write("tools.d/one.yaml", &tool("tool_one"));
    let path = clone.project.join("toolgate.yaml");
    let first = clone.refused(&["tools"]);
    for words in ["was found and you have not agreed to it", "toolgate trust", "--config", "--no-config"] {
        assert!(first.contains(words), "{first}");
    }
    assert!(first.contains(path.to_str().unwrap()), "{first}");
    assert!(!clone.must(&["--no-config", "tools"]).contains("tool_one"));
    assert!(clone.must(&["--config", "toolgate.yaml", "tools"]).contains("tool_one"));
    clone.refused(&["tools"]);
    let both = clone.run(&["--config", "toolgate.yaml", "--no-config", "tools"]);
    assert_eq!(both.status.code(), Some(2), "{both:?}");

    let shown = clone.must(&["trust", "--yes"]);
    assert!(
        shown.contains("tool_one (read, not asked about)") && shown.ends_with("agreed to toolgate.yaml\n"),
        "{shown}"
    );
    assert!(clone.must(&["tools"]).contains("tool_one"));
    assert!(clone.must(&["trust", "--yes"]).contains("agreed to already"));

    clone.write("toolgate.yaml", "tools: [tools.d]\ntrust: autonomous\n");
    let changed = clone.refused(&["tools"]);
    assert!(changed.contains("changed since you agreed to it"), "{changed}");
    let shown = clone.run(&["trust"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("+ trust: autonomous") && text.contains("no call is asked about"), "{text}");
    assert_eq!(shown.status.code(), Some(3));
    clone.refused(&["tools"]);
    clone.must(&["trust", "--yes"]);
    clone.must(&["tools"]);

    // An earlier version is not the one last agreed to.
    clone.write("toolgate.yaml", "tools: [tools.d]\n");
    clone.refused(&["tools"]);
}

#[test]
fn agreements_are_listed_and_taken_back() {
    let clone = Clone::new();
    clone.write("toolgate.yaml", "trust: guided\n");
    assert_eq!(clone.must(&["trust", "--list"]), "nothing was agreed to\n");
    clone.must(&["trust", "--yes"]);
    let kept = clone.home.join(".local/state/toolgate/trust.toolgate");
    let modes: Vec<u32> = std::fs::read_dir(&kept)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().permissions().mode() & 0o777)
        .collect();
    assert_eq!(modes, [0o600]);
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o700);
    let listed = |state: &str| {
        let rows: Value = serde_json::from_str(&clone.must(&["trust", "--list", "--json"])).unwrap();
        assert_eq!(rows[0]["state"], state, "{rows}");
        assert_eq!(rows[0]["file"], clone.project.join("toolgate.yaml").to_str().unwrap());
        assert!(clone.must(&["trust", "--list"]).starts_with(state));
    };
    listed("agreed");
    clone.write("toolgate.yaml", "trust: autonomous\n");
    listed("changed");
    std::fs::remove_file(clone.project.join("toolgate.yaml")).unwrap();
    listed("unreadable");
    clone.write("toolgate.yaml", "trust: guided\n");
    clone.must(&["tools"]);
    let project = clone.project.to_str().unwrap();
    let revoked: Value =
        serde_json::from_str(&clone.must(&["trust", "--revoke", project, "--json"])).unwrap();
    assert_eq!(revoked["revoked"], true);
    clone.refused(&["tools"]);
    assert!(clone.must(&["trust", "--revoke"]).contains("was not agreed to"));
}

/// Every covered file: adding, changing or removing one voids the agreement.
#[test]
fn a_change_of_any_covered_file_voids_the_agreement() {
    const CONFIG: &str = "tools: [tools.d, more.yaml]\npolicies: [rules]\nconversation: {system_file: system.md}\n\
                          agents: {a: {system_file: agent.md}}\n\
                          callers: {issuer: i, audience: a, keys: [{jwks_file: keys.json, algorithm: EdDSA}]}\n";
    let files = [
        ("toolgate.yaml", CONFIG.to_owned()),
        ("tools.d/one.yaml", tool("tool_one")),
        ("more.yaml", tool("more")),
        ("rules/a.cedar", "// nothing\n".to_owned()),
        ("system.md", "Be kind.\n".to_owned()),
        ("agent.md", "Be quick.\n".to_owned()),
        ("keys.json", "{\"keys\": []}".to_owned()),
    ];
    let clone = Clone::new();
    let arrange = || {
        for (path, content) in &files {
            clone.write(path, content);
        }
    };
    arrange();
    clone.must(&["trust", "--yes"]);
    for (path, content) in &files {
        clone.write(path, &format!("{content} "));
        assert!(clone.refused(&["audit", "show"]).contains("changed since you agreed"), "{path}");
        if *path != "toolgate.yaml" {
            std::fs::remove_file(clone.project.join(path)).unwrap();
            assert!(clone.refused(&["audit", "show"]).contains("changed since you agreed"), "{path}");
        }
        arrange();
        assert_ne!(clone.run(&["audit", "show"]).status.code(), Some(2), "{path}");
    }
    for added in ["tools.d/zwei.yaml", "tools.d/zwei.yml", "rules/b.cedar"] {
        clone.write(added, &tool("zwei"));
        assert!(clone.refused(&["audit", "show"]).contains("changed since you agreed"), "{added}");
        std::fs::remove_file(clone.project.join(added)).unwrap();
    }
    // A file that is never read is not covered.
    clone.write("tools.d/README", "words");
    assert_ne!(clone.run(&["audit", "show"]).status.code(), Some(2));
}

#[test]
fn an_agreement_is_for_one_file_in_one_place() {
    let clone = Clone::new();
    clone.write("toolgate.yaml", "trust: guided\n");
    clone.must(&["trust", "--yes"]);
    // A subdirectory uses the same file, through whatever path it is reached.
    std::fs::create_dir_all(clone.project.join("sub/deep")).unwrap();
    symlink(clone.project.join("sub"), clone.scratch.path().join("link")).unwrap();
    let link = clone.scratch.path().join("link/deep");
    clone.must(&["--workspace", "sub/deep", "tools"]);
    clone.must(&["--workspace", link.to_str().unwrap(), "tools"]);
    clone.must(&["trust", link.join("../..").to_str().unwrap(), "--revoke"]);
    clone.must(&["trust", "--yes"]);
    // The nearer file counts, and one above does not replace it.
    clone.write("sub/toolgate.yaml", "trust: guided\n");
    let nearer = clone.refused(&["--workspace", "sub/deep", "tools"]);
    assert!(nearer.contains("sub/toolgate.yaml"), "{nearer}");
    clone.must(&["tools"]);
    // The same content at another path is another file.
    let other = clone.scratch.folder("other");
    std::fs::write(other.join("toolgate.yaml"), "trust: guided\n").unwrap();
    clone.refused(&["--workspace", other.to_str().unwrap(), "tools"]);
}

/// A client starts a gate in whatever directory it has open.
#[test]
fn with_a_workspace_the_current_directory_does_not_matter() {
    let clone = Clone::new();
    clone.plant();
    let clean = clone.scratch.folder("clean");
    let clean = clean.to_str().unwrap();
    let before = clone.tree_without_state();
    let tools = clone.must(&["--workspace", clean, "tools"]);
    assert!(tools.contains("read_file") && !tools.contains("look_shell"), "{tools}");
    assert_eq!(clone.tree_without_state(), before);
    let mut elsewhere = clone.unattended(&["--workspace", clone.project.to_str().unwrap(), "tools"]);
    let refused = elsewhere.current_dir(clean).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(!clone.is_connected_to());
}

#[test]
fn whatever_is_called_like_a_configuration_is_neither_waited_for_nor_passed_over() {
    let clone = Clone::new();
    let path = clone.project.join("toolgate.yaml");
    let (file, outside) = (path.to_str().unwrap().to_owned(), clone.scratch.path().join("toolgate.yaml"));
    // One above that was agreed to must not replace it.
    std::fs::write(&outside, "trust: guided\n").unwrap();
    clone.must(&["trust", outside.to_str().unwrap(), "--yes"]);
    clone.must(&["tools"]);
    let arrangements: [(&str, &dyn Fn()); 4] = [
        ("FIFO", &|| assert!(Command::new("mkfifo").arg(&path).status().unwrap().success())),
        ("directory", &|| std::fs::create_dir(&path).unwrap()),
        ("dangling symlink", &|| symlink("nowhere", &path).unwrap()),
        ("symlink to a device", &|| symlink("/dev/zero", &path).unwrap()),
    ];
    for (what, arrange) in arrangements {
        arrange();
        for arguments in
            [&["tools"][..], &["check"], &["mcp"], &["trust", "--yes"], &["trust", &file, "--yes"]]
        {
            let said = clone.refused(arguments);
            assert!(said.contains("cannot be read"), "{what} {arguments:?}: {said}");
        }
        assert_eq!(clone.run(&["doctor", "--offline"]).status.code(), Some(1), "{what}");
        if path.is_dir() { std::fs::remove_dir(&path) } else { std::fs::remove_file(&path) }.unwrap();
    }
    // A named FIFO is not waited for either.
    assert!(Command::new("mkfifo").arg(clone.project.join("pipe")).status().unwrap().success());
    for config in ["tools: [pipe]\n", "policies: [pipe]\n", "conversation: {system_file: pipe}\n"] {
        clone.write("toolgate.yaml", config);
        assert!(clone.refused(&["trust", "--yes"]).contains("not a regular file"), "{config}");
        let checked = clone.run(&["check"]);
        assert!(matches!(checked.status.code(), Some(0 | 2)), "{config}: {checked:?}");
    }
}

#[test]
fn a_symlink_that_leads_elsewhere_later_is_a_change() {
    let clone = Clone::new();
    let workspace = clone.project.join("w");
    std::fs::create_dir(&workspace).unwrap();
    clone.write("good.yaml", "trust: guided\n");
    clone.write("bad.yaml", "trust: autonomous\nstate_dir: planted\n");
    let link = clone.project.join("toolgate.yaml");
    symlink("good.yaml", &link).unwrap();
    clone.must(&["trust", "--yes"]);
    clone.must(&["--workspace", "w", "tools"]);
    std::fs::remove_file(&link).unwrap();
    symlink("bad.yaml", &link).unwrap();
    assert!(clone.refused(&["--workspace", "w", "tools"]).contains("changed since you agreed"));
    assert!(!clone.project.join("planted").exists());
}

#[test]
fn what_another_user_can_write_is_refused() {
    let clone = Clone::new();
    let set = |path: &Path, mode: u32| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    clone.write("toolgate.yaml", "trust: guided\n");
    clone.must(&["trust", "--yes"]);
    let (file, state) = (clone.project.join("toolgate.yaml"), clone.home.join(".local/state/toolgate"));
    let all: [&[&str]; 3] = [&["tools"], &["--config", "toolgate.yaml", "tools"], &["trust", "--yes"]];
    for (path, bad, good) in [(&file, 0o666, 0o644), (&clone.project, 0o777, 0o755)] {
        set(path, bad);
        for arguments in all {
            let said = clone.refused(arguments);
            assert!(said.contains("can be written by other users") && said.contains("chmod"), "{said}");
        }
        set(path, good);
        clone.must(&["tools"]);
    }
    for directory in [state.clone(), state.join("trust.toolgate")] {
        set(&directory, 0o777);
        let said = clone.refused(&["tools"]);
        assert!(said.contains("agreements are not believed"), "{said}");
        set(&directory, 0o700);
    }
    // Only root may `chown`.
    if std::os::unix::fs::chown(&file, Some(4711), None).is_ok() {
        for arguments in all {
            assert!(clone.refused(arguments).contains("belongs to another user"), "{arguments:?}");
        }
    }
}

#[test]
fn without_a_home_nothing_can_be_agreed_to() {
    let clone = Clone::new();
    clone.write("toolgate.yaml", "trust: guided\n");
    let state = clone.scratch.folder("s");
    for arguments in [&["tools"][..], &["trust", "--yes"]] {
        let mut command = clone.unattended(&["--state-dir", state.to_str().unwrap()]);
        let output = command.args(arguments).env_remove("HOME").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("neither XDG_STATE_HOME nor HOME") && said.contains("--no-config"), "{said}");
    }
    let mut command = clone.unattended(&["--state-dir", state.to_str().unwrap(), "--no-config", "tools"]);
    assert_eq!(command.env_remove("HOME").output().unwrap().status.code(), Some(0));
}

/// Neither `--state-dir` nor a configuration decides where agreements are stored.
#[test]
fn agreements_in_another_state_directory_are_not_believed() {
    let (clone, liar) = (Clone::new(), Clone::new());
    clone.plant();
    let planted = clone.project.join("planted-state");
    let mut trust = clone.unattended(&["trust", "--yes"]);
    assert!(trust.env("HOME", &liar.home).output().unwrap().status.success());
    std::fs::rename(liar.home.join(".local/state/toolgate"), &planted).unwrap();
    clone.refused(&["tools"]);
    clone.refused(&["--state-dir", planted.to_str().unwrap(), "tools"]);
    assert!(!clone.is_connected_to());
}

#[test]
fn a_configuration_with_mistakes_cannot_be_agreed_to() {
    let clone = Clone::new();
    for (config, manifest, told) in [
        ("trust: gided\n", "", "toolgate.yaml:1:8"),
        ("tools: [missing]\n", "", "`missing` cannot be read"),
        ("tools: [tools.d]\n", "tool: x\n", "tools.d/one.yaml:1"),
    ] {
        clone.write("toolgate.yaml", config);
        clone.write("tools.d/one.yaml", manifest);
        let said = clone.refused(&["trust", "--yes"]);
        assert!(said.contains(told), "{said}");
        clone.refused(&["tools"]);
    }
    assert_eq!(clone.must(&["trust", "--list"]), "nothing was agreed to\n");
    let named = clone.refused(&["trust", "--config", "tools.d/one.yaml"]);
    assert!(named.contains("is not called toolgate.yaml"), "{named}");
}

/// A damaged agreement counts as none.
#[test]
fn a_damaged_agreement_is_none() {
    let clone = Clone::new();
    clone.write("toolgate.yaml", "trust: guided\n");
    clone.must(&["trust", "--yes"]);
    let kept = clone.home.join(".local/state/toolgate/trust.toolgate");
    let file = std::fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read_to_string(&file).unwrap();
    for damaged in ["", "{}", &whole[..whole.len() / 2], &whole.replace("\"version\":1", "\"version\":2")] {
        std::fs::write(&file, damaged).unwrap();
        assert!(clone.refused(&["tools"]).contains("you have not agreed"), "{damaged}");
    }
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    clone.refused(&["tools"]);
}

/// The file is swapped repeatedly while commands start; the digested bytes are the ones used.
#[test]
fn a_file_that_is_swapped_while_commands_start_is_obeyed_as_agreed_or_not_at_all() {
    let clone = Clone::new();
    clone.plant();
    clone.write("hostile.yaml", &std::fs::read_to_string(clone.project.join("toolgate.yaml")).unwrap());
    clone.write("good.yaml", "tools: [tools.d]\n");
    clone.write("hostile-tool", SHELL);
    clone.write("good-tool", &tool("agreed_tool"));
    let swap = |from: &str, to: &str| {
        std::fs::copy(clone.project.join(from), clone.project.join("draft")).unwrap();
        std::fs::rename(clone.project.join("draft"), clone.project.join(to)).unwrap();
    };
    swap("good.yaml", "toolgate.yaml");
    swap("good-tool", "tools.d/shell.yaml");
    clone.must(&["trust", "--yes"]);
    let is_over = AtomicBool::new(false);
    let outputs = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for kind in ["hostile", "good"] {
                    swap(&format!("{kind}.yaml"), "toolgate.yaml");
                    swap(&format!("{kind}-tool"), "tools.d/shell.yaml");
                }
            }
        });
        let outputs: Vec<Output> = (0..60).map(|_| clone.run(&["tools"])).collect();
        is_over.store(true, Ordering::Relaxed);
        outputs
    });
    let (mut obeyed, mut refused) = (0, 0);
    for output in outputs {
        let said = String::from_utf8_lossy(&output.stdout);
        match output.status.code() {
            Some(0) if said.contains("agreed_tool") && !said.contains("look_shell") => obeyed += 1,
            Some(2) => refused += 1,
            _ => panic!("{output:?}"),
        }
    }
    println!("obeyed {obeyed}, refused {refused}");
    assert!(!clone.is_connected_to() && !clone.project.join("planted-state").exists());
}

#[test]
fn a_client_is_answered_with_the_reason_in_both_protocols() {
    let clone = Clone::new();
    clone.plant();
    let before = clone.tree_without_state();
    let mut served = Served::start(clone.unattended(&["mcp"]));
    for (method, answer) in [
        ("server/discover", served.ask("server/discover", json!({}))),
        ("initialize", served.initialize()),
        ("tools/list", served.ask("tools/list", json!({}))),
    ] {
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{method}: {answer}"));
        assert!(message.contains("not agreed") && message.contains("toolgate trust"), "{method}: {message}");
    }
    let (code, errors) = served.end();
    assert_eq!(code, Some(2));
    assert!(errors.iter().any(|line| line.contains("you have not agreed to it")), "{errors:?}");
    assert_eq!(clone.tree_without_state(), before);
    assert!(!clone.is_connected_to());
}

#[test]
fn a_running_gate_takes_a_change_only_once_it_is_agreed_to() {
    let clone = Clone::new();
    clone.write("toolgate.yaml", "tools: [tools.d]\n");
    clone.write("tools.d/one.yaml", &tool("tool_one"));
    clone.must(&["trust", "--yes"]);
    let mut served = Served::start(clone.unattended(&["mcp", "-v"]));
    served.initialize();
    assert!(served.tools().contains(&"tool_one".to_owned()));
    clone.write("tools.d/two.yaml", &tool("tool_two"));
    let told = served.hear("nothing was reloaded");
    assert!(told.contains("changed since you agreed") && told.contains("toolgate trust"), "{told}");
    assert!(!served.tools().contains(&"tool_two".to_owned()));
    clone.must(&["trust", "--yes"]);
    served.hear("loaded anew");
    assert!(served.tools().contains(&"tool_two".to_owned()));
    clone.must(&["trust", "--revoke"]);
    served.hear("nothing was reloaded");
    let (code, errors) = served.end();
    assert_eq!(code, Some(0));
    assert!(!errors.iter().any(|line| line.contains("nothing was reloaded")), "said twice: {errors:?}");
}

/// A stricter trust level takes effect from the next call on, whatever the gate was started with.
#[test]
fn a_running_gate_asks_more_as_soon_as_its_file_says_so() {
    for options in [&["mcp", "-v"][..], &["mcp", "-v", "--trust", "autonomous"]] {
        let clone = Clone::new();
        clone.write("toolgate.yaml", "trust: autonomous\n");
        clone.must(&["trust", "--yes"]);
        let mut served = Served::start(clone.unattended(options));
        served.initialize();
        let write = |served: &mut Served| {
            let call = json!({"name": "write_file", "arguments": {"path": "new.txt", "content": "x"}});
            served.ask("tools/call", call)["result"]["isError"] == true
        };
        assert!(!write(&mut served), "{options:?}");
        for (said, told, refused) in [
            (
                "trust: supervised\napproval: {timeout: 5s}\n",
                "`approval.timeout` counts when the gate is started anew",
                true,
            ),
            ("trust: guided\n", "loaded anew", true),
            ("trust: autonomous\n", "loaded anew", false),
        ] {
            clone.write("toolgate.yaml", said);
            clone.must(&["trust", "--yes"]);
            served.hear(told);
            if told != "loaded anew" {
                served.hear("loaded anew");
            }
            assert_eq!(write(&mut served), refused, "{options:?} {said:?}");
        }
        assert_eq!(served.end().0, Some(0));
    }
}

/// A gate without a configuration stays without one, even if a file appears and a reload happens.
#[test]
fn a_configuration_that_appears_while_a_gate_runs_is_not_obeyed() {
    let clone = Clone::new();
    let mut served = Served::start(clone.unattended(&["mcp", "-v"]));
    served.initialize();
    let tools = served.tools();
    clone.plant();
    // A newly created key triggers a reload.
    clone.must(&["--no-config", "token", "mint", "--subject", "x"]);
    served.hear("loaded anew");
    assert_eq!(served.tools(), tools);
    assert_eq!(served.end().0, Some(0));
    assert!(!clone.is_connected_to() && !clone.project.join("planted-state").exists());
}

#[test]
fn a_person_at_a_terminal_is_asked_once_and_after_every_change() {
    let clone = Clone::new();
    clone.write(
        "toolgate.yaml",
        "tools: [tools.d]\nmcp_servers:\n  tracker:\n    command: tracker\n    args: [--token, \"${TRACKER_TOKEN}\"]\n    \
         network: [api.example.com]\n",
    );
    clone.write("tools.d/one.yaml", &tool("tool_one"));
    let settled = |shown: &str| shown.replace(clone.scratch.path().to_str().unwrap(), "");
    for (answer, code) in [("\r", Some(2)), ("n\r", Some(2)), ("y\r", Some(0))] {
        let mut terminal = clone.at_terminal(&["changes"]);
        let shown = terminal.wait_for("Agree to this configuration? [y/N]");
        insta::assert_snapshot!("trust-first", settled(&shown));
        terminal.press(answer);
        assert_eq!(terminal.ended().code(), code, "{answer:?}");
    }
    let mut terminal = clone.at_terminal(&["changes"]);
    assert_eq!(terminal.ended().code(), Some(0));
    assert!(!terminal.shown().contains("Agree"), "{}", terminal.shown());

    clone.write("tools.d/two.yaml", &tool("tool_two"));
    let config = std::fs::read_to_string(clone.project.join("toolgate.yaml")).unwrap();
    clone.write("toolgate.yaml", &config.replace("api.example.com", "api.example.com, evil.example"));
    let mut terminal = clone.at_terminal(&["trust"]);
    let shown = terminal.wait_for("Agree to this configuration? [y/N]");
    let day = regex_free_day(&settled(&shown));
    insta::assert_snapshot!("trust-changed", day);
    terminal.press("y\r");
    assert_eq!(terminal.ended().code(), Some(0));
    assert!(terminal.shown().contains("agreed to toolgate.yaml"));
}

/// Replaces the date of the agreement.
fn regex_free_day(text: &str) -> String {
    let (before, after) = text.split_once("agreed to it on ").unwrap();
    format!("{before}agreed to it on <day>{}", &after[10..])
}

#[test]
fn a_hostile_file_neither_commands_the_terminal_nor_speaks_for_the_gate() {
    let clone = Clone::new();
    clone.write(
        "toolgate.yaml",
        "mcp_servers:\n  a:\n    command: sh\n    args: [\"\\e]0;owned\\a\\e[2J\", \"x\\nIt starts no program.\\n\\u202ey\"]\n",
    );
    let mut terminal = clone.at_terminal(&["trust"]);
    let shown = terminal.wait_for("[y/N]");
    assert!(shown.contains("\\u{1b}]0;owned\\u{7}") && shown.contains("\\u{202e}"), "{shown}");
    assert!(!shown.lines().any(|row| row.starts_with("It starts no program")), "{shown}");
    let written = String::from_utf8_lossy(&terminal.written).into_owned();
    assert!(!written.contains("\u{1b}]0;") && !written.contains('\u{202e}'), "{written:?}");
    terminal.press("n\r");
    assert_eq!(terminal.ended().code(), Some(3));
    let printed = clone.must(&["trust", "--yes"]);
    assert!(!printed.contains('\u{1b}') && !printed.contains('\u{202e}'), "{printed:?}");
}

/// The effects of the file, each kind of danger in its group.
#[test]
fn what_is_dangerous_is_shown_first_and_named() {
    let clone = Clone::new();
    clone.plant();
    let output = clone.run(&["trust"]);
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8(output.stdout).unwrap();
    let address = clone.listener.local_addr().unwrap().to_string();
    let text = text.replace(clone.scratch.path().to_str().unwrap(), "").replace(&address, "127.0.0.1:1");
    insta::assert_snapshot!("trust-hostile", text);
    let told: Value = serde_json::from_slice(&clone.run(&["trust", "--json"]).stdout).unwrap();
    assert_eq!((&told["state"], &told["agreed"]), (&json!("new"), &json!(false)));
    assert_eq!(told["effects"]["programs"].as_array().unwrap().len(), 1, "{told}");
    assert!(!clone.is_connected_to());
}

/// A client's entry starts a gate that the open repository cannot configure.
#[test]
fn an_installed_entry_pins_the_configuration() {
    let clone = Clone::new();
    clone.plant();
    let before = clone.tree_without_state();
    let clean = clone.scratch.folder("clean");
    let install = |options: &[&str]| -> Vec<String> {
        let fixed = ["mcp", "install", "--client", "cursor", "--dry-run", "--json"];
        let mut command = clone.unattended(&[options, &fixed].concat());
        let output = command.current_dir(&clean).output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let words = told["entry"]["mcpServers"]["toolgate"]["args"].as_array().unwrap().clone();
        words.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let without = install(&[]);
    assert_eq!(&without[..3], ["mcp", "--no-config", "--workspace"]);
    std::fs::write(clean.join("own.yaml"), "trust: guided\n").unwrap();
    let named = install(&["--config", "own.yaml"]);
    assert_eq!(named[..3], ["mcp", "--config", clean.join("own.yaml").to_str().unwrap()].map(str::to_owned));
    std::fs::remove_file(clean.join("own.yaml")).unwrap();
    // As the client starts it, in the untrusted repository.
    let words: Vec<&str> = without.iter().map(String::as_str).collect();
    let mut served = Served::start(clone.unattended(&words));
    assert!(served.initialize()["result"].is_object());
    assert!(!served.tools().contains(&"look_shell".to_owned()));
    assert_eq!(served.end().0, Some(0));
    let mut after = clone.tree_without_state();
    after.retain(|path, _| !path.starts_with(&clean));
    assert_eq!(after, before);
    assert!(!clone.is_connected_to());
}

#[test]
fn a_file_that_keeps_less_space_free_for_the_record_says_so() {
    let clone = Clone::new();
    for (reserve, is_shown) in [("1MiB", true), ("1", true), ("64MiB", false)] {
        clone.write("toolgate.yaml", &format!("audit: {{reserve: {reserve}}}\n"));
        let shown = String::from_utf8(clone.run(&["trust"]).stdout).unwrap();
        assert_eq!(shown.contains("filling the disk that the record lies on"), is_shown, "{shown}");
    }
    clone.write("toolgate.yaml", "audit: {reserve: 0}\n");
    let refused = clone.run(&["--config", "toolgate.yaml", "tools"]);
    assert!(String::from_utf8(refused.stderr).unwrap().contains("`0` is nothing at all"));
}
