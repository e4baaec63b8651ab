//! Very many clients: connections without end, readers that vanish, and a gate that is killed while all of them are at work.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::gate::{Client, Gate, Socket, refused};

const SAYING: &str = "steps: [{say: Hello.}]\n";

/// Raises the soft `RLIMIT_NOFILE` of this process.
fn allow_descriptors(wanted: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).unwrap();
    }
}

/// The descriptors of the gate.
fn descriptors(gate: &Gate) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", gate.process.id())).unwrap().count()
}

#[test]
fn ten_thousand_connections_take_bounded_memory_and_keep_no_one_with_a_token_out() {
    allow_descriptors(4096);
    let gate = Gate::with(SAYING, "serve: {max_connections: 300}\n", &[]);
    let person = gate.person();
    let session = person.session();
    let mut socket = person.socket(&session, 0);
    socket.wait("chat:hello");
    let before = gate.memory();
    // A request that never ends, in each of its parts: nothing, half a head, half a body, half a handshake.
    let beginnings = [
        String::new(),
        format!("GET /api/v1/me HTTP/1.1\r\nHost: {}\r\nX-Slow: ", gate.address),
        format!(
            "POST /api/v1/login HTTP/1.1\r\nHost: {}\r\nContent-Length: 16000\r\n\r\n{{\"token\":\"",
            gate.address
        ),
        format!("GET /ws?session={session} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\n", gate.address),
    ];
    let (mut held, mut most) = (std::collections::VecDeque::new(), 0);
    for number in 0..10_000 {
        let mut stream = TcpStream::connect(&gate.address).unwrap();
        // It may have been closed already, to make room.
        let _ = stream.write_all(beginnings[number % beginnings.len()].as_bytes());
        held.push_back(stream);
        if held.len() > 2000 {
            held.pop_front();
        }
        if number % 500 == 0 {
            most = most.max(descriptors(&gate));
            // A client with the token is served all the while: with new connections, and on the one it has.
            person.get("me").expect(200);
            socket.send("chat:ping", &json!({}));
        }
    }
    // 300 connections, those that are being closed, and the files of the gate itself.
    assert!(most < 300 + 100, "{most} descriptors");
    let grown = gate.memory().saturating_sub(before);
    assert!(grown < 48 << 20, "{} MiB", grown >> 20);
    socket.send("chat:send", &json!({"text": "Hello?"}));
    assert_eq!(socket.wait("chat:stream-end")["text"], "Hello.");
}

#[test]
fn streams_leave_connections_for_answers_and_for_other_callers() {
    let gate = Gate::jwt_with(SAYING, "serve: {max_connections: 32}\n");
    let (alice, bob) = (gate.caller("alice", &[]), gate.caller("bob", &[]));
    let (session, other) = (alice.session(), bob.session());
    let mut sockets = Vec::new();
    let status = loop {
        match alice.try_socket(&session, 0) {
            Ok(socket) => sockets.push(socket),
            refusal => break refused(refusal),
        }
        assert!(sockets.len() <= 32);
    };
    // Of 32 connections 28 can be streams, and 14 of them one caller's.
    assert_eq!((sockets.len(), status), (14, 503));
    assert_eq!(alice.get(&format!("sessions/{session}/events")).problem(), (503, "unavailable".to_owned()));
    alice.get("me").expect(200);
    let others: Vec<Socket> = (0..14).map(|_| bob.socket(&other, 0)).collect();
    assert_eq!(refused(bob.try_socket(&other, 0)), 503);
    bob.get("me").expect(200);
    // One that ends makes room.
    drop(others);
    while bob.try_socket(&other, 0).is_err() {}
}

/// Each turn adds a line to one file, and says much.
const APPENDING: &str = "
steps:
  - say: I will write it down, and say so in several words, one after the other.
    chunk: 4
    calls: [{tool: append_file, arguments: {path: log.txt, content: \"call\\n\"}}]
  - say: It is written. I say so in several words, one after the other, until the end.
    chunk: 4
";

/// What a client knows of a session, by its numbered events alone.
#[derive(Default)]
struct Known {
    last: u64,
    asked: Vec<String>,
    ended: usize,
}

impl Known {
    fn take(&mut self, frame: &Value) {
        let Some(seq) = frame["seq"].as_u64() else { return };
        // Open questions come again; nothing else does.
        assert!(
            seq > self.last || frame["event"] == "chat:tool-confirm",
            "{seq} after {}: {frame}",
            self.last
        );
        self.last = self.last.max(seq);
        match frame["event"].as_str().unwrap() {
            "chat:user-message" => self.asked.push(frame["data"]["text"].as_str().unwrap().to_owned()),
            "chat:stream-end" => self.ended += 1,
            _ => {}
        }
    }
}

/// Reads what comes until the end of the connection, or of a turn.
fn follow(socket: &mut Socket, known: &mut Known, turns: usize) {
    while known.ended < turns {
        match socket.next() {
            Some(frame) => known.take(&frame),
            None => return,
        }
    }
}

/// The texts of the person's stored messages, and the number after which events go on.
fn stored(client: &Client, session: &str) -> (Vec<String>, u64) {
    let stored = client.get(&format!("sessions/{session}/messages")).expect(200);
    let asked = stored["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "user");
    let texts = asked.map(|message| message["text"].as_str().unwrap().to_owned()).collect();
    (texts, stored["seq"].as_u64().unwrap())
}

#[test]
fn a_gate_killed_under_a_hundred_working_clients_loses_and_doubles_nothing() {
    let mut gate = Gate::with(APPENDING, "", &["--trust", "autonomous"]);
    let file = gate.place.workspace.join("log.txt");
    let sessions: Vec<String> = (0..20).map(|_| gate.person().session()).collect();
    // What was accepted with 202, by session.
    let mut accepted: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let mut clients = Vec::new();
    for round in 0..4 {
        let person = gate.person();
        let (process, before) =
            (gate.process.id(), std::fs::read_to_string(&file).unwrap_or_default().lines().count());
        let all_connected = std::sync::Barrier::new(120);
        let sent = std::thread::scope(|scope| {
            let all_connected = &all_connected;
            // Five clients for each session: one sends, all of them read.
            let readers: Vec<_> = (0..100)
                .map(|number| {
                    let (person, session) = (person.clone(), sessions[number % 20].clone());
                    scope.spawn(move || {
                        let mut known = Known { last: stored(&person, &session).1, ..Known::default() };
                        let mut socket = person.socket(&session, known.last);
                        all_connected.wait();
                        follow(&mut socket, &mut known, 1);
                        known
                    })
                })
                .collect();
            let senders: Vec<_> = (0..20)
                .map(|number| {
                    let (person, session) = (person.clone(), sessions[number].clone());
                    scope.spawn(move || {
                        let text = format!("round-{round}-session-{number}");
                        let body = json!({"text": text}).to_string();
                        all_connected.wait();
                        let mut stream =
                            person.begin("POST", &format!("sessions/{session}/messages"), Some(&body));
                        let mut answer = String::new();
                        // The gate may be killed before it answers.
                        let _ = stream.read_to_string(&mut answer);
                        answer.starts_with("HTTP/1.1 202").then_some((number, text))
                    })
                })
                .collect();
            // In the midst of it: as soon as some of the turns have written.
            let lines = || std::fs::read_to_string(&file).unwrap_or_default().lines().count();
            while lines() < before + 1 + 4 * round {
                std::thread::yield_now();
            }
            let pid = rustix::process::Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            clients = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
            for known in &clients {
                assert!(known.asked.len() <= 1 && known.ended <= 1, "{:?}", known.asked);
            }
            senders.into_iter().filter_map(|sender| sender.join().unwrap()).collect::<Vec<_>>()
        });
        sent.into_iter().for_each(|(number, text)| accepted.entry(number).or_default().push(text));
        gate = gate.restart();
        // Each of the hundred comes back with the last number that it saw itself, some of them in mid-turn.
        for (number, known) in clients.iter_mut().enumerate() {
            resume(&gate.person(), &sessions[number % 20], known);
        }
    }
    let person = gate.person();
    // Every message that was accepted is stored once, in its order.
    let mut total = 0;
    for (number, session) in sessions.iter().enumerate() {
        let (texts, _) = stored(&person, session);
        let unique: std::collections::BTreeSet<&String> = texts.iter().collect();
        assert_eq!(unique.len(), texts.len(), "{texts:?}");
        let own = accepted.remove(&number).unwrap_or_default();
        let of_own: Vec<&String> = texts.iter().filter(|text| own.contains(text)).collect();
        assert_eq!(of_own, own.iter().collect::<Vec<_>>());
        total += texts.len();
    }
    assert!(total >= 20, "{total}");
    // No line was written twice, and each has a record: allowed, or cut off by the kill.
    let lines = std::fs::read_to_string(&file).unwrap().lines().count();
    let records = person.get("audit?tool=append_file&limit=200").expect(200);
    let decided = |decision: &str| {
        records["items"].as_array().unwrap().iter().filter(|record| record["decision"] == decision).count()
    };
    let (allowed, cut) = (decided("ALLOWED"), decided("ERROR"));
    assert!(allowed <= lines && lines <= allowed + cut, "{allowed} {cut} {lines}");
    assert_eq!(person.post("audit/verify", &json!({})).expect(200)["ok"], true);
    // And every session goes on, for all of its clients: each sees one whole turn more, and nothing of before again.
    let mut sockets: Vec<Socket> =
        (0..100).map(|number| person.socket(&sessions[number % 20], clients[number].last)).collect();
    for (number, session) in sessions.iter().enumerate() {
        sockets[number].send("chat:send", &json!({"text": format!("after-{session}")}));
    }
    for (number, (socket, known)) in sockets.iter_mut().zip(&mut clients).enumerate() {
        follow(socket, known, 1);
        assert_eq!((&known.asked, known.ended), (&vec![format!("after-{}", sessions[number % 20])], 1));
    }
}

/// Goes on where a client left off: it is informed that events are missing, and reads the stored messages once.
fn resume(client: &Client, session: &str, known: &mut Known) {
    let mut socket = client.socket(session, known.last);
    socket.wait("chat:reset");
    assert!(socket.seen.is_empty(), "an event of before, or of another process: {:?}", socket.seen);
    let (texts, seq) = stored(client, session);
    assert!(seq > known.last, "{seq} was given before");
    for text in &known.asked {
        let times = texts.iter().filter(|stored| *stored == text).count();
        // One that was never accepted may be gone; none is there twice.
        assert!(times <= 1, "{text} {times} times");
    }
    *known = Known { last: seq, ..Known::default() };
}

#[test]
fn readers_that_vanish_are_forgotten() {
    let gate = Gate::serve(SAYING);
    let person = gate.person();
    let session = person.session();
    let connections = || person.get("health").expect(200)["connections"].as_u64().unwrap();
    let sockets: Vec<Socket> = (0..50).map(|_| person.socket(&session, 0)).collect();
    let watching: Vec<TcpStream> =
        (0..50).map(|_| person.begin("GET", &format!("sessions/{session}/events"), None)).collect();
    while connections() < 101 {}
    // Some say goodbye, and some are just gone.
    for (number, socket) in sockets.into_iter().enumerate() {
        match number % 2 {
            0 => drop(socket),
            _ => {
                let stream = socket.socket.get_ref();
                stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
                stream.shutdown(std::net::Shutdown::Both).unwrap();
            }
        }
    }
    drop(watching);
    while connections() > 5 {}
    // Hundreds more leave nothing behind.
    let vanish = || {
        let sockets: Vec<Socket> = (0..100).map(|_| person.socket(&session, 0)).collect();
        sockets.iter().for_each(|socket| socket.socket.get_ref().shutdown(std::net::Shutdown::Both).unwrap());
        while connections() > 5 {}
    };
    vanish();
    let before = gate.memory();
    (0..8).for_each(|_| vanish());
    let grown = gate.memory().saturating_sub(before);
    assert!(grown < 6 << 20, "{} KiB after 800 clients", grown >> 10);
    let mut socket = person.socket(&session, 0);
    socket.send("chat:send", &json!({"text": "Hello?"}));
    assert_eq!(socket.wait("chat:stream-end")["text"], "Hello.");
}

#[test]
fn a_peer_that_is_lost_without_a_word_is_dropped() {
    let gate = Gate::serve(SAYING);
    let person = gate.person();
    let session = person.session();
    // It takes what is sent to it, as the system of a suspended machine or a proxy does, and says nothing more.
    let upgrade = person
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    let mut lost = upgrade.begin("GET", &format!("/ws?session={session}"), None);
    // Two heartbeats later the gate ends the connection.
    let (began, mut said, mut piece) = (std::time::Instant::now(), Vec::new(), [0; 4096]);
    loop {
        assert!(began.elapsed() < crate::gate::TEST_TIMEOUT, "it is still served");
        match lost.read(&mut piece).unwrap() {
            0 => break,
            count => said.extend_from_slice(&piece[..count]),
        }
    }
    assert!(said.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&said));
    let health = person.get("health").expect(200);
    assert_eq!(health["connections"], 1, "that of this request");
}
