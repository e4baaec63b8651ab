//! Spans at a collector: what it receives of a call through the binary, and what a collector that is gone costs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

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
