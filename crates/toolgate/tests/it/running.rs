//! `toolgate run`: one task, its events, its answer and its exit code.

use std::io::{BufRead as _, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::fixture::CliFixture;

/// A conversation with reasoning, allowed and refused calls, and an answer.
const TASK: &str = r#"
steps:
  - think: First I look.
    say: I will look.
    calls:
      - {tool: list_directory, arguments: {path: .}}
      - {tool: read_file, arguments: {path: ../outside}}
  - when: {result: read_file}
    calls: [{tool: write_file, arguments: {path: made.txt, content: "made\n"}}]
  - when: {result: write_file}
    say: "It is made."
  - say: "unexpected: {{last_result}}"
"#;

impl CliFixture {
    /// Runs a task with a scripted model, without a terminal.
    fn task(&self, script: &str, options: &[&str]) -> Output {
        self.write("script.yaml", script);
        let mut command = Command::new("setsid");
        command.arg("--wait").arg(env!("CARGO_BIN_EXE_toolgate"));
        let mut command = self.beneath(command);
        command.args(["run", "do it"]).args(options);
        if !options.contains(&"--model") {
            command.args(["--model", "scripted/script.yaml"]);
        }
        command.stdin(Stdio::null()).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The events of a run.
pub(crate) fn events(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Replaces ids by `<id>` and times and token counts by `<n>`, and joins the pieces of a text.
fn settled(events: &[Value]) -> String {
    let mut lines: Vec<(String, Value)> = Vec::new();
    for event in events {
        let name = event["event"].as_str().unwrap().to_owned();
        let mut data = event["data"].clone();
        settle(&mut data);
        match lines.last_mut() {
            Some((last, before))
                if *last == name
                    && name.ends_with("-delta")
                    && name != "chat:tool-delta"
                    && before["toolName"] == data["toolName"] =>
            {
                let field = if name == "chat:tool-input-delta" { "chunk" } else { "text" };
                let joined = format!("{}{}", before[field].as_str().unwrap(), data[field].as_str().unwrap());
                before[field] = joined.into();
            }
            _ => lines.push((name, data)),
        }
    }
    lines.iter().map(|(name, data)| format!("{name} {data}\n")).collect()
}

fn settle(value: &mut Value) {
    let Value::Object(fields) = value else { return };
    for (name, value) in fields {
        match name.as_str() {
            "messageId" | "toolId" | "callId" | "sessionId" => *value = "<id>".into(),
            "durationMs" | "usedTokens" | "fraction" | "inputTokens" | "outputTokens" | "cachedTokens"
            | "contextWindow" => *value = "<n>".into(),
            _ => settle(value),
        }
    }
}

#[test]
fn events_are_the_same_over_every_wire() {
    let over = |wire: &str| {
        let place = CliFixture::new();
        let model = format!("scripted/script.yaml?wire={wire}");
        let output = place.task(TASK, &["--json", "--trust", "autonomous", "--model", &model]);
        assert_eq!(output.status.code(), Some(0), "{wire}: {output:?}");
        let events = events(&output);
        let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert!(numbers.iter().copied().eq(1..=events.len() as u64), "{numbers:?}");
        assert_eq!(std::fs::read_to_string(place.workspace.join("made.txt")).unwrap(), "made\n");
        settled(&events)
    };
    let first = over("anthropic");
    insta::assert_snapshot!(first);
    // Not every wire format carries reasoning; everything else is the same.
    let without_thoughts = |events: &str| {
        events.lines().filter(|line| !line.starts_with("chat:thinking-delta")).collect::<Vec<_>>().join("\n")
    };
    for wire in ["openai", "openai-chat", "ollama"] {
        assert_eq!(without_thoughts(&over(wire)), without_thoughts(&first), "{wire}");
    }
}

#[test]
fn the_answer_is_on_standard_output_alone() {
    let place = CliFixture::new();
    let output = place.task(TASK, &["--trust", "autonomous"]);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("It is made.\n".to_owned(), String::new()));
}

#[test]
fn where_nobody_can_be_asked_the_call_is_refused_and_the_task_goes_on() {
    let place = CliFixture::new();
    let output = place.task(TASK, &[]);
    assert_eq!(
        output.status.code(),
        Some(3),
        "the model is done, and was not allowed everything: {output:?}"
    );
    assert_eq!(text(&output.stdout), "It is made.\n");
    assert!(output.stderr.is_empty(), "--quiet is quiet: {output:?}");
    let mut loud = Command::new("setsid");
    loud.arg("--wait").arg(env!("CARGO_BIN_EXE_toolgate")).current_dir(place.scratch.path());
    loud.env("XDG_STATE_HOME", place.state_home())
        .arg("--state-dir")
        .arg(&place.state)
        .arg("--workspace")
        .arg(&place.workspace);
    let loud =
        loud.args(["run", "do it", "--model", "scripted/script.yaml"]).stdin(Stdio::null()).output().unwrap();
    let told = text(&loud.stderr);
    assert!(told.contains("nobody to ask: run it in a terminal, or pass --trust autonomous"), "{told}");
    let ended = events(&place.task(TASK, &["--json"])).pop().unwrap();
    assert_eq!((&ended["event"], &ended["data"]["reason"]), (&"chat:stream-end".into(), &"done".into()));
    assert!(!place.workspace.join("made.txt").exists());
    let last = place.records().pop().unwrap();
    assert!(last.denial.as_ref().unwrap().reason.contains("--trust autonomous"), "{last:?}");
}

#[test]
fn exit_codes_say_how_it_ended() {
    let again = r#"{tool: list_directory, arguments: {path: .}}"#;
    let table: [(&str, String, &[&str], i32, &str); 9] = [
        ("done", "steps: [{say: Hello.}]".to_owned(), &[], 0, "done"),
        (
            "iteration limit",
            format!(
                "steps: [{{calls: [{{tool: find_files, arguments: {{glob: '*'}}}}]}}, {{calls: [{again}]}}, {{say: x}}]"
            ),
            &["--max-iterations", "1"],
            4,
            "iteration_limit",
        ),
        ("loop", format!("steps: [{{repeat: true, calls: [{again}]}}]"), &[], 4, "loop"),
        (
            "violation",
            "steps: [{calls: [{tool: file_read, arguments: {path: ../../etc/passwd}}]}, {say: x}]".to_owned(),
            &["--profile", "studio"],
            3,
            "violation",
        ),
        (
            "timeout",
            "steps: [{when: {tools: off}, say: In short.}, {do: [{say: begun}, {pause: 300s}]}]".to_owned(),
            &["--time-limit", "1s"],
            4,
            "timeout",
        ),
        (
            "context limit",
            format!(
                "{{model: {{context_window: 20000}}, steps: [{{repeat: true, say: {}, calls: [{again}]}}]}}",
                "word ".repeat(20_000)
            ),
            &[],
            4,
            "context_limit",
        ),
        ("provider", "steps: [{fault: {status: 401}}]".to_owned(), &[], 5, "provider_error"),
        ("usage", "steps: nonsense".to_owned(), &[], 2, "failed"),
        ("no such model", "steps: [{say: x}]".to_owned(), &["--model", "nobody/x"], 2, "failed"),
    ];
    for (name, script, options, code, reason) in table {
        let place = CliFixture::new();
        let options: Vec<&str> = options.iter().copied().chain(["--json"]).collect();
        let output = place.task(&script, &options);
        assert_eq!(output.status.code(), Some(code), "{name}: {output:?}");
        let last = events(&output).pop();
        let ended = last.as_ref().and_then(|event| event["data"]["reason"].as_str()).unwrap_or_default();
        assert_eq!(ended, reason, "{name}: {output:?}");
    }
}

#[test]
fn programs_are_told_of_a_task_that_could_not_begin() {
    let place = CliFixture::new();
    place.write("broken.yaml", "mounts: 3\n");
    place.write("not-a-folder", "");
    let database = "damaged/sessions.toolgate/sessions.db";
    place.write(database, &format!("SQLite format 3\0{}", "x".repeat(5000)));
    let only_mine = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(place.scratch.path().join(database), only_mine).unwrap();
    let table: [(&str, &[&str], i32, &str, &str); 8] = [
        ("no such provider", &["--model", "nobody/x"], 2, "usage", "no provider `nobody`"),
        ("no key", &["--model", "anthropic/claude"], 2, "usage", "ANTHROPIC_API_KEY is not set"),
        ("no script", &["--model", "scripted/missing.yaml"], 2, "usage", "missing.yaml` cannot be read"),
        ("no session", &["--session", "none-such"], 2, "usage", "none-such"),
        ("nothing to go on with", &["--continue"], 2, "usage", "no conversation of this workspace"),
        ("a configuration with mistakes", &["--config", "broken.yaml"], 2, "usage", "broken.yaml"),
        ("nowhere to keep anything", &["--state-dir", "not-a-folder/state"], 2, "usage", "not-a-folder"),
        ("a damaged database", &["--state-dir", "damaged"], 1, "not_begun", "is damaged"),
    ];
    for (name, options, code, error, words) in table {
        let options: Vec<&str> = options.iter().copied().chain(["--json"]).collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command.current_dir(place.scratch.path()).arg("--workspace").arg(&place.workspace);
        command.env("XDG_STATE_HOME", place.state_home());
        if !options.contains(&"--state-dir") {
            command.arg("--state-dir").arg(&place.state);
        }
        for variable in ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "TOOLGATE_TOKEN"] {
            command.env_remove(variable);
        }
        let output = command.args(["run", "do it"]).args(options).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{name}: {output:?}");
        let told = events(&output);
        let [failed, ended] = told.as_slice() else { panic!("{name}: {output:?}") };
        assert_eq!((&failed["seq"], &failed["event"]), (&1.into(), &"chat:error".into()), "{name}");
        assert_eq!((&ended["seq"], &ended["event"]), (&2.into(), &"chat:stream-end".into()), "{name}");
        assert_eq!((&failed["data"]["code"], &failed["data"]["retryable"]), (&error.into(), &false.into()));
        assert_eq!((&ended["data"]["reason"], ended["data"].get("sessionId")), (&"failed".into(), None));
        assert_eq!(failed["data"]["message"], ended["data"]["text"], "{name}");
        assert!(ended["data"]["text"].as_str().unwrap().contains(words), "{name}: {output:?}");
        // Users get the message on standard error, as usual.
        assert!(
            text(&output.stderr).starts_with("error: ") && text(&output.stderr).contains(words),
            "{output:?}"
        );
    }
}

#[test]
fn a_conversation_goes_on() {
    let place = CliFixture::new();
    let script = "steps: [{say: 'I was told: {{prompt}}'}]";
    place.task(script, &[]);
    let ended =
        |output: &Output| events(output).pop().unwrap()["data"]["sessionId"].as_str().unwrap().to_owned();
    let first = place.task(script, &["--json", "--continue"]);
    let second = place.task(script, &["--json", "--session", "last"]);
    assert_eq!(ended(&first), ended(&second));
    let beginning: String = ended(&first).chars().take(6).collect();
    assert_eq!(ended(&place.task(script, &["--json", "--session", &beginning])), ended(&first));
    assert_ne!(ended(&place.task(script, &["--json"])), ended(&first), "a new one is begun by default");
    assert_ne!(ended(&place.task(script, &["--json", "--ephemeral"])), ended(&first));
    let refusals = [
        (place.task(script, &["--session", "nosuchone"]), "there is no session `nosuchone`"),
        (place.task(script, &["--session", &beginning, "--profile", "studio"]), "pass --profile native"),
        (CliFixture::new().task(script, &["--continue"]), "there is no conversation of this workspace"),
    ];
    for (output, expected) in refusals {
        assert!(text(&output.stderr).contains(expected), "{output:?}");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

/// A command without a configured model, which probes for an Ollama server played by the test.
fn looking_for_ollama(place: &CliFixture, subcommand: &[&str], played: &TcpListener) -> Child {
    let mut command = place.toolgate();
    command.args(subcommand).env("OLLAMA_HOST", played.local_addr().unwrap().to_string());
    for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"] {
        command.env_remove(key);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn what_has_not_begun_can_be_stopped() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let table: [(&[&str], Signal); 3] =
        [(&["run", "do it"], Signal::INT), (&["chat"], Signal::INT), (&["chat"], Signal::TERM)];
    for (subcommand, signal) in table {
        let place = CliFixture::new();
        // The probe is short, and on a busy machine a signal may arrive after it.
        let is_stopped = (0..20).any(|_| {
            let mut child = looking_for_ollama(&place, subcommand, &silent);
            // Once it connects, its signal handlers are installed.
            let _asked = silent.accept().unwrap();
            kill_process(Pid::from_child(&child), signal).unwrap();
            child.wait().unwrap().code() == Some(130)
        });
        assert!(is_stopped, "{subcommand:?} {signal:?}");
    }
}

#[test]
fn a_server_that_drips_is_not_waited_for_where_nobody_asked_for_it() {
    let dripping = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = CliFixture::new();
    let mut child = looking_for_ollama(&place, &["run", "do it"], &dripping);
    let (mut connection, _) = dripping.accept().unwrap();
    let mut drip = |bytes: &[u8]| connection.write_all(bytes).is_ok();
    drip(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"models\": [");
    let mut drops = std::iter::repeat_with(|| {
        std::thread::sleep(Duration::from_millis(50));
        drip(b" ")
    });
    let is_given_up = drops.by_ref().take(1200).any(|is_heard| !is_heard);
    let _ = child.kill();
    assert!(is_given_up);
    child.wait().unwrap();
}

/// A scripted model that other programs can reach.
pub(crate) struct Served {
    process: Child,
    addresses: Value,
}

impl Served {
    pub(crate) fn begin(place: &CliFixture, script: &str) -> Self {
        place.write("served.yaml", script);
        let mut command = place.toolgate();
        command.args(["--json", "scripted", "served.yaml"]).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = std::io::BufReader::new(process.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        Self { process, addresses: serde_json::from_str(&line).unwrap() }
    }

    pub(crate) fn address(&self, wire: &str) -> &str {
        self.addresses[wire].as_str().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn conversations_are_held_as_they_are_declared() {
    let place = CliFixture::new();
    let script = r#"
steps:
  - when: {system: "You review changes."}
    say: A reviewer.
  - when: {system: "Words of a file."}
    calls:
      - {tool: read_file, arguments: {path: key}}
      - {tool: read_file, arguments: {path: system.md}}
      - {tool: write_file, arguments: {path: system.md, content: "Obey."}}
  - when: {result: write_file}
    say: "{{last_result}}"
  - repeat: true
    calls: [{tool: find_files, arguments: {glob: "*"}}]
"#;
    let served = Served::begin(&place, script);
    let address = served.address("openai-chat");
    let config = format!(
        "workspace: w\ntrust: autonomous\nmodel: office/x\nconversation: {{system_file: w/system.md}}\n\
         models:\n  office: {{wire: openai-chat, base_url: '{address}', key_file: w/key, headers: {{X-Team: '${{TEAM}}'}}}}\n\
         agents:\n  reviewer: {{system: You review changes.}}\n  \
         hasty: {{system: Hurry., max_tool_iterations: 1}}\n"
    );
    place.write("toolgate.yaml", &config);
    place.write("w/system.md", "Words of a file.\n");
    place.write("w/key", "sk-of-the-office\n");
    let run = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command
            .current_dir(place.scratch.path())
            .env("XDG_STATE_HOME", place.state_home())
            .arg("--state-dir")
            .arg(&place.state)
            .env("TEAM", "tools");
        place.configured(&mut command);
        command.args(["run", "hi", "--quiet"]).args(options).stdin(Stdio::null()).output().unwrap()
    };
    let open = run(&[]);
    assert!(text(&open.stderr).contains("others may read or change the secret"), "{open:?}");
    assert_eq!(open.status.code(), Some(2));
    let only_mine = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(place.workspace.join("key"), only_mine).unwrap();

    let reviewed = run(&["--agent", "reviewer"]);
    assert_eq!((reviewed.status.code(), text(&reviewed.stdout)), (Some(0), "A reviewer.\n".to_owned()));
    // System prompts and model keys cannot be read by any tool.
    let refused = run(&["--json"]);
    let results = events(&refused).into_iter().filter(|event| event["event"] == "chat:tool-result");
    let codes: Vec<Value> = results.map(|event| event["data"]["metadata"]["code"].clone()).collect();
    assert_eq!(codes, ["denied_path", "denied_path", "denied_path"], "{refused:?}");
    let hurried = run(&["--agent", "hasty", "--json"]);
    assert_eq!(events(&hurried).pop().unwrap()["data"]["reason"], "iteration_limit", "{hurried:?}");
    // The command line takes precedence.
    let words = run(&["--system", "You review changes."]);
    assert_eq!(text(&words.stdout), "A reviewer.\n", "{words:?}");
}

#[test]
fn keys_are_sent_and_never_kept() {
    const KEY: &str = "sk-never-to-be-seen-0123456789";
    let place = CliFixture::new();
    let served = Served::begin(&place, "steps: [{say: Hello.}]");
    let asked = |provider: &str, variables: &[(&str, &str)]| {
        let mut command = place.toolgate();
        command.args(["run", "hi", "--verbose", "--record", &format!("{provider}.jsonl")]);
        command.arg("--model").arg(format!("{provider}/x")).stdin(Stdio::null());
        command.envs(variables.iter().copied()).output().unwrap()
    };
    let outputs = [
        asked(
            "anthropic",
            &[("ANTHROPIC_BASE_URL", served.address("anthropic")), ("ANTHROPIC_API_KEY", KEY)],
        ),
        asked("openai", &[("OPENAI_BASE_URL", served.address("openai")), ("OPENAI_API_KEY", KEY)]),
        asked(
            "openrouter",
            &[("OPENROUTER_BASE_URL", served.address("openai-chat")), ("OPENROUTER_API_KEY", KEY)],
        ),
        asked("ollama", &[("OLLAMA_HOST", served.address("ollama").trim_start_matches("http://"))]),
    ];
    drop(served);
    for output in &outputs {
        assert_eq!(
            (output.status.code(), text(&output.stdout)),
            (Some(0), "Hello.\n".to_owned()),
            "{output:?}"
        );
        assert!(!text(&output.stderr).contains(KEY));
    }
    let missing = asked("anthropic2", &[]);
    assert_eq!(missing.status.code(), Some(2));
    let mut files = vec![place.scratch.path().to_path_buf()];
    while let Some(path) = files.pop() {
        match path.is_dir() {
            true => files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path())),
            false => {
                let content = std::fs::read(&path).unwrap_or_default();
                assert!(!content.windows(KEY.len()).any(|part| part == KEY.as_bytes()), "{}", path.display());
            }
        }
    }
}

#[test]
fn a_task_at_a_terminal_is_watched_and_says_things_once() {
    let table = [
        ("steps: [{say: One answer.}]", "One answer.", 0),
        ("steps: [{fault: {status: 401, message: no such key}}]", "no such key", 5),
        ("steps: [{repeat: true, calls: [{tool: list_directory, arguments: {path: .}}]}]", "stopped:", 4),
        ("steps: [{do: [{say: Void.}, {fault: {kind: reset, times: 1}}]}, {say: Never.}]", "trying again", 0),
    ];
    for (script, once, code) in table {
        let place = CliFixture::new();
        place.write("script.yaml", script);
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command
            .current_dir(place.scratch.path())
            .env("XDG_STATE_HOME", place.state_home())
            .arg("--state-dir")
            .arg(&place.state);
        command.arg("--workspace").arg(&place.workspace);
        command.args(["run", "do it", "--model", "scripted/script.yaml"]);
        let mut terminal = crate::pty::Pty::start(&command, 40, 100);
        let ended = terminal.ended();
        let shown = terminal.shown();
        assert_eq!(ended.code(), Some(code), "{shown}");
        assert_eq!(shown.matches(once).count(), 1, "{shown}");
    }
}

#[test]
fn a_reader_that_sleeps_stops_neither_the_clock_nor_a_signal() {
    // Far more than a pipe's buffer.
    let words = "word ".repeat(100_000);
    let script = format!(
        "steps: [{{when: {{tools: off}}, say: x}}, {{chunk: 4000, do: [{{say: '{words}'}}, {{pause: 300s}}]}}]"
    );
    let place = CliFixture::new();
    place.write("script.yaml", &script);
    // A task whose output is not read, once its pipe is full.
    let stuck = |options: &[&str]| {
        let mut command = place.toolgate();
        command.args(["run", "do it", "--json", "--model", "scripted/script.yaml"]).args(options);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        let is_full = |_| {
            std::thread::sleep(Duration::from_millis(50));
            rustix::io::ioctl_fionread(child.stdout.as_ref().unwrap()).unwrap() > 40_000
        };
        assert!((0..1200).any(is_full), "nothing comes");
        child
    };
    let begun = Instant::now();
    let mut asleep = stuck(&[]);
    // The same amount must be written again before the time limit.
    let time_limit = (5 * begun.elapsed()).max(Duration::from_secs(2)).as_secs();
    kill_process(Pid::from_child(&asleep), Signal::INT).unwrap();
    let is_ended = |_| {
        std::thread::sleep(Duration::from_millis(50));
        asleep.try_wait().unwrap()
    };
    let ended = (0..1200).find_map(is_ended);
    let _ = asleep.kill();
    assert_eq!(ended.and_then(|status| status.code()), Some(130));

    let late = stuck(&["--time-limit", &format!("{time_limit}s")]).wait_with_output().unwrap();
    let events = events(&late);
    assert!(events.iter().zip(1..).all(|(event, number)| event["seq"] == number), "something is missing");
    assert_eq!((late.status.code(), &events.last().unwrap()["data"]["reason"]), (Some(4), &"timeout".into()));
}

#[test]
fn a_signal_or_a_reader_that_goes_away_ends_the_task() {
    let waiting = "steps: [{do: [{say: begun}, {pause: 300s}]}]";
    let talking = format!("steps: [{{chunk: 1, slow: 10ms, say: {}}}]", "word ".repeat(6000));
    for (script, is_signalled) in [(waiting, true), (talking.as_str(), false)] {
        let place = CliFixture::new();
        place.write("script.yaml", script);
        let mut command = place.toolgate();
        command.args(["run", "do it", "--json", "--model", "scripted/script.yaml"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        if is_signalled {
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            let rest = std::io::read_to_string(&mut output).unwrap();
            assert!(rest.contains("\"reason\":\"cancelled\""), "{rest}");
        }
        drop(output);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{line}");
    }
}

#[test]
fn a_conversation_whose_database_is_removed_meanwhile_ends_with_an_error() {
    let place = CliFixture::new();
    let words = "slowly ".repeat(40);
    place.write("script.yaml", &format!("steps:\n  - {{say: \"{words}\", slow: 20ms, chunk: 7}}\n"));
    let mut command = place.toolgate();
    command.args(["run", "do it", "--json", "--model", "scripted/script.yaml"]).stdin(Stdio::null());
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The model's answer has started, so the prompt is already stored.
    let mut lines = std::io::BufReader::new(process.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().any(|line| line.unwrap().contains("slowly")));
    std::fs::remove_file(place.state.join("sessions.toolgate/sessions.db")).unwrap();
    lines.for_each(drop);
    let mut said = String::new();
    process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("sessions.db` was removed or replaced while it was in use"), "{said}");
}

#[test]
fn no_name_deletes_no_conversation() {
    let place = CliFixture::new();
    assert!(place.task("steps: [{say: done}]\n", &[]).status.success());
    let output = place.run(&["sessions", "delete", "", "--yes"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(place.must(&["sessions", "list", "--all"]).contains("do it"));
}
