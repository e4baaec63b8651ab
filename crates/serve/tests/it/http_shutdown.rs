//! Shutdown while calls are in flight: each is answered and recorded.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolgate_gate::{ApprovedCall, CallContext, Tool, ToolFuture, ToolSpec};
use toolgate_serve::HttpLimits;
use toolgate_types::{Category, Decision, ErrorCode, Failure, ToolClass, ToolOutput};

use crate::http_fixture::{Got, Line, PATIENCE, Sent, World, get, initialize, newer, open, post};

/// Waits until it is released or cancelled.
pub(crate) struct Waiting {
    spec: ToolSpec,
    /// Receives the callers it started for.
    begun: Sender<String>,
    let_go: Arc<Semaphore>,
}

impl Waiting {
    pub(crate) fn new(begun: Sender<String>, let_go: &Arc<Semaphore>) -> Self {
        // Of a category that may take long.
        let spec = ToolSpec { category: Category::Mcp, ..spec("wait", ToolClass::Read) };
        Self { spec, begun, let_go: Arc::clone(let_go) }
    }
}

/// A tool without arguments.
pub(crate) fn spec(name: &str, class: ToolClass) -> ToolSpec {
    ToolSpec {
        name: name.parse().unwrap(),
        title: "Tool".to_owned(),
        description: "A tool.".to_owned(),
        class,
        category: Category::File,
        input_schema: json!({"type": "object", "additionalProperties": false}).into(),
        output_schema: json!({"type": "object"}).into(),
        requirements: None,
        output_policy: None,
        timeout: Some(Duration::from_secs(600)),
        suspended: None,
    }
}

impl Tool for Waiting {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run(self: Arc<Self>, _: ApprovedCall, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            self.begun.send(context.caller.subject.clone()).unwrap();
            tokio::select! {
                _ = self.let_go.acquire() => Ok(ToolOutput::new("let go", json!({}))),
                _ = context.stop.over() => {
                    Err(Failure::new(ErrorCode::Cancelled, "told to end"))
                }
            }
        })
    }
}

struct Busy {
    world: World,
    lines: Vec<Line>,
    let_go: Arc<Semaphore>,
}

const CALLS: u64 = 8;

/// Calls of both protocols, all in flight.
fn busy(grace: Duration) -> Busy {
    let (begun, seen) = channel();
    let let_go = Arc::new(Semaphore::new(0));
    let tool = Waiting::new(begun, &let_go);
    // Cancelled calls have the time to end, and their responses arrive.
    let patient = |limits: &mut HttpLimits| {
        (limits.grace, limits.cancel_timeout, limits.flush_timeout) = (grace, PATIENCE, PATIENCE);
    };
    let world = open().tool(Arc::new(tool)).limits(patient).alone().start();
    let lines = (0..CALLS).map(|number| {
        let mut line = Line::new(&world);
        let sent = request(&world, &mut line, number);
        line.send(&sent, world.address);
        line
    });
    let lines: Vec<Line> = lines.collect();
    for _ in 0..CALLS {
        seen.recv_timeout(PATIENCE).unwrap();
    }
    Busy { world, lines, let_go }
}

fn request(world: &World, line: &mut Line, number: u64) -> Sent {
    let params = json!({"name": "wait", "arguments": {}});
    let message = json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params});
    if number % 2 == 1 {
        return newer(message);
    }
    let got = line.ask(&post(&initialize()), world.address);
    let name = got.header("mcp-session-id").unwrap().to_owned();
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(line.ask(&post(&done).with("Mcp-Session-Id", &name), world.address).status, 202);
    post(&message).with("Mcp-Session-Id", &name)
}

fn answers(lines: &mut [Line]) -> Vec<Value> {
    lines.iter_mut().map(|line| line.answer().expect("an answer").message()).collect()
}

#[test]
fn calls_that_end_within_the_grace_are_answered_as_ever() {
    let Busy { mut world, mut lines, let_go } = busy(PATIENCE);
    world.shutdown.cancel();
    // Nothing new is accepted from here on; the calls in flight are not cancelled yet.
    while std::net::TcpStream::connect(world.address).is_ok() {
        std::thread::yield_now();
    }
    let_go.add_permits(1);
    for (number, message) in answers(&mut lines).into_iter().enumerate() {
        assert_eq!(message["id"], json!(number));
        assert_eq!(message["result"]["content"][0]["text"], json!("let go"), "{message}");
    }
    assert!(lines.iter_mut().all(|line| line.answer().is_none()), "the connections end");
    world.close();
    let records = world.records();
    assert_eq!(records.len(), CALLS as usize);
    assert!(records.iter().all(|record| record.decision == Decision::Allowed));
}

#[test]
fn calls_that_do_not_end_are_ended_answered_and_recorded() {
    let Busy { mut world, mut lines, let_go: _ } = busy(Duration::from_millis(50));
    world.shutdown.cancel();
    for message in answers(&mut lines) {
        assert_eq!(message["result"]["isError"], json!(true), "{message}");
    }
    world.close();
    let records = world.records();
    assert_eq!(records.len(), CALLS as usize);
    for record in records {
        assert_eq!(record.denial.unwrap().code, ErrorCode::Cancelled);
    }
}

#[test]
fn calls_whose_clients_went_away_are_recorded_too() {
    let Busy { mut world, lines, let_go: _ } = busy(Duration::from_millis(50));
    drop(lines);
    world.close();
    let records = world.records();
    assert_eq!(records.len(), CALLS as usize);
    assert!(records.iter().all(|record| record.decision != Decision::Allowed));
}

#[test]
fn going_away_ends_a_call_of_the_newer_era_and_none_of_the_older() {
    let Busy { mut world, mut lines, let_go } = busy(PATIENCE);
    // Under the session protocol connections may break, and clients reconnect.
    lines.clear();
    while world.records().len() < CALLS as usize / 2 {
        std::thread::yield_now();
    }
    let_go.add_permits(1);
    world.close();
    let ended = |number: u64| {
        let records = world.records();
        let id = number.to_string();
        let found = records.iter().find(|record| record.request.client_call_id.as_ref() == Some(&id));
        found.unwrap().denial.as_ref().map(|denial| denial.code)
    };
    for number in 0..CALLS {
        let expected = (number % 2 == 1).then_some(ErrorCode::Cancelled);
        assert_eq!(ended(number), expected, "{number}");
    }
}

#[test]
fn a_door_that_closes_is_not_ready() {
    let Busy { mut world, mut lines, let_go } = busy(PATIENCE);
    let mut line = Line::new(&world);
    assert_eq!(line.ask(&get("/readyz"), world.address).status, 200);
    world.shutdown.cancel();
    // An idle connection closes immediately.
    assert!(line.answer().is_none());
    let_go.add_permits(1);
    assert_eq!(answers(&mut lines).len(), CALLS as usize);
    world.close();
}

#[test]
fn what_is_only_half_said_when_the_door_closes_is_not_waited_for_and_not_done() {
    let mut world = open().limits(|limits| limits.grace = Duration::from_secs(3600)).alone().start();
    let whole = newer(crate::http_fixture::read_file(1)).render(world.address);
    let (first, second) = whole.split_at(30);
    let mut halves: Vec<_> = (0..2).map(|_| world.connect()).collect();
    for half in &mut halves {
        half.write_all(first.as_bytes()).unwrap();
    }
    world.shutdown.cancel();
    while std::net::TcpStream::connect(world.address).is_ok() {
        std::thread::yield_now();
    }
    let mut late = halves.remove(0);
    // The connection may be closed already.
    let _ = late.write_all(second.as_bytes());
    let mut said = Vec::new();
    let _ = late.read_to_end(&mut said);
    assert!(said.is_empty() || Got::parse(&said).status == 503, "{}", String::from_utf8_lossy(&said));
    world.close();
    assert_eq!(world.records().len(), 0);
}

#[test]
fn what_is_still_to_come_when_the_door_closes_is_not_begun() {
    let mut world = open().limits(|limits| limits.grace = Duration::from_secs(3600)).alone().start();
    let whole = newer(crate::http_fixture::read_file(1)).render(world.address);
    // All of the header, and not all of the body.
    let (first, second) = whole.split_at(whole.len() - 5);
    let mut late = world.connect();
    late.write_all(first.as_bytes()).unwrap();
    // The server has read what was sent once it has answered a later client.
    while !world.send(&get("/metrics")).body.contains("toolgate_http_connections 2") {
        std::thread::yield_now();
    }
    world.shutdown.cancel();
    while std::net::TcpStream::connect(world.address).is_ok() {
        std::thread::yield_now();
    }
    let _ = late.write_all(second.as_bytes());
    let mut said = Vec::new();
    let _ = late.read_to_end(&mut said);
    assert!(said.is_empty() || Got::parse(&said).status == 503, "{}", String::from_utf8_lossy(&said));
    world.close();
    assert_eq!(world.records().len(), 0);
}
