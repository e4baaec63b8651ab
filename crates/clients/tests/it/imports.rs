//! Imports of clients' files: every file in `clients/` is imported, and one snapshot holds the entries and their notes.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_clients::{
    ImportError, Imported, InsertError, LeftOut, import_from, import_servers, insert_servers,
};
use toolgate_manifest::Config;

fn clients() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/clients");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |path: &std::path::PathBuf| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(path).unwrap())
    };
    files.iter().map(read).collect()
}

fn told(name: &str, imported: &Imported) -> String {
    let mut text = format!("==== {name}\n{}", imported.render());
    for note in &imported.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    for LeftOut { name, reason } in &imported.left_out {
        text.push_str(&format!("left out: `{name}`: {reason}\n"));
    }
    for server in &imported.servers {
        for note in &server.notes {
            text.push_str(&format!("{}: {note}\n", server.name));
        }
    }
    text
}

#[test]
fn every_client_is_understood() {
    let told: Vec<String> =
        clients().iter().map(|(name, text)| told(name, &import_servers(text).unwrap())).collect();
    insta::assert_snapshot!("imported", told.join("\n"));
}

#[test]
fn what_is_printed_is_a_configuration_without_secrets() {
    for (name, text) in clients() {
        let imported = import_servers(&text).unwrap();
        let config = Config::parse(&name, &imported.render())
            .unwrap_or_else(|problems| panic!("{}", problems.render()));
        assert_eq!(config.mcp_servers.len(), imported.servers.len(), "{name}");
        let everything = told(&name, &imported);
        for secret in
            ["ghp_", "abc123", "secretword", "\"k\"", "hunter3", "hunter4", "Bearer hunter", "hunter2 "]
        {
            assert!(!everything.contains(secret), "{name} shows `{secret}`:\n{everything}");
        }
    }
}

#[test]
fn files_without_servers_say_so() {
    for text in ["{}", "[]", "{\"mcpServers\": {}}", "{\"mcpServers\": []}", "{\"theme\": {\"a\": 1}}"] {
        assert_eq!(import_servers(text), Err(ImportError::NoServers), "{text}");
    }
    assert!(matches!(import_servers("mcp_servers:\n  a: {}"), Err(ImportError::Unreadable(_))));
    // Only the servers, as copied from a web page.
    assert_eq!(
        import_servers(r#"{"a": {"command": "x"}, "b": {"url": "https://a.example"}}"#)
            .unwrap()
            .servers
            .len(),
        2
    );
}

#[test]
fn what_could_not_work_behind_the_gate_is_left_out() {
    let text = r#"{"mcpServers": {
        "gate": {"command": "/opt/bin/toolgate", "args": ["--workspace", "/x", "mcp"]},
        "wrapped": {"command": "/usr/bin/env", "args": ["-i", "-u", "mcp", "A=b", "toolgate", "mcp"]},
        "listed": {"command": ["env", "-", "toolgate", "mcp"]},
        "other": {"command": "env", "args": ["A=toolgate", "srv", "mcp"]},
        "checks": {"command": "toolgate", "args": ["doctor"]},
        "old": {"type": "sse", "url": "https://a.example/x"},
        "older": {"url": "https://a.example/sse/"},
        "new": {"type": "http", "url": "https://a.example/sse"},
        "boxed": {"command": "/usr/bin/docker", "args": ["run", "-i", "--rm", "x"]},
        "root": {"command": "docker", "args": ["run", "-i", "--privileged", "x"]},
        "gateway": {"command": "docker", "args": ["mcp", "gateway", "run"]}
    }}"#;
    let imported = import_servers(text).unwrap();
    let left_out: Vec<&str> = imported.left_out.iter().map(|left| left.name.as_str()).collect();
    assert_eq!(left_out, ["gate", "wrapped", "listed", "old", "older", "root", "gateway"]);
    let config = Config::parse("toolgate.yaml", &imported.render()).unwrap();
    let declared: Vec<(&str, bool)> =
        config.mcp_servers.iter().map(|server| (server.name.value.as_str(), server.disabled)).collect();
    assert_eq!(declared, [("other", false), ("checks", false), ("new", false), ("boxed", false)]);
}

/// A gate under another name is recognised by its program.
#[test]
fn a_gate_by_another_name_is_left_out() {
    let mut imported = import_servers(
        r#"{"mcpServers": {
        "renamed": {"command": "/opt/tg", "args": ["mcp"]},
        "wrapped": {"command": "env", "args": ["A=b", "/opt/tg", "mcp"]},
        "other": {"command": "/opt/other", "args": ["/opt/tg"]},
        "web": {"url": "https://a.example/opt/tg"}
    }}"#,
    )
    .unwrap();
    imported.leave_out_gate(|program| program == "/opt/tg");
    let left_out: Vec<&str> = imported.left_out.iter().map(|left| left.name.as_str()).collect();
    assert_eq!(left_out, ["renamed", "wrapped"]);
    let left: Vec<&str> = imported.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(left, ["other", "web"]);
}

/// Everything that Codex passes through is noted, and an invalid name is not quoted.
#[test]
fn a_variable_in_an_address_is_taken_over_with_a_note() {
    let note = |url: &str| {
        let imported = import_servers(&json!({"a": {"url": url}}).to_string()).unwrap();
        imported.servers[0].notes.iter().any(|note| note.contains("a variable stands in the address"))
    };
    assert!(note("https://a.example/mcp?key=${TOKEN}"));
    assert!(note("https://a.example/${env:TOKEN}/mcp"));
    assert!(note("https://a.example/mcp?token=ghp_0123456789abcdefghij"), "a secret becomes a variable");
    assert!(!note("https://a.example/mcp"));
}

#[test]
fn what_is_not_passed_on_is_said() {
    for (passed, note, line) in [
        (json!(["LEVEL"]), None, Some("  LEVEL: \"${LEVEL}\"")),
        (json!(["SAID"]), None, None),
        (json!(["GITHUB_TOKEN", "OPENAI_API_KEY"]), None, None),
        (json!(["PATH"]), Some("the variable `PATH` is not taken over: the sandbox sets"), None),
        (json!(["a b"]), Some("no name of a variable"), None),
        (json!(["ghp_0123456789abcdefghij"]), Some("no name of a variable"), None),
        (json!([{"name": "LEVEL"}]), None, Some("  LEVEL: \"${LEVEL}\"")),
        (json!([{"name": "LEVEL", "source": "local"}]), None, Some("  LEVEL: \"${LEVEL}\"")),
        (
            json!([{"name": "LEVEL", "source": "remote"}]),
            Some("the variable `LEVEL` is not taken over"),
            None,
        ),
        (json!([{"x": 1}]), Some("it has no name"), None),
        (json!([7]), Some("it has no name"), None),
        (json!("LEVEL"), Some("it is not a list"), None),
    ] {
        let imported = import_from(&json!({"mcp_servers": {
            "a": {"command": "srv", "env": {"SAID": "b"}, "env_vars": passed}
        }}))
        .unwrap();
        let server = &imported.servers[0];
        assert_eq!(server.notes.len(), usize::from(note.is_some()), "{passed}: {:?}", server.notes);
        assert!(note.is_none_or(|note| server.notes[0].contains(note)), "{passed}: {:?}", server.notes);
        assert!(!told("config.toml", &imported).contains("0123456789"), "{passed}");
        let lines: Vec<&str> =
            server.lines.iter().map(String::as_str).filter(|line| line.contains("LEVEL")).collect();
        assert_eq!(lines, line.into_iter().collect::<Vec<_>>(), "{passed}");
    }
}

/// As Codex has them, after parsing its TOML.
#[test]
fn names_of_variables_become_variables() {
    let imported = import_from(&json!({"model": "x", "mcp_servers": {
        "local": {"command": "srv", "env_vars": ["LEVEL", "PATH", "a b"], "startup_timeout_sec": 5, "enabled": false},
        "web": {"url": "https://a.example/mcp", "bearer_token_env_var": "WEB", "http_headers": {"X-Team": "core"},
            "env_http_headers": {"X-Key": "KEY"}},
        "bad": {"url": "https://a.example/mcp", "bearer_token_env_var": "a}b"},
        "token": {"url": "https://a.example/mcp", "bearer_token_env_var": "ghp_0123456789abcdefghij"},
    }}))
    .unwrap();
    assert!(!told("config.toml", &imported).contains("0123456789"));
    insta::assert_snapshot!("codex", told("config.toml", &imported));
}

#[test]
fn a_server_is_known_again_by_how_it_is_started_or_reached() {
    let imported = two();
    for (declared, same) in [
        ("a: {command: x}", true),
        ("a: {command: x, mounts: ['@project'], tools: {y: {class: read}}, disabled: true}", true),
        ("a: {command: x, args: [y]}", false),
        ("a: {command: z}", false),
        ("a: {url: https://a.example}", false),
        ("b: {url: https://a.example, headers: {X-Team: core}}", true),
        ("b: {url: https://b.example}", false),
    ] {
        let config = Config::parse("toolgate.yaml", &format!("mcp_servers:\n  {declared}\n")).unwrap();
        let declared_server = &config.mcp_servers[0];
        let server =
            imported.servers.iter().find(|server| server.name == declared_server.name.value).unwrap();
        assert_eq!(server.matches(declared_server), same, "{declared}");
    }
}

fn two() -> Imported {
    import_servers(r#"{"mcpServers": {"a": {"command": "x"}, "b": {"url": "https://a.example"}}}"#).unwrap()
}

#[test]
fn servers_are_added_where_they_belong() {
    let cases = [
        "",
        "# only a comment",
        "profile: native\n",
        "mcp_servers:\n  z: {command: y} # mine\n\n# the rest\ntrust: guided\n",
        "mcp_servers: # here\n    # first\n    z:\n        command: y\n        # last of z\ntrust: guided",
        "mcp_servers:\n  z:\n    command: y\n    args:\n    - x\n",
        "mcp_servers: {}  # none\ntrust: guided\n",
        "trust: guided\nmcp_servers: {}",
        "# mine\r\ntrust: guided\r\n",
        "mcp_servers:\r\n  z: {command: y}\r\ntrust: guided\r\n",
        "mcp_servers: {}\r\ntrust: guided\r\n",
    ];
    let shown: Vec<String> = cases
        .iter()
        .map(|text| format!("{text}\n=>\n{}", insert_servers("toolgate.yaml", text, &two()).unwrap()))
        .collect();
    for shown in shown.iter().filter(|shown| shown.contains('\r')) {
        let (_, after) = shown.split_once("=>\n").unwrap();
        assert_eq!(after.matches('\n').count(), after.matches("\r\n").count(), "{shown:?}");
    }
    insta::assert_snapshot!("inserted", shown.join("\n----\n").replace('\r', "<CR>"));
}

#[test]
fn nothing_is_added_where_it_is_not_clear() {
    for (text, expected) in [
        ("mcp_servers: {z: {command: y}}\n", InsertError::Unclear),
        ("{profile: native}\n", InsertError::Unclear),
        ("profile: native\n...\n", InsertError::Unclear),
        ("mcp_servers:\n  b: {command: y}\n", InsertError::Declared("b".to_owned())),
    ] {
        assert_eq!(insert_servers("toolgate.yaml", text, &two()), Err(expected), "{text}");
    }
    assert!(matches!(insert_servers("toolgate.yaml", "profil: x", &two()), Err(InsertError::Mistakes(_))));
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,12}",
        "\\PC{0,6}",
        "(\\$\\{|\\{env:|\\}|:-|input:|[A-Z]){0,5}",
        "[\\x00-\\x1f\"'\\\\#:]{0,5}"
    ]
}

fn any_server() -> impl Strategy<Value = Value> {
    let pairs = || proptest::collection::btree_map(any_text(), any_text(), 0..3);
    (any_text(), proptest::collection::vec(any_text(), 0..4), pairs(), pairs(), any::<bool>()).prop_map(
        |(word, args, env, headers, is_process)| match is_process {
            true => json!({"command": word, "args": args, "env": env, "cwd": word}),
            false => json!({"url": format!("https://a.example/{word}"), "headers": headers}),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_server_is_imported_or_left_out(servers in proptest::collection::btree_map(any_text(), any_server(), 1..4)) {
        let text = json!({"mcpServers": servers}).to_string();
        let imported = import_servers(&text).unwrap();
        prop_assert_eq!(imported.servers.len() + imported.left_out.len(), servers.len());
        if !imported.servers.is_empty() {
            let config = Config::parse("toolgate.yaml", &imported.render());
            prop_assert!(config.is_ok(), "{}\n{}", config.unwrap_err(), imported.render());
            prop_assert!(insert_servers("toolgate.yaml", "# mine\ntrust: guided\n", &imported).is_ok());
        }
    }

    #[test]
    fn a_secret_never_appears(secret in "[a-z]{8}[0-9]{4}") {
        let args = [
            "--key=sk-SECRET", "--api-key", "SECRET", "--token=SECRET", "-H", "Authorization: Bearer SECRET", "PASSWORD=SECRET",
            "-eMY_TOKEN=SECRET", "${HOME}?token=SECRET", "https://h.example/?api_key=SECRET", "https://SECRET@h.example/",
            "--password", "${NOTHING:-SECRET}",
        ];
        let args: Vec<String> = args.iter().map(|text| text.replace("SECRET", &secret)).collect();
        let url = format!("https://a.example/s/{secret}/mcp?token={secret}&x={secret}");
        let text = json!({"mcpServers": {"s": {"command": "x", "args": args,
            "env": {"API_TOKEN": secret, "DB_URL": format!("postgres://u:{secret}@h/d"), "JSON": json!({"apiKey": secret}).to_string()}},
            "w": {"url": url, "headers": {"Authorization": format!("Bearer {secret}"), "X-Secret": secret}}}});
        let imported = import_servers(&text.to_string()).unwrap();
        prop_assert_eq!(imported.servers.len(), 2);
        prop_assert!(!told("x", &imported).contains(&secret), "{}", told("x", &imported));
    }
}

#[test]
fn a_container_is_an_image_with_what_its_command_passes_on() {
    let text = r#"{"mcpServers": {
        "hub": {
            "command": "docker",
            "args": ["run", "-i", "--rm", "-e", "HUB_TOKEN", "-v", "${workspaceFolder}:/work:ro", "ghcr.io/a/hub:1", "stdio", "/work"],
            "env": {"HUB_TOKEN": "ghp_0123456789abcdefghij0123456789abcdef", "DOCKER_HOST": "tcp://10.0.0.1"}
        }
    }}"#;
    let imported = import_servers(text).unwrap();
    let server = &imported.servers[0];
    let lines: Vec<&str> =
        server.lines.iter().map(String::as_str).filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        lines,
        [
            "package: \"image:ghcr.io/a/hub:1\"",
            "args: [stdio, /work]",
            "env:",
            "  HUB_TOKEN: \"${HUB_TOKEN}\"",
            "mounts: [\"@project\"]",
            "mount_paths: {\"@project\": /work}",
        ]
    );
    assert!(
        server.notes.iter().any(|note| note.contains("`DOCKER_HOST` is not passed")),
        "{:?}",
        server.notes
    );
    assert_eq!(server.paths, [""; 0]);
}
