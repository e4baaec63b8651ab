//! Plain requests and CONNECT: what is forwarded, what is refused, and what never reaches a server.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use toolgate_egress::{ProxyLimits, RefusalReason};

use crate::fixture::{ProxyFixture, echo, read_all, read_head, web};

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_plain_request_is_written_anew() {
    let (server, received) = web();
    let world = ProxyFixture::new(&["good.example", "good.example:8080"]);
    world.network.host("good.example", 80, server).host("good.example", 8080, server);
    let cases = [
        (
            "GET http://GOOD.example./a/b?c=d HTTP/1.1\r\nHost: evil.example\r\nAccept: */*\r\n\
             Proxy-Authorization: x\r\nProxy-Connection: keep-alive\r\nConnection: keep-alive, X-Hop\r\n\
             X-Hop: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: websocket\r\nX-End:\t kept \r\n\r\n",
            "GET /a/b?c=d HTTP/1.1\r\nHost: good.example\r\nAccept: */*\r\nX-End: kept\r\n\
             Connection: close\r\n\r\n",
        ),
        (
            "GET http://good.example:8080 HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: good.example:8080\r\nConnection: close\r\n\r\n",
        ),
        (
            "GET HTTP://good.example?q=http://evil.example/ HTTP/1.1\r\n\r\n",
            "GET /?q=http://evil.example/ HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n",
        ),
        (
            "POST http://good.example/ HTTP/1.1\r\nContent-Length: 5\r\n\
             Connection: Content-Length\r\n\r\nhello",
            "POST / HTTP/1.1\r\nHost: good.example\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        ),
        (
            "POST http://good.example/ HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n\
             5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
             5\r\nhello\r\n0\r\n\r\n",
        ),
    ];
    for (request, expected) in cases {
        let answer = text(world.exchange(request.as_bytes()));
        assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
        assert_eq!(text(received.recv().unwrap()), expected);
    }
}

#[test]
fn what_two_programs_could_read_differently_is_refused() {
    let start = "POST http://good.example/ HTTP/1.1\r\n";
    let cases = [
        format!("{start}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("{start}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
        format!("{start}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
        format!("{start}Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
        format!("{start}Content-Length: 5, 5\r\n\r\nhello"),
        format!("{start}Content-Length: +5\r\n\r\nhello"),
        format!("{start}Content-Length: 0x5\r\n\r\nhello"),
        format!("{start}Content-Length: -1\r\n\r\nhello"),
        format!("{start}Content-Length: 99999999999999999999\r\n\r\nhello"),
        format!("{start}Content-Length:\r\n\r\nhello"),
        format!("{start}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        format!("{start}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        format!("{start}Transfer-Encoding: identity\r\n\r\n"),
        format!("{start}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("{start}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
        "POST http://good.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
        format!("{start}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
        format!("{start}Transfer-Encoding\r\n : chunked\r\n\r\n0\r\n\r\n"),
        format!("{start}X: a\r\n folded\r\n\r\n"),
        format!("{start} X: folded at once\r\n\r\n"),
        format!("{start}X: a\nTransfer-Encoding: chunked\r\n\r\n"),
        format!("{start}X: a\rTransfer-Encoding: chunked\r\n\r\n"),
        format!("{start}X: a\r\r\n\r\n"),
        format!("{start}X: a\0b\r\n\r\n"),
        format!("{start}X\0: a\r\n\r\n"),
        format!("{start}: a\r\n\r\n"),
        format!("{start}no colon\r\n\r\n"),
        format!("{start}Host: good.example\r\nHost: evil.example\r\n\r\n"),
        "GET http://good.example/ HTTP/1.1\n\n".to_owned(),
        "GET http://good.example/ HTTP/1.1\r\n\n".to_owned(),
        "GET  http://good.example/ HTTP/1.1\r\n\r\n".to_owned(),
        "GET http://good.example/ HTTP/1.1 \r\n\r\n".to_owned(),
        "GET\thttp://good.example/\tHTTP/1.1\r\n\r\n".to_owned(),
        "GET http://good.example/ x HTTP/1.1\r\n\r\n".to_owned(),
        "GET http://good.example/\u{e9} HTTP/1.1\r\n\r\n".to_owned(),
        "GET http://good.example/#evil HTTP/1.1\r\n\r\n".to_owned(),
        "GET http://good.example/\r\n\r\n".to_owned(),
        "GET http://good.example/ HTTP/2.0\r\n\r\n".to_owned(),
        "GET http://good.example/ http/1.1\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: good.example\r\n\r\n".to_owned(),
        "GET //good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n".to_owned(),
        "OPTIONS * HTTP/1.1\r\nHost: good.example\r\n\r\n".to_owned(),
        "GET https://good.example/ HTTP/1.1\r\n\r\n".to_owned(),
        "GET ftp://good.example/ HTTP/1.1\r\n\r\n".to_owned(),
        "GET file:///etc/passwd HTTP/1.1\r\n\r\n".to_owned(),
    ];
    let world = ProxyFixture::new(&["good.example"]);
    world.network.host("good.example", 80, web().0);
    for request in cases {
        let answer = text(world.exchange(request.as_bytes()));
        assert!(answer.starts_with("HTTP/1.1 400 "), "{request:?}: {answer}");
    }
    assert_eq!(world.dialled(), []);
    let folded = text(world.exchange(format!("{start}X: a\r\n folded\r\n\r\n").as_bytes()));
    assert!(folded.contains("folded over two lines"), "{folded}");
}

#[test]
fn an_answer_ends_with_an_end_and_not_with_a_reset() {
    let (server, _received) = web();
    let world = ProxyFixture::new(&["good.example"]);
    world.network.host("good.example", 80, server);
    for host in ["good.example", "evil.example"] {
        for unread in [0, 1, 100_000] {
            let mut stream = world.connect();
            write!(stream, "GET http://{host}/ HTTP/1.1\r\n\r\n{}", "x".repeat(unread)).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 "), "{host}, {unread} bytes behind the request");
        }
    }
}

#[test]
fn an_answer_that_is_read_late_is_whole() {
    const LENGTH: usize = 300_000;
    let (sender, over) = std::sync::mpsc::channel();
    let server = crate::fixture::server(move |mut stream| {
        read_head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").unwrap();
        stream.write_all(&[7; LENGTH]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        read_all(&mut stream);
        sender.send(()).unwrap();
    });
    let world = ProxyFixture::new(&["good.example"]);
    world.network.host("good.example", 80, server);
    let mut stream = world.connect();
    stream.write_all(b"GET http://good.example/ HTTP/1.1\r\n\r\n").unwrap();
    // The server has closed, and most of its response is still in flight to the client.
    over.recv_timeout(crate::fixture::TEST_TIMEOUT).unwrap();
    read_head(&mut stream);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer.len(), LENGTH);
}

#[test]
fn a_refused_body_never_ends_at_the_server() {
    for body in [
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "-5\r\n",
        "5 5\r\n",
        "g\r\n",
        "\r\n",
        "5\r\nhello\n",
    ] {
        let (server, received) = web();
        let world = ProxyFixture::new(&["good.example"]);
        world.network.host("good.example", 80, server);
        let request =
            format!("POST http://good.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        let answer = text(world.exchange(request.as_bytes()));
        assert!(answer.starts_with("HTTP/1.1 400 "), "{body:?}: {answer}");
        assert!(!text(received.recv().unwrap()).ends_with("0\r\n\r\n"), "{body:?}");
        assert!(matches!(world.refusal(), (_, RefusalReason::Malformed(_))));
    }
}

#[test]
fn a_second_request_on_the_same_connection_is_never_passed_on() {
    let (server, received) = web();
    let world = ProxyFixture::new(&["good.example"]);
    world.network.host("good.example", 80, server).host("evil.example", 80, server);
    let second = "GET http://evil.example/stolen HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    let cases = [
        "GET http://good.example/ HTTP/1.1\r\n\r\n",
        "POST http://good.example/ HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi",
        "POST http://good.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    ];
    for first in cases {
        let answer = text(world.exchange(format!("{first}{second}{second}").as_bytes()));
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        let got = text(received.recv().unwrap());
        assert!(!got.contains("evil") && !got.contains("stolen"), "{got}");

        // The same when the second comes only after the response to the first.
        let mut stream = world.connect();
        stream.write_all(first.as_bytes()).unwrap();
        read_head(&mut stream);
        let _ = stream.write_all(second.as_bytes());
        assert_eq!(read_all(&mut stream), b"ok");
        assert!(!text(received.recv().unwrap()).contains("evil"));
    }
    assert_eq!(*world.network.resolved.lock().unwrap(), ["good.example"; 6]);
    // On its own connection it is checked.
    assert!(text(world.exchange(second.as_bytes())).starts_with("HTTP/1.1 403 "));
}

#[test]
fn the_request_line_decides_and_no_host_header() {
    let world = ProxyFixture::new(&["good.example"]);
    world.network.host("good.example", 443, echo()).host("evil.example", 443, echo());
    for (target, header, status) in [
        ("good.example:443", "evil.example:443", "200"),
        ("evil.example:443", "good.example:443", "403"),
        ("good.example:8443", "good.example:443", "403"),
        ("good.example", "good.example:443", "403"),
        ("http://good.example:443", "good.example:443", "403"),
        ("/", "good.example:443", "403"),
    ] {
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {header}\r\n\r\n");
        let answer = text(world.exchange(request.as_bytes()));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{target}: {answer}");
    }
    assert_eq!(world.dialled().len(), 1);
}

#[test]
fn a_refusal_tells_how_it_can_be_allowed() {
    let world = ProxyFixture::new(&["good.example", "inside.example"]);
    world.network.name("inside.example", &[&["10.0.0.7".parse().unwrap()]]);
    let cases = [
        ("api.example.com:443", "host_not_listed", "the operator can add \"api.example.com\" to network:"),
        (
            "api.example.com:8443",
            "host_not_listed",
            "the operator can add \"api.example.com:8443\" to network:",
        ),
        (
            "10.0.0.9:5432",
            "address_not_allowed",
            "private address; the operator can add \"10.0.0.9:5432\" to network:",
        ),
        (
            "inside.example:443",
            "address_not_allowed",
            "private address; the operator can add that address to network:",
        ),
        ("[::]:443", "address_not_allowed", "leads to a reserved address\n"),
        ("a b:443", "malformed_request", "three parts"),
        ("ex%41mple.com:443", "invalid_host", "percent sign"),
    ];
    for (target, reason, help) in cases {
        let answer = text(world.exchange(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("X-Toolgate-Refused: {reason}\r\n")), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        assert!(body.contains(help) && body.lines().count() == 1, "{body}");
        assert!(!body.contains("10.0.0.7"), "the inside is not told: {body}");
    }
}

#[test]
fn failures_of_the_network_are_not_refusals() {
    let world = ProxyFixture::new(&["good.example", "unknown.example"]);
    world.network.name("good.example", &[&[crate::fixture::PUBLIC]]);
    for (target, reason) in
        [("unknown.example:443", "name_not_resolved"), ("good.example:443", "host_unreachable")]
    {
        let answer = text(world.exchange(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()));
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(answer.contains(&format!("X-Toolgate-Failed: {reason}\r\n")), "{answer}");
    }
    let report = world.stop();
    assert_eq!((report.refused.len(), report.failed.len(), report.allowed.len()), (0, 2, 0));
}

#[test]
fn garbage_is_answered_with_nothing_or_a_refusal() {
    let world = ProxyFixture::new(&["good.example"]);
    for first in 0..=255_u8 {
        let answer = world.exchange(&[first; 40]);
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{first}");
    }
    let tls = crate::tls::client_hello(Some("good.example"), &[], 10_000);
    assert_eq!(world.exchange(&tls), b"");
    assert_eq!(world.exchange(b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00"), [0, 0x5b, 0, 0, 0, 0, 0, 0]);
    assert_eq!(world.dialled(), []);
}

#[test]
fn a_head_without_end_is_cut_off() {
    let world = ProxyFixture::new(&["good.example"]);
    for filler in ["x".repeat(40_000), "X: y\r\n".repeat(5000), "X:\r\n".repeat(200) + "\r\n"] {
        let request = format!("GET http://good.example/ HTTP/1.1\r\nX: {filler}");
        let answer = text(world.exchange(request.as_bytes()));
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    assert_eq!(world.dialled(), []);
}

#[test]
fn a_request_that_trickles_is_not_waited_for() {
    // Long enough that the first bytes always arrive.
    let bounds = ProxyLimits { handshake_timeout: Duration::from_secs(1), ..ProxyLimits::default() };
    let world = ProxyFixture::within(bounds, &["good.example"]);
    for start in [&b"GET http://good.example/ HTTP/1.1\r\nX: "[..], &[5], &[5, 1, 0, 5, 1]] {
        let mut stream = world.connect();
        stream.write_all(start).unwrap();
        let trickle = stream.try_clone().unwrap();
        // One more byte whenever there is space, until the proxy refuses.
        let writer = std::thread::spawn(move || {
            let mut trickle = trickle;
            while start.len() > 5 && trickle.write_all(b"x").is_ok() {
                std::thread::yield_now();
                std::thread::park_timeout(Duration::from_millis(1));
            }
        });
        assert!(matches!(world.refusal(), (_, RefusalReason::TooSlow | RefusalReason::TooLarge)));
        let answer = read_all(&mut stream);
        assert!(answer.starts_with(b"HTTP/1.1 4") || answer.starts_with(&[5]), "{answer:?}");
        stream.shutdown(Shutdown::Both).ok();
        writer.join().unwrap();
    }
    // A client that sends nothing is disconnected.
    assert_eq!(read_all(&mut world.connect()), b"");
    assert_eq!(world.dialled(), []);
}

#[test]
fn an_answer_before_the_body_is_heard() {
    let server = crate::fixture::server(|mut stream| {
        read_head(&mut stream);
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        let mut body = [0; 5];
        stream.read_exact(&mut body).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").unwrap();
        stream.write_all(&body).unwrap();
    });
    let world = ProxyFixture::new(&["good.example"]);
    world.network.host("good.example", 80, server);
    let mut stream = world.connect();
    let head = "POST http://good.example/ HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    assert!(read_head(&mut stream).contains("100 Continue"));
    stream.write_all(b"hello").unwrap();
    assert!(text(read_all(&mut stream)).ends_with("\r\n\r\nhello"));
}
