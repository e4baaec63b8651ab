//! Spans at a collector: what it receives of a call through the binary, and what a collector that is gone costs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::json;

use crate::fixture::CliFixture;

/// In a path, in the content of a file and in the name of a tool; no collector may receive it.
const CANARY: &str = "canary-4711";
const STAGES: [&str; 7] = ["REGISTRY", "AUTH", "PERMISSION", "VALIDATION", "APPROVAL", "EXECUTION", "OUTPUT"];

/// One batch as it came.
struct Batch {
    head: String,
    bytes: Vec<u8>,
}

/// A collector on loopback; it serves until the process ends.
fn collector() -> (SocketAddr, Receiver<Batch>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (report, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if report.send(receive(stream.unwrap())).is_err() {
                return;
            }
        }
    });
    (address, received)
}

fn receive(stream: TcpStream) -> Batch {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim_end().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
        head += &(line + "\n");
    }
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes).unwrap();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    reader.into_inner().write_all(answer).unwrap();
    Batch { head, bytes }
}

impl Batch {
    fn decoded(&self) -> ExportTraceServiceRequest {
        ExportTraceServiceRequest::decode(self.bytes.as_slice()).unwrap()
    }

    fn spans(&self) -> Vec<Span> {
        let scopes = self.decoded().resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    fn holds(&self, text: &str) -> bool {
        self.bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

fn attribute(attributes: &[KeyValue], name: &str) -> Option<serde_json::Value> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    match &found.value {
        Some(AnyValue { value: Some(Value::StringValue(text)) }) => Some(json!(text)),
        Some(AnyValue { value: Some(Value::IntValue(number)) }) => Some(json!(number)),
        other => panic!("{other:?}"),
    }
}

fn place() -> CliFixture {
    let place = CliFixture::new();
    std::fs::write(place.workspace.join(format!("{CANARY}.txt")), format!("{CANARY}\n")).unwrap();
    place
}

fn read() -> [String; 3] {
    ["call".to_owned(), "read_file".to_owned(), json!({"path": format!("{CANARY}.txt")}).to_string()]
}

/// The binary whose environment names a collector.
fn exporting(place: &CliFixture, address: SocketAddr) -> Command {
    let mut command = place.toolgate();
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}")).stdin(Stdio::null());
    command
}

fn succeeded(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_call_is_one_trace_with_its_stages_and_without_its_arguments() {
    let ((address, received), place) = (collector(), place());
    let mut command = exporting(&place, address);
    command.args(read()).env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer of-the-collector");
    let output = command.env("OTEL_SERVICE_NAME", "gate of a test").output().unwrap();
    succeeded(&output);
    assert!(String::from_utf8_lossy(&output.stdout).contains(CANARY), "{output:?}");
    let batch = received.recv().unwrap();
    assert!(batch.head.starts_with("post /v1/traces "), "{}", batch.head);
    assert!(batch.head.contains("content-type: application/x-protobuf\n"), "{}", batch.head);
    assert!(batch.head.contains("authorization: bearer of-the-collector\n"), "{}", batch.head);
    for secret in [CANARY, place.workspace.to_str().unwrap(), "of-the-collector"] {
        assert!(!batch.holds(secret), "{secret} in {:?}", batch.decoded());
    }
    let resource = batch.decoded().resource_spans.remove(0).resource.unwrap();
    assert_eq!(attribute(&resource.attributes, "service.name"), Some(json!("gate of a test")));
    let spans = batch.spans();
    let [calls, stages] = [true, false].map(|is_call| {
        let wanted = |span: &&Span| span.name.starts_with("execute_tool") == is_call;
        spans.iter().filter(wanted).collect::<Vec<_>>()
    });
    let [call] = calls[..] else { panic!("{spans:?}") };
    assert_eq!(call.name, "execute_tool read_file");
    assert!(call.parent_span_id.is_empty() && call.events.is_empty(), "{call:?}");
    for (name, value) in [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "read_file"),
        ("toolgate.decision", "ALLOWED"),
    ] {
        assert_eq!(attribute(&call.attributes, name), Some(json!(value)), "{call:?}");
    }
    assert_eq!(stages.iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>(), STAGES);
    for stage in stages {
        assert_eq!((&stage.trace_id, &stage.parent_span_id), (&call.trace_id, &call.span_id));
        assert!(stage.start_time_unix_nano >= call.start_time_unix_nano);
        assert!(stage.end_time_unix_nano <= call.end_time_unix_nano);
        assert!(stage.events.is_empty(), "{stage:?}");
    }
}

#[test]
fn a_turn_is_one_trace_of_its_requests_and_calls() {
    let ((address, received), place) = (collector(), place());
    place.write(
        "script.yaml",
        &format!(
            "steps:\n- calls: [{{tool: read_file, arguments: {{path: {CANARY}.txt}}}}]\n- say: '{CANARY}'\n"
        ),
    );
    let mut command = exporting(&place, address);
    command.args(["run", CANARY, "--model", "scripted/script.yaml", "--log", "text"]);
    succeeded(&command.output().unwrap());
    let batch = received.recv().unwrap();
    assert!(!batch.holds(CANARY), "{:?}", batch.decoded());
    let spans = batch.spans();
    let operation = |name: &str| {
        let is_wanted =
            |span: &&Span| attribute(&span.attributes, "gen_ai.operation.name") == Some(json!(name));
        spans.iter().filter(is_wanted).collect::<Vec<_>>()
    };
    let [turn] = operation("invoke_agent")[..] else { panic!("{spans:?}") };
    let (requests, calls) = (operation("chat"), operation("execute_tool"));
    assert_eq!((requests.len(), calls.len()), (2, 1), "{spans:?}");
    for span in requests.iter().chain(&calls) {
        assert_eq!((&span.trace_id, &span.parent_span_id), (&turn.trace_id, &turn.span_id), "{span:?}");
    }
    for request in requests {
        assert_eq!(attribute(&request.attributes, "gen_ai.provider.name"), Some(json!("scripted")));
        for count in ["gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"] {
            assert!(attribute(&request.attributes, count).is_some_and(|count| count.is_i64()), "{request:?}");
        }
    }
}

/// The name of a tool that does not exist is whatever the model wrote.
#[test]
fn a_tool_that_does_not_exist_is_not_named_to_the_collector() {
    let ((address, received), place) = (collector(), place());
    let mut command = exporting(&place, address);
    assert_eq!(command.args(["call", CANARY, "{}"]).status().unwrap().code(), Some(3));
    let batch = received.recv().unwrap();
    assert!(!batch.holds(CANARY), "{:?}", batch.decoded());
    let spans = batch.spans();
    assert!(spans.iter().any(|span| span.name == "execute_tool (unknown)"), "{spans:?}");
}

/// Refused, and silent: one that accepts connections and never answers.
#[test]
fn a_collector_that_is_gone_costs_one_notice_and_no_call() {
    let place = place();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [gone, silent.local_addr().unwrap()] {
        let mut command = place.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate")));
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}")).args(read());
        let output = command.output().unwrap();
        succeeded(&output);
        assert!(String::from_utf8_lossy(&output.stdout).contains(CANARY), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let expected = usize::from(address == gone);
        assert_eq!(said.matches("spans cannot be exported to 127.0.0.1").count(), expected, "{said}");
    }
}

/// The variable holds credentials for the collector that the environment names, not for one that a file names.
#[test]
fn headers_of_the_environment_go_to_no_collector_that_a_file_names() {
    let ((address, received), place) = (collector(), place());
    place.write("toolgate.yaml", &format!("telemetry: {{otlp: {{endpoint: 'http://{address}/'}}}}\n"));
    let mut command = place.toolgate();
    command.args(read()).env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer of-the-collector");
    succeeded(&command.env("OTEL_RESOURCE_ATTRIBUTES", "host=of-the-user").output().unwrap());
    let batch = received.recv().unwrap();
    assert!(batch.head.starts_with("post /v1/traces "), "{}", batch.head);
    assert!(!batch.head.contains("of-the-collector") && !batch.holds("of-the-user"), "{}", batch.head);
    assert_eq!(batch.spans().len(), 1 + STAGES.len());
}

#[test]
fn the_environment_wins_over_the_file_and_can_switch_the_export_off() {
    let ((address, received), place) = (collector(), place());
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    unused.set_nonblocking(true).unwrap();
    let endpoint = unused.local_addr().unwrap();
    place.write("toolgate.yaml", &format!("telemetry: {{otlp: {{endpoint: 'http://{endpoint}'}}}}\n"));
    succeeded(&exporting(&place, address).args(read()).output().unwrap());
    assert_eq!(received.recv().unwrap().spans().len(), 1 + STAGES.len());
    succeeded(&place.toolgate().args(read()).env("OTEL_SDK_DISABLED", "true").output().unwrap());
    assert!(unused.accept().is_err(), "nothing was sent to the collector of the file");
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A served gate that exports.
struct Served {
    process: Child,
    address: String,
}

impl Served {
    fn start(place: &CliFixture, collector: SocketAddr) -> (Self, String) {
        let mut command = exporting(place, collector);
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        let token = std::fs::read_to_string(told["tokenFile"].as_str().unwrap()).unwrap();
        (Self { process, address: told["listen"].as_str().unwrap().to_owned() }, token.trim().to_owned())
    }

    /// Sends a request on a connection of its own; the status and the body of its answer.
    fn request(&self, line: &str, headers: &[&str], body: &serde_json::Value) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let host = &self.address;
        let head = format!(
            "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
    }

    /// Ends it in order, so that what is left is exported.
    fn end(mut self) {
        let process = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The spans that a collector receives until there are so many of this kind.
fn spans_until(received: &Receiver<Batch>, count: usize, is_wanted: impl Fn(&Span) -> bool) -> Vec<Span> {
    let mut spans = Vec::new();
    while spans.iter().filter(|span| is_wanted(span)).count() < count {
        // A timeout that only a failure reaches.
        let batch = received.recv_timeout(Duration::from_secs(60));
        let batch = batch.unwrap_or_else(|error| panic!("{error}: {spans:?}"));
        assert!(!batch.holds(CANARY), "{:?}", batch.decoded());
        spans.extend(batch.spans());
    }
    spans
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_request_over_http_is_a_span_in_the_trace_that_its_client_names() {
    let ((address, received), place) = (collector(), place());
    let (gate, token) = Served::start(&place, address);
    let auth = format!("Authorization: Bearer {token}");
    // The flag that says that the client does not record its own span is not obeyed.
    let [unsampled, sampled] = ["00", "01"].map(|flags| format!("traceparent: 00-{TRACE}-{PARENT}-{flags}"));
    let call = json!({"tool": "read_file", "arguments": {"path": format!("{CANARY}.txt")}});
    let (status, body) = gate.request("POST /api/v1/calls", &[auth.as_str(), unsampled.as_str()], &call);
    assert!(status == "200" && body.contains(CANARY), "{status} {body}");
    let mcp = [
        auth.as_str(),
        sampled.as_str(),
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/call",
        "Mcp-Name: read_file",
    ];
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "read_file", "arguments": call["arguments"], "_meta": meta});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let (status, body) = gate.request("POST /mcp", &mcp, &message);
    assert!(status == "200" && body.contains(CANARY), "{status} {body}");
    // Without a trace, or with one that is none, a request begins its own. Its path is not exported.
    let forged = format!("traceparent: 00-{}-{PARENT}-01", "0".repeat(32));
    let twice = [sampled.as_str(), sampled.as_str()];
    let none: [&[&str]; 4] = [&[], &["traceparent: 00-0-0-01"], &[forged.as_str()], &twice];
    for more in none {
        let headers = [&[auth.as_str()][..], more].concat();
        let path = format!("GET /api/v1/sessions/{CANARY}");
        assert_eq!(gate.request(&path, &headers, &json!(null)).0, "404");
    }
    // A stranger fills no queue.
    let stranger = ["Authorization: Bearer no-token", sampled.as_str()];
    assert_eq!(gate.request("GET /api/v1/me", &stranger, &json!(null)).0, "401");
    assert_eq!(gate.request("GET /mcp", &stranger, &json!(null)).0, "401");
    gate.end();
    let is_request = |span: &Span| attribute(&span.attributes, "http.route").is_some();
    let spans = spans_until(&received, 6, is_request);
    let requests: Vec<&Span> = spans.iter().filter(|span| is_request(span)).collect();
    assert_eq!(requests.len(), 6, "{requests:?}");
    for name in ["POST /api/v1/calls", "POST /mcp"] {
        let [request] = requests.iter().filter(|span| span.name == name).collect::<Vec<_>>()[..] else {
            panic!("{requests:?}")
        };
        assert_eq!(
            (hex(&request.trace_id), hex(&request.parent_span_id)),
            (TRACE.to_owned(), PARENT.to_owned())
        );
        assert_eq!(attribute(&request.attributes, "http.response.status_code"), Some(json!(200)));
        assert_eq!(request.kind, 2, "a span of a server");
        let below =
            |span: &&Span| span.parent_span_id == request.span_id && span.trace_id == request.trace_id;
        let calls: Vec<&str> = spans.iter().filter(below).map(|span| span.name.as_str()).collect();
        assert_eq!(calls, ["execute_tool read_file"], "{spans:?}");
    }
    let own: Vec<_> = requests.iter().filter(|span| span.name == "GET /api/v1/sessions/{id}").collect();
    assert_eq!(own.len(), 4, "{requests:?}");
    for request in own {
        assert!(request.parent_span_id.is_empty() && hex(&request.trace_id) != TRACE, "{request:?}");
        assert_eq!(attribute(&request.attributes, "http.response.status_code"), Some(json!(404)));
    }
}
