//! Servers that are programs of a home directory, as package managers install them, and the directory that a client's file calls the open one.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

/// A server that answers with its working directory, and whether it sees the file that its first argument names.
const SERVER: &str = r#"
import json, os, sys

TOOL = {"name": "where", "description": "Says where it is", "inputSchema": {"type": "object"}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        about = {"name": "where", "version": "1"}
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
    elif message["method"] == "tools/list":
        answer["result"] = {"tools": [TOOL]}
    elif message["method"] == "tools/call":
        seen = [os.path.exists(path) for path in sys.argv[1:]]
        answer["result"] = {"content": [{"type": "text", "text": f"{os.getcwd()} {seen}"}]}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"#;

/// A person with programs in the home directory, which is not where commands have directories of their own.
struct Person {
    scratch: tempfile::TempDir,
}

impl Person {
    fn new() -> Self {
        let person = Self { scratch: tempfile::tempdir_in("/var/tmp").unwrap() };
        for directory in ["project", "elsewhere"] {
            std::fs::create_dir_all(person.path(directory)).unwrap();
        }
        person
    }

    fn path(&self, path: &str) -> PathBuf {
        self.scratch.path().canonicalize().unwrap().join(path)
    }

    fn text(&self, path: &str) -> String {
        self.path(path).to_str().unwrap().to_owned()
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// The exit code, and all that was written.
    fn run(&self, directory: &str, arguments: &[&str]) -> (i32, String) {
        let mut command = Command::new("setsid");
        command.args(["--wait", env!("CARGO_BIN_EXE_toolgate")]).args(arguments);
        for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "TOOLGATE_TOKEN"] {
            command.env_remove(variable);
        }
        let path = format!("{}:/usr/bin:/bin", self.text("home/.local/bin"));
        command.current_dir(self.path(directory)).env("HOME", self.path("home")).env("PATH", path);
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout) + &text(&output.stderr))
    }
}

/// As `uv tool install` leaves it: a link to a program of a virtual environment.
#[test]
fn a_server_that_a_package_manager_linked_into_the_home_directory_runs() {
    let person = Person::new();
    let tool = "home/.local/share/uv/tools/where";
    person.write(&format!("{tool}/pyvenv.cfg"), "home = /usr/bin\ninclude-system-site-packages = false\n");
    person.link(&format!("{tool}/bin/python"), "/usr/bin/python3");
    let python = person.text(&format!("{tool}/bin/python"));
    person.write(&format!("{tool}/bin/where-mcp"), &format!("#!{python}\n{SERVER}"));
    person.link("home/.local/bin/where-mcp", &person.text(&format!("{tool}/bin/where-mcp")));
    person.write("project/client.json", r#"{"mcpServers": {"where": {"command": "where-mcp"}}}"#);
    let (code, said) = person.run("project", &["mcp", "import", "client.json", "--write", "--yes"]);
    assert_eq!(code, 0, "{said}");
    let link = person.text("home/.local/bin/where-mcp");
    assert!(said.contains(&format!("where: `where-mcp` is `{link}` here")), "{said}");
    let (code, said) = person.run("project", &["call", "where__where", "{}"]);
    assert_eq!(code, 0, "{said}");
    let (code, said) = person.run("project", &["check"]);
    assert!(code == 0 && said.contains("no problems"), "{said}");
    // Imported again, it is the same server.
    let (code, said) = person.run("project", &["mcp", "import", "client.json", "--write"]);
    assert!(code == 0 && said.contains("declared already, and left as they are: where"), "{said}");

    // What a start would say, said beforehand: first without the tool, then without its Python.
    let config = std::fs::read_to_string(person.path("project/toolgate.yaml")).unwrap();
    let read = config.lines().find(|line| line.trim_start().starts_with("read: ")).unwrap();
    let only = format!("    read: [{link}]");
    person.write("other/toolgate.yaml", &config.replace(read, &only));
    let (_, said) = person.run("other", &["--config", "toolgate.yaml", "check"]);
    let target = person.text(&format!("{tool}/bin/where-mcp"));
    assert!(said.contains(&format!("the sandbox lacks `{link}`, or `{target}`, where it leads")), "{said}");
    let only = format!("    read: [{link}, {target}]");
    person.write("other/toolgate.yaml", &config.replace(read, &only));
    let (_, said) = person.run("other", &["--config", "toolgate.yaml", "check"]);
    assert!(said.contains(&format!("the sandbox lacks `{python}`, which runs `{link}`")), "{said}");
}

#[test]
fn the_open_directory_of_a_clients_file_is_that_of_its_own_project() {
    let person = Person::new();
    person.write("home/.keep", "");
    person.write("project/server/where.py", SERVER);
    person.write("project/notes.md", "x");
    person.write("more/x", "x");
    let more = person.text("more");
    let server = json!({
        "command": "python3", "cwd": "${workspaceFolder}",
        "args": ["${workspaceFolder}/server/where.py", "${workspaceFolder}/notes.md", more]
    });
    person.write("project/.vscode/mcp.json", &json!({"servers": {"where": server}}).to_string());
    let project = person.text("project");
    for directory in ["elsewhere", "project"] {
        let file = person.text("project/.vscode/mcp.json");
        let (code, said) = person.run(directory, &["mcp", "import", &file, "--write", "--yes"]);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains(&format!("`${{workspaceFolder}}` is `{project}`")), "{said}");
        let (code, said) = person.run(directory, &["call", "where__where", "{}"]);
        let expected = format!("{project} [True, True]");
        assert!(code == 0 && said.contains(&expected), "{directory}: {said}");
    }
    // A file for all sessions has no project: what the variable means is said.
    person.write("home/.cursor/mcp.json", &json!({"mcpServers": {"other": server}}).to_string());
    let (_, said) = person.run("elsewhere", &["mcp", "import", "--client", "cursor"]);
    let expected = format!("is the workspace of the gate, which is `{}` from here", person.text("elsewhere"));
    assert!(said.contains(&expected), "{said}");
}

/// The entry in a project's file is for all who open it, so it names no path of one person, and each person agrees to the configuration.
#[test]
fn a_project_is_wrapped_for_all_who_open_it() {
    let person = Person::new();
    person.write("home/.keep", "");
    person.write("server/where.py", SERVER);
    let before =
        json!({"mcpServers": {"where": {"command": "python3", "args": [person.text("server/where.py")]}}});
    let before = before.to_string();
    person.write("project/.mcp.json", &before);
    let wrap = ["mcp", "wrap", "--client", "claude-code", "--scope", "project", "--yes"];
    let (code, said) = person.run("project", &wrap);
    assert_eq!(code, 0, "{said}");
    let entry: serde_json::Value =
        serde_json::from_slice(&std::fs::read(person.path("project/.mcp.json")).unwrap()).unwrap();
    let expected = json!({"toolgate": {"type": "stdio", "command": "toolgate", "args": ["mcp"]}});
    assert_eq!(entry["mcpServers"], expected);
    let (code, said) = person.run("project", &["call", "where__where", "{}"]);
    assert_eq!(code, 0, "{said}");
    // Wrapped by another person, who did not agree to the configuration: nothing of it is obeyed, and nothing is written.
    std::fs::rename(person.path("home"), person.path("home of another")).unwrap();
    person.write("home/.keep", "");
    person.write("project/.mcp.json", &before);
    let (code, said) = person.run("project", &wrap);
    assert_eq!(code, 2, "{said}");
    assert_eq!(std::fs::read_to_string(person.path("project/.mcp.json")).unwrap(), before);
    // Put back byte for byte.
    std::fs::remove_dir_all(person.path("home")).unwrap();
    std::fs::rename(person.path("home of another"), person.path("home")).unwrap();
    let (code, said) =
        person.run("project", &["mcp", "unwrap", "--client", "claude-code", "--scope", "project", "--yes"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(std::fs::read_to_string(person.path("project/.mcp.json")).unwrap(), before);
}
