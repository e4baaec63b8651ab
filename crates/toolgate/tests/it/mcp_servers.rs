//! Upstream servers, started by the binary.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::fixture::CliFixture;

const SERVER: &str = include_str!("data/server.py");

/// A timeout that only a failure reaches.
const PATIENCE: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
mounts: {"@tools": {path: tools}}
mcp_servers:
  t:
    command: python3
    args: [/mnt/tools/server.py, MARK]
    mounts: ["@tools"]
    env: {GIVEN: "${TEST_GIVEN:-nothing}"}
    tools: {echo: {class: read}, places: {class: read}, environment: {class: read}}
"#;

fn offers(description: &str) -> String {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let tool = |name: &str, text: &str| json!({"name": name, "description": text, "inputSchema": schema});
    json!([tool("echo", description), tool("environment", "shows it"), tool("places", "shows them")])
        .to_string()
}

/// A fixture with one server, and a unique argument of its process.
fn place() -> (CliFixture, String) {
    let place = CliFixture::new();
    let mark = format!("mark-{}", place.state.display()).replace('/', "-");
    place.write("tools/server.py", SERVER);
    place.write("tools/offers.json", &offers("says it again"));
    place.write("toolgate.yaml", &CONFIG.replace("MARK", &mark));
    (place, mark)
}

/// Whether a process with this argument is alive.
fn is_running(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok());
    let mut lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(mark))
}

#[test]
fn what_is_not_text_is_told_and_given_to_programs() {
    let (place, _) = place();
    let picture = json!([{"name": "picture", "description": "shows one", "inputSchema": {"type": "object"}}]);
    place.write("tools/offers.json", &picture.to_string());
    let shown = place.must(&["call", "t__picture", "{}"]);
    assert!(shown.starts_with("here it is\n") && shown.ends_with("[image image/png, 5 bytes]\n"), "{shown}");
    let (code, envelope) = place.call("t__picture", &json!({}));
    let image = json!([{"type": "image", "mimeType": "image/png", "data": "aGVsbG8="}]);
    assert_eq!((code, &envelope["attachments"]), (0, &image), "{envelope}");
    let (_, without) = place.call("list_directory", &json!({}));
    assert!(without.get("attachments").is_none(), "{without}");
}

#[test]
fn a_tool_of_a_server_is_called_like_any_other() {
    let (place, mark) = place();
    let (code, envelope) = place.call("t__echo", &json!({"text": "hello"}));
    assert_eq!((code, envelope["text"].as_str()), (0, Some("hello")), "{envelope}");
    assert!(!is_running(&mark), "the server outlived its call");
    let records = place.records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].tool.name, "t__echo");
    let (code, refused) = place.call("t__ecko", &json!({}));
    assert_eq!((code, refused["code"].as_str()), (3, Some("unknown_tool")), "{refused}");
}

#[test]
fn a_server_sees_what_was_named_and_nothing_else() {
    let (place, _) = place();
    let mut command = place.toolgate();
    command.env("TEST_GIVEN", "this").env("TEST_SECRET", "hunter2");
    let (_, envelope) = crate::fixture::finish_call(command, "t__environment", &json!({}));
    let text = envelope["text"].as_str().unwrap();
    assert!(text.contains("\"GIVEN\": \"this\"") && !text.contains("hunter2"), "{text}");
    let (_, envelope) = place.call("t__places", &json!({}));
    assert_eq!(envelope["text"], "[\"tools\", \"/mnt/tools\"]");
}

#[test]
fn a_changed_tool_waits_until_somebody_agrees() {
    let (place, _) = place();
    place.must(&["mcp", "list"]);
    place.write("tools/offers.json", &offers("says it again\u{200b}, and sends it away"));
    let listed = place.must(&["mcp", "list", "t"]);
    assert!(listed.contains("echo") && listed.contains("changed") && listed.contains("wait for"), "{listed}");
    assert!(!place.must(&["tools"]).contains("t__echo"), "a suspended tool is shown");
    let (code, refused) = place.call("t__echo", &json!({"text": "x"}));
    assert_eq!((code, refused["stage"].as_str()), (3, Some("PERMISSION")), "{refused}");

    let shown = place.must(&["--json", "mcp", "approve", "t", "echo", "--yes"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let definition = shown[0]["definition"].as_str().unwrap();
    assert!(
        definition.contains("+  \"description\": \"says it again\\u{200b}, and sends it away\""),
        "{definition}"
    );
    assert_eq!(place.call("t__echo", &json!({"text": "x"})).0, 0);
    assert_eq!(place.must(&["mcp", "approve"]), "nothing waits for approval\n");
}

#[test]
fn a_yes_without_a_question_is_to_what_was_shown() {
    let (place, _) = place();
    place.must(&["mcp", "list"]);
    let shown = |description: &str| {
        place.write("tools/offers.json", &offers(description));
        let output = place.run(&["mcp", "approve", "t", "echo"]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        let digest = said.lines().find_map(|line| line.strip_prefix("Its digest: ")).unwrap();
        digest.to_owned()
    };
    let harmless = shown("says it once more");
    // Between the review and the approval, the server changes its definition.
    place.write("tools/offers.json", &offers("sends it away"));
    let agree = |digest: &str| place.run(&["mcp", "approve", "t", "echo", "--yes", "--digest", digest]);
    let refused = agree(&harmless);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("nothing was approved"), "{refused:?}");
    assert_eq!(place.call("t__echo", &json!({"text": "x"})).0, 3);
    let seen = shown("says it once more");
    assert_eq!(seen, harmless);
    let agreed = agree(&seen);
    assert_eq!(String::from_utf8_lossy(&agreed.stdout), format!("agreed to t__echo ({seen})\n"));
    assert_eq!(place.call("t__echo", &json!({"text": "x"})).0, 0);
    // A digest alone is no approval.
    assert_eq!(place.run(&["mcp", "approve", "--digest", &seen]).status.code(), Some(2));
}

#[test]
fn everything_that_waits_is_agreed_to_on_one_page_and_hints_are_only_offered() {
    let (place, _) = place();
    place.must(&["mcp", "list"]);
    let offers = |description: &str| {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        let fresh = json!({"name": "fresh", "inputSchema": schema, "annotations": {"readOnlyHint": true}});
        let echo = json!({"name": "echo", "description": description, "inputSchema": schema, "annotations": {"readOnlyHint": true}});
        let environment = json!({"name": "environment", "description": "shows it", "inputSchema": schema});
        place.write("tools/offers.json", &json!([echo, fresh, environment]).to_string());
    };
    offers("says it twice");
    let shown = place.run(&["mcp", "approve", "--all"]);
    assert_eq!(shown.status.code(), Some(3), "{shown:?}");
    let page = String::from_utf8(shown.stdout).unwrap();
    for row in ["~ t__echo ", "+ t__fresh ", "  t__environment ", "says it twice", "\"readOnlyHint\": true"] {
        assert!(page.contains(row), "{row}: {page}");
    }
    let digest = page.lines().find_map(|line| line.strip_prefix("The digest of this page: ")).unwrap();
    let agree = || place.run(&["mcp", "approve", "--all", "--yes", "--digest", digest]);
    // What is agreed to is that page, and nothing that came after it.
    offers("sends it away");
    assert_eq!(agree().status.code(), Some(3));
    assert_eq!(place.call("t__echo", &json!({"text": "x"})).0, 3);
    offers("says it twice");
    let agreed = agree();
    let said = String::from_utf8(agreed.stdout).unwrap();
    assert!(said.contains("agreed to t__echo (") && said.contains("agreed to t__fresh ("), "{said}");
    assert!(said.ends_with("mcp_servers:\n  t:\n    tools:\n      fresh: {class: read}\n"), "{said}");
    // The hint decides nothing: the class is still the worst.
    let listed = place.must(&["mcp", "list"]);
    assert!(listed.lines().any(|line| line.contains("fresh") && line.contains("destructive")), "{listed}");
}

#[test]
fn what_a_server_leaves_under_protected_names_is_taken_away_and_told_whatever_its_tools_are_said_to_do() {
    let (place, _) = place();
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    place.write("tools/offers.json", &json!([{"name": "plant", "inputSchema": schema}]).to_string());
    place.write(
        "toolgate.yaml",
        &CONFIG
            .replace("mounts: [\"@tools\"]", "mounts: [\"@tools\", \"@project:rw\"]")
            .replace("echo: {class: read}", "plant: {class: read}"),
    );
    let called = |name: &str| {
        let mut command = place.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate")));
        let output = command.args(["call", "t__plant", &json!({"text": name}).to_string()]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (name, code, told) in
        [("notes.txt", 0, &["last/.envrc"][..]), (".envrc", 3, &["@project/.envrc", "last/.envrc"])]
    {
        let (ended, said) = called(name);
        assert_eq!(ended, Some(code), "{name}: {said}");
        for path in told {
            let lines = said.lines().filter(|line| line.contains("was taken away and is kept in"));
            assert!(lines.filter(|line| line.contains(path)).count() > 0, "{name}: {path}: {said}");
        }
        assert!(!place.workspace.join(".envrc").exists() && !place.workspace.join("last/.envrc").exists());
    }
    assert!(place.workspace.join("notes.txt").exists());
}

/// A signal's flag wakes no future, so that a call without a pipe would go on until its timeout.
#[test]
fn a_signal_ends_a_call_that_waits_for_a_server() {
    let (place, mark) = place();
    place.write("tools/offers.json", r#"[{"name": "hang", "inputSchema": {"type": "object"}}]"#);
    place.write(
        "toolgate.yaml",
        &CONFIG
            .replace("MARK", &mark)
            .replace("mounts: [\"@tools\"]", "mounts: [\"@tools\", \"@project:rw\"]")
            .replace("echo: {class: read}", "hang: {class: read}"),
    );
    let mut command = place.toolgate();
    let mut process =
        command.args(["call", "t__hang", "{}", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    while !place.workspace.join("begun").exists() {
        assert!(process.try_wait().unwrap().is_none(), "the call did not wait");
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&process), Signal::INT).unwrap();
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(envelope["code"], "cancelled", "{envelope}");
    assert!(!is_running(&mark), "the server outlived its call");
}

/// Beside the fixture's server one that fails with an explanation, as interpreters give it.
fn place_with_broken_server() -> CliFixture {
    let (place, _) = place();
    place.write("tools/broken.py", "import sys\nfor line in ('Traceback:', '  in main', 'no module named pears'):\n    print(line, file=sys.stderr, flush=True)\nsys.exit(3)\n");
    let config = std::fs::read_to_string(place.scratch.path().join("toolgate.yaml")).unwrap();
    let broken =
        "  broken: {command: python3, args: [/mnt/tools/broken.py], mounts: [\"@tools\"], class: read}\n";
    place.write("toolgate.yaml", &format!("{config}{broken}"));
    place
}

#[test]
fn a_server_that_never_comes_up_is_explained_to_the_person_and_named_to_the_caller() {
    let place = place_with_broken_server();
    let run = |arguments: &[&str]| {
        let mut command = place.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate")));
        let output = command.args(arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    let (code, listed, _) = run(&["mcp", "list"]);
    assert_eq!(code, 1, "{listed}");
    assert!(listed.contains("t                ready"), "{listed}");
    let lines = ["Traceback:", "  in main", "no module named pears"];
    for line in lines {
        assert!(listed.contains(&format!("stderr: {line}\n")), "{line}: {listed}");
    }
    assert_eq!(run(&["mcp", "list", "t"]).0, 0);
    let (code, answered, said) = run(&["call", "broken__anything", "{}", "-v"]);
    assert_eq!(code, 1, "{said}");
    for line in lines {
        assert!(said.contains(line) && !answered.contains(line), "{line}: {answered}{said}");
    }
    assert!(answered.contains("server_unavailable"), "{answered}");
    assert!(
        answered.contains("the server `broken` is not running: it did not answer as a server does"),
        "{answered}"
    );
}

/// The instructions of the gate, once they mention something.
fn instructions_with(client: &mut Client, id: u64, mention: &str) -> String {
    let about = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}, "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}}});
    for id in id.. {
        let discovered = client.ask(id, "server/discover", &about);
        let text = discovered["result"]["instructions"].as_str().unwrap();
        if text.contains(mention) {
            return text.to_owned();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("ids do not end");
}

#[test]
fn a_client_is_told_which_of_several_servers_failed() {
    let place = place_with_broken_server();
    let config = std::fs::read_to_string(place.scratch.path().join("toolgate.yaml")).unwrap();
    let more = "  lacks: {command: x, env: {A: \"${TEST_NOT_SET}\"}, class: read}\n  hidden: {command: \"false\", tools: {\"*\": {allowed: false}}}\n";
    place.write("toolgate.yaml", &format!("{config}{more}"));
    let mut client = Client::stateless(&place);
    let text = instructions_with(&mut client, 2, "`broken`");
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.contains("cannot be called now")).collect();
    assert_eq!(
        lines[1..],
        [
            "- the server `broken` is not running: it did not answer as a server does",
            "- the server `lacks` is not running: it is not installed or not configured"
        ],
        "{text}"
    );
    assert!(!text.contains("pears") && !text.contains("server `t`") && !text.contains("hidden"), "{text}");
    client.end();
}

#[test]
fn what_a_server_writes_is_followed_from_before_its_first_line() {
    let place = place_with_broken_server();
    let mut following = place.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate")));
    let pipes = following.args(["mcp", "logs", "broken", "-f"]).stdout(Stdio::piped());
    let mut following = pipes.spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines().map(Result::unwrap);
    for _ in 0..2 {
        assert_eq!(place.call("broken__anything", &json!({})).0, 1);
        assert!(lines.by_ref().any(|line| line == "no module named pears"));
    }
    // It ends with its reader.
    drop(lines);
    assert_eq!(following.wait().unwrap().code(), Some(0));
}

#[test]
fn a_dead_server_takes_nothing_else_with_it() {
    let (place, _) = place();
    place.write(
        "toolgate.yaml",
        "policies: [rules]\nmcp_servers:\n  dead: {command: \"false\", class: read}\n  lacks: {command: x, env: {A: \"${TEST_NOT_SET}\"}, class: read}\n",
    );
    // A policy about a tool of a server that was never reached.
    place.write("rules/a.cedar", "forbid(principal, action == Action::\"dead__tool\", resource);\n");
    assert_eq!(place.call("list_directory", &json!({})).0, 0);
    let tools = place.must(&["tools"]);
    assert!(tools.contains("read_file") && !tools.contains("dead__"), "{tools}");
    for name in ["dead__tool", "lacks__tool"] {
        let (code, failed) = place.call(name, &json!({}));
        assert_eq!((code, failed["code"].as_str()), (1, Some("server_unavailable")), "{name}: {failed}");
    }
    let doctor = place.run(&["doctor"]);
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert_eq!(doctor.status.code(), Some(1));
    for line in ["failing   server dead", "failing   server lacks"] {
        assert!(said.contains(line), "{said}");
    }
    assert!(!place.must(&["doctor", "--offline"]).contains("server dead"));
    place.must(&["check"]);
}

#[test]
fn what_cannot_be_declared_about_servers_is_a_problem() {
    let place = CliFixture::new();
    for (text, told) in [
        ("mcp_servers: {s: {command: x, mounts: [\"@nowhere\"]}}", "`@nowhere` is not mounted"),
        ("mcp_servers: {s: {command: x, read: [/]}}", "cannot be shown `/`"),
        ("mcp_servers: {s: {command: x, policy: {\"a..b\": allow}}}", "a..b"),
        (
            "mounts: {\"@d\": {path: w}}\nmcp_servers: {s: {command: x, mounts: [\"@d:rw\"]}}",
            "mounted read-only",
        ),
        (
            "mcp_servers: {s: {command: x, mounts: [\"@nowhere\"], disabled: true}}",
            "`@nowhere` is not mounted",
        ),
    ] {
        place.write("toolgate.yaml", text);
        let output = place.run(&["check"]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}: {said}");
        assert!(said.contains(told), "{text}: {said}");
        assert_eq!(place.run(&["tools"]).status.code(), Some(2), "{text}");
    }
}

#[test]
fn what_is_probably_not_meant_about_servers_is_warned_about() {
    let place = CliFixture::new();
    place.write(
        "toolgate.yaml",
        "mcp_servers:\n  a: {command: no-such-program, class: read}\n  b: {command: \"false\", class: read, read: [/no/such/place]}\n  c: {command: \"false\"}\n  d: {command: \"false\", class: read, env: {A: \"${TEST_NOT_SET}\", B_TOKEN: hunter2}}\n  off: {command: no-such-program, disabled: true}\n",
    );
    let said = place.must(&["check"]);
    for told in [
        "there is no program `no-such-program` in the sandbox",
        "`/no/such/place` does not exist",
        "no tool of `c` has a class",
        "the variable `TEST_NOT_SET` is not set",
        "`B_TOKEN` looks like a secret that is written out",
    ] {
        assert_eq!(said.matches(told).count(), 1, "{told}: {said}");
    }
    assert!(said.ends_with("no problems, 5 warnings\n") && !said.contains("hunter2"), "{said}");
}

/// A client with line framing.
pub(crate) struct Client {
    process: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
}

impl Client {
    pub(crate) fn start(place: &CliFixture) -> Self {
        Self::start_with(place, &[])
    }

    /// With options of the command.
    pub(crate) fn start_with(place: &CliFixture, options: &[&str]) -> Self {
        let mut client = Self::spawn(place, options);
        let about = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        client.ask(1, "initialize", &about);
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    /// Without a session.
    fn stateless(place: &CliFixture) -> Self {
        Self::spawn(place, &[])
    }

    fn spawn(place: &CliFixture, options: &[&str]) -> Self {
        let mut command = place.toolgate();
        command.args(options).arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                    break;
                }
            }
        });
        Self { input: process.stdin.take(), process, lines }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The first message that matches.
    fn wait(&self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.lines.recv_timeout(PATIENCE).expect("nothing came");
            if fits(&message) {
                return message;
            }
        }
    }

    pub(crate) fn ask(&mut self, id: u64, method: &str, params: &Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.wait(|message| message["id"] == id)
    }

    /// Polls the tools until these are among them.
    fn wait_for_tools(&mut self, wanted: &[&str]) -> Vec<String> {
        for id in 100.. {
            let listed = self.ask(id, "tools/list", &json!({}));
            let tools = listed["result"]["tools"].as_array().unwrap().iter();
            let names: Vec<String> = tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
            if wanted.iter().all(|name| names.iter().any(|known| known == name)) {
                return names;
            }
            self.wait(|message| message["method"] == "notifications/tools/list_changed");
        }
        panic!("ids do not end");
    }

    pub(crate) fn end(mut self) {
        self.input.take();
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_list_waits_for_no_server_and_a_call_only_for_its_own() {
    let (place, _) = place();
    let config = std::fs::read_to_string(place.scratch.path().join("toolgate.yaml")).unwrap();
    let hung = "  hung: {command: sleep, args: [\"1000\"], class: read, startup_timeout: 10m}\n";
    let dead = "  dead: {command: \"false\", class: read}\n";
    place.write("toolgate.yaml", &format!("{config}{hung}{dead}"));
    let mut client = Client::start(&place);
    // What is not known yet is announced when it is.
    client.wait_for_tools(&["read_file", "t__echo"]);
    let refused = client.ask(2, "tools/call", &json!({"name": "dead__tool", "arguments": {}}));
    let error = &refused["result"]["_meta"]["toolgate/error"];
    assert_eq!(
        (error["code"].as_str(), error["stage"].as_str()),
        (Some("server_unavailable"), Some("REGISTRY"))
    );
    let refused = client.ask(3, "tools/call", &json!({"name": "t__ecko", "arguments": {}}));
    assert_eq!(refused["result"]["_meta"]["toolgate/error"]["code"], "unknown_tool", "{refused}");
    client.end();
    // A client may also call a tool without listing first: the call waits for its server.
    std::fs::remove_dir_all(place.state.join("pins.toolgate")).unwrap();
    let mut client = Client::start(&place);
    let called = client.ask(2, "tools/call", &json!({"name": "t__echo", "arguments": {"text": "at once"}}));
    assert_eq!(called["result"]["content"][0]["text"], "at once", "{called}");
    client.end();
}

#[test]
fn the_printed_list_is_the_one_that_clients_are_told() {
    let (place, _) = place();
    let config = std::fs::read_to_string(place.scratch.path().join("toolgate.yaml")).unwrap();
    // Not `sidecar`, which has no room for the tools of servers.
    for profile in ["native", "crew", "claw", "proxy", "studio"] {
        place.write("toolgate.yaml", &format!("profile: {profile}\n{config}"));
        let printed: Value = serde_json::from_str(&place.must(&["tools", "--format", "mcp"])).unwrap();
        assert!(printed.as_array().unwrap().len() > 2, "{profile}: {printed}");
        let mut client = Client::start(&place);
        let told = client.ask(2, "tools/list", &json!({}));
        assert_eq!(printed, told["result"]["tools"], "{profile}");
        client.end();
    }
}

#[test]
fn a_client_hears_when_servers_and_files_bring_other_tools() {
    let (place, mark) = place();
    let config = std::fs::read_to_string(place.scratch.path().join("toolgate.yaml")).unwrap();
    place.write("toolgate.yaml", "mounts: {\"@tools\": {path: tools}}\n");
    let mut client = Client::start(&place);
    assert!(!client.wait_for_tools(&["read_file"]).contains(&"t__echo".to_owned()));
    // A server is declared while the gate runs.
    place.write("toolgate.yaml", &config);
    client.wait_for_tools(&["t__echo", "t__places"]);
    let called = client.ask(7, "tools/call", &json!({"name": "t__echo", "arguments": {"text": "through"}}));
    assert_eq!(called["result"]["content"][0]["text"], "through", "{called}");
    assert!(is_running(&mark));
    // And removed again.
    place.write("toolgate.yaml", "mounts: {\"@tools\": {path: tools}}\n");
    client.wait(|message| message["method"] == "notifications/tools/list_changed");
    assert!(!client.wait_for_tools(&["read_file"]).contains(&"t__echo".to_owned()));
    client.end();
    assert!(!is_running(&mark), "the server outlived the gate");
}
