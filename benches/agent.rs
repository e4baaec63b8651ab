//! The overhead of a conversation besides the model: CPU time per token through adapter and loop, the latency from a token's bytes to its event, the
//! latency until the result of a call is sent back, and the memory of five hundred concurrent conversations.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark arranges files by hand, prints what it measures, and may stop at the first surprise"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use toolgate_agent::{Agent, AgentSettings, ChatEvent, EndReason, EventSink, TurnContext, sequenced};
use toolgate_benches::{Bench, report_extra};
use toolgate_gate::NoApprover;
use toolgate_llm::{
    ApiKey, AssistantMessage, CallResult, Endpoint, Message, MessagePart, ModelCall, ModelName, Wire,
    provider,
};
use toolgate_session::{NewSession, Session, SessionStore};
use toolgate_tools::Profile;
use toolgate_types::Caller;

fn main() {
    tokens();
    first_word();
    next_request();
    many();
}

/// Tokens of one step.
const TOKENS: u32 = 2_000;

/// Turns of each kind.
const TURNS: usize = 41;

/// CPU time of this thread, on which everything but the database and the server runs, compared with reading the same bytes from the same kind of
/// server and discarding them.
fn tokens() {
    for (wire, word) in [(Wire::Anthropic, "anthropic"), (Wire::OpenaiChat, "chat")] {
        let frames = frames(wire, TOKENS);
        let floor = plain_reading(frames.clone());
        let server = Server::start(move |stream, _| write_all(stream, &frames));
        let world = World::new(wire, server.address);
        let mut times: Vec<Duration> = (0..TURNS)
            .map(|number| {
                let told = Arc::new(Mutex::new(0_usize));
                let count = Arc::clone(&told);
                // As `toolgate run --json` prints them.
                let events = sequenced(move |event| {
                    *count.lock().unwrap() += serde_json::to_string(&event).unwrap().len();
                });
                let mut session = world.session(&format!("s{number}"));
                let begun = processor_time();
                world.turn(&mut session, events);
                let spent = processor_time() - begun;
                assert!(*told.lock().unwrap() > TOKENS as usize * 100);
                spent
            })
            .collect();
        times.sort();
        let each = times[TURNS / 2] / TOKENS;
        let name = format!("agent/token-{word}");
        report_extra(&name, each, floor / TOKENS, "plain_read", Duration::from_micros(5));
    }
}

/// Reading an answer from the network alone.
fn plain_reading(frames: Vec<Vec<u8>>) -> Duration {
    let server = Server::start(move |stream, _| write_all(stream, &frames));
    let mut stream = TcpStream::connect(server.address).unwrap();
    let mut times: Vec<Duration> = (0..TURNS)
        .map(|_| {
            let begun = processor_time();
            stream.write_all(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n").unwrap();
            let (mut bytes, mut last) = ([0; 16 * 1024], Vec::new());
            while !last.ends_with(b"\r\n0\r\n\r\n") {
                let count = stream.read(&mut bytes).unwrap();
                last.extend_from_slice(&bytes[..count]);
                last.drain(..last.len().saturating_sub(16));
            }
            processor_time() - begun
        })
        .collect();
    times.sort();
    times[TURNS / 2]
}

/// From the moment a server writes a token to the moment its event is emitted.
fn first_word() {
    let (written, moments) = mpsc::channel();
    let server = Server::start(move |stream, _| {
        for (number, frame) in frames(Wire::Anthropic, 3).iter().enumerate() {
            // The third frame contains the first token.
            if number == 2 {
                written.send(Instant::now()).unwrap();
            }
            stream.write_all(&chunk(frame)).unwrap();
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
    });
    let world = World::new(Wire::Anthropic, server.address);
    let mut times: Vec<Duration> = (0..TURNS)
        .map(|number| {
            let shown = Arc::new(Mutex::new(None));
            let first = Arc::clone(&shown);
            let events: EventSink = Arc::new(move |event| {
                if matches!(event, ChatEvent::TextDelta { .. }) {
                    first.lock().unwrap().get_or_insert_with(Instant::now);
                }
            });
            world.turn(&mut world.session(&format!("s{number}")), events);
            shown.lock().unwrap().unwrap().saturating_duration_since(moments.recv().unwrap())
        })
        .collect();
    times.sort();
    report_extra("agent/first-word", times[TURNS / 2], Duration::ZERO, "at_once", Duration::from_millis(5));
}

/// Calls of one turn, each in a step of its own.
const CALLS: usize = 15;

/// From the last byte of a step that calls a tool to the first byte of the request with its result: the message is decoded and persisted, the call
/// goes through the gate and is audited, its result is persisted, and everything is encoded again. Compared with a client that reads the same file
/// from the disk and sends a request of the same size.
fn next_request() {
    let (server, moments) = TimedServer::start();
    let world = World::new(Wire::Anthropic, server);
    let files = world.folder.path().join("w");
    for number in 0..CALLS {
        std::fs::write(files.join(format!("{number}.txt")), "A line of a file.\n".repeat(100)).unwrap();
    }
    let (bare_server, bare_moments) = TimedServer::start();
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for number in 0..TURNS {
        world.turn(&mut world.session(&format!("s{number}")), Arc::new(|_| {}));
        bare_turn(bare_server, &files);
        ours.extend(moments.try_iter());
        bare.extend(bare_moments.try_iter());
    }
    let median = |times: &mut Vec<Duration>| {
        assert_eq!(times.len(), TURNS * CALLS);
        times.sort();
        times[times.len() / 2]
    };
    let (ours, bare) = (median(&mut ours), median(&mut bare));
    report_extra("agent/next-request", ours, bare, "bare_client", Duration::from_millis(5));
}

/// A turn without a gate, an audit log or a loop.
fn bare_turn(address: SocketAddr, files: &std::path::Path) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut conversation = String::new();
    for number in 0..=CALLS {
        let head = format!("POST /v1/messages HTTP/1.1\r\ncontent-length: {}\r\n\r\n", conversation.len());
        stream.write_all((head + &conversation).as_bytes()).unwrap();
        let (mut bytes, mut last) = ([0; 16 * 1024], Vec::new());
        while !last.ends_with(b"\r\n0\r\n\r\n") {
            let count = stream.read(&mut bytes).unwrap();
            last.extend_from_slice(&bytes[..count]);
            last.drain(..last.len().saturating_sub(16));
        }
        if number < CALLS {
            conversation.push_str(&std::fs::read_to_string(files.join(format!("{number}.txt"))).unwrap());
        }
    }
}

/// A server that requests one file after the other, and reports how long each next request took to arrive.
struct TimedServer;

impl TimedServer {
    fn start() -> (SocketAddr, mpsc::Receiver<Duration>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, moments) = mpsc::channel();
        // A client may open a second connection while the end of an answer is still being read from the first.
        let state = Arc::new(Mutex::new((0, None::<Instant>)));
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (state, sender) = (Arc::clone(&state), sender.clone());
                std::thread::spawn(move || serve_calls(stream, &state, &sender));
            }
        });
        (address, moments)
    }
}

fn serve_calls(
    mut stream: TcpStream,
    state: &Mutex<(usize, Option<Instant>)>,
    sender: &mpsc::Sender<Duration>,
) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while !reader.fill_buf().unwrap_or_default().is_empty() {
        let begun = Instant::now();
        let (answered, asked_at) = &mut *state.lock().unwrap();
        if let Some(asked_at) = asked_at.take() {
            sender.send(begun.saturating_duration_since(asked_at)).unwrap();
        }
        assert!(take_request(&mut reader));
        let step = *answered % (CALLS + 1);
        let frames = if step == CALLS { frames(Wire::Anthropic, 3) } else { call_frames(step) };
        let body: Vec<u8> = frames.iter().flat_map(|frame| chunk(frame)).collect();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        *asked_at = (step < CALLS).then(Instant::now);
        stream.write_all(&[head.as_bytes(), &body, b"0\r\n\r\n"].concat()).unwrap();
        *answered += 1;
    }
}

/// A step that reads a file.
fn call_frames(number: usize) -> Vec<Vec<u8>> {
    let input = json!({"path": format!("{number}.txt")}).to_string();
    let frames = [
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m", "stop_reason": null, "usage": {"input_tokens": 100, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": format!("toolu_{number}"), "name": "read_file", "input": {}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": input}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}}),
        json!({"type": "message_stop"}),
    ];
    let event =
        |frame: &serde_json::Value| format!("event: {}\ndata: {frame}\n\n", frame["type"].as_str().unwrap());
    frames.iter().map(|frame| event(frame).into_bytes()).collect()
}

/// Concurrent conversations.
const MANY: usize = 500;

/// The memory limit of one of them.
const BYTES_EACH: u64 = 256 * 1024;

/// Each has a history of some length and is in the middle of an answer.
fn many() {
    let held = Arc::new(Mutex::new(Vec::new()));
    let streams = Arc::clone(&held);
    let frames = frames(Wire::Anthropic, 20);
    let server = Server::start(move |stream, again| {
        streams.lock().unwrap().push(stream.try_clone().unwrap());
        for frame in &frames[..12] {
            stream.write_all(&chunk(frame)).unwrap();
        }
        *again = false;
    });
    let world = Arc::new(World::new(Wire::Anthropic, server.address));
    world.turn_with_history("warm", &held);
    let before = resident();
    let mut talks = Vec::new();
    for number in 0..MANY {
        talks.push(world.turn_with_history(&format!("s{number}"), &held));
    }
    let each = (resident() - before) / MANY as u64;
    println!("{MANY} conversations under way: {} KiB each", each / 1024);
    let share = each as f64 / BYTES_EACH as f64;
    println!(
        "RATIO agent/memory-of-one-of-{MANY} ours={}KiB peer={}KiB(allowance) ratio={share:.3} bound=1",
        each / 1024,
        BYTES_EACH / 1024
    );
}

/// A gate, an agent and a session store.
struct World {
    agent: Arc<Agent>,
    store: SessionStore,
    runtime: Runtime,
    caller: Caller,
    _bench: Bench,
    folder: TempDir,
}

impl World {
    fn new(wire: Wire, address: SocketAddr) -> Self {
        let folder = TempDir::new().unwrap();
        let (workspace, state) = (folder.path().join("w"), folder.path().join("s"));
        std::fs::create_dir_all(&workspace).unwrap();
        std::fs::create_dir_all(&state).unwrap();
        let bench = Bench::over(&workspace, &state);
        let base = match wire {
            Wire::Anthropic => format!("http://{address}"),
            _ => format!("http://{address}/v1"),
        };
        let mut endpoint = Endpoint::new(base).key(Some(ApiKey::new("no-key")));
        // The model's capabilities are stated, so the server is not queried.
        endpoint.stated.supports_tools = Some(true);
        endpoint.stated.context_window = Some(200_000);
        endpoint.stated.max_output_tokens = Some(32_000);
        let model = ModelName { provider: "bench".to_owned(), name: "claude-bench".to_owned() };
        let agent = Agent::new(
            Arc::clone(bench.front()),
            provider(wire, endpoint, model),
            AgentSettings::for_profile(Profile::NATIVE),
        );
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store =
            runtime.block_on(SessionStore::open(&folder.path().join("sessions/sessions.db"))).unwrap();
        let caller = bench.caller().clone();
        Self { agent: Arc::new(agent), store, runtime, caller, _bench: bench, folder }
    }

    fn session(&self, name: &str) -> Session {
        let new = NewSession {
            id: name.parse().unwrap(),
            title: name.to_owned(),
            agent: None,
            model: self.agent.model().clone(),
            profile: "native".to_owned(),
            workspace: self.folder.path().to_path_buf(),
            owner: toolgate_session::SessionOwner::Person,
            trust: None,
        };
        self.runtime.block_on(self.store.create(new)).unwrap()
    }

    fn how(&self, events: EventSink) -> TurnContext {
        TurnContext {
            credential: self.caller.clone().into(),
            approver: Arc::new(NoApprover { remedy: String::new() }),
            cancelled: CancellationToken::new(),
            events,
            images: Vec::new(),
            prompt_stored: None,
        }
    }

    fn turn(&self, session: &mut Session, events: EventSink) {
        let turn = self.how(events);
        let ended = self.runtime.block_on(self.agent.run_turn(session, "Say something.", turn)).unwrap();
        assert_eq!(ended.reason, EndReason::Done, "{}", ended.text);
    }

    /// A conversation of a few messages that is in the middle of an answer when this returns.
    fn turn_with_history(
        self: &Arc<Self>,
        name: &str,
        held: &Mutex<Vec<TcpStream>>,
    ) -> tokio::task::JoinHandle<()> {
        let mut session = self.session(name);
        for message in history() {
            self.runtime.block_on(session.append(message)).unwrap();
        }
        let before = held.lock().unwrap().len();
        let words = Arc::new(Mutex::new(0));
        let count = Arc::clone(&words);
        let events: EventSink = Arc::new(move |event| {
            if matches!(event, ChatEvent::TextDelta { .. }) {
                *count.lock().unwrap() += 1;
            }
        });
        let (agent, turn) = (Arc::clone(&self.agent), self.how(events));
        let talk = self.runtime.spawn(async move {
            drop(agent.run_turn(&mut session, "Say something.", turn).await);
        });
        self.runtime.block_on(async {
            while *words.lock().unwrap() < 10 {
                tokio::time::sleep(Duration::from_micros(100)).await;
            }
        });
        assert_eq!(held.lock().unwrap().len(), before + 1);
        talk
    }
}

/// Nine messages of some kilobytes in total.
fn history() -> Vec<Message> {
    let mut messages = Vec::new();
    for number in 0..3 {
        let call = ModelCall {
            id: format!("call_{number}"),
            name: "read_file".to_owned(),
            arguments: json!({"path": format!("{number}.txt")}).to_string(),
        };
        messages.push(Message::user("What does it say? ".repeat(10)));
        let parts =
            vec![MessagePart::Text { text: "I will look. ".repeat(20) }, MessagePart::Call(call.clone())];
        messages.push(Message::Assistant(AssistantMessage { parts, model: None }));
        let text = "A line of a file.\n".repeat(100);
        messages.push(Message::Results {
            results: vec![CallResult {
                call: call.id,
                name: call.name,
                text,
                is_error: false,
                recorded: None,
            }],
        });
    }
    messages
}

/// A server on a thread of its own, one connection after the other, that answers every request with the same bytes.
struct Server {
    address: SocketAddr,
}

impl Server {
    /// `answer` writes the chunks of a response; it may end the connection.
    fn start(mut answer: impl FnMut(&mut TcpStream, &mut bool) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                stream.set_nodelay(true).unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut again = true;
                while again && take_request(&mut reader) {
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
                    stream.write_all(head.as_bytes()).unwrap();
                    answer(&mut stream, &mut again);
                }
            }
        });
        Self { address }
    }
}

/// Reads and discards a request; returns whether there was one.
fn take_request(reader: &mut BufReader<TcpStream>) -> bool {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return false;
        }
        if let Some(("content-length", value)) = line.to_ascii_lowercase().trim_end().split_once(": ") {
            length = value.parse().unwrap();
        }
        if line == "\r\n" {
            reader.read_exact(&mut vec![0; length]).unwrap();
            return true;
        }
    }
}

/// Each frame separately, as from a model.
fn write_all(stream: &mut TcpStream, frames: &[Vec<u8>]) {
    for frame in frames {
        stream.write_all(&chunk(frame)).unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
}

fn chunk(frame: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", frame.len()).into_bytes();
    chunk.extend_from_slice(frame);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// An answer of this many words, over Anthropic Messages or Chat Completions.
fn frames(wire: Wire, words: u32) -> Vec<Vec<u8>> {
    let words = (0..words).map(|_| " word");
    let event =
        |frame: serde_json::Value| format!("event: {}\ndata: {frame}\n\n", frame["type"].as_str().unwrap());
    let lines: Vec<String> = match wire {
        Wire::Anthropic => {
            let begin = [
                json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m", "stop_reason": null, "usage": {"input_tokens": 100, "output_tokens": 1}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            ];
            let deltas = words.map(|word| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}));
            let end = [
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2000}}),
                json!({"type": "message_stop"}),
            ];
            begin.into_iter().chain(deltas).chain(end).map(event).collect()
        }
        _ => {
            let line = |delta: serde_json::Value, reason: Option<&str>| {
                format!(
                    "data: {}\n\n",
                    json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
                )
            };
            let deltas = words.map(|word| line(json!({"content": word}), None));
            deltas.chain([line(json!({}), Some("stop")), "data: [DONE]\n\n".to_owned()]).collect()
        }
    };
    lines.into_iter().map(String::into_bytes).collect()
}

/// The CPU time of this thread so far.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
