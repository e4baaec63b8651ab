//! What `mcp install` and `mcp import` do to files of people.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};
use toolgate_attack::Scratch;

/// Somebody with a home folder and a project, and without a terminal.
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
    let backup = person.home.join(".config/zed/settings.json.before-toolgate");
    assert_eq!(std::fs::read_to_string(backup).unwrap(), before);
    // A second change keeps a second copy.
    person.must(&["mcp", "install", "--client", "zed", "--yes", "--name", "gate", "--trust", "autonomous"]);
    assert!(person.home.join(".config/zed/settings.json.before-toolgate-2").exists());
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
    assert_eq!(json_of(&person.project.join(".vscode/mcp.json"))["servers"]["toolgate"]["type"], "stdio");
    let refused = person.run(&["mcp", "install", "--client", "windsurf", "--scope", "project", "--yes"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn the_configuration_is_passed_on() {
    let person = Person::new();
    person.write("toolgate.yaml", "workspace: ./w\n");
    let told = person.must(&["--json", "mcp", "install", "--client", "cursor", "--dry-run"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let entry: Value = serde_json::from_str(told["entry"].as_str().unwrap()).unwrap();
    let arguments = entry["mcpServers"]["toolgate"]["args"].as_array().unwrap();
    assert_eq!(arguments[1], "--config");
    assert!(arguments[2].as_str().unwrap().ends_with("/toolgate.yaml"));
    assert!(!arguments.contains(&json!("--workspace")), "{arguments:?}");
    assert_eq!(told["written"], false);
}

const CLIENT: &str = r#"{"mcpServers": {"issues": {"command": "tracker", "args": ["--stdio"], "env": {"TRACKER_TOKEN": "hunter2"}}}}"#;

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

    person.must(&["mcp", "import", "client.json", "--write"]);
    let config = person.read("toolgate.yaml");
    assert!(config.starts_with("# mine\ntrust: guided # why\n\nmcp_servers:\n  issues:\n"), "{config}");
    let twice = person.run(&["mcp", "import", "client.json", "--write"]);
    assert_eq!(twice.status.code(), Some(2));
    assert_eq!(person.read("toolgate.yaml"), config);
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
