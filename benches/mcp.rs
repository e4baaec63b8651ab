//! `toolgate mcp` compared with the floor of any stdio server: `cat`, which answers with as many bytes and does no work.
//!
//! The bridge is measured by the CPU time that the gate itself spends on a call of an upstream server; that server is a second gate, in the sandbox.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark arranges files by hand and prints what it measures"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_benches::{in_turns, release_binary, report, report_extra};

/// A program that answers lines with lines.
struct Lines {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    answer: String,
}

impl Lines {
    fn start(command: &mut Command) -> Self {
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, input, output: BufReader::with_capacity(1 << 16, output), answer: String::new() }
    }

    fn say(&mut self, lines: &str) {
        self.input.write_all(lines.as_bytes()).unwrap();
    }

    /// The next answer, skipping `tools/list_changed` notifications, which come when an upstream server has started.
    fn hear(&mut self) -> &str {
        loop {
            self.answer.clear();
            self.output.read_line(&mut self.answer).unwrap();
            if !self.answer.contains("notifications/tools/list_changed") {
                return &self.answer;
            }
        }
    }

    /// Its CPU time so far.
    fn processor_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks = |index: usize| fields[index].parse::<u64>().unwrap();
        // `utime` and `stime`, fields 14 and 15 of the whole line, in hundredths of a second.
        Duration::from_millis((ticks(11) + ticks(12)) * 10)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An initialised gate.
fn gate(binary: &Path, folder: &Path, state: &str) -> Lines {
    let mut command = Command::new(binary);
    command.current_dir(folder).arg("--state-dir").arg(folder.join(state));
    let mut gate = Lines::start(command.args(["--config", "toolgate.yaml", "--trust", "autonomous", "mcp"]));
    greet(&mut gate);
    gate
}

fn greet(gate: &mut Lines) {
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0"}});
    gate.say(&request("initialize", &hello));
    assert!(gate.hear().contains("serverInfo"));
    gate.say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
}

fn request(method: &str, params: &Value) -> String {
    numbered(1, method, params)
}

fn numbered(id: usize, method: &str, params: &Value) -> String {
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

fn call(tool: &str, arguments: &Value) -> String {
    calls(tool, arguments, 1)
}

/// This many calls in one write, each with its own id.
fn calls(tool: &str, arguments: &Value, at_once: usize) -> String {
    let params = json!({"name": tool, "arguments": arguments});
    (1..=at_once).map(|id| numbered(id, "tools/call", &params)).collect()
}

/// The same exchange with the gate and with `cat`, which is sent the gate's answers.
fn compare(name: &str, rounds: usize, gate: &mut Lines, asked: &str, bound: f64) {
    let mut echo = Lines::start(&mut Command::new("cat"));
    let at_once = asked.lines().count();
    gate.say(asked);
    let mut answer = String::new();
    for _ in 0..at_once {
        let one = gate.hear();
        assert!(!one.contains("\"isError\":true") && one.contains("\"result\""), "{one:.300}");
        answer.push_str(one);
    }
    // One write fits into the pipes and the buffer of `cat`.
    let conversation = |with: &mut Lines, said: &str| {
        with.say(said);
        (0..at_once).for_each(|_| assert!(!with.hear().is_empty()));
    };
    let (ours, floor) = in_turns(rounds, || conversation(gate, asked), || conversation(&mut echo, &answer));
    report(name, ours, floor, "cat", bound);
}

fn main() {
    let scratch = tempfile::tempdir_in(".").unwrap();
    let folder = scratch.path().canonicalize().unwrap();
    let binary = release_binary();
    let workspace = folder.join("workspace");
    fs::create_dir_all(workspace.join("many")).unwrap();
    fs::write(workspace.join("small.txt"), "0123456789abcde\n".repeat(64)).unwrap();
    fs::write(workspace.join("large.txt"), "0123456789abcde\n".repeat(1 << 16)).unwrap();
    (0..1000).for_each(|entry| fs::write(workspace.join(format!("many/entry_{entry:04}.txt")), "x").unwrap());
    let behind = binary.parent().unwrap().display();
    let config = format!(
        "workspace: workspace\nlimits: {{max_read_bytes: 2097152}}\nmcp_servers:\n  inner:\n    command: {behind}/toolgate\n    \
         args: [mcp, --workspace, /mnt/project, --state-dir, /tmp/state, --trust, autonomous]\n    mounts: [\"@project:ro\"]\n    \
         read: [{behind}]\n    class: read\n"
    );
    fs::write(folder.join("toolgate.yaml"), config).unwrap();

    let mut served = gate(&binary, &folder, "state");
    let small = json!({"path": "small.txt"});
    compare("mcp/read-1KiB", 4001, &mut served, &call("read_file", &small), 4.0);
    compare("mcp/read-1KiB-64-in-flight", 401, &mut served, &calls("read_file", &small, 64), 20.0);
    compare("mcp/list-1000", 401, &mut served, &call("list_directory", &json!({"path": "many"})), 20.0);
    first_list(&binary, &folder);
    list_of_ten_servers(&binary, &folder);
    warm_start(&binary, &folder);
    bridge(&mut served);
}

/// From the start of the process to the first tool list.
fn first_list(binary: &Path, folder: &Path) {
    let ours = || {
        let mut command = Command::new(binary);
        command.current_dir(folder).args(["--state-dir", "first", "--workspace", "workspace", "mcp"]);
        let mut gate = Lines::start(&mut command);
        greet(&mut gate);
        gate.say(&request("tools/list", &json!({})));
        assert!(gate.hear().contains("read_file"));
    };
    let cat = || {
        let mut echo = Lines::start(&mut Command::new("cat"));
        echo.say("hello\n");
        assert_eq!(echo.hear(), "hello\n");
    };
    ours();
    let (ours, cat) = in_turns(101, ours, cat);
    report("mcp/first-list", ours, cat, "cat", 8.0);
}

/// A server that lists one tool.
const SMALL_SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, answer = message["method"], {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        about = {"name": "small", "version": "1"}
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "look", "description": "Looks", "inputSchema": {"type": "object"}}]}
    else:
        answer["error"] = {"code": -32601, "message": "unknown method"}
    print(json.dumps(answer), flush=True)
"#;

/// The first tool list of a gate with ten servers that are being started, one of which never answers.
fn list_of_ten_servers(binary: &Path, folder: &Path) {
    fs::create_dir_all(folder.join("servers")).unwrap();
    fs::write(folder.join("servers/small.py"), SMALL_SERVER).unwrap();
    let mut config =
        String::from("workspace: workspace\nmounts: {\"@servers\": {path: servers}}\nmcp_servers:\n");
    for number in 0..9 {
        config += &format!(
            "  s{number}: {{command: python3, args: [/mnt/servers/small.py], mounts: [\"@servers\"], class: read}}\n"
        );
    }
    config += "  hung: {command: sleep, args: [\"1000\"], class: read, startup_timeout: 5s}\n";
    fs::write(folder.join("ten.yaml"), config).unwrap();
    let command = || {
        let mut command = Command::new(binary);
        command.current_dir(folder).args(["--state-dir", "ten", "--config", "ten.yaml"]);
        command
    };
    // Afterwards the tools of nine are pinned.
    assert!(command().args(["mcp", "list"]).stdout(Stdio::null()).status().unwrap().success());
    let mut times: Vec<Duration> = (0..21)
        .map(|_| {
            let mut gate = Lines::start(command().arg("mcp"));
            greet(&mut gate);
            let begun = std::time::Instant::now();
            gate.say(&request("tools/list", &json!({})));
            assert!(gate.hear().contains("s8__look"));
            begun.elapsed()
        })
        .collect();
    times.sort();
    report_extra("mcp/list-of-ten-servers", times[10], Duration::ZERO, "nothing", Duration::from_millis(50));
}

/// A server of a hundred packages, as people have it.
const INSTALLED_SERVER: &str = "@modelcontextprotocol/server-filesystem@2026.8.31";

/// From the start of the gate to the first answer of an installed npm server, beside the same server started with `node`. Every file of the package is
/// compared with its digest in between.
fn warm_start(binary: &Path, folder: &Path) {
    let documents = folder.join("documents");
    fs::create_dir_all(&documents).unwrap();
    fs::write(folder.join("warm.yaml"), "workspace: workspace\n").unwrap();
    let command = |arguments: &[&str]| {
        let mut command = Command::new(binary);
        command.current_dir(folder).args([
            "--state-dir",
            "warm",
            "--config",
            "warm.yaml",
            "--trust",
            "autonomous",
        ]);
        command.args(arguments);
        command
    };
    let (package, at) = (INSTALLED_SERVER, documents.to_str().unwrap());
    let mut added = command(&["mcp", "add", "files", "--yes", "--", "npx", "-y", package, at]);
    let added = added.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(added.success(), "`{package}` was not installed: is the registry of npm reachable?");
    let program = installed_program(&folder.join("warm/packages.toolgate"));
    let first_answer = |mut server: Lines, tool: &str| {
        greet(&mut server);
        server.say(&call(tool, &json!({})));
        assert!(server.hear().contains("documents"));
    };
    let ours = || first_answer(Lines::start(&mut command(&["mcp"])), "files__list_allowed_directories");
    let node = || {
        first_answer(
            Lines::start(Command::new("node").arg(&program).arg(&documents)),
            "list_allowed_directories",
        )
    };
    let (ours, node) = in_turns(21, ours, node);
    report("mcp/warm-start-of-a-package", ours, node, "node", 1.3);
}

/// The program of the one package that is installed.
fn installed_program(store: &Path) -> std::path::PathBuf {
    let entries = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let installations = entries(store).flat_map(|server| entries(&server));
    let programs = installations.map(|path| path.join("tree/node_modules/.bin/mcp-server-filesystem"));
    programs.into_iter().find(|path| path.exists()).unwrap()
}

/// The CPU time that a call of an upstream server costs the gate.
fn bridge(gate: &mut Lines) {
    const CALLS: u32 = 4000;
    let asked = call("inner__read_file", &json!({"path": "small.txt"}));
    let mut one = || {
        gate.say(&asked);
        let answer = gate.hear();
        assert!(answer.contains("0123456789abcde") && !answer.contains("\"isError\":true"), "{answer:.300}");
    };
    (0..100).for_each(|_| one());
    let before = gate.processor_time();
    (0..CALLS).for_each(|_| {
        gate.say(&asked);
        gate.hear();
    });
    let spent = (gate.processor_time() - before) / CALLS;
    report_extra("mcp/bridge-processor-time", spent, Duration::ZERO, "nothing", Duration::from_micros(150));
}
