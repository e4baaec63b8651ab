//! A gate with an HTTP server in this process, and a client that sends exactly what a test
//! specifies.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_attack::{Bench, BenchOptions, Scratch, person};
use toolgate_audit::Record;
use toolgate_gate::{AuditMode, NoApprover, Tool};
use toolgate_identity::{
    Algorithm, ClaimNames, FetchFuture, FetchKeys, Issuer, KeySource, MintOptions, SharedSecret, Verifier,
    VerifierOptions, mint,
};
use toolgate_serve::{
    Application, Auth, AuthRequirement, HttpLimits, HttpOptions, OutputStore, ReadyCheck, RejectedHosts,
    Service, ServiceOptions, serve_http,
};
use toolgate_tools::Profile;
use toolgate_types::{Sha256, Trust};

/// Longer than anything here takes; a test that waits this long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// The token of the configured person.
pub(crate) const TOKEN: &str = "the-token-of-the-person-0123456789abcdef";
/// How long `big.txt` is.
pub(crate) const BIG: usize = 192 * 1024;
const SECRET: &[u8] = b"a secret for tests, 32 bytes or more";

pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) bench: Bench,
    pub(crate) shutdown: CancellationToken,
    pub(crate) workspace: std::path::PathBuf,
    serving: Option<JoinHandle<()>>,
    _scratch: Scratch,
}

/// How a test world is set up.
pub(crate) struct Plan {
    demand: AuthRequirement,
    limits: HttpLimits,
    tools: Vec<Arc<dyn Tool>>,
    at: Ipv4Addr,
}

pub(crate) fn by_token() -> Plan {
    let demand = AuthRequirement::Token(Sha256::of(TOKEN.as_bytes()));
    Plan { demand, limits: limits(), tools: Vec::new(), at: Ipv4Addr::LOCALHOST }
}

pub(crate) fn by_issuer() -> Plan {
    Plan {
        demand: AuthRequirement::Issued { issuer: Some("https://issuer.example".to_owned()) },
        ..by_token()
    }
}

pub(crate) fn open() -> Plan {
    Plan { demand: AuthRequirement::None, ..by_token() }
}

/// Generous timeouts: no test depends on one that it does not set.
fn limits() -> HttpLimits {
    HttpLimits {
        header_timeout: PATIENCE,
        body_timeout: PATIENCE,
        write_timeout: PATIENCE,
        grace: Duration::from_secs(20),
        ..HttpLimits::default()
    }
}

impl Plan {
    pub(crate) fn limits(mut self, change: impl FnOnce(&mut HttpLimits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub(crate) fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// At an address of its own, where no other process listens once it is closed.
    pub(crate) fn alone(mut self) -> Self {
        static WORLDS: AtomicU8 = AtomicU8::new(0);
        let [.., high, low] = std::process::id().to_be_bytes();
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        self.at = Ipv4Addr::new(127, 64 ^ number, high, low);
        self
    }

    pub(crate) fn start(self) -> World {
        let scratch = Scratch::new();
        let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
        std::fs::write(workspace.join("a.txt"), "hello\n").unwrap();
        std::fs::write(workspace.join("big.txt"), "0123456789abcde\n".repeat(BIG / 16)).unwrap();
        let nobody = NoApprover { remedy: "ask in a test".to_owned() };
        let bench = BenchOptions::new(Profile::NATIVE, &workspace, &state)
            .audit_mode(AuditMode::Deny)
            .approver(Arc::new(nobody), PATIENCE)
            .verifier(verifier());
        let bench = self.tools.into_iter().fold(bench, BenchOptions::tool).open();
        let listener = TcpListener::bind((self.at, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let outputs = state.join("outputs");
        std::fs::create_dir_all(&outputs).unwrap();
        let outputs = OutputStore::new(move || {
            cap_std::fs::Dir::open_ambient_dir(&outputs, cap_std::ambient_authority())
        });
        let service = Service::new(ServiceOptions {
            aliases: vec!["@project".to_owned()],
            ..ServiceOptions::new(Arc::clone(bench.front()), outputs)
        });
        let options = HttpOptions {
            auth: Auth { requirement: self.demand, person: person("http") },
            allowed_hosts: vec!["gate.example".to_owned()],
            allowed_origins: vec!["https://app.example".to_owned()],
            public_url: None,
            limits: self.limits,
            ready: ReadyCheck(Arc::new(|| true)),
            rejected_hosts: RejectedHosts::default(),
            application: Application::default(),
        };
        let shutdown = CancellationToken::new();
        let until = shutdown.clone();
        let serving = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(serve_http(options, service, listener, until)).unwrap();
        });
        World { address, bench, shutdown, workspace, serving: Some(serving), _scratch: scratch }
    }
}

impl World {
    /// Shuts down the server and waits until it is closed.
    pub(crate) fn close(&mut self) {
        self.shutdown.cancel();
        if let Some(serving) = self.serving.take() {
            serving.join().unwrap();
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes on a connection of their own, and reads until it closes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        // A client that is rejected early may not be read to its end.
        let _ = stream.write_all(bytes);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        all
    }

    pub(crate) fn send(&self, request: &Sent) -> Got {
        Got::parse(&self.raw(request.render(self.address).as_bytes()))
    }

    /// The content of a file in the workspace, if it exists.
    pub(crate) fn written(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.workspace.join(name)).ok()
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.bench.records().into_values().flatten().collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
        if let Some(serving) = self.serving.take() {
            // A failing test reports its reason itself.
            let _ = serving.join();
        }
    }
}

/// A request.
#[derive(Clone)]
pub(crate) struct Sent {
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

pub(crate) fn get(path: &str) -> Sent {
    Sent { line: format!("GET {path} HTTP/1.1"), headers: Vec::new(), body: String::new() }
        .with("Host", "{own}")
}

/// A message to MCP, with what every message needs.
pub(crate) fn post(message: &Value) -> Sent {
    let sent = Sent { line: "POST /mcp HTTP/1.1".to_owned(), headers: Vec::new(), body: message.to_string() };
    sent.with("Host", "{own}")
        .with("Content-Type", "application/json")
        .with("Accept", "application/json, text/event-stream")
}

impl Sent {
    /// With one header more.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With another value of a header, or without it.
    pub(crate) fn instead(mut self, name: &str, value: Option<&str>) -> Self {
        self.headers.retain(|(known, _)| known != name);
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(crate) fn line(mut self, line: &str) -> Self {
        line.clone_into(&mut self.line);
        self
    }

    /// With another text in its body.
    pub(crate) fn replaced(mut self, from: &str, to: &str) -> Self {
        assert!(self.body.contains(from), "{}", self.body);
        self.body = self.body.replace(from, to);
        self
    }

    pub(crate) fn bearing(self, token: &str) -> Self {
        self.with("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn render(&self, own: SocketAddr) -> String {
        let mut text = format!("{}\r\nConnection: close\r\n", self.line);
        for (name, value) in &self.headers {
            text += &format!("{name}: {}\r\n", value.replace("{own}", &own.to_string()));
        }
        if !self.body.is_empty() {
            text += &format!("Content-Length: {}\r\n", self.body.len());
        }
        text + "\r\n" + &self.body
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if chunked { unchunk(body) } else { body.to_owned() };
        Self { status, head: head.to_owned(), body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// The last message of the response, as JSON or SSE.
    pub(crate) fn message(&self) -> Value {
        let data = self
            .body
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("data: ").filter(|data| !data.is_empty()));
        let text = data.unwrap_or(&self.body);
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A keep-alive connection.
pub(crate) struct Line {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Line {
    pub(crate) fn new(world: &World) -> Self {
        Self { stream: world.connect(), read: Vec::new() }
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, sent: &Sent, own: SocketAddr) {
        let text = sent.render(own).replace("Connection: close\r\n", "");
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// The next response, or `None` if the connection closed before one began.
    pub(crate) fn answer(&mut self) -> Option<Got> {
        loop {
            if let Some(length) = whole(&self.read) {
                let rest = self.read.split_off(length);
                return Some(Got::parse(&std::mem::replace(&mut self.read, rest)));
            }
            let mut buffer = [0; 64 * 1024];
            match self.stream.read(&mut buffer).unwrap() {
                0 if self.read.is_empty() => return None,
                0 => panic!("cut: {:?}", String::from_utf8_lossy(&self.read)),
                count => self.read.extend_from_slice(&buffer[..count]),
            }
        }
    }

    pub(crate) fn ask(&mut self, sent: &Sent, own: SocketAddr) -> Got {
        self.send(sent, own);
        self.answer().expect("an answer")
    }
}

/// The length of the first response, if it is complete.
fn whole(bytes: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(bytes);
    let head = text.find("\r\n\r\n")? + 4;
    let lower = text[..head].to_ascii_lowercase();
    if let Some((_, after)) = lower.split_once("content-length: ") {
        let length: usize = after.split("\r\n").next()?.parse().ok()?;
        return (bytes.len() >= head + length).then_some(head + length);
    }
    if !lower.contains("transfer-encoding: chunked") {
        return Some(head);
    }
    text[head..].find("0\r\n\r\n").map(|end| head + end + 5)
}

fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        whole += &rest[..size];
        body = &rest[size + 2..];
    }
    whole
}

/// `initialize` of the session protocol.
pub(crate) fn initialize() -> Value {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

pub(crate) fn read_file(id: u64) -> Value {
    let params = json!({"name": "read_file", "arguments": {"path": "a.txt"}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// A call of the stateless protocol.
pub(crate) fn newer(mut message: Value) -> Sent {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    message["params"]["_meta"] = meta;
    let about = if message["method"] == "resources/read" { "uri" } else { "name" };
    let (method, name) = (message["method"].clone(), message["params"][about].clone());
    let sent = post(&message).with("MCP-Protocol-Version", "2026-07-28");
    let sent = sent.with("Mcp-Method", method.as_str().unwrap());
    match name.as_str() {
        Some(name) => sent.with("Mcp-Name", name),
        None => sent,
    }
}

struct NoFetch;

impl FetchKeys for NoFetch {
    fn fetch<'a>(&'a self, url: &'a str) -> FetchFuture<'a> {
        panic!("fetched {url}")
    }
}

/// Accepts tokens for `gate` that are signed with a secret.
fn verifier() -> Verifier {
    let issuer = Issuer {
        issuer: "https://issuer.example".to_owned(),
        audiences: vec!["gate".to_owned()],
        algorithms: vec![Algorithm::Hs256],
        keys: vec![KeySource::Secret { key_id: "k".to_owned(), secret: SharedSecret::from(SECRET.to_vec()) }],
        claims: ClaimNames::minted(),
        ..Issuer::default()
    };
    Verifier::new(VerifierOptions::new(vec![issuer], Arc::new(SystemTime::now), Arc::new(NoFetch))).unwrap()
}

/// The claims of a token.
pub(crate) struct Says {
    pub(crate) subject: &'static str,
    pub(crate) audience: &'static str,
    pub(crate) secret: &'static [u8],
    pub(crate) age: Duration,
    pub(crate) permissions: &'static [&'static str],
    /// Whether writes need approval.
    pub(crate) is_guided: bool,
}

impl Default for Says {
    fn default() -> Self {
        Self {
            subject: "alice",
            audience: "gate",
            secret: SECRET,
            age: Duration::ZERO,
            permissions: &["files:read"],
            is_guided: false,
        }
    }
}

impl Says {
    pub(crate) fn token(&self) -> String {
        mint(&MintOptions {
            secret: &SharedSecret::from(self.secret.to_vec()),
            key_id: "k",
            issuer: "https://issuer.example",
            audience: self.audience,
            subject: self.subject,
            permissions: self.permissions.iter().map(|permission| (*permission).to_owned()).collect(),
            agent: None,
            trust: self.is_guided.then_some(Trust::Guided),
            now: SystemTime::now() - self.age,
            lifetime: Duration::from_secs(3600),
        })
        .unwrap()
    }
}
