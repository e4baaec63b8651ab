//! Limits on sizes, numbers and times.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;
use toolgate_types::{Decision, ErrorCode};

use crate::http_fixture::{
    BIG, Got, PATIENCE, Says, TOKEN, World, by_issuer, by_token, get, initialize, newer, open, post,
    read_file,
};

/// A short timeout, for what never arrives.
const SOON: Duration = Duration::from_millis(200);
/// Long enough for what does arrive, on a slow machine too.
const LATER: Duration = Duration::from_secs(2);

fn head(world: &World, more: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{more}",
        world.address
    )
}

#[test]
fn bodies_beyond_the_bound_are_refused_however_they_come() {
    let world = by_token().limits(|limits| limits.max_body_bytes = 4096).start();
    let announced = head(&world, "Content-Length: 4097\r\n\r\n");
    let got = Got::parse(&world.raw(announced.as_bytes()));
    assert_eq!((got.status, got.header("connection")), (413, Some("close")), "{got:?}");
    let huge = head(&world, "Content-Length: 18446744073709551615\r\n\r\n");
    let got = Got::parse(&world.raw(huge.as_bytes()));
    assert!(matches!(got.status, 400 | 413 | 431), "{got:?}");
    let chunk = format!("800\r\n{}\r\n", "x".repeat(0x800));
    let chunked = head(&world, "Transfer-Encoding: chunked\r\n\r\n") + &chunk.repeat(3);
    assert_eq!(Got::parse(&world.raw(chunked.as_bytes())).status, 413);
    let mut fits = initialize();
    fits["params"]["clientInfo"]["title"] = json!("x".repeat(3000));
    assert_eq!(world.send(&post(&fits).bearing(TOKEN)).status, 200);
    // The body of an unauthenticated request is not read.
    let stranger = announced.replace(TOKEN, "");
    assert_eq!(Got::parse(&world.raw(stranger.as_bytes())).status, 401);
}

#[test]
fn bodies_that_would_become_too_much_are_refused_before_they_are_read() {
    let world = by_token().start();
    let with = |arguments: serde_json::Value| {
        let params = json!({"name": "read_file", "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        world.send(&newer(call).bearing(TOKEN)).status
    };
    assert_eq!(with(json!({"path": "a.txt", "a": vec![0; 200_000]})), 413);
    let deep = (0..120).fold(json!(0), |inner, _| json!([inner]));
    assert_eq!(with(json!({"path": "a.txt", "a": deep})), 400);
    assert_eq!(world.records().len(), 0);
    // A body that is long but only text is parsed, off the async thread.
    assert_eq!(with(json!({"path": "a.txt", "a": "[{,:".repeat(500_000)})), 200);
    assert_eq!(with(json!({"path": "a.txt", "a": vec![0; 50_000]})), 200);
    assert_eq!(world.records().len(), 2);
}

#[test]
fn of_strangers_no_more_is_read_than_a_record_needs() {
    let world = by_token().start();
    for (message, tool) in [
        (
            "{\"method\":\"tools/call\",\"params\":{\"name\":\"read_file\",\"arguments\":{\"a\":[0",
            "read_file",
        ),
        ("{\"params\":{\"arguments\":{\"a\":[0", ""),
    ] {
        // Much more is announced than is sent.
        let head = head(&world, "Content-Length: 1000000\r\n\r\n").replace(TOKEN, "wrong");
        let before = world.records().len();
        let mut stream = world.connect();
        stream.write_all((head + message + &",0".repeat(40_000)).as_bytes()).unwrap();
        assert_eq!(Got::parse(&rest(&mut stream)).status, 401);
        let records = world.records();
        assert_eq!(records.len(), before + 1);
        assert_eq!(records.last().unwrap().tool.name, tool);
    }
}

#[test]
fn what_is_no_message_is_refused_as_json_rpc_does() {
    let world = open().start();
    for (body, status, code) in [
        ("{", 400, -32700),
        ("", 400, -32700),
        ("nonsense", 400, -32700),
        ("[]", 400, -32600),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", 400, -32600),
        ("1", 400, -32600),
        ("{\"method\":7}", 400, -32600),
        ("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", 400, -32600),
    ] {
        let sent =
            head(&world, &format!("Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        let got = Got::parse(&world.raw(sent.as_bytes()));
        assert_eq!(got.status, status, "{body}: {got:?}");
        assert_eq!(got.message()["error"]["code"], json!(code), "{body}: {got:?}");
    }
    let deep = "[".repeat(100_000);
    let sent = head(&world, &format!("Connection: close\r\nContent-Length: {}\r\n\r\n{deep}", deep.len()));
    assert_eq!(Got::parse(&world.raw(sent.as_bytes())).status, 400);
    for (kind, status) in
        [(None, 415), (Some("text/plain"), 415), (Some("application/json; charset=utf-8"), 200)]
    {
        let got = world.send(&post(&initialize()).instead("Content-Type", kind));
        assert_eq!(got.status, status, "{kind:?}: {got:?}");
    }
    assert_eq!(world.send(&get("/mcp").line("PUT /mcp HTTP/1.1")).status, 405);
    assert_eq!(world.records().len(), 0);
}

#[test]
fn heads_have_bounds_too() {
    let world = by_token().start();
    let long = head(&world, &format!("X: {}\r\n\r\n", "x".repeat(200_000)));
    assert_eq!(Got::parse(&world.raw(long.as_bytes())).status, 431);
    let many: String = (0..1000).map(|number| format!("X-{number}: x\r\n")).collect();
    assert_eq!(Got::parse(&world.raw(head(&world, &format!("{many}\r\n")).as_bytes())).status, 431);
    for nonsense in ["\x16\x03\x01\x02\x00", "GET\r\n\r\n", "GET /mcp HTTP/9.9\r\n\r\n", "\r\n\r\n\r\n\0\0"] {
        let all = world.raw(nonsense.as_bytes());
        assert!(all.is_empty() || Got::parse(&all).status >= 400, "{nonsense:?}");
    }
    assert_eq!(world.send(&get("/healthz")).status, 200);
}

/// Reads until the server closes.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    all
}

#[test]
fn whoever_takes_too_long_to_say_what_it_wants_is_given_up() {
    // Nothing at all, and a part of a header.
    let world = by_token().limits(|limits| limits.header_timeout = SOON).start();
    let mut silent = world.connect();
    assert!(rest(&mut silent).is_empty());
    let mut slow = world.connect();
    // The connection may be closed already.
    let _ = slow.write_all(b"POST /mcp HTTP/1.1\r\nHost: lo");
    let said = rest(&mut slow);
    assert!(said.is_empty() || Got::parse(&said).status == 408, "{said:?}");
    assert_eq!(world.records().len(), 0);
    // A part of a body.
    let world = by_token().limits(|limits| limits.body_timeout = SOON).start();
    let part = head(&world, "Content-Length: 100\r\n\r\n{\"jsonrpc\"");
    let mut body = world.connect();
    body.write_all(part.as_bytes()).unwrap();
    assert_eq!(Got::parse(&rest(&mut body)).status, 408);
    assert_eq!(world.records().len(), 0);
    // A connection that was used in time and is now idle.
    let world = by_token().limits(|limits| limits.header_timeout = LATER).start();
    let asked = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", world.address);
    let mut idle = world.connect();
    idle.write_all(asked.as_bytes()).unwrap();
    assert_eq!(Got::parse(&rest(&mut idle)).status, 200);
    assert_eq!(world.records().len(), 0);
}

#[test]
fn connections_beyond_the_bound_are_told_so() {
    let world = by_token().limits(|limits| limits.max_connections = 2).start();
    let mut held: Vec<TcpStream> = (0..2)
        .map(|_| {
            let mut stream = world.connect();
            let asked = get("/metrics").bearing(TOKEN).render(world.address);
            stream.write_all(asked.replace("Connection: close\r\n", "").as_bytes()).unwrap();
            // Answered, so that it has its slot; and authenticated, so that it keeps it.
            assert_ne!(stream.read(&mut [0; 1024]).unwrap(), 0);
            stream
        })
        .collect();
    assert_eq!(Got::parse(&rest(&mut world.connect())).status, 503);
    drop(held.pop());
    // The slot is free as soon as the close is noticed.
    let found = std::iter::repeat_with(|| world.raw(world_health(&world).as_bytes())).take(10_000);
    let mut found = found.filter(|all| !all.is_empty()).map(|all| Got::parse(&all).status);
    assert!(found.any(|status| status == 200));
}

/// A connection from another loopback address.
fn connect_from(address: [u8; 4], world: &World) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let socket = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((std::net::Ipv4Addr::from(address), 0).into()).unwrap();
        socket.connect(world.address).await.unwrap().into_std().unwrap()
    });
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

#[test]
fn connections_that_say_nothing_keep_nobody_with_a_good_token_out() {
    const MOST: usize = 256;
    let world = by_token().limits(|limits| limits.max_connections = MOST).start();
    let asked = get("/metrics").bearing(TOKEN).render(world.address);
    let kept_open = asked.replace("Connection: close\r\n", "");
    let ask = |stream: &mut TcpStream, asked: &str| {
        stream.write_all(asked.as_bytes()).unwrap();
        let mut begun = [0; 12];
        stream.read_exact(&mut begun).map(|()| String::from_utf8_lossy(&begun).into_owned())
    };
    // A client that connected before the flood, and stays.
    let mut early = world.connect();
    assert_eq!(ask(&mut early, &kept_open).unwrap(), "HTTP/1.1 200");
    until(&mut early, b"toolgate_http_answers_waiting 0\n");
    for half in ["", "GET /metrics HTTP/1.1\r\nHost: lo"] {
        let flood: Vec<TcpStream> = (0..MOST + 44)
            .map(|_| {
                let mut stream = connect_from([127, 0, 0, 2], &world);
                // A connection that was already evicted cannot be written to.
                let _ = stream.write_all(half.as_bytes());
                stream
            })
            .collect();
        let mut elsewhere = world.connect();
        assert_eq!(ask(&mut elsewhere, &asked).unwrap(), "HTTP/1.1 200", "from another address");
        let mut beside = connect_from([127, 0, 0, 2], &world);
        assert_eq!(ask(&mut beside, &asked).unwrap(), "HTTP/1.1 200", "from the same address");
        drop(flood);
    }
    assert_eq!(ask(&mut early, &asked).unwrap(), "HTTP/1.1 200", "who was there before");
}

fn world_health(world: &World) -> String {
    get("/healthz").render(world.address)
}

#[test]
fn streams_that_go_on_have_bounds_and_end_with_the_door() {
    let mut world =
        open().limits(|limits| (limits.max_streams, limits.flush_timeout) = (1, PATIENCE)).start();
    let got = world.send(&post(&initialize()));
    let name = got.header("mcp-session-id").unwrap().to_owned();
    let listen = get("/mcp").with("Accept", "text/event-stream").with("Mcp-Session-Id", &name);
    let mut first = world.connect();
    first.write_all(listen.render(world.address).as_bytes()).unwrap();
    assert_ne!(first.read(&mut [0; 4096]).unwrap(), 0);
    assert_eq!(world.send(&listen).status, 503);
    world.close();
    let end = rest(&mut first);
    assert!(end.ends_with(b"0\r\n\r\n"), "it ended in order: {:?}", String::from_utf8_lossy(&end));
}

#[test]
fn whoever_does_not_take_its_answers_is_given_up() {
    const CALLS: usize = 200;
    let world = open().limits(|limits| limits.write_timeout = LATER).start();
    let params = json!({"name": "read_file", "arguments": {"path": "big.txt"}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let one = newer(call).render(world.address).replace("Connection: close\r\n", "");
    let mut stream = world.connect();
    stream.write_all(one.repeat(CALLS).as_bytes()).unwrap();
    assert_ne!(stream.read(&mut [0; 64]).unwrap(), 0);
    // Nothing is read until the server has given up, which shows in its connection gauge.
    let alone = "toolgate_http_connections 1";
    while !world.send(&get("/metrics")).body.lines().any(|line| line == alone) {
        std::thread::yield_now();
    }
    let taken = rest(&mut stream).len();
    assert!(taken < CALLS * BIG, "{taken}");
    // What was started was recorded, and what could not be answered was not started.
    let records = world.records().len();
    assert!((1..CALLS).contains(&records), "{records}");
    assert_eq!(world.send(&newer(read_file(1))).status, 200);
}

#[test]
fn long_answers_that_nobody_reads_have_bounds() {
    // As many long responses as one caller may leave unread.
    const UNREAD: usize = 8;
    for is_newer in [true, false] {
        let world = open().start();
        // Twice as long on the wire, which is more than any socket buffer.
        std::fs::write(world.workspace.join("long.txt"), "\"".repeat(4 << 20)).unwrap();
        let read = |name: &str, id: usize| {
            let params = json!({"uri": format!("toolgate://files/project/{name}")});
            json!({"jsonrpc": "2.0", "id": id, "method": "resources/read", "params": params})
        };
        let begun = world.send(&post(&initialize()));
        let session = begun.header("mcp-session-id").unwrap();
        let ask = |name: &str, id: usize| {
            let message = read(name, id);
            let sent = match is_newer {
                true => newer(message),
                false => post(&message).with("Mcp-Session-Id", session),
            };
            let mut stream = world.connect();
            stream.write_all(sent.render(world.address).as_bytes()).unwrap();
            stream
        };
        let mut unread: Vec<TcpStream> = (0..UNREAD).map(|id| ask("long.txt", id)).collect();
        let begins = |stream: &mut TcpStream| until(stream, b"\"contents\"");
        assert!(unread.iter_mut().all(begins), "each is answered");
        let mut waiting = ask("long.txt", UNREAD);
        while answers_waiting(&world) == 0 {
            assert!(!has_come(&waiting, b"\"jsonrpc\""), "there is no room for it");
        }
        assert!(!has_come(&waiting, b"\"jsonrpc\""), "it waits");
        // A short response needs no budget.
        let got = Got::parse(&rest(&mut ask("a.txt", UNREAD + 1)));
        assert!(got.message().to_string().contains("hello"), "{got:?}");
        // Whether one is read to its end or its client disconnects, its budget is free for others.
        match is_newer {
            true => assert!(rest(&mut unread[0]).len() > 8 << 20),
            false => drop(unread.remove(0)),
        }
        assert!(begins(&mut waiting), "newer: {is_newer}");
        assert_eq!(answers_waiting(&world), 0);
    }
}

/// How many responses wait for budget, by the metrics.
fn answers_waiting(world: &World) -> usize {
    let told = world.send(&get("/metrics")).body;
    let mut counts = told.lines().filter_map(|line| line.strip_prefix("toolgate_http_answers_waiting "));
    counts.next().unwrap().parse().unwrap()
}

/// Whether this text is in the received bytes, without consuming them.
fn has_come(stream: &TcpStream, text: &[u8]) -> bool {
    let mut buffer = [0; 64 * 1024];
    stream.set_nonblocking(true).unwrap();
    let come = match stream.peek(&mut buffer) {
        Ok(count @ 1..) => &buffer[..count],
        Ok(_) => panic!("the connection ended"),
        Err(error) if error.kind() == ErrorKind::WouldBlock => &[],
        Err(error) => panic!("{error}"),
    };
    stream.set_nonblocking(false).unwrap();
    come.windows(text.len()).any(|window| window == text)
}

/// Reads until this text arrives; returns whether it did.
fn until(stream: &mut TcpStream, text: &[u8]) -> bool {
    let mut all = Vec::new();
    let mut buffer = [0; 64];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        all.extend_from_slice(&buffer[..count]);
        if all.windows(text.len()).any(|window| window == text) {
            return true;
        }
    }
    false
}

#[test]
fn requests_above_the_rate_of_a_caller_are_on_record_under_its_name() {
    let most = std::num::NonZeroU32::new(1);
    let world = by_issuer().limits(|limits| limits.requests_per_second = most).start();
    let token = Says::default().token();
    let mut refused = 0;
    for id in 0..1000 {
        let got = world.send(&newer(read_file(id)).bearing(&token));
        refused += u32::from(got.status == 429);
        if refused == 5 {
            break;
        }
    }
    assert_eq!(refused, 5, "no second saw two requests");
    let records = world.records();
    let denied: Vec<_> = records.iter().filter(|record| record.decision == Decision::Denied).collect();
    // The first is recorded, and those that follow within the interval are counted into one more
    // record.
    assert_eq!(denied.len(), 1, "{denied:?}");
    let denial = denied[0].denial.as_ref().unwrap();
    assert_eq!((denied[0].caller.sub.as_str(), denial.code), ("alice", ErrorCode::RateLimited));
    assert!(denial.reason.contains("requests_per_second"), "{}", denial.reason);
}
