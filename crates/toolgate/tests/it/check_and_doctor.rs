//! The output of `check` and `doctor`.

use serde_json::{Value, json};

use crate::fixture::CliFixture;

fn check(place: &CliFixture, arguments: &[&str]) -> (i32, Value) {
    let mut all = vec!["--json", "check"];
    all.extend(arguments);
    let output = place.run(&all);
    let said = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {output:?}"));
    (output.status.code().unwrap(), said)
}

/// `file:line message` of each finding.
fn lines(found: &Value) -> Vec<String> {
    let line = |one: &Value| {
        format!("{}:{} {}", one["file"].as_str().unwrap(), one["line"], one["message"].as_str().unwrap())
    };
    found.as_array().unwrap().iter().map(line).collect()
}

const TOOL: &str = "tool: NAME\ndescription: says a word\nclass: read\npermissions: [word:say]\ninput: {properties: {}}\ncommand: [PROGRAM]\npolicy: {\"*\": allow}\n";

fn tool(name: &str, program: &str) -> String {
    TOOL.replace("NAME", name).replace("PROGRAM", program)
}

#[test]
fn everything_that_a_configuration_names_is_checked() {
    let place = CliFixture::new();
    place.write("toolgate.yaml", "mounts:\n  \"@docs\": {path: nowhere}\ntools: [tools.d, one.yaml]\npolicies: [rules]\nagents:\n  a: {tool_permissions: {known: {allowed: true}, unknown: {allowed: true}}}\n");
    place.write("one.yaml", &tool("one", "no-such-program"));
    place.write("tools.d/known.yaml", &tool("known", "echo"));
    place.write("tools.d/notes.txt", "not a manifest");
    place.write("tools.d/deeper/x.yaml", "not looked at");
    place.write("tools.d/.hidden.yaml", "not looked at");
    place.write("rules/a.cedar", "forbid(principal, action == Action::\"known\", resource);\n");
    let (code, said) = check(&place, &[]);
    let files: Vec<&str> = said["files"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(files, ["toolgate.yaml", "tools.d/known.yaml", "one.yaml", "rules/a.cedar"]);
    assert_eq!(lines(&said["problems"]), ["toolgate.yaml:6 unknown tool `unknown`"]);
    assert_eq!(
        lines(&said["warnings"]),
        [
            "toolgate.yaml:2 `nowhere` does not exist",
            "one.yaml:6 there is no program `no-such-program` in the sandbox"
        ]
    );
    assert_eq!(code, 2);

    // Warnings alone do not fail, except with `--strict`.
    place.write("toolgate.yaml", "tools: [one.yaml]\n");
    assert_eq!(check(&place, &[]).0, 0);
    assert_eq!(check(&place, &["--strict"]).0, 2);
    let said = place.must(&["check"]);
    assert!(
        said.contains("one.yaml:6:11: warning: there is no program")
            && said.ends_with("ok: toolgate.yaml, one.yaml checked, no problems, 1 warning\n"),
        "{said}"
    );
}

#[test]
fn a_program_that_only_the_person_sees_is_told_beforehand() {
    let place = CliFixture::new();
    // Below `/dev/shm` or `/tmp` a directory cannot be shown at all.
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = elsewhere.path().join("server");
    std::fs::copy("/bin/true", &program).unwrap();
    let (shown, directory) = (program.display(), elsewhere.path().display());
    let server = |more: &str| {
        place
            .write("toolgate.yaml", &format!("mcp_servers:\n  s: {{command: {shown}, class: read{more}}}\n"));
        place.must(&["check"])
    };
    let said = server("");
    assert!(said.contains(&format!("there is no program `{shown}` in the sandbox")), "{said}");
    let said = server(&format!(", read: [{directory}]"));
    assert!(said.contains("no problems") && !said.contains("warning"), "{said}");
}

#[test]
fn a_server_does_not_read_past_a_mount() {
    let place = CliFixture::new();
    place.write("docs/deep/a.txt", "x");
    let config = "workspace: w\nmounts:\n  \"@docs\": {path: docs}\nmcp_servers:\n  s:\n    command: cat\n    class: read\n    read: [READ]\n";
    place.write("w/a.txt", "x");
    for (read, message) in [
        ("/usr/share", None),
        ("docs", Some("toolgate.yaml:8 `docs` has something of the mount `@docs` in it")),
        ("docs/deep", Some("toolgate.yaml:8 `docs/deep` has something of the mount `@docs` in it")),
        ("docs/../w", Some("toolgate.yaml:8 `docs/../w` has something of the mount `@project` in it")),
    ] {
        place.write("toolgate.yaml", &config.replace("READ", read));
        let (_, said) = check(&place, &[]);
        // Scratch directories are refused for another reason as well.
        let mut found = lines(&said["problems"]);
        found.retain(|line| line.contains("mount"));
        assert_eq!(found, message.into_iter().collect::<Vec<_>>(), "{read}");
    }
}

#[test]
fn mistakes_of_several_files_are_told_together() {
    let place = CliFixture::new();
    place.write("toolgate.yaml", "tools: [tools.d, missing]\npolicies: [rules]\nallowed_commands: [echo]\n");
    place.write("tools.d/a.yaml", &tool("a", "ls"));
    place.write("tools.d/b.yaml", "tool: b\n");
    place.write("rules/a.cedar", "forbid(principal, action, resource) when { context.x };\n");
    let (code, said) = check(&place, &[]);
    assert_eq!(
        (code, lines(&said["problems"])),
        (
            2,
            vec![
                "toolgate.yaml:1 `missing` cannot be read: No such file or directory (os error 2)".to_owned()
            ]
        )
    );
    place.write("toolgate.yaml", "tools: [tools.d]\npolicies: [rules]\nallowed_commands: [echo]\n");
    let (_, said) = check(&place, &[]);
    let problems = lines(&said["problems"]);
    assert!(problems[0].starts_with("tools.d/a.yaml:6 `ls` is not among"), "{problems:?}");
    assert!(problems.iter().any(|line| line.starts_with("tools.d/b.yaml:1 ")), "{problems:?}");
    // Every command that would use the file refuses it too.
    let output = place.run(&["tools"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("tools.d/a.yaml:6:"));
}

#[test]
fn files_are_told_apart_by_what_they_are() {
    let place = CliFixture::new();
    place.write("one.yaml", &tool("one", "echo"));
    place.write("twice.yaml", &format!("# Two tools.\n{}---\n{}", tool("two", "echo"), tool("two", "echo")));
    place.write("a.cedar", "forbid(principal, action == Action::\"read_file\", resource);\n");
    place.write("b.cedar", "forbid(principal, action == Action::\"one\", resource);\n");
    place.write("other.yaml", "trust: gided\n");
    let (code, said) = check(&place, &["one.yaml", "a.cedar"]);
    assert_eq!((code, lines(&said["problems"])), (0, Vec::new()), "{said}");
    let (_, said) = check(&place, &["twice.yaml", "b.cedar", "other.yaml"]);
    let problems = lines(&said["problems"]);
    assert!(problems.iter().any(|line| line.contains("other.yaml:1 `gided`")), "{problems:?}");
    assert!(
        problems.iter().any(|line| line.contains("twice.yaml") && line.contains("appears twice")),
        "{problems:?}"
    );
    // A policy is checked against the tools of the configuration in use, and there is none.
    assert!(problems.iter().any(|line| line.starts_with("b.cedar:1 ")), "{problems:?}");
    place.write("toolgate.yaml", "tools: [one.yaml]\n");
    assert_eq!(check(&place, &["b.cedar"]).0, 0);
}

#[test]
fn the_doctor_names_every_layer() {
    let place = CliFixture::new();
    let examined = |options: &[&str]| {
        let mut all = options.to_vec();
        all.extend(["doctor", "--json"]);
        let output = place.run(&all);
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code().unwrap(), rows)
    };
    let (code, rows) = examined(&[]);
    let names: Vec<&str> = rows.iter().filter_map(|row| row["check"].as_str()).collect();
    let layers: Vec<&str> = toolgate_sandbox::Layer::ALL.iter().map(|layer| layer.as_str()).collect();
    let machine =
        ["/proc", "state directory", "audit", "audit record", "openat2", "unnamed files", "exchange"];
    assert_eq!((names[0], &names[1..8]), ("configuration", &machine[..]));
    let bounded =
        ["undo", "quarantine", "outputs", "sessions", "runs", "audit"].map(|kind| format!("state {kind}"));
    let (layers_found, providers) = names[14..].split_at(layers.len());
    assert_eq!((&names[8..14], layers_found), (&bounded.each_ref().map(String::as_str)[..], &layers[..]));
    assert!(
        providers.iter().all(|name| ["provider ", "model ", "toolchain ", "package cache"]
            .iter()
            .any(|kind| name.starts_with(kind))),
        "{providers:?}"
    );
    let missing = rows.iter().any(|row| row["state"] == "missing");
    assert_eq!(code, i32::from(missing));

    // A required layer that is missing fails the check, with a remedy.
    let lacks_cgroup = rows.iter().any(|row| row["check"] == "cgroup" && row["state"] == "fallback");
    if lacks_cgroup {
        place.write("toolgate.yaml", "sandbox: {require: all}\n");
        let (code, rows) = examined(&[]);
        let row = rows.iter().find(|row| row["check"] == "cgroup").unwrap();
        assert_eq!((code, &row["state"]), (1, &Value::from("missing")), "{row}");
        assert!(row["detail"].as_str().unwrap().contains("sandbox.require"), "{row}");
        let (_, envelope) = place.call("run_command", &serde_json::json!({"command": "true"}));
        assert_eq!(envelope["code"], "sandbox_unavailable", "{envelope}");
        // Nothing else is affected.
        place.must(&["call", "list_directory"]);
    }
}

/// Every file that a configuration can name, as a FIFO without a writer, and the expected message.
const FIFOS: &[(&str, &str)] = &[
    ("tools: [pipe]\n", "`pipe` cannot be read"),
    ("policies: [pipe]\n", "`pipe` cannot be read"),
    ("conversation: {system_file: pipe}\n", "`pipe` cannot be read"),
    (
        "callers: {issuer: a, audience: b, keys: [{algorithm: ES256, kid: k, file: pipe}]}\n",
        "`pipe` cannot be read",
    ),
    (
        "callers: {issuer: a, audience: b, keys: [{algorithm: HS256, kid: k, secret_file: pipe}]}\n",
        "`pipe` cannot be read",
    ),
    (
        "callers: {issuer: a, audience: b, keys: [{algorithm: ES256, jwks_file: pipe}]}\n",
        "`pipe` cannot be read",
    ),
];

#[test]
fn a_fifo_that_a_configuration_names_is_refused_and_not_waited_for() {
    let place = CliFixture::new();
    let fifo = place.scratch.path().join("pipe");
    let status = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&fifo).status().unwrap();
    assert!(status.success());
    for (config, message) in FIFOS {
        place.write("named.yaml", config);
        // Only conversations read `system_file`, and caller keys are read only if a token may come.
        let commands: &[&[&str]] = match config.split(':').next() {
            Some("conversation") => &[&["run", "hello", "--model", "scripted/demo"]],
            Some("callers") => &[&["check"]],
            _ => &[&["check"], &["tools"], &["call", "list_directory", "{}"]],
        };
        for command in commands {
            let mut toolgate = place.toolgate();
            toolgate.args(["--config", "named.yaml"]).args(*command);
            let output = ended_in_time(toolgate, &format!("{command:?} with {config}"));
            let said = String::from_utf8_lossy(&output.stderr).into_owned()
                + &String::from_utf8_lossy(&output.stdout);
            assert!(said.contains(message) && said.contains("not a regular file"), "{command:?}: {said}");
        }
    }
}

/// Runs a command that must end by itself. One that blocks on a FIFO never does.
fn ended_in_time(mut command: std::process::Command, what: &str) -> std::process::Output {
    use std::process::Stdio;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let process = command.spawn().unwrap();
    let id = process.id();
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(process.wait_with_output()));
    match ended.recv_timeout(std::time::Duration::from_secs(60)) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            let _ = std::process::Command::new("kill").args(["-9", &id.to_string()]).status();
            panic!("{what} does not end");
        }
    }
}

#[test]
fn a_pipe_that_the_command_line_names_is_read_as_a_configuration() {
    let place = CliFixture::new();
    let mut command = place.toolgate();
    command.args(["--config", "/dev/stdin", "tools"]).stdin(std::process::Stdio::piped());
    let mut process = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut process.stdin.take().unwrap(), b"profile: claw\n").unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("list_dir"), "{output:?}");
}

/// A gate would not start with it, so `check` reports it.
#[test]
fn a_policy_about_a_mount_that_there_is_not_is_a_problem() {
    let place = CliFixture::new();
    let _docs = place.scratch.folder("docs");
    place.write("toolgate.yaml", "policies: [p.cedar]\nmounts: {'@docs': {path: docs}}\n");
    for (alias, code) in [("@docs", 0), ("@project", 0), ("@dcs", 2)] {
        let rule = format!(
            "permit (principal, action, resource);\nforbid (principal, action == Action::\"read_file\", resource)\nwhen {{ context.input.path in Path::\"{alias}/a\" }};\n"
        );
        place.write("p.cedar", &rule);
        let output = place.run(&["check"]);
        assert_eq!(output.status.code(), Some(code), "{alias}: {output:?}");
    }
}

#[test]
fn the_doctor_begins_with_a_summary_and_verifies_the_record() {
    let place = CliFixture::new();
    let told = place.run(&["doctor", "--offline"]);
    let told = String::from_utf8(told.stdout).unwrap();
    let first = told.lines().next().unwrap();
    assert!(first.starts_with("ready: ") || first.starts_with("not ready: "), "{told}");
    place.must(&["call", "list_directory"]);
    let record = || {
        let output = place.run(&["doctor", "--offline", "--json"]);
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        rows.into_iter().find(|row| row["check"] == "audit record").unwrap()
    };
    assert_eq!(record()["state"], "ok");
    let audit = place.state.join("audit");
    let mut days = std::fs::read_dir(&audit).unwrap().map(|entry| entry.unwrap().path());
    let day = days.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("20")).unwrap();
    let changed = std::fs::read_to_string(&day).unwrap().replace("list_directory", "list_directorx");
    std::fs::write(&day, changed).unwrap();
    let row = record();
    assert_eq!(
        (&row["state"], &row["command"]),
        (&json!("failing"), &json!("toolgate audit verify")),
        "{row}"
    );
}

#[test]
fn the_doctor_lists_the_toolchains_and_package_caches_that_it_found() {
    let home = tempfile::Builder::new().prefix("toolgate-home-").tempdir_in("/var/tmp").unwrap();
    let home = home.path().canonicalize().unwrap();
    let cargo = home.join(".cargo/bin/cargo");
    std::fs::create_dir_all(cargo.parent().unwrap()).unwrap();
    std::fs::write(&cargo, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&cargo, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::create_dir_all(home.join(".rustup/toolchains")).unwrap();
    std::fs::write(home.join(".rustup/settings.toml"), "x").unwrap();
    std::fs::create_dir_all(home.join(".nvm/versions/node/v20.1.0/bin")).unwrap();
    let place = CliFixture::new();
    let rows = || -> Vec<Value> {
        let mut command = place.toolgate();
        command.env("HOME", &home).env_remove("RUSTUP_HOME").env_remove("CARGO_HOME");
        command.args(["doctor", "--offline", "--json"]);
        serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
    };
    let found = |rows: &[Value], check: &str| -> Vec<String> {
        let rows = rows.iter().filter(|row| row["check"] == check && row["state"] == "ok");
        rows.map(|row| row["detail"].as_str().unwrap().to_owned()).collect()
    };
    let before = rows();
    let rustup = found(&before, "toolchain rustup").concat();
    assert!(rustup.contains(&home.display().to_string()) && rustup.contains("programs in "), "{before:?}");
    assert_eq!(found(&before, "package cache").len(), 1, "none is kept yet: {before:?}");
    let mut command = place.toolgate();
    command.env("HOME", &home);
    let line = r#"{"command": "mkdir -p $npm_config_cache && echo x > $npm_config_cache/x"}"#;
    assert!(command.args(["call", "run_command", line]).status().unwrap().success());
    let after = found(&rows(), "package cache");
    let workspace = place.workspace.display().to_string();
    assert!(after.iter().any(|row| row.contains(&format!(" in {workspace}: "))), "{after:?}");
}

#[test]
fn the_doctor_names_keys_that_cannot_be_used() {
    let place = CliFixture::new();
    place.write(
        "toolgate.yaml",
        "models: {office: {wire: openai-chat, base_url: \"https://m.example/v1\", key_file: gone.key}}\n",
    );
    let output = place.run(&["doctor", "--offline", "--json"]);
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let row = rows.iter().find(|row| row["check"] == "key of office").unwrap();
    assert_eq!(row["state"], "failing", "{row}");
    assert!(row["detail"].as_str().unwrap().contains("gone.key"), "{row}");
    assert_eq!(output.status.code(), Some(1));
}
