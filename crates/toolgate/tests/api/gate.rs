//! A served gate, and clients that send exactly what a test says.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest as _;
use tungstenite::http::HeaderValue;
use tungstenite::{Message, WebSocket};

use crate::fixture::CliFixture;

/// A timeout that only a failure reaches.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A served gate.
pub(crate) struct Gate {
    pub(crate) place: CliFixture,
    pub(crate) process: Child,
    pub(crate) address: String,
    pub(crate) token: Option<String>,
    options: Vec<String>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) text: String,
}

impl Reply {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// The code of a problem, with its status.
    #[track_caller]
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        (self.status, self.json()["code"].as_str().unwrap().to_owned())
    }
}

impl Gate {
    /// Serves with a script.
    pub(crate) fn serve(script: &str) -> Self {
        Self::with(script, "", &[])
    }

    pub(crate) fn with(script: &str, config: &str, options: &[&str]) -> Self {
        Self::with_files(script, config, &[], options)
    }

    /// Serves with a configuration and the files that it names.
    pub(crate) fn with_files(script: &str, config: &str, files: &[(&str, &str)], options: &[&str]) -> Self {
        let place = CliFixture::new();
        files.iter().for_each(|(name, text)| std::fs::write(place.scratch.path().join(name), text).unwrap());
        std::fs::write(place.workspace.join("a.txt"), "hello\n").unwrap();
        std::fs::write(place.scratch.path().join("script.yaml"), script).unwrap();
        if !config.is_empty() {
            std::fs::write(place.scratch.path().join("toolgate.yaml"), config).unwrap();
        }
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Self::start(place, options, "127.0.0.1:0")
    }

    /// Serves callers with tokens of their own.
    pub(crate) fn jwt(script: &str) -> Self {
        Self::jwt_with(script, "")
    }

    pub(crate) fn jwt_with(script: &str, config: &str) -> Self {
        let gate = Self::with(script, config, &[]);
        // The secret that tokens are signed with has to exist before `--auth jwt` is served.
        gate.caller("alice", &[]);
        assert!(gate.place.state.join("keys/callers.key").exists());
        gate.restart_with(&["--auth", "jwt"])
    }

    fn start(place: CliFixture, options: Vec<String>, listen: &str) -> Self {
        let log = std::fs::File::options().create(true).append(true).open(Self::log_of(&place)).unwrap();
        let model = format!("scripted/{}", place.scratch.path().join("script.yaml").display());
        let mut process = place
            .toolgate()
            .args(["serve", "--listen", listen, "--json", "--model", &model])
            .args(&options)
            .stdout(Stdio::piped())
            .stderr(log.try_clone().unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let served: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        let read = |file: &str| std::fs::read_to_string(file).unwrap().trim().to_owned();
        let token = served["tokenFile"].as_str().map(read);
        let address = served["listen"].as_str().unwrap().to_owned();
        Self { place, process, address, token, options }
    }

    /// What it wrote on standard error.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(Self::log_of(&self.place)).unwrap()
    }

    fn log_of(place: &CliFixture) -> std::path::PathBuf {
        place.scratch.path().join("serve.log")
    }

    /// Sends SIGTERM, and waits for the end.
    pub(crate) fn terminate(&mut self) -> std::process::ExitStatus {
        let process = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        self.process.wait().unwrap()
    }

    /// Kills the gate, and serves again at the same address.
    pub(crate) fn restart(mut self) -> Self {
        // It may have ended already.
        let _ = self.process.kill();
        self.process.wait().unwrap();
        let (address, options) = (self.address.clone(), std::mem::take(&mut self.options));
        let place = std::mem::replace(&mut self.place, CliFixture::new());
        drop(self);
        Self::start(place, options, &address)
    }

    /// Serves the same place with other options.
    pub(crate) fn restart_with(mut self, options: &[&str]) -> Self {
        self.options = options.iter().map(|option| (*option).to_owned()).collect();
        self.restart()
    }

    /// A client with the person's token.
    pub(crate) fn person(&self) -> Client {
        Client { address: self.address.clone(), headers: bearer(self.token.as_deref()) }
    }

    /// A client with a token of its own.
    pub(crate) fn caller(&self, subject: &str, options: &[&str]) -> Client {
        let mut arguments = vec!["token", "mint", "--subject", subject];
        arguments.extend(options);
        let minted = self.place.toolgate().args(arguments).output().unwrap();
        let token = String::from_utf8(minted.stdout).unwrap();
        Client { address: self.address.clone(), headers: bearer(Some(token.trim())) }
    }

    /// A client without anything.
    pub(crate) fn stranger(&self) -> Client {
        Client { address: self.address.clone(), headers: Vec::new() }
    }

    /// Resident memory of the process, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn bearer(token: Option<&str>) -> Vec<(String, String)> {
    token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}"))).into_iter().collect()
}

/// A client that sends these headers with every request.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Client {
    pub(crate) fn header(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.push((name.to_owned(), value.to_owned()));
        client
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, Some(&body.to_string()))
    }

    /// The connection of a request that was sent, and whose answer was not read.
    pub(crate) fn begin(&self, method: &str, path: &str, body: Option<&str>) -> TcpStream {
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/api/v1/{path}") };
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        let has = |name: &str| self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        if !has("connection") {
            head += "Connection: close\r\n";
        }
        if !has("host") {
            head += &format!("Host: {}\r\n", self.address);
        }
        if let Some(body) = body {
            if !has("content-type") {
                head += "Content-Type: application/json\r\n";
            }
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        self.headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.write_all(format!("{head}\r\n{}", body.unwrap_or_default()).as_bytes()).unwrap();
        stream
    }

    /// One request on a connection of its own. Paths without a leading `/` are below `/api/v1`.
    pub(crate) fn send(&self, method: &str, path: &str, body: Option<&str>) -> Reply {
        let mut stream = self.begin(method, path, body);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, text) =
            answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{method} {path}: {answer:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header =
            |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        Reply { status, headers: lines.filter_map(header).collect(), text: text.to_owned() }
    }

    /// A new session, by its id.
    pub(crate) fn session(&self) -> String {
        self.post("sessions", &json!({})).expect(201)["id"].as_str().unwrap().to_owned()
    }

    /// The WebSocket of a session.
    #[track_caller]
    pub(crate) fn socket(&self, session: &str, after: u64) -> Socket {
        self.try_socket(session, after).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn try_socket(&self, session: &str, after: u64) -> Result<Socket, Box<tungstenite::Error>> {
        let url = format!("ws://{}/ws?session={session}&after={after}", self.address);
        let mut request = url.into_client_request().unwrap();
        for (name, value) in &self.headers {
            let name: tungstenite::http::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
        }
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Socket { socket, seen: Vec::new(), close_code: None }),
            Err(tungstenite::HandshakeError::Failure(error)) => Err(Box::new(error)),
            Err(tungstenite::HandshakeError::Interrupted(_)) => panic!("the handshake did not end"),
        }
    }
}

/// The status of a refused handshake.
pub(crate) fn refused(tried: Result<Socket, Box<tungstenite::Error>>) -> u16 {
    match tried {
        Ok(_) => 101,
        Err(error) => match *error {
            tungstenite::Error::Http(response) => response.status().as_u16(),
            other => panic!("{other}"),
        },
    }
}

/// A WebSocket.
pub(crate) struct Socket {
    pub(crate) socket: WebSocket<TcpStream>,
    /// Every numbered frame.
    pub(crate) seen: Vec<Value>,
    /// The code that the server closed with.
    pub(crate) close_code: Option<u16>,
}

impl Socket {
    pub(crate) fn send(&mut self, event: &str, data: &Value) {
        self.raw(&json!({"event": event, "data": data}).to_string());
    }

    pub(crate) fn raw(&mut self, text: &str) {
        self.socket.send(Message::text(text)).unwrap();
    }

    /// The next frame; `None` once the server closed.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let began = std::time::Instant::now();
        loop {
            assert!(began.elapsed() < TEST_TIMEOUT, "nothing but heartbeats after {:?}", self.seen.last());
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    let frame: Value = serde_json::from_str(text.as_str()).unwrap();
                    assert_documented(&frame);
                    if frame["event"] == "chat:heartbeat" {
                        continue;
                    }
                    if frame["seq"].is_u64() {
                        self.seen.push(frame.clone());
                    }
                    return Some(frame);
                }
                Ok(Message::Close(frame)) => {
                    self.close_code = frame.map(|frame| frame.code.into());
                    return None;
                }
                Err(tungstenite::Error::ConnectionClosed) => return None,
                Ok(_) => {}
                Err(tungstenite::Error::Protocol(_) | tungstenite::Error::Io(_)) => return None,
                Err(error) => panic!("{error}, after {:?}", self.seen.last()),
            }
        }
    }

    /// The data of the next frame of this event.
    #[track_caller]
    pub(crate) fn wait(&mut self, event: &str) -> Value {
        loop {
            let frame = self.next().unwrap_or_else(|| panic!("no {event} after {:?}", self.seen.last()));
            if frame["event"] == event {
                return frame["data"].clone();
            }
        }
    }

    /// The code that the server closes with.
    #[track_caller]
    pub(crate) fn close_code(&mut self) -> u16 {
        loop {
            match self.socket.read() {
                Ok(Message::Close(frame)) => return frame.unwrap().code.into(),
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.seen.last().map_or(0, |frame| frame["seq"].as_u64().unwrap())
    }
}

/// What frames say, with the deltas of one message joined: what a client shows.
pub(crate) fn shown(frames: &[Value]) -> Vec<String> {
    let mut shown: Vec<(String, String)> = Vec::new();
    for frame in frames {
        let (event, data) = (frame["event"].as_str().unwrap(), &frame["data"]);
        match event {
            "chat:text-delta" | "chat:thinking-delta" => {
                let key = format!("{event} {}", data["messageId"]);
                let text = data["text"].as_str().unwrap();
                match shown.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, all)) => all.push_str(text),
                    None => shown.push((key, text.to_owned())),
                }
            }
            // Repeated in full by later events.
            "chat:tool-input-delta" | "chat:tool-delta" => {}
            _ => shown.push((format!("{event} {data}"), String::new())),
        }
    }
    shown.into_iter().map(|(key, text)| format!("{key}: {text}")).collect()
}

/// Every frame that any test sees is what the OpenAPI document says.
fn assert_documented(frame: &Value) {
    static DOCUMENT: std::sync::OnceLock<Value> = std::sync::OnceLock::new();
    let document = DOCUMENT.get_or_init(toolgate_api::document);
    let event = frame["event"].as_str().unwrap();
    let schema = toolgate_api::schema_of_event(event).unwrap_or_else(|| panic!("{event} is not documented"));
    let problem = fits(document, &document["components"]["schemas"][schema], &frame["data"]);
    assert_eq!(problem, Ok(()), "{frame}");
}

/// Whether a value is what a schema of the document says: the parts of JSON Schema that it uses, and no field that it does not name.
pub(crate) fn fits(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return fits(document, document.pointer(&reference[1..]).unwrap(), value);
    }
    if let Some(words) = schema["enum"].as_array() {
        return if words.contains(value) { Ok(()) } else { Err(format!("{value} is none of {words:?}")) };
    }
    let is_a = |kind: &Value| match kind.as_str().unwrap() {
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("{other}"),
    };
    let is_right = match &schema["type"] {
        Value::Null => true,
        Value::Array(kinds) => kinds.iter().any(is_a),
        kind => is_a(kind),
    };
    if !is_right {
        return Err(format!("{value} is no {}", schema["type"]));
    }
    for item in value.as_array().into_iter().flatten().filter(|_| schema["items"].is_object()) {
        fits(document, &schema["items"], item)?;
    }
    let (Some(properties), Some(fields)) = (schema["properties"].as_object(), value.as_object()) else {
        return Ok(());
    };
    for name in schema["required"].as_array().into_iter().flatten() {
        if !fields.contains_key(name.as_str().unwrap()) {
            return Err(format!("{name} is missing"));
        }
    }
    for (name, value) in fields {
        match properties.get(name) {
            Some(schema) => fits(document, schema, value).map_err(|problem| format!("{name}: {problem}"))?,
            None if schema["additionalProperties"] == true => {}
            None => return Err(format!("{name} is not documented")),
        }
    }
    Ok(())
}
