//! Isolation of callers: none can use what belongs to another, not even with the same name, and none can take all
//! resources.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolgate_gate::{ApprovedCall, CallContext, Tool, ToolFuture, ToolSpec};
use toolgate_types::{Decision, ErrorCode, ToolClass, ToolOutput};

use crate::http_fixture::{
    Got, Line, PATIENCE, Plan, Says, Sent, World, by_issuer, get, initialize, newer, post, read_file,
};
use crate::http_shutdown::{Waiting, spec};

const READS: &[&str] = &["files:read"];
const WRITES: &[&str] = &["files:write"];
const BOTH: &[&str] = &["files:read", "files:write"];

/// A token of a caller whose writes need approval.
fn token(subject: &'static str, permissions: &'static [&'static str]) -> String {
    Says { subject, permissions, is_guided: true, ..Says::default() }.token()
}

fn call(tool: &str, arguments: &Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

/// A request of the stateless protocol whose client supports elicitation.
fn asking(message: Value) -> Sent {
    let sent = newer(message);
    sent.replaced(
        "\"io.modelcontextprotocol/clientCapabilities\":{}",
        "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{}}",
    )
}

fn write_file(path: &str) -> Value {
    call("write_file", &json!({"path": path, "content": "agreed\n"}))
}

/// Starts a call that needs approval.
fn park(world: &World, token: &str, path: &str) -> Value {
    world.send(&asking(write_file(path)).bearing(token)).message()["result"].clone()
}

/// Repeats the request with an approval.
fn agree(world: &World, token: &str, path: &str, asked: &Value, content: &Value) -> Value {
    let mut message = write_file(path);
    message["params"]["requestState"] = asked["requestState"].clone();
    message["params"]["inputResponses"] = json!({"approval": {"action": "accept", "content": content}});
    world.send(&asking(message).bearing(token)).message()
}

/// Answers immediately.
struct Plain {
    spec: ToolSpec,
    whole: Option<String>,
}

impl Tool for Plain {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run(self: Arc<Self>, _: ApprovedCall, _: CallContext) -> ToolFuture {
        let output = ToolOutput { full_text: self.whole.clone(), ..ToolOutput::new("done", json!({})) };
        Box::pin(async move { Ok(output) })
    }
}

#[test]
fn a_list_is_that_of_the_token_it_was_asked_with() {
    let world = by_issuer().start();
    let names = |permissions| {
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
        let got = world.send(&newer(list).bearing(&token("alice", permissions))).message();
        let tools = got["result"]["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (reading, writing) = (names(READS), names(WRITES));
    assert!(reading.contains(&"read_file".to_owned()) && !reading.contains(&"write_file".to_owned()));
    assert!(writing.contains(&"write_file".to_owned()) && !writing.contains(&"read_file".to_owned()));
    assert_eq!((names(READS), names(WRITES)), (reading, writing));
}

#[test]
fn an_answer_is_good_for_the_same_caller_with_the_same_permissions_alone() {
    let world = by_issuer().start();
    let asked = park(&world, &token("bob", BOTH), "new.txt");
    assert_eq!(asked["resultType"], json!("input_required"), "{asked}");
    for other in [token("bob", READS), token("bob", WRITES), token("alice", BOTH)] {
        let got = agree(&world, &other, "new.txt", &asked, &json!({}));
        assert!(got["error"].is_object() || got["result"]["isError"] == json!(true), "{got}");
        assert_eq!(world.written("new.txt"), None);
    }
    // Another token with the same claims works too.
    let got = agree(&world, &token("bob", BOTH), "new.txt", &asked, &json!({}));
    assert_eq!(got["result"]["isError"], json!(false), "{got}");
    assert_eq!(world.written("new.txt").as_deref(), Some("agreed\n"));
}

#[test]
fn a_yes_is_for_one_call_where_no_session_ends() {
    let world = by_issuer().start();
    let bob = token("bob", BOTH);
    let asked = park(&world, &bob, "one.txt");
    let form = &asked["inputRequests"]["approval"]["params"]["requestedSchema"];
    let scopes = form["properties"]["scope"]["enum"].as_array().unwrap();
    assert_eq!(scopes.first(), Some(&json!("once")));
    let of_session = |scope: &Value| scope.as_str().is_some_and(|scope| scope.contains("session"));
    assert!(!scopes.iter().any(of_session), "nothing is offered for a session: {asked}");
    let got = agree(&world, &bob, "one.txt", &asked, &json!({"scope": "session"}));
    assert_eq!(got["result"]["isError"], json!(false), "{got}");
    let next = park(&world, &bob, "two.txt");
    assert_eq!(next["resultType"], json!("input_required"), "{next}");
    assert_eq!(world.written("two.txt"), None);
}

#[test]
fn what_was_kept_for_one_token_is_not_read_with_another() {
    let long = Plain { spec: spec("long", ToolClass::Read), whole: Some("all of it".to_owned()) };
    let world = by_issuer().tool(Arc::new(long)).start();
    let got = world.send(&newer(call("long", &json!({}))).bearing(&token("bob", READS))).message();
    let link = got["result"]["content"].as_array().unwrap().iter().find_map(|block| block["uri"].as_str());
    let uri = link.unwrap_or_else(|| panic!("{got}")).to_owned();
    let read = |token: &str| {
        let message =
            json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": uri.clone()}});
        world.send(&newer(message).bearing(token)).message()
    };
    for other in [token("bob", BOTH), token("bob", WRITES), token("alice", READS)] {
        assert!(read(&other)["error"].is_object());
    }
    assert_eq!(read(&token("bob", READS))["result"]["contents"][0]["text"], json!("all of it"));
}

#[test]
fn questions_of_one_caller_leave_room_for_those_of_others() {
    let world = by_issuer().start();
    let mallory = token("mallory", BOTH);
    let asks = |token: &str, number: usize| {
        park(&world, token, &format!("{number}.txt"))["resultType"] == json!("input_required")
    };
    let waiting = (0..40).filter(|number| asks(&mallory, *number)).count();
    assert_eq!(waiting, 16);
    assert!(asks(&token("bob", BOTH), 100));
}

#[test]
fn streams_of_one_caller_leave_room_for_those_of_others() {
    let world = by_issuer().limits(|limits| limits.max_streams_per_caller = 1).start();
    let listen = |subject| {
        let token = token(subject, READS);
        let name = begin(&world, &token);
        get("/mcp").with("Accept", "text/event-stream").with("Mcp-Session-Id", &name).bearing(&token)
    };
    let first = listen("mallory");
    let mut held = world.connect();
    held.write_all(first.render(world.address).as_bytes()).unwrap();
    assert_ne!(held.read(&mut [0; 4096]).unwrap(), 0);
    assert_eq!(world.send(&first).status, 503);
    assert_eq!(world.send(&listen("mallory")).status, 503, "whichever session it is");
    let mut other = world.connect();
    other.write_all(listen("bob").render(world.address).as_bytes()).unwrap();
    let mut said = [0; 15];
    other.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"HTTP/1.1 200 OK");
}

/// Starts a session.
fn begin(world: &World, token: &str) -> String {
    let got = world.send(&post(&initialize()).bearing(token));
    let name = got.header("mcp-session-id").unwrap_or_else(|| panic!("{got:?}")).to_owned();
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(world.send(&post(&done).bearing(token).with("Mcp-Session-Id", &name)).status, 202);
    name
}

/// A tool that waits, the callers it started for, and the semaphore that releases it.
fn waiting() -> (Plan, Receiver<String>, Arc<Semaphore>) {
    let (begun, seen) = channel();
    let let_go = Arc::new(Semaphore::new(0));
    (by_issuer().tool(Arc::new(Waiting::new(begun, &let_go))), seen, let_go)
}

fn wait(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "wait", "arguments": {}}})
}

#[test]
fn calls_of_one_caller_wait_for_each_other_and_not_for_those_of_others() {
    let (plan, seen, let_go) = waiting();
    let world = plan.start();
    let mut lines: Vec<Line> = (0..40).map(|_| Line::new(&world)).collect();
    let mallory = token("mallory", READS);
    for (number, line) in lines.iter_mut().enumerate() {
        line.send(&newer(wait(number as u64)).bearing(&mallory), world.address);
    }
    for _ in 0..32 {
        assert_eq!(seen.recv_timeout(PATIENCE).unwrap(), "mallory");
    }
    // All forty are in flight, and no more run than may.
    while !world.send(&get("/metrics").bearing(&mallory)).body.contains("toolgate_calls_in_flight 40") {
        std::thread::yield_now();
    }
    assert!(seen.try_recv().is_err());
    let mut other = Line::new(&world);
    other.send(&newer(wait(100)).bearing(&token("bob", READS)), world.address);
    assert_eq!(seen.recv_timeout(PATIENCE).unwrap(), "bob");
    let_go.add_permits(1);
    for line in lines.iter_mut().chain([&mut other]) {
        let got = line.answer().unwrap().message();
        assert_eq!(got["result"]["content"][0]["text"], json!("let go"), "{got}");
    }
    assert_eq!(world.records().len(), 41);
}

#[test]
fn whoever_asks_without_end_is_refused_and_with_its_session_all_of_it_ends() {
    let (plan, seen, _let_go) = waiting();
    let world = plan.start();
    let mallory = token("mallory", READS);
    let name = begin(&world, &mallory);
    let within = |sent: Sent| sent.bearing(&mallory).with("Mcp-Session-Id", &name);
    for number in 0..256 {
        // It does not wait for a response.
        let mut stream: TcpStream = world.connect();
        stream.write_all(within(post(&wait(number))).render(world.address).as_bytes()).unwrap();
        assert_ne!(stream.read(&mut [0; 1024]).unwrap(), 0);
    }
    while !world.send(&get("/metrics").bearing(&mallory)).body.contains("toolgate_calls_in_flight 256") {
        std::thread::yield_now();
    }
    let got = world.send(&within(post(&read_file(300)))).message();
    assert!(got["error"]["message"].as_str().is_some_and(|said| said.contains("under way")), "{got}");
    assert_eq!(got["error"]["data"], json!({"code": "rate_limited", "retry_after_ms": 1000}));
    for _ in 0..20 {
        assert!(world.send(&within(post(&read_file(301)))).message()["error"].is_object());
    }
    let refused = world.records().iter().filter(|record| record.decision == Decision::Denied).count();
    assert_eq!(refused, 1, "the others are counted");
    assert_eq!(world.records().last().unwrap().denial.as_ref().unwrap().code, ErrorCode::RateLimited);
    let others = world.send(&newer(read_file(1)).bearing(&token("bob", READS))).message();
    assert_eq!(others["result"]["isError"], json!(false), "{others}");

    (0..32).for_each(|_| assert_eq!(seen.recv_timeout(PATIENCE).unwrap(), "mallory"));
    assert_eq!(world.send(&within(get("/mcp").line("DELETE /mcp HTTP/1.1"))).status, 204);
    while world.records().len() < 258 {
        std::thread::yield_now();
    }
    let codes = world.records().into_iter().filter_map(|record| record.denial).map(|denial| denial.code);
    assert_eq!(codes.filter(|code| *code == ErrorCode::Cancelled).count(), 256);
    assert!(seen.try_recv().is_err(), "what waited did not begin");
}

#[test]
fn a_session_that_nobody_uses_ends_with_its_calls() {
    let (plan, seen, _let_go) = waiting();
    // Long enough to start a session and make a call in it.
    let world = plan.limits(|limits| limits.session_idle = Duration::from_secs(5)).start();
    let alice = token("alice", READS);
    let name = begin(&world, &alice);
    let mut line = Line::new(&world);
    line.send(&post(&wait(1)).bearing(&alice).with("Mcp-Session-Id", &name), world.address);
    assert_eq!(seen.recv_timeout(PATIENCE).unwrap(), "alice");
    while world.records().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(world.records()[0].denial.as_ref().unwrap().code, ErrorCode::Cancelled);
}

#[test]
fn that_a_tool_is_suspended_is_told_to_those_who_could_use_it() {
    let suspended = ToolSpec { suspended: Some("changed".to_owned()), ..spec("gone", ToolClass::Write) };
    let world = by_issuer().tool(Arc::new(Plain { spec: suspended, whole: None })).start();
    let told = |permissions| {
        let got: Got = world.send(&newer(call("gone", &json!({}))).bearing(&token("alice", permissions)));
        got.body.contains("suspended")
    };
    assert!(told(WRITES));
    assert!(!told(READS));
}

/// Reads a stream up to some text.
fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut read = Vec::new();
    let mut buffer = [0; 1024];
    while !String::from_utf8_lossy(&read).contains(text) {
        let count = stream.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "{}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8(read).unwrap()
}

#[test]
fn a_long_call_of_a_session_begins_a_stream_that_another_connection_can_resume() {
    let (plan, seen, let_go) = waiting();
    let world = plan.start();
    let alice = token("alice", READS);
    let name = begin(&world, &alice);
    let within = |sent: Sent| sent.bearing(&alice).with("Mcp-Session-Id", &name);
    let mut lost: TcpStream = world.connect();
    lost.write_all(within(post(&wait(1))).render(world.address).as_bytes()).unwrap();
    assert_eq!(seen.recv_timeout(PATIENCE).unwrap(), "alice");
    // Headers and the id of the stream come while the call runs.
    let told = read_until(&mut lost, "data:\n");
    let id = told.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    assert!(told.contains("text/event-stream") && told.contains("retry: "), "{told}");
    // The old connection still looks open.
    let mut resumed = Line::new(&world);
    let again = within(get("/mcp")).with("Accept", "text/event-stream").with("Last-Event-ID", &id);
    resumed.send(&again, world.address);
    let_go.add_permits(1);
    let got = resumed.answer().unwrap();
    assert_eq!(got.message()["id"], json!(1), "{got:?}");
    assert_eq!(world.records().len(), 1);
}

#[test]
fn a_request_that_was_cancelled_in_a_session_gets_no_response() {
    let (plan, seen, _let_go) = waiting();
    let world = plan.start();
    let alice = token("alice", READS);
    let name = begin(&world, &alice);
    let within = |sent: Sent| sent.bearing(&alice).with("Mcp-Session-Id", &name);
    let mut line = Line::new(&world);
    line.send(&within(post(&wait(1))), world.address);
    assert_eq!(seen.recv_timeout(PATIENCE).unwrap(), "alice");
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(world.send(&within(post(&cancel))).status, 202);
    let got = line.answer().unwrap();
    assert!(!got.body.contains("jsonrpc"), "{got:?}");
    assert_eq!(world.records()[0].denial.as_ref().unwrap().code, ErrorCode::Cancelled);
}

#[test]
fn a_client_that_gives_all_requests_one_id_gets_each_response() {
    let (plan, seen, let_go) = waiting();
    let world = plan.start();
    let alice = token("alice", READS);
    let name = begin(&world, &alice);
    let within = |sent: Sent| sent.bearing(&alice).with("Mcp-Session-Id", &name);
    let mut line = Line::new(&world);
    line.send(&within(post(&wait(1))), world.address);
    assert_eq!(seen.recv_timeout(PATIENCE).unwrap(), "alice");
    let read = world.send(&within(post(&read_file(1)))).message();
    assert_eq!(read["result"]["content"][0]["text"], json!("hello\n"));
    let_go.add_permits(1);
    assert_eq!(line.answer().unwrap().message()["result"]["isError"], json!(false));
}
