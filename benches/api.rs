//! `toolgate serve` compared with a bare axum server: events over WebSockets, durable calls over HTTP, and the memory of very many clients.
//!
//! Both are processes of their own on loopback, and clients of this process alternate between them. This program is the peer as well, with `peer` as its
//! argument.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark arranges files by hand and prints what it measures"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::ws::{Message as PeerMessage, WebSocketUpgrade};
use axum::routing::{any, post};
use serde_json::{Value, json};
use toolgate_benches::{in_turns, release_binary, report, report_bytes, report_extra};
use tungstenite::client::IntoClientRequest as _;
use tungstenite::{Message, WebSocket};

/// How many clients are connected.
const CLIENTS: usize = 1000;

/// A served process.
struct Served {
    process: Child,
    address: String,
    token: String,
}

impl Served {
    fn start(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let token =
            said["tokenFile"].as_str().map(|file| fs::read_to_string(file).unwrap().trim().to_owned());
        Self {
            process,
            address: said["listen"].as_str().unwrap().to_owned(),
            token: token.unwrap_or_default(),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    fn socket(&self, path: &str) -> WebSocket<TcpStream> {
        let mut request = format!("ws://{}{path}", self.address).into_client_request().unwrap();
        let bearer = format!("Bearer {}", self.token).parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        tungstenite::client(request, self.connect()).unwrap().0
    }

    /// Resident memory, in bytes.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Requests on one connection that stays open.
struct Requests {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Requests {
    fn new(served: &Served) -> Self {
        let head = format!(
            "Host: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n",
            served.address, served.token
        );
        Self { stream: BufReader::new(served.connect()), head }
    }

    fn post(&mut self, path: &str, body: &str) -> String {
        let request =
            format!("POST {path} HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n{body}", self.head, body.len());
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }
}

fn next(socket: &mut WebSocket<TcpStream>) -> Value {
    loop {
        if let Message::Text(text) = socket.read().unwrap() {
            return serde_json::from_str(text.as_str()).unwrap();
        }
    }
}

fn wait(socket: &mut WebSocket<TcpStream>, event: &str) -> Value {
    loop {
        let frame = next(socket);
        if frame["event"] == event {
            return frame;
        }
    }
}

fn send(socket: &mut WebSocket<TcpStream>, event: &str, data: &Value) {
    socket.send(Message::text(json!({"event": event, "data": data}).to_string())).unwrap();
}

/// A bare axum server: an echo over a WebSocket, and a handler that reads a file and appends a line to a log with `fdatasync`.
fn serve_peer(folder: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (file, log) = (folder.join("workspace/small.txt"), folder.join("peer.log"));
    let log = std::sync::Arc::new(fs::File::options().create(true).append(true).open(log).unwrap());
    let call = move |body: axum::Json<Value>| {
        let (file, log) = (file.clone(), log.clone());
        async move {
            let work = move || {
                assert_eq!(body["tool"], "read_file");
                let text = fs::read_to_string(file).unwrap();
                let mut writer: &fs::File = &log;
                writer.write_all(format!("{}\n", body.0).as_bytes()).unwrap();
                log.sync_data().unwrap();
                axum::Json(json!({"text": text}))
            };
            tokio::task::spawn_blocking(work).await.unwrap()
        }
    };
    let echo = |upgrade: WebSocketUpgrade| async {
        upgrade.on_upgrade(|mut socket| async move {
            while let Some(Ok(message)) = socket.recv().await {
                if let PeerMessage::Text(text) = message
                    && socket.send(PeerMessage::Text(text)).await.is_err()
                {
                    return;
                }
            }
        })
    };
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", json!({"listen": listener.local_addr().unwrap()}));
        let router = Router::new().route("/ws", any(echo)).route("/call", post(call));
        axum::serve(listener, router).await.unwrap();
    });
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, what, folder] = arguments.as_slice()
        && what == "peer"
    {
        return serve_peer(Path::new(folder));
    }
    raise_descriptors();
    let scratch = tempfile::tempdir_in(".").unwrap();
    let folder = scratch.path().canonicalize().unwrap();
    fs::create_dir(folder.join("workspace")).unwrap();
    fs::write(folder.join("workspace/small.txt"), "0123456789abcde\n".repeat(64)).unwrap();
    let long = "a word and more of it ".repeat(3000);
    let script = format!(
        "steps:\n  - {{when: {{prompt: long}}, say: \"{long}\", chunk: 50}}\n  - {{when: {{prompt: write}}, calls: [{{tool: \
         write_file, arguments: {{path: a.txt, content: x}}}}]}}\n  - say: hello\n"
    );
    fs::write(folder.join("script.yaml"), script).unwrap();
    fs::write(folder.join("toolgate.yaml"), "workspace: workspace\nserve: {max_connections: 4096}\n")
        .unwrap();
    let binary = release_binary();
    let peer = Served::start(Command::new(std::env::current_exe().unwrap()).arg("peer").arg(&folder));
    let gate = |state: &str| {
        let mut command = Command::new(&binary);
        command.current_dir(&folder).arg("--state-dir").arg(folder.join(state));
        command.args(["--config", "toolgate.yaml", "serve", "--listen", "127.0.0.1:0", "--json", "--model"]);
        Served::start(command.arg(format!("scripted/{}", folder.join("script.yaml").display())))
    };
    let served = gate("state");
    durable_reads(&served, &peer);
    events(&served, &peer);
    drop(served);
    many_clients(&gate("state-of-many"));
}

fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit { current: maximum.map_or(Some(8192), |most| Some(most.min(8192))), maximum },
    )
    .unwrap();
}

/// A read whose record is on disk before the answer leaves, over the API.
fn durable_reads(served: &Served, peer: &Served) {
    let (mut ours, mut theirs) = (Requests::new(served), Requests::new(peer));
    let call = json!({"tool": "read_file", "arguments": {"path": "small.txt"}}).to_string();
    let mut one = || {
        let answer = ours.post("/api/v1/calls", &call);
        assert!(answer.contains("0123456789abcde") && answer.contains("ALLOWED"), "{answer}");
    };
    let mut other = || assert!(theirs.post("/call", &call).contains("0123456789abcde"));
    (0..50).for_each(|_| {
        one();
        other();
    });
    let (ours, peer) = in_turns(1001, one, other);
    // 0.4 times as fast as the bare handler.
    report("api/durable-read", ours, peer, "axum+fdatasync", 2.5);
}

/// From an answer to a question to its event at another client of the session, beside an echo.
fn events(served: &Served, peer: &Served) {
    const ROUNDS: usize = 301;
    let path = format!("/ws?session={}", session(served));
    let (mut one, mut other, mut echo) = (served.socket(&path), served.socket(&path), peer.socket("/ws"));
    let answered =
        json!({"seq": 1, "event": "chat:tool-answered", "data": {"toolId": "x".repeat(36)}}).to_string();
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        send(&mut one, "chat:send", &json!({"text": "write"}));
        let question = wait(&mut other, "chat:tool-confirm")["data"]["toolId"].clone();
        wait(&mut one, "chat:tool-confirm");
        let begun = Instant::now();
        send(&mut one, "chat:tool-approve", &json!({"toolId": question, "approved": false}));
        wait(&mut other, "chat:tool-answered");
        ours.push(begun.elapsed());
        wait(&mut one, "chat:stream-end");
        wait(&mut other, "chat:stream-end");
        let begun = Instant::now();
        echo.send(Message::text(answered.as_str())).unwrap();
        assert!(echo.read().unwrap().is_text());
        floors.push(begun.elapsed());
    }
    ours.sort();
    floors.sort();
    let allowance = Duration::from_millis(3);
    report_extra("api/event-to-websocket", ours[ROUNDS / 2], floors[ROUNDS / 2], "axum-echo", allowance);
}

fn session(served: &Served) -> String {
    let created = Requests::new(served).post("/api/v1/sessions", "{}");
    let created: Value = serde_json::from_str(&created).unwrap();
    created["id"].as_str().unwrap().to_owned()
}

/// The memory that clients take: idle, while all of them are sent a long answer, and where half of them read nothing of it.
fn many_clients(served: &Served) {
    let sessions: Vec<String> = (0..20).map(|_| session(served)).collect();
    let before = served.memory();
    let mut sockets: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let mut socket = served.socket(&format!("/ws?session={}", sessions[number % sessions.len()]));
            wait(&mut socket, "chat:hello");
            socket
        })
        .collect();
    let mib = |bytes: u64| bytes << 20;
    report_bytes("api/1000-idle-clients", served.memory().saturating_sub(before), mib(60));
    let peak = streaming(served, &mut sockets, sessions.len(), |_| true);
    report_bytes("api/1000-streaming-clients", peak.saturating_sub(before), mib(150));
    let peak = streaming(served, &mut sockets, sessions.len(), |number| number < CLIENTS / 2);
    report_bytes("api/500-of-1000-read-nothing", peak.saturating_sub(before), mib(150));
}

/// Has every session answer at length, and returns the highest memory of the server until those that read have read all of it.
fn streaming(
    served: &Served,
    sockets: &mut [WebSocket<TcpStream>],
    sessions: usize,
    reads: impl Fn(usize) -> bool,
) -> u64 {
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut peak = 0;
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                peak = peak.max(served.memory());
                std::thread::sleep(Duration::from_millis(5));
            }
            peak
        });
        sockets
            .iter_mut()
            .take(sessions)
            .for_each(|socket| send(socket, "chat:send", &json!({"text": "long"})));
        for (_, socket) in sockets.iter_mut().enumerate().filter(|(number, _)| reads(*number)) {
            wait(socket, "chat:stream-end");
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        watching.join().unwrap()
    })
}
