//! What `mcp install` and `mcp import` do to the user's files.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};
use toolgate_attack::Scratch;

/// A user with a home directory and a project, and without a terminal.
struct Person {
    home: PathBuf,
    project: PathBuf,
    _scratch: Scratch,
}

impl Person {
    fn new() -> Self {
        let scratch = Scratch::new();
        Self { home: scratch.folder("home"), project: scratch.folder("project"), _scratch: scratch }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("setsid");
        command.args(["--wait", env!("CARGO_BIN_EXE_toolgate")]).args(arguments).current_dir(&self.project);
        for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "CODEX_HOME", "COPILOT_HOME", "TOOLGATE_TOKEN"]
        {
            command.env_remove(variable);
        }
        command.env("HOME", &self.home).output().unwrap()
    }

    fn must(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn write(&self, path: &str, content: &str) {
        std::fs::write(self.project.join(path), content).unwrap();
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.project.join(path)).unwrap()
    }

    fn write_home(&self, path: &str, content: &str) {
        let path = self.home.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

fn json_of(path: &PathBuf) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_new_file_gets_the_entry() {
    let person = Person::new();
    person.must(&["mcp", "install", "--client", "cursor", "--yes", "--trust", "guided"]);
    let path = person.home.join(".cursor/mcp.json");
    let entry = &json_of(&path)["mcpServers"]["toolgate"];
    assert!(entry["command"].as_str().unwrap().ends_with("toolgate"), "{entry}");
    let arguments: Vec<&str> = entry["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(arguments.first(), Some(&"mcp"));
    let workspace = arguments.iter().position(|word| *word == "--workspace").unwrap();
    assert!(arguments[workspace + 1].starts_with('/'), "{arguments:?}");
    assert!(arguments.ends_with(&["--trust", "guided"]), "{arguments:?}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    let again = person.must(&["mcp", "install", "--client", "cursor", "--yes", "--trust", "guided"]);
    assert!(again.contains("has this entry already"), "{again}");
}

#[test]
fn what_is_in_a_file_stays_there_and_is_kept_beside_it() {
    let person = Person::new();
    let before = "{\n\t// mine\n\t\"theme\": \"dark\",\n\t\"context_servers\": {\n\t\t\"a\": {\"command\": \"x\"}, // first\n\t},\n}\n";
    person.write_home(".config/zed/settings.json", before);
    let path = person.home.join(".config/zed/settings.json");
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    person.must(&["mcp", "install", "--client", "zed", "--yes", "--name", "gate"]);
    let after = std::fs::read_to_string(&path).unwrap();
    for kept in ["// mine", "// first", "\"theme\": \"dark\"", "\"gate\": {"] {
        assert!(after.contains(kept), "{kept}: {after}");
    }
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let backup = person.home.join(".config/zed/settings.json.before.toolgate");
    assert_eq!(std::fs::read_to_string(backup).unwrap(), before);
    // Later changes also back up the content before the last of them.
    for trust in ["autonomous", "supervised", "guided"] {
        let before_last = std::fs::read_to_string(&path).unwrap();
        person.must(&["mcp", "install", "--client", "zed", "--yes", "--name", "gate", "--trust", trust]);
        let last = person.home.join(".config/zed/settings.json.before-last.toolgate");
        assert_eq!(std::fs::read_to_string(last).unwrap(), before_last);
    }
    let first = person.home.join(".config/zed/settings.json.before.toolgate");
    assert_eq!(std::fs::read_to_string(first).unwrap(), before);
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 3, "something was left behind");
}

#[test]
fn a_link_stays_a_link() {
    let person = Person::new();
    person.write_home("dotfiles/claude.json", "{\"numStartups\": 7}");
    symlink(person.home.join("dotfiles/claude.json"), person.home.join(".claude.json")).unwrap();
    person.must(&["mcp", "install", "--client", "claude-code", "--yes"]);
    assert!(person.home.join(".claude.json").is_symlink());
    let written = json_of(&person.home.join("dotfiles/claude.json"));
    assert_eq!(
        (&written["numStartups"], &written["mcpServers"]["toolgate"]["type"]),
        (&json!(7), &json!("stdio"))
    );
}

/// A symlink that a model plants in its workspace redirects no write out of it, and copies nothing from outside into it.
#[test]
fn a_planted_link_leads_nowhere() {
    let install = ["mcp", "install", "--client", "claude-code", "--scope", "project", "--yes"];
    let config = "{\"mcpServers\": {}}";
    for (planted, victim_holds, before) in [
        (".mcp.json.before-last.toolgate", "export PATH\n", config),
        (".mcp.json.before.toolgate", "export PATH\n", config),
        (".mcp.json", config, ""),
    ] {
        let person = Person::new();
        let victim = person.home.join("victim");
        std::fs::write(&victim, victim_holds).unwrap();
        if !before.is_empty() {
            person.write(".mcp.json", before);
            person.write(".mcp.json.before.toolgate", "{}");
        }
        let planted = person.project.join(planted);
        let _ = std::fs::remove_file(&planted);
        symlink(&victim, &planted).unwrap();
        let refused = person.run(&install);
        assert_eq!(refused.status.code(), Some(2), "{planted:?}: {refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("link"), "{refused:?}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), victim_holds, "{planted:?}");
        if !before.is_empty() {
            assert_eq!(person.read(".mcp.json"), before, "{planted:?}");
        }
        let copied = std::fs::read_dir(&person.project).unwrap().flatten().any(|entry| {
            !entry.path().is_symlink() && std::fs::read_to_string(entry.path()).unwrap() == victim_holds
        });
        assert!(!copied || victim_holds == before, "{planted:?}");
    }
}

#[test]
fn a_planted_folder_leads_nowhere() {
    let person = Person::new();
    let outside = person.home.join("outside");
    std::fs::create_dir(&outside).unwrap();
    symlink(&outside, person.project.join(".vscode")).unwrap();
    symlink(&outside, person.project.join("tools.d")).unwrap();
    for arguments in [
        &["mcp", "install", "--client", "vscode", "--scope", "project", "--yes"][..],
        &["mcp", "install", "--client", "vscode", "--file", ".vscode/mcp.json", "--yes"],
        &["tools", "new", "mine", "--", "true"],
    ] {
        let refused = person.run(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {refused:?}");
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

/// A denied file is not copied, although the symlink to it stays inside.
#[test]
fn a_planted_link_leads_to_nothing_that_is_denied() {
    let secret = "{\"token\": \"hunter2\"}";
    for (link, target, victim) in [
        (".vscode/mcp.json", "../credentials.json", "credentials.json"),
        (".vscode/mcp.json", "../private/mcp.json", "private/mcp.json"),
        (".vscode", "private", "private/mcp.json"),
        (".vscode", "rules", "rules/mcp.json"),
    ] {
        for command in ["install", "uninstall"] {
            let person = Person::new();
            person.write("toolgate.yaml", "deny: [private/**]\npolicies: [rules]\n");
            std::fs::create_dir_all(person.project.join("rules")).unwrap();
            person.must(&["trust", "--yes"]);
            for path in [link, victim] {
                std::fs::create_dir_all(person.project.join(path).parent().unwrap()).unwrap();
            }
            person.write(victim, secret);
            symlink(target, person.project.join(link)).unwrap();
            let refused = person.run(&["mcp", command, "--client", "vscode", "--scope", "project", "--yes"]);
            assert_eq!(refused.status.code(), Some(2), "{link} {target}: {refused:?}");
            let said = String::from_utf8_lossy(&refused.stderr);
            assert!(said.contains("is a link to what tools are kept from"), "{said}");
            assert_eq!(person.read(victim), secret, "{link} {target}");
            let beside = person.project.join(".vscode/mcp.json.before.toolgate");
            assert!(!beside.exists(), "{link} {target}");
        }
    }
}

/// A project may keep its editor directories elsewhere within it.
#[test]
fn a_folder_that_is_a_link_within_the_project_stays_one() {
    let person = Person::new();
    std::fs::create_dir_all(person.project.join("config/vscode")).unwrap();
    person.write("config/vscode/mcp.json", "{}");
    symlink("config/vscode", person.project.join(".vscode")).unwrap();
    person.must(&["mcp", "install", "--client", "vscode", "--scope", "project", "--yes"]);
    assert!(person.project.join(".vscode").is_symlink());
    assert!(json_of(&person.project.join("config/vscode/mcp.json"))["servers"]["toolgate"].is_object());
}

/// Several clients may share one file in the project through symlinks.
#[test]
fn a_link_within_the_project_stays_a_link() {
    let person = Person::new();
    person.write(".mcp.json", "{}");
    std::fs::create_dir(person.project.join(".cursor")).unwrap();
    symlink("../.mcp.json", person.project.join(".cursor/mcp.json")).unwrap();
    person.must(&["mcp", "install", "--client", "cursor", "--scope", "project", "--yes"]);
    assert!(person.project.join(".cursor/mcp.json").is_symlink());
    assert!(json_of(&person.project.join(".mcp.json"))["mcpServers"]["toolgate"].is_object());
}

#[test]
fn nothing_is_written_without_a_yes_or_where_it_could_do_harm() {
    let person = Person::new();
    let shown = person.must(&["mcp", "install", "--client", "codex", "--dry-run"]);
    assert!(shown.contains("[mcp_servers.toolgate]") && !person.home.join(".codex").exists(), "{shown}");

    let asked = person.run(&["mcp", "install", "--client", "codex"]);
    assert_eq!(asked.status.code(), Some(3), "{asked:?}");
    assert!(!person.home.join(".codex").exists());

    for (client, path, before) in [
        ("cursor", ".cursor/mcp.json", "{\"mcpServers\": []}"),
        ("cursor", ".cursor/mcp.json", "not json"),
        ("codex", ".codex/config.toml", "mcp_servers = 7\n"),
        ("codex", ".codex/config.toml", "a = \"\"\"\n[mcp_servers.toolgate]\n"),
    ] {
        person.write_home(path, before);
        let refused = person.run(&["mcp", "install", "--client", client, "--yes"]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{before}: {said}");
        assert!(said.contains("paste this by hand") && said.contains("--workspace"), "{said}");
        assert_eq!(std::fs::read_to_string(person.home.join(path)).unwrap(), before);
    }
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let person = Person::new();
    let fifo = person.home.join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    symlink(person.home.join("gone"), person.home.join("dangling")).unwrap();
    for (file, told) in [
        (fifo.to_str().unwrap(), "it is not a regular file"),
        ("/dev/zero", "it is not a regular file"),
        (person.home.join("dangling").to_str().unwrap(), "is a link to a file that is not there"),
    ] {
        let refused = person.run(&["mcp", "install", "--client", "cursor", "--yes", "--file", file]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!((refused.status.code(), said.contains(told)), (Some(2), true), "{file}: {said}");
    }
    let endless = person.run(&["mcp", "import", "/dev/zero"]);
    let said = String::from_utf8(endless.stderr).unwrap();
    assert!(said.contains("longer than 16 MiB"), "{said}");
}

#[test]
fn what_an_older_entry_says_besides_is_named_and_kept() {
    let person = Person::new();
    let before =
        "# mine\n[mcp_servers]\ntoolgate = {command = \"old\", env = {TOKEN = \"hunter2\"}, url = \"u\"}\n";
    person.write_home(".codex/config.toml", before);
    for arguments in [&["--dry-run"][..], &["--yes"]] {
        let told = person.must(&[&["mcp", "install", "--client", "codex"], arguments].concat());
        assert!(told.contains("kept of the entry that was there: env\nremoved from it: url\n"), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
    let after = std::fs::read_to_string(person.home.join(".codex/config.toml")).unwrap();
    assert!(after.starts_with("# mine\n[mcp_servers]\ntoolgate = {command = \"/"), "{after}");
    assert!(after.contains("env = {TOKEN = \"hunter2\"}") && !after.contains("url"), "{after}");
}

#[test]
fn a_project_has_its_own_file_where_the_client_has_one() {
    let person = Person::new();
    person.must(&["mcp", "install", "--client", "vscode", "--scope", "project", "--yes"]);
    let entry = &json_of(&person.project.join(".vscode/mcp.json"))["servers"]["toolgate"];
    // Nothing in it is of one person.
    let expected = json!({"type": "stdio", "command": "toolgate", "args": ["mcp", "--no-config", "--workspace", "${workspaceFolder}"]});
    assert_eq!(*entry, expected);
    let refused = person.run(&["mcp", "install", "--client", "windsurf", "--scope", "project", "--yes"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn the_configuration_is_passed_on() {
    let person = Person::new();
    person.write("toolgate.yaml", "workspace: ./w\n");
    person.must(&["trust", "--yes"]);
    let told = person.must(&["--json", "mcp", "install", "--client", "cursor", "--dry-run"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let arguments = told["entry"]["mcpServers"]["toolgate"]["args"].as_array().unwrap();
    assert_eq!(arguments[1], "--config");
    assert!(arguments[2].as_str().unwrap().ends_with("/toolgate.yaml"));
    assert!(!arguments.contains(&json!("--workspace")), "{arguments:?}");
    assert_eq!((&told["written"], &told["state"]), (&json!(false), &json!("shown")));
}

#[test]
fn an_entry_is_told_as_it_is_written_and_a_folder_must_be_there() {
    let person = Person::new();
    let install = |client: &str| -> Value {
        let told = person.must(&["--json", "mcp", "install", "--client", client, "--yes"]);
        serde_json::from_str(&told).unwrap()
    };
    for state in ["written", "unchanged"] {
        let told = install("codex");
        assert!(told["entry"].as_str().unwrap().contains("[mcp_servers.toolgate]"), "{told}");
        assert_eq!((&told["state"], &told["written"]), (&json!(state), &json!(state == "written")));
    }
    let missing = person.home.join("missing").display().to_string();
    for (option, value) in [("--workspace", missing.clone()), ("--mount", format!("@docs={missing}:ro"))] {
        let refused = person.run(&[option, &value, "mcp", "install", "--client", "cursor", "--yes"]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("`{missing}` cannot be opened")) && said.contains(option), "{said}");
    }
    assert!(!person.home.join(".cursor").exists());
}

#[test]
fn an_entry_is_taken_out_again_and_nothing_else() {
    let person = Person::new();
    let before = "{\n  // mine\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}\n  }\n}\n";
    person.write_home(".cursor/mcp.json", before);
    let path = person.home.join(".cursor/mcp.json");
    person.must(&["mcp", "install", "--client", "cursor", "--yes"]);
    let installed = std::fs::read_to_string(&path).unwrap();
    let uninstall = |options: &[&str]| {
        person.run(&[&["--json", "mcp", "uninstall", "--client", "cursor"], options].concat())
    };
    let told = |output: Output| -> Value { serde_json::from_slice(&output.stdout).unwrap() };

    assert_eq!(uninstall(&[]).status.code(), Some(3), "nobody can be asked");
    let shown = told(uninstall(&["--dry-run"]));
    assert_eq!((&shown["state"], &shown["written"]), (&json!("shown"), &json!(false)));
    assert_eq!(shown["command"][1], "mcp");
    let other = uninstall(&["--yes", "--name", "a"]);
    assert_eq!(other.status.code(), Some(2), "it is somebody else's: {other:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), installed);

    assert_eq!(told(uninstall(&["--yes"]))["state"], "written");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    assert_eq!(told(uninstall(&["--yes"]))["state"], "unchanged");
    let nothing = person.must(&["mcp", "uninstall", "--client", "codex", "--yes"]);
    assert!(nothing.contains("has no entry `toolgate`") && !person.home.join(".codex").exists(), "{nothing}");
}

#[test]
fn an_entry_that_holds_a_secret_is_named_and_not_shown() {
    let person = Person::new();
    person.must(&["mcp", "install", "--client", "codex", "--yes"]);
    let path = person.home.join(".codex/config.toml");
    let installed = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{installed}env = {{TOKEN = \"hunter2\"}}\n\n[tui]\ntheme = \"dark\"\n"))
        .unwrap();
    let shown = person.must(&["mcp", "uninstall", "--client", "codex", "--dry-run"]);
    assert!(shown.contains("with: env\n") && !shown.contains("hunter2"), "{shown}");
    person.must(&["mcp", "uninstall", "--client", "codex", "--yes"]);
    let after = std::fs::read_to_string(&path).unwrap();
    assert!(after.contains("[tui]") && !after.contains("toolgate") && !after.contains("hunter2"), "{after}");
}

const CLIENT: &str = r#"{"mcpServers": {"issues": {"command": "tracker", "args": ["--stdio"], "env": {"TRACKER_TOKEN": "hunter2"}}}}"#;

/// A gate behind itself would call itself for ever, also under another name.
#[test]
fn a_running_gate_is_installed_by_its_address_and_its_token_is_not_written() {
    let person = Person::new();
    let install = |client: &str, more: &[&str]| {
        person.run(&[&["--token", "hunter2", "mcp", "install", "--client", client, "--yes"], more].concat())
    };
    assert_eq!(install("claude-code", &["--http"]).status.code(), Some(0));
    let file = person.home.join(".claude.json");
    let expected = json!({
        "type": "http", "url": "http://127.0.0.1:8420/mcp", "headers": {"Authorization": "Bearer ${TOOLGATE_TOKEN}"},
    });
    assert_eq!(json_of(&file)["mcpServers"]["toolgate"], expected);
    assert_eq!(install("codex", &["--http=https://gate.example.com/mcp"]).status.code(), Some(0));
    let codex = std::fs::read_to_string(person.home.join(".codex/config.toml")).unwrap();
    assert!(codex.contains("url = \"https://gate.example.com/mcp\""), "{codex}");
    assert!(
        codex.contains("bearer_token_env_var = \"TOOLGATE_TOKEN\"") && !codex.contains("hunter2"),
        "{codex}"
    );
    for (client, more) in [
        ("claude-desktop", &["--http"][..]),
        ("cursor", &["--http=http://127.0.0.1:8420/?token=hunter2"]),
        ("cursor", &["--http=file:///etc/passwd"]),
        ("cursor", &["--http", "--workspace", "."]),
        ("cursor", &["--roots-below", ".", "--workspace", "."]),
    ] {
        assert_eq!(install(client, more).status.code(), Some(2), "{client} {more:?}");
    }
    assert!(!person.home.join(".cursor/mcp.json").exists());
    // In place of the address the command, and out again.
    let below = person.project.to_str().unwrap();
    assert_eq!(install("claude-code", &["--roots-below", "."]).status.code(), Some(0));
    let entry = json_of(&file)["mcpServers"]["toolgate"].clone();
    let arguments = json!(["mcp", "--no-config", "--roots-below", below]);
    assert_eq!((&entry["args"], entry.get("url"), entry.get("headers")), (&arguments, None, None), "{entry}");
    person.must(&["mcp", "uninstall", "--client", "claude-code", "--yes"]);
    person.must(&["mcp", "uninstall", "--client", "codex", "--yes"]);
}

#[test]
fn a_gate_is_not_imported_under_another_name() {
    let person = Person::new();
    let other = person.home.join("tg");
    symlink(env!("CARGO_BIN_EXE_toolgate"), &other).unwrap();
    let servers = json!({"mcpServers": {"mine": {"command": other, "args": ["mcp"]}}});
    person.write("client.json", &servers.to_string());
    let refused = person.run(&["mcp", "import", "client.json"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("it is this gate itself"), "{refused:?}");
}

#[test]
fn servers_of_a_client_are_printed_or_added() {
    let person = Person::new();
    person.write("client.json", CLIENT);
    person.write("toolgate.yaml", "# mine\ntrust: guided # why\n");
    let printed = person.run(&["mcp", "import", "client.json"]);
    let (stdout, stderr) =
        (String::from_utf8(printed.stdout).unwrap(), String::from_utf8(printed.stderr).unwrap());
    assert!(stdout.starts_with("mcp_servers:\n  issues:\n    command: tracker\n"), "{stdout}");
    assert!(
        stdout.contains("TRACKER_TOKEN: \"${TRACKER_TOKEN}\"") && stderr.contains("was not copied"),
        "{stderr}"
    );
    assert!(!format!("{stdout}{stderr}").contains("hunter2"));

    let write = ["--config", "toolgate.yaml", "mcp", "import", "client.json", "--write"];
    person.must(&write);
    let config = person.read("toolgate.yaml");
    assert!(config.starts_with("# mine\ntrust: guided # why\n\nmcp_servers:\n  issues:\n"), "{config}");
    let twice = person.run(&write);
    assert_eq!(twice.status.code(), Some(0));
    let said = String::from_utf8(twice.stderr).unwrap();
    assert!(said.contains("declared already, and left as they are: issues"), "{said}");
    assert_eq!(person.read("toolgate.yaml"), config);
}

const CLIENT_OF_MANY: &str = r#"{"mcpServers": {
    "issues": {"command": "tracker", "args": ["--other"]},
    "gate": {"command": "/usr/bin/toolgate", "args": ["mcp", "--workspace", "/w"]},
    "old": {"type": "sse", "url": "https://a.example/sse"},
    "Boxed One": {"command": "docker", "args": ["run", "x"]},
    "plain": {"command": "srv"}
}}"#;

#[test]
fn servers_are_chosen_and_those_of_the_configuration_stay() {
    let person = Person::new();
    person.write("client.json", CLIENT_OF_MANY);
    person.write("toolgate.yaml", "mcp_servers:\n  issues:\n    command: tracker\n");
    let asked = |arguments: &[&str]| -> Value {
        let import = &["--config", "toolgate.yaml", "--json", "mcp", "import", "client.json"];
        let told = person.must(&[import, arguments].concat());
        serde_json::from_str(&told).unwrap()
    };
    let left_out = |told: &Value| -> Vec<String> {
        let left_out = told["leftOut"].as_array().unwrap().iter();
        left_out.map(|left| left["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = asked(&[]);
    assert_eq!(all["servers"], json!(["issues", "boxed-one", "plain"]));
    assert_eq!(left_out(&all), ["gate", "old"]);
    assert!(all["leftOut"][0]["reason"].as_str().unwrap().contains("this gate itself"), "{all}");
    assert!(
        all["notes"]
            .as_array()
            .unwrap()
            .contains(&json!("boxed-one: `Boxed One` is called `boxed-one` here"))
    );

    let one = asked(&["Boxed One", "--write"]);
    assert_eq!((&one["servers"], &one["leftOut"]), (&json!(["boxed-one"]), &json!([])));
    let config = person.read("toolgate.yaml");
    assert!(
        config.contains("boxed-one:") && config.contains("package: \"image:x\"") && !config.contains("plain"),
        "{config}"
    );

    let rest = asked(&["--write"]);
    assert_eq!((&rest["servers"], &rest["declared"]), (&json!(["plain"]), &json!(["boxed-one"])));
    assert_eq!(left_out(&rest), ["gate", "old", "issues"]);
    let config = person.read("toolgate.yaml");
    assert!(config.contains("plain:") && !config.contains("--other"), "{config}");
    person.must(&["check"]);

    let unknown = person.run(&["mcp", "import", "client.json", "plan"]);
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert_eq!(
        (unknown.status.code(), said.contains("there are issues, boxed-one, plain")),
        (Some(2), true),
        "{said}"
    );
}

#[test]
fn servers_of_codex_are_understood() {
    let person = Person::new();
    person.must(&["mcp", "install", "--client", "codex", "--yes"]);
    let file = person.home.join(".codex/config.toml");
    let installed = std::fs::read_to_string(&file).unwrap();
    let more = "\n[mcp_servers.web]\nurl = \"https://a.example/mcp\"\nbearer_token_env_var = \"WEB_TOKEN\"\nstartup_timeout_sec = 1.5\n";
    std::fs::write(&file, installed + more).unwrap();
    let told = person.must(&["--json", "mcp", "import", file.to_str().unwrap()]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["servers"], &told["leftOut"][0]["name"]), (&json!(["web"]), &json!("toolgate")));
    assert!(told["yaml"].as_str().unwrap().contains("Authorization: \"Bearer ${WEB_TOKEN}\""), "{told}");
    person.write("bad.toml", "a = hunter2\n");
    let refused = person.run(&["mcp", "import", "bad.toml"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!((refused.status.code(), said.contains("not TOML: line 1")), (Some(2), true), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn a_first_configuration_is_made() {
    let person = Person::new();
    person.write("client.json", CLIENT);
    person.must(&["mcp", "import", "client.json", "--write"]);
    assert!(person.read("toolgate.yaml").starts_with("mcp_servers:\n"));
    let mode = std::fs::metadata(person.project.join("toolgate.yaml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for (text, told) in
        [("{}", "no MCP servers"), ("mcp:", "not JSON"), (r#"{"mcpServers": {"a": {}}}"#, "can be used")]
    {
        person.write("bad.json", text);
        let refused = person.run(&["mcp", "import", "bad.json"]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!((refused.status.code(), said.contains(told)), (Some(2), true), "{text}: {said}");
    }
}

/// Only users decide what a client starts: the gate writes such a file on their request, and no model can.
#[test]
fn no_tool_writes_a_file_that_a_client_obeys() {
    let person = Person::new();
    let unknown = person.run(&["mcp", "install", "--client", "?"]);
    let said = String::from_utf8(unknown.stderr).unwrap();
    let (_, clients) = said.split_once("[possible values: ").unwrap();
    let clients: Vec<&str> = clients.split_once(']').unwrap().0.split(", ").collect();
    let mut files = 0;
    for client in clients {
        let shown =
            person.run(&["--json", "mcp", "install", "--client", client, "--scope", "project", "--dry-run"]);
        if shown.status.code() == Some(2) {
            assert!(String::from_utf8_lossy(&shown.stderr).contains("has no file for single projects"));
            continue;
        }
        let told: Value = serde_json::from_slice(&shown.stdout).unwrap();
        let file = PathBuf::from(told["file"].as_str().unwrap());
        let path = file.strip_prefix(person.project.canonicalize().unwrap()).unwrap();
        // Backups are for the user only: the file may be denied to tools.
        for (ending, code) in
            [("", "read_only"), (".before.toolgate", "denied_path"), (".before-last.toolgate", "denied_path")]
        {
            let arguments =
                json!({"path": format!("{}{ending}", path.display()), "content": "{}"}).to_string();
            let refused = person.run(&["call", "write_file", &arguments]);
            let said = String::from_utf8(refused.stderr).unwrap();
            assert_eq!(refused.status.code(), Some(3), "{client}: {said}");
            assert!(said.contains(code) && !file.exists(), "{client}: {said}");
        }
        files += 1;
    }
    assert!(files >= 7, "only {files} clients have a file for single projects");
}
