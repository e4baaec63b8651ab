//! Tools that an operator declares, from the manifest to a command in the sandbox.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::fixture::CliFixture;

fn git(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null").args([
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
    ]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

fn repository(folder: &Path) {
    git(folder, &["init", "-q", "-b", "main"]);
    std::fs::write(folder.join("a.txt"), "one\n").unwrap();
    git(folder, &["add", "a.txt"]);
    git(folder, &["commit", "-q", "-m", "first"]);
    std::fs::write(folder.join("a.txt"), "one\ntwo\n").unwrap();
    git(folder, &["commit", "-q", "-a", "-m", "second"]);
}

#[test]
fn from_a_command_to_a_tool() {
    let place = CliFixture::new();
    repository(&place.workspace);
    let new = ["tools", "new", "recent", "--", "git", "log", "--format=%s", "--max-count={count:integer}"];
    assert_eq!(place.must(&new), "wrote tools.d/recent.yaml\n");
    let again = place.run(&new);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8(again.stderr).unwrap().contains("is there already"));

    let checked = place.must(&["check", "tools.d/recent.yaml", "--strict"]);
    assert_eq!(checked, "ok: tools.d/recent.yaml checked, no problems\n");
    assert_eq!(place.call("recent", &json!({"count": 1})).1["code"], "unknown_tool");
    place.write("toolgate.yaml", "tools: [tools.d]\n");
    assert_eq!(place.must(&["call", "recent", r#"{"count": 1}"#]), "second\n");
    assert_eq!(place.call("recent", &json!({"count": "--output=x"})).1["code"], "invalid_arguments");
    assert!(place.must(&["tools"]).contains("\nrecent "));

    let printed = place.must(&["tools", "new", "recent", "--output", "-", "--", "git", "log"]);
    assert!(printed.contains("\ntool: recent\n"), "{printed}");
    let elsewhere =
        place.must(&["tools", "new", "x", "--output", "deep/folder/x.yaml", "--json", "--", "true"]);
    assert_eq!(elsewhere, "{\"tool\":\"x\",\"file\":\"deep/folder/x.yaml\"}\n");
    assert!(place.scratch.path().join("deep/folder/x.yaml").exists());
}

#[test]
fn the_profile_proxy_has_its_own_tools_over_a_real_repository() {
    let place = CliFixture::new();
    repository(&place.workspace);
    let call = |tool: &str, arguments: &str| {
        let answer = place.must(&["--profile", "proxy", "call", tool, arguments]);
        serde_json::from_str::<serde_json::Value>(&answer).unwrap()
    };
    let log = call("git_log", r#"{"count": 5}"#);
    assert!(log["ok"] == true && log["data"].to_string().contains("first"), "{log}");
    let diff = call("git_diff", r#"{"from": "HEAD~1", "to": "HEAD"}"#);
    assert!(diff["data"].to_string().contains("+two"), "{diff}");
    assert!(place.must(&["--profile", "proxy", "tools"]).contains("git_diff"));

    // Shipped tools whose program is not allowed are left out silently.
    place.write("toolgate.yaml", "profile: proxy\nallowed_commands: [printf]\n");
    let tools = place.must(&["tools"]);
    assert!(tools.contains("echo_message") && !tools.contains("git_log"), "{tools}");
    place.must(&["check"]);
}

const NOTE: &str = "tool: note\ndescription: says a word\nclass: read\npermissions: [note:say]\n\
    input:\n  properties: {word: {type: string, maxLength: 9, pattern: \"^[a-z]+$\"}}\n  required: [word]\n\
    command: [echo, \"{word}\"]\npolicy: {\"*\": allow}\n";

#[test]
fn policies_forbid_what_permissions_allow() {
    let place = CliFixture::new();
    place.write("note.yaml", NOTE);
    place.write("rules/words.cedar", r#"@id("no-secrets") forbid(principal, action == Action::"note", resource) when { context.input.word == "secret" };"#);
    place.write("toolgate.yaml", "tools: [note.yaml]\npolicies: [rules]\n");
    place.must(&["check"]);
    assert_eq!(place.must(&["call", "note", r#"{"word": "plain"}"#]), "plain\n");
    let (code, envelope) = place.call("note", &json!({"word": "secret"}));
    assert_eq!((code, envelope["stage"].as_str()), (3, Some("PERMISSION")), "{envelope}");
    assert!(envelope["operatorNote"].as_str().unwrap().contains("no-secrets"), "{envelope}");
    assert!(!envelope["text"].as_str().unwrap().contains("no-secrets"), "{envelope}");

    // An invalid policy stops everything, with its line.
    place.write("rules/words.cedar", "forbid(principal, action == Action::\"nte\", resource);\n");
    let output = place.run(&["call", "note", r#"{"word": "plain"}"#]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("rules/words.cedar:1:"));
}

#[test]
fn what_declares_tools_is_out_of_their_reach() {
    let place = CliFixture::new();
    let inside = |path: &str| place.workspace.join(path).to_str().unwrap().to_owned();
    place.write("w/gate/tools.d/note.yaml", NOTE);
    place.write("w/gate/rules/none.cedar", "");
    place.write("w/gate/gate.conf", "tools: [tools.d]\npolicies: [rules]\n");
    let config = inside("gate/gate.conf");
    let call = |tool: &str, arguments: &serde_json::Value| {
        let mut command = place.toolgate();
        command.args(["--config", &config]);
        crate::fixture::finish_call(command, tool, arguments).1
    };
    assert_eq!(call("note", &json!({"word": "there"}))["text"], "there\n");
    for path in [
        "gate/tools.d/note.yaml",
        "gate/tools.d/new.yaml",
        "gate/rules/new.cedar",
        "gate/tools.d/sub/new.yaml",
    ] {
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "x"})),
            ("delete_file", json!({"path": path})),
        ] {
            let envelope = call(tool, &arguments);
            assert_eq!(envelope["code"], "denied_path", "{tool} {path}: {envelope}");
        }
    }
    // A directory on the path cannot be moved away either.
    for line in [
        "mv gate elsewhere",
        "mv gate/tools.d gate/old",
        "rm -rf gate",
        "echo x > gate/tools.d/new.yaml",
        "touch gate/rules/x.cedar",
        "mkdir -p gate/tools.d/x",
    ] {
        let envelope = call("run_command", &json!({"command": line}));
        assert_ne!(envelope["structured"]["exit_code"], 0, "{line}: {envelope}");
    }
    for (from, to) in [("gate", "old"), ("gate/tools.d", "old")] {
        let envelope = call("move_file", &json!({"from": from, "to": to}));
        assert_eq!(envelope["isError"], true, "{from}: {envelope}");
    }
    assert_eq!(call("note", &json!({"word": "there"}))["text"], "there\n");

    // A symlink in the workspace could be replaced, and with it the declarations.
    place.write("elsewhere/more.d/other.yaml", &NOTE.replace("tool: note", "tool: other"));
    std::os::unix::fs::symlink(place.scratch.path().join("elsewhere"), inside("link")).unwrap();
    // The same for a symlink that another symlink points to.
    std::os::unix::fs::symlink(inside("link"), place.scratch.path().join("around")).unwrap();
    for named in [
        "tools: [w/link/more.d]",
        "policies: [w/link/more.d]",
        "state_dir: w/link/s",
        "tools: [around/more.d]",
        "state_dir: around/s",
    ] {
        place.write("linked.conf", &format!("{named}\nworkspace: w\n"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command.current_dir(place.scratch.path()).env("XDG_STATE_HOME", &place.state);
        let output = command.args(["--config", "linked.conf", "tools"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains("tools could replace"), "{named}: {said}");
    }

    // A manifest directory cannot be mounted: a tool that writes there would declare tools.
    let tools = inside("gate/tools.d");
    let output = place.run(&["--config", &config, "--mount", &format!("@x={tools}"), "tools"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_shell_line_runs_confined() {
    let place = CliFixture::new();
    std::fs::write(place.workspace.join(".env"), "SECRET=1\n").unwrap();
    let (code, envelope) =
        place.call("run_command", &json!({"command": "echo made > new.txt; cat .env; exit 3"}));
    assert_eq!((code, &envelope["structured"]["exit_code"]), (0, &json!(3)), "{envelope}");
    assert!(!envelope.to_string().contains("SECRET=1"));
    assert_eq!(std::fs::read_to_string(place.workspace.join("new.txt")).unwrap(), "made\n");
    // Files that other programs would execute are quarantined, in a directory that no gate shows.
    let (_, envelope) = place.call("run_command", &json!({"command": "git init -q sub && printf '#!/bin/sh\n' > sub/.git/hooks/pre-commit && chmod +x sub/.git/hooks/pre-commit"}));
    assert_eq!(envelope["structured"]["quarantined"].as_array().map(Vec::len), Some(1), "{envelope}");
    assert!(!place.workspace.join("sub/.git/hooks/pre-commit").exists());
    let kept = std::fs::read_dir(place.state.join("quarantine.toolgate")).unwrap();
    assert_eq!(kept.filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_dir()).count(), 1);
}

#[test]
fn the_environment_of_commands_is_what_the_operator_names() {
    let place = CliFixture::new();
    place.write(
        "toolgate.yaml",
        "sandbox: {environment: [PASSED], memory: 1GiB, open_files: 77, network: []}\n",
    );
    let mut command = place.toolgate();
    command.env("PASSED", "yes").env("OTHER", "no");
    let line = json!({"command": "echo $PASSED-$OTHER; ulimit -n"});
    let (_, envelope) = crate::fixture::finish_call(command, "run_command", &line);
    assert_eq!(envelope["structured"]["stdout"], "yes-\n77\n", "{envelope}");
    for (config, told) in [
        ("sandbox: {environment: [GITHUB_TOKEN]}\n", "looks like a secret"),
        ("sandbox: {environment: [BASH_ENV]}\n", "toolgate.yaml:1:25"),
    ] {
        place.write("toolgate.yaml", config);
        for arguments in [&["check"][..], &["call", "run_command", r#"{"command": "true"}"#]] {
            let output = place.run(arguments);
            let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains(told), "{said}");
        }
    }
}

#[test]
fn commands_commit_in_the_name_that_the_operators_git_knows() {
    let place = CliFixture::new();
    repository(&place.workspace);
    let home = place.scratch.folder("home");
    place.write("home/.config/git/config", "[user]\n\tname = Nobody\n\temail = ada@example.com\n");
    place.write(
        "home/.gitconfig",
        "[user]\n\tname = Ada L\n[core]\n\tpager = touch pwned\n[alias]\n\tst = !touch pwned\n",
    );
    let line =
        "git commit -q --allow-empty -m third && git log -1 --format='%an <%ae> %cn <%ce>'; git st; env";
    let commit = |only: Option<&str>| {
        let mut command = place.toolgate();
        command.env("HOME", &home).env_remove("XDG_CONFIG_HOME").env_remove("GIT_CONFIG_GLOBAL");
        if let Some(only) = only {
            command.env("GIT_CONFIG_GLOBAL", only);
        }
        crate::fixture::finish_call(command, "run_command", &json!({"command": line})).1["text"].to_string()
    };
    let text = commit(None);
    assert!(text.starts_with("\"Ada L <ada@example.com> Ada L <ada@example.com>\\n"), "{text}");
    assert!(!text.contains(home.to_str().unwrap()), "{text}");
    assert!(!place.workspace.join("pwned").exists());
    let text = commit(Some("/dev/null"));
    assert!(text.starts_with("\"Toolgate <toolgate@localhost> Toolgate <toolgate@localhost>\\n"), "{text}");
}

/// A rule about a directory, and every spelling of a path in it, for `call` and over MCP.
#[test]
fn no_spelling_passes_a_rule_about_a_path_by_hand_or_over_mcp() {
    let place = CliFixture::new();
    let secrets = place.workspace.join("secrets");
    std::fs::create_dir_all(&secrets).unwrap();
    std::fs::write(secrets.join("x"), "nobody-reads-this").unwrap();
    std::fs::write(place.workspace.join("plain"), "fine").unwrap();
    std::os::unix::fs::symlink("secrets", place.workspace.join("link")).unwrap();
    let rule = |clause: &str| {
        format!("@id(\"no-secrets\") forbid(principal, action, resource) when {{ {clause} }};")
    };
    place.write("toolgate.yaml", "policies: [rules]\n");
    place.write(
        "rules/a.cedar",
        &rule("context has input && context.input has path && context.input.path like \"secrets/*\""),
    );
    let refused = place.run(&["check"]);
    let said = String::from_utf8([refused.stdout, refused.stderr].concat()).unwrap();
    assert!(refused.status.code() != Some(0) && said.contains("Path::\"@project/secrets\""), "{said}");

    place.write("rules/a.cedar", &rule("context has path && context.path in Path::\"@project/secrets\""));
    place.must(&["check"]);
    let absolute = secrets.join("x").display().to_string();
    let spellings = ["secrets/x", "./secrets/x", "@project/secrets/x", "a/../secrets/x", "link/x", &absolute];
    for path in spellings {
        let (code, envelope) = place.call("read_file", &json!({"path": path}));
        assert_eq!((code, envelope["code"].as_str()), (3, Some("not_permitted")), "{path}: {envelope}");
        assert!(envelope["operatorNote"].as_str().unwrap().contains("no-secrets"), "{path}: {envelope}");
    }
    assert_eq!(place.must(&["call", "read_file", r#"{"path": "link/../plain"}"#]), "fine");

    let mut requests = vec![json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}})];
    requests.push(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    for (id, path) in spellings.into_iter().chain(["plain"]).enumerate() {
        requests.push(json!({"jsonrpc": "2.0", "id": id + 1, "method": "tools/call", "params": {
            "name": "read_file", "arguments": {"path": path}}}));
    }
    let input: String = requests.iter().map(|request| format!("{request}\n")).collect();
    let mut command = place.toolgate();
    command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut served = command.spawn().unwrap();
    served.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let answers = String::from_utf8(served.wait_with_output().unwrap().stdout).unwrap();
    assert!(!answers.contains("nobody-reads-this"), "{answers}");
    assert_eq!(answers.matches("not_permitted").count() / 2, spellings.len(), "{answers}");
    assert!(answers.contains("fine"), "{answers}");
}

/// A command gets the part of a path behind the mount: a symlink into another mount would make it use a file of that name in its own.
#[test]
fn a_link_into_another_mount_gives_a_command_no_file_of_the_same_name() {
    let place = CliFixture::new();
    let other = place.scratch.folder("o");
    for (file, content) in
        [("w/secrets/k.md", "TOP SECRET"), ("w/victim.md", "mine"), ("o/victim.md", "theirs")]
    {
        place.write(file, content);
    }
    std::fs::create_dir_all(place.workspace.join("docs")).unwrap();
    std::os::unix::fs::symlink(&other, place.workspace.join("docs/link")).unwrap();
    let declare = |name: &str, class: &str, command: &str, more: &str| {
        let manifest = format!(
            "tool: {name}\ndescription: Uses a file\nclass: {class}\npermissions: []\ncommand: {command}\ncwd: '@project'\n\
             {more}input: {{properties: {{file: {{type: string, x-toolgate-path: '@project'}}}}, required: [file]}}\npolicy: {{'*': allow}}\n"
        );
        place.write(&format!("tools.d/{name}.yaml"), &manifest);
    };
    declare("shows", "read", "[cat, '{file}']", "");
    declare("empties", "write", "[truncate, -s0, --, '{file}']", "mounts: ['@project:rw']\n");
    place.write(
        "toolgate.yaml",
        "trust: autonomous\ntools: [tools.d]\npolicies: [p.cedar]\nmounts: {'@o': {path: o, access: ro}}\n",
    );
    let forbid = "forbid (principal, action == Action::\"shows\", resource) when { context.input.file in Path::\"@project/secrets\" };";
    place.write("p.cedar", &format!("permit (principal, action, resource);\n@id(\"s\")\n{forbid}\n"));
    let code = |tool: &str, file: &str| place.call(tool, &json!({ "file": file })).1["code"].clone();
    assert_eq!(code("shows", "victim.md"), json!(null), "the tool works");
    assert_eq!(code("shows", "secrets/k.md"), "not_permitted");
    for (tool, file, refused) in [
        ("shows", "docs/link/secrets/k.md", "not_permitted"),
        ("shows", "docs/link/victim.md", "not_permitted"),
        ("empties", "docs/link/victim.md", "symlink_outside_workspace"),
    ] {
        assert_eq!(code(tool, file), refused, "{tool} {file}");
    }
    assert_eq!(std::fs::read_to_string(place.workspace.join("victim.md")).unwrap(), "mine");
}
