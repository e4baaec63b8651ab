//! What the binary itself assembles: mounts, the gate's own files, runs.

use serde_json::{Value, json};

use crate::fixture::{CliFixture, finish_call};

fn refused(place: &CliFixture, options: &[&str], tool: &str, arguments: &Value, code: &str) {
    let mut command = place.toolgate();
    command.args(options);
    let (_, envelope) = finish_call(command, tool, arguments);
    assert_eq!(envelope["code"], code, "{options:?} {tool} {arguments}: {envelope}");
    assert_eq!(envelope["isError"], true);
}

#[test]
fn the_gates_own_files_are_out_of_reach() {
    // A state directory may lie only in a workspace that holds the home directory.
    let place = CliFixture::at_home();
    let config = place.workspace.join("gate.conf");
    std::fs::write(&config, "trust: autonomous\n").unwrap();
    let config = config.to_str().unwrap();
    place.must(&["--config", config, "call", "list_directory"]);
    std::os::unix::fs::symlink(".local/state/toolgate", place.workspace.join("link")).unwrap();
    for path in [
        "gate.conf",
        ".local/state/toolgate/audit/lock",
        "link/audit/lock",
        ".local/state/toolgate/journal.toolgate",
        "link/keys/audit.key",
    ] {
        refused(&place, &["--config", config], "read_file", &json!({"path": path}), "denied_path");
        refused(
            &place,
            &["--config", config],
            "write_file",
            &json!({"path": path, "content": ""}),
            "denied_path",
        );
    }
    assert_eq!(std::fs::read_to_string(config).unwrap(), "trust: autonomous\n");
}

#[test]
fn a_package_inside_the_project_stays_read_only() {
    let place = CliFixture::new();
    let package = place.scratch.folder("w/pkg");
    std::fs::write(package.join("readme.md"), "package\n").unwrap();
    let mount = format!("@pkg={}", package.display());
    let write = |path: &str| json!({"path": path, "content": "x"});
    for path in ["@pkg/readme.md", "pkg/readme.md", "pkg/new.md", "@project/pkg/readme.md"] {
        refused(&place, &["--mount", &mount], "write_file", &write(path), "read_only");
    }
    refused(&place, &["--mount", &mount], "delete_file", &json!({"path": "pkg/readme.md"}), "read_only");
    assert_eq!(std::fs::read_to_string(package.join("readme.md")).unwrap(), "package\n");
}

#[test]
fn a_runs_log_and_workflow_are_guarded() {
    let place = CliFixture::new();
    let package = place.scratch.folder("pkg");
    std::fs::write(package.join("workflow.md"), "---\ncurrentNodeId: start\n---\nbody\n").unwrap();
    let graph = json!({"entryNodeId": "start", "nodes": ["start", "middle", "end"], "edges": [{"from": "start", "to": "middle"}]});
    std::fs::write(package.join("workflow.graph.json"), graph.to_string()).unwrap();
    let mount = format!("@pkg={}", package.display());
    let options = ["--profile", "crew", "--mount", &mount, "--run", "r1"];
    let write = |path: &str, content: &str| json!({"path": path, "content": content});
    refused(&place, &options, "fs.write", &write("@state/logs/execution.jsonl", "x"), "read_only");
    refused(&place, &options, "fs.write", &write("@state/workflow.md", "x"), "invalid_frontmatter");
    let skip = "---\ncurrentNodeId: end\n---\nbody\n";
    refused(&place, &options, "fs.write", &write("@state/workflow.md", skip), "invalid_transition");
    refused(&place, &options, "fs.write", &write("@pkg/workflow.graph.json", "{}"), "read_only");
    let workflow = place.state.join("runs/r1/workflow.md");
    assert_eq!(std::fs::read_to_string(workflow).unwrap(), "---\ncurrentNodeId: start\n---\nbody\n");
    let log = std::fs::read_to_string(place.state.join("runs/r1/logs/execution.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 4);
}
