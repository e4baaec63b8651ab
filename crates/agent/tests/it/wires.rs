//! Whole turns over the four real wires, against a server that speaks them as the vendors do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolgate_agent::{ChatEvent, EndReason};
use toolgate_llm::{ApiKey, Endpoint, ModelName, Provider, Wire, provider};
use toolgate_scripted::{Script, ScriptServer, ServerOptions};
use toolgate_tools::Profile;

use crate::fixture::{AgentFixture, TEST_TIMEOUT, TurnRecord, TurnSetup};

/// The idle timeout: long enough for a model that does not stall.
const SILENCE: Duration = Duration::from_secs(2);

/// A scripted server, and a model on one wire.
struct Scripted {
    server: ScriptServer,
    falls_silent: bool,
}

impl Scripted {
    async fn start(yaml: &str) -> Self {
        let script = Script::parse("script.yaml", yaml).unwrap_or_else(|problems| panic!("{problems}"));
        let server = ScriptServer::start(script, ServerOptions::default()).await.unwrap();
        Self { server, falls_silent: yaml.contains("kind: idle") }
    }

    fn model(&self, wire: Wire) -> Arc<dyn Provider> {
        let spoken = toolgate_scripted::Wire::named(wire.name()).unwrap();
        let mut endpoint = Endpoint::new(self.server.base_url(spoken)).key(Some(ApiKey::new("sk-test-4711")));
        endpoint.timeouts.connect = TEST_TIMEOUT;
        endpoint.timeouts.idle = if self.falls_silent { SILENCE } else { TEST_TIMEOUT };
        let model = ModelName { provider: wire.name().to_owned(), name: "scripted".to_owned() };
        provider(wire, endpoint, model)
    }
}

fn hold(world: &AgentFixture, yaml: &str, wire: Wire, how: TurnSetup) -> TurnRecord {
    world.runtime.block_on(async {
        let scripted = Scripted::start(yaml).await;
        let mut session = world.session("talk").await;
        let mut held = world.hold(scripted.model(wire), &mut session, "Go on.", how).await;
        held.address = Some(scripted.server.address().to_string());
        world.check_records(&held.events);
        // Only Ollama reports in advance that a model does not support tools.
        let may_refuse = yaml.contains("status:") || yaml.contains("tools: false");
        let refused = scripted.server.requests().into_iter().find(|asked| asked.status == 400);
        assert!(may_refuse || refused.is_none(), "{}: {}", wire.name(), refused.unwrap().body["messages"]);
        held
    })
}

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 20, "the scripts are gone");
    files
}

/// Every script over every wire. Wires with the same result share a snapshot.
#[test]
fn every_script_over_every_wire() {
    for file in scripts() {
        let yaml = std::fs::read_to_string(&file).unwrap();
        let mut stories: Vec<(Vec<&str>, String)> = Vec::new();
        for wire in Wire::ALL.iter().copied() {
            let world = AgentFixture::new();
            let story = hold(&world, &yaml, wire, world.how()).story();
            match stories.iter_mut().find(|(_, same)| *same == story) {
                Some((wires, _)) => wires.push(wire.name()),
                None => stories.push((vec![wire.name()], story)),
            }
        }
        let told: Vec<String> =
            stories.iter().map(|(wires, story)| format!("== {}\n{story}", wires.join(", "))).collect();
        let about = yaml.lines().next().unwrap();
        let script = file.file_stem().unwrap().to_string_lossy().into_owned();
        insta::with_settings!({description => about, omit_expression => true}, {
            insta::assert_snapshot!(format!("wire_{script}"), told.join("\n"));
        });
    }
}

/// A connection that is reset once within a call. How much of the stream arrives before that depends on the network, so only the end is checked.
#[test]
fn a_connection_that_breaks_is_tried_again() {
    let yaml = "steps:\n  - do:\n      - say: Writing.\n      \
                - call: {tool: append_file, arguments: {path: c.txt, content: once}}\n      \
                - fault: {kind: reset, times: 1}\n  - say: Written.\n";
    for wire in Wire::ALL.iter().copied() {
        let world = AgentFixture::new();
        let held = hold(&world, yaml, wire, world.how());
        assert_eq!(held.ended.text, "Written.", "{}: {}", wire.name(), held.story());
        assert_eq!(std::fs::read_to_string(world.workspace.join("c.txt")).unwrap(), "once");
        let tried_again = |event: &ChatEvent| matches!(event, ChatEvent::Error { retryable: true, .. });
        assert_eq!(held.events.iter().filter(|event| tried_again(event)).count(), 1, "{}", wire.name());
    }
}

/// A turn whose first stream is cut after this many bytes. Returns whether the call was made.
fn is_called_when_cut(wire: Wire, bytes: usize) -> bool {
    // One tool, because some servers echo all definitions.
    let yaml = "agents:\n  writer:\n    tool_permissions:\n      write_file: {allowed: true}\n";
    let world = AgentFixture::of(Profile::NATIVE, |options| options.config(yaml));
    let yaml = format!(
        "steps:\n  - do:\n      - fault: {{kind: truncate, after_bytes: {bytes}}}\n      \
         - call: {{tool: write_file, arguments: {{path: c.txt, content: whole}}}}\n  - say: Written.\n"
    );
    let mut how = world.how().settings(|settings| settings.max_attempts = 1);
    how.caller.agent = Some("writer".parse().unwrap());
    let held = hold(&world, &yaml, wire, how);
    let is_called = held.events.iter().any(|event| matches!(event, ChatEvent::ToolStart { .. }));
    let wanted = if is_called { EndReason::Done } else { EndReason::ProviderError };
    assert_eq!(held.ended.reason, wanted, "{} cut after {bytes}: {}", wire.name(), held.story());
    assert_eq!(world.workspace.join("c.txt").exists(), is_called);
    is_called
}

/// A call whose stream is incomplete by even one byte, or lacks the wire's end marker, is not made. (That every truncated stream is detected is
/// tested with the decoders; here the file counts.)
#[test]
fn a_stream_that_is_cut_is_never_a_call() {
    const STRIDE: usize = 61;
    for wire in Wire::ALL.iter().copied() {
        let enough = (1..500).map(|strides| strides * STRIDE).find(|bytes| is_called_when_cut(wire, *bytes));
        let enough = enough.expect("a stream that ends");
        let whole = (enough - STRIDE + 1..=enough).find(|bytes| is_called_when_cut(wire, *bytes)).unwrap();
        assert!(whole > 150, "{}: {whole} bytes are no stream", wire.name());
    }
}

/// The iteration limit over real wires: the last request allows no tools, and the user gets an answer.
#[test]
fn the_last_step_is_without_tools_on_every_wire() {
    let yaml = "steps:\n  - when: {tools: on}\n    repeat: true\n    calls: [{tool: list_directory, arguments: {}}]\n  \
                - when: {tools: off}\n    say: That is all.\n";
    for wire in Wire::ALL.iter().copied() {
        let world = AgentFixture::new();
        let how = world.how().settings(|settings| settings.max_tool_iterations = 2);
        let held = hold(&world, yaml, wire, how);
        assert_eq!(
            (held.ended.reason, held.ended.text.as_str()),
            (EndReason::IterationLimit, "That is all."),
            "{}: {}",
            wire.name(),
            held.story()
        );
    }
}

/// One conversation over all wires: each model accepts what another one said.
#[test]
fn a_conversation_can_change_its_model() {
    let yaml = "model: {thinking: true}\nsteps:\n  - think: Hm.\n    say: I will look.\n    \
                calls: [{tool: read_file, arguments: {path: a.txt}}]\n  - think: So.\n    say: It says hello.\n";
    let world = AgentFixture::new();
    world.runtime.block_on(async {
        let mut session = world.session("talk").await;
        let wires = Wire::ALL.iter().chain(Wire::ALL.iter().rev());
        for &wire in wires {
            let scripted = Scripted::start(yaml).await;
            let held = world.hold(scripted.model(wire), &mut session, "Read it.", world.how()).await;
            assert_eq!(held.ended.text, "It says hello.", "{}: {}", wire.name(), held.story());
        }
    });
}
