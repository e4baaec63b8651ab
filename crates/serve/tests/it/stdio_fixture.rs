//! A gate on two pipes in this process, and a client that writes and reads lines.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_attack::{Bench, BenchOptions, Scratch, person};
use toolgate_audit::Record;
use toolgate_gate::{BlockingStrategy, NoApprover};
use toolgate_serve::{OutputStore, ServeError, Service, ServiceOptions, serve_stdio};
use toolgate_tools::Profile;
use toolgate_types::{Caller, Trust};

/// Longer than anything here takes; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// The two protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// The session protocol, with `initialize`.
    Older,
    /// The stateless protocol.
    Newer,
}

pub(crate) const ERAS: [Era; 2] = [Era::Older, Era::Newer];

/// A gate that is served on pipes.
pub(crate) struct World {
    pub(crate) bench: Bench,
    pub(crate) workspace: PathBuf,
    state: PathBuf,
    _scratch: Scratch,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|options| options)
    }

    pub(crate) fn with(change: impl FnOnce(BenchOptions) -> BenchOptions) -> Self {
        let scratch = Scratch::new();
        let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
        std::fs::write(workspace.join("a.txt"), "hello\n").unwrap();
        // No test depends on a timeout that it does not set.
        let nobody = NoApprover { remedy: "ask in a test".to_owned() };
        let options = BenchOptions::new(Profile::NATIVE, &workspace, &state)
            .blocking(BlockingStrategy::ThreadPool)
            .approver(Arc::new(nobody), 5 * PATIENCE);
        let bench = change(options).open();
        Self { bench, workspace, state, _scratch: scratch }
    }

    /// The directory of stored outputs.
    pub(crate) fn outputs(&self) -> PathBuf {
        self.state.join("outputs")
    }

    /// A service. A process has one, and several processes may share the state directory.
    pub(crate) fn service(&self) -> Arc<Service> {
        Service::new(self.options())
    }

    /// Its options.
    pub(crate) fn options(&self) -> ServiceOptions {
        let outputs = self.outputs();
        let outputs = OutputStore::new(move || {
            std::fs::create_dir_all(&outputs)?;
            cap_std::fs::Dir::open_ambient_dir(&outputs, cap_std::ambient_authority())
        });
        ServiceOptions {
            aliases: vec!["@project".to_owned()],
            ..ServiceOptions::new(Arc::clone(self.bench.front()), outputs)
        }
    }

    /// A client with this protocol and for this caller.
    pub(crate) fn client_as(&self, era: Era, capabilities: Value, caller: Caller) -> Client {
        Client::begun(self.service(), era, capabilities, caller)
    }

    /// The same for a person whose approval every change needs, and who can be asked.
    pub(crate) fn client(&self, era: Era) -> Client {
        self.client_as(era, json!({"elicitation": {}}), guided())
    }

    /// A client that sends nothing by itself.
    pub(crate) fn silent(&self) -> Client {
        Client::connect(self.service(), Era::Older, json!({}), person("mcp-raw"))
    }

    /// Every record so far, oldest first.
    pub(crate) fn records(&self) -> Vec<Record> {
        let mut records: Vec<Record> = self.bench.records().into_values().flatten().collect();
        records.sort_by_key(|record| record.trace_id);
        records
    }
}

pub(crate) fn guided() -> Caller {
    Caller { trust: Trust::Guided, ..person("mcp-test") }
}

/// The client's ends of the pipes.
pub(crate) struct Client {
    era: Era,
    capabilities: Value,
    next: i64,
    input: Option<File>,
    /// The received lines, once a test asks for them. Until then nothing is read.
    lines: Option<mpsc::Receiver<String>>,
    output: Option<OwnedFd>,
    /// Messages that arrived while another was awaited.
    aside: VecDeque<Value>,
    pub(crate) shutdown: CancellationToken,
    serving: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Client {
    fn connect(service: Arc<Service>, era: Era, capabilities: Value, caller: Caller) -> Self {
        let (their_input, input) = rustix::pipe::pipe().unwrap();
        let (output, their_output) = rustix::pipe::pipe().unwrap();
        let shutdown = CancellationToken::new();
        let until = shutdown.clone();
        let serving = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve_stdio(service, caller.into(), their_input, their_output, until))
        });
        Self {
            era,
            capabilities,
            next: 1,
            input: Some(File::from(input)),
            lines: None,
            output: Some(output),
            aside: VecDeque::new(),
            shutdown,
            serving: Some(serving),
        }
    }

    /// An initialised client.
    pub(crate) fn begun(service: Arc<Service>, era: Era, capabilities: Value, caller: Caller) -> Self {
        let mut client = Self::connect(service, era, capabilities, caller);
        client.begin();
        client
    }

    fn begin(&mut self) {
        if self.era == Era::Older {
            let params = json!({
                "protocolVersion": "2025-11-25", "capabilities": self.capabilities,
                "clientInfo": {"name": "test", "version": "1"},
            });
            let told = self.request("initialize", params);
            assert_eq!(told["result"]["protocolVersion"], "2025-11-25", "{told}");
            self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// Sends a request; returns its id.
    pub(crate) fn ask(&mut self, method: &str, mut params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        if self.era == Era::Newer {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            });
            let own = params.as_object_mut().unwrap().entry("_meta").or_insert_with(|| json!({}));
            own.as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
        }
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The next message that matches; others are set aside.
    pub(crate) fn next(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.aside.iter().position(&fits) {
            return self.aside.remove(place).unwrap();
        }
        loop {
            let line = self.line().expect("a message");
            let message: Value =
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if fits(&message) {
                return message;
            }
            self.aside.push_back(message);
        }
    }

    fn line(&mut self) -> Option<String> {
        if let Some(output) = self.output.take() {
            self.lines = Some(read_lines(output));
        }
        self.lines.as_ref()?.recv_timeout(PATIENCE).ok()
    }

    /// Writes the same bytes repeatedly until the pipe stays full; returns how much was written.
    pub(crate) fn flood(&mut self, piece: &[u8], most: usize) -> usize {
        let input = self.input.as_ref().unwrap();
        rustix::io::ioctl_fionbio(input, true).unwrap();
        let block = piece.repeat(16 * 1024 / piece.len());
        let mut taken = 0;
        while taken < most {
            let mut polled = [PollFd::new(input, PollFlags::OUT)];
            // Long enough for a server that wants to read.
            let wait = Timespec { tv_sec: 2, tv_nsec: 0 };
            if poll(&mut polled, Some(&wait)).unwrap() == 0 {
                break;
            }
            taken += rustix::io::write(input, &block).unwrap_or(0);
        }
        rustix::io::ioctl_fionbio(input, false).unwrap();
        taken
    }

    /// Waits until the server has read everything that was written.
    pub(crate) fn is_heard(&self) {
        while rustix::io::ioctl_fionread(self.input.as_ref().unwrap()).unwrap() > 0 {
            std::thread::yield_now();
        }
    }

    /// How serving ended, while the client's own end stays open.
    pub(crate) fn ended(&mut self) -> Result<(), ServeError> {
        self.serving.take().unwrap().join().unwrap()
    }

    /// Closes the reading end.
    pub(crate) fn turn_away(&mut self) {
        (self.output, self.lines) = (None, None);
    }

    pub(crate) fn answer(&mut self, id: i64) -> Value {
        self.next(|message| message["id"] == id && message.get("method").is_none())
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// One call; its result.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// The server's next elicitation (session protocol).
    pub(crate) fn question(&mut self) -> Value {
        self.next(|message| message["method"] == "elicitation/create")
    }

    /// Answers an elicitation (session protocol).
    pub(crate) fn reply(&mut self, question: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}));
    }

    /// Closes the client's end; returns the remaining messages, and how serving ended.
    pub(crate) fn close(mut self) -> (Vec<Value>, Result<(), ServeError>) {
        self.input = None;
        let mut rest: Vec<Value> = self.aside.drain(..).collect();
        while let Some(line) = self.line() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        (rest, self.serving.take().unwrap().join().unwrap())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.input = None;
        self.shutdown.cancel();
        if let Some(serving) = self.serving.take() {
            // A failing test reports its reason itself.
            let _ = serving.join();
        }
    }
}

fn read_lines(output: OwnedFd) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(File::from(output)).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}
