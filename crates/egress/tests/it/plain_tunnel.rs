//! Plain HTTP inside a tunnel: one request, to an allowed host, however it is written.

use std::io::{Read, Write};
use std::net::Shutdown;

use toolgate_egress::RefusalReason;
use toolgate_egress::wire::http::begins_request;

use crate::fixture::{ProxyFixture, echo, read_all, web};

fn world(server: std::net::SocketAddr) -> ProxyFixture {
    let world = ProxyFixture::new(&["good.example", "*.friend.example", "10.0.0.5:80"]);
    world.network.host("good.example", 80, server).host("good.example", 443, server);
    world.network.route("10.0.0.5".parse().unwrap(), 80, server);
    world
}

#[test]
fn a_request_for_another_host_never_reaches_the_server_of_the_tunnel() {
    for (target, reason, request) in [
        ("evil.example:80", RefusalReason::HostHeader, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        ("evil.example:80", RefusalReason::HostHeader, "FOO / HTTP/1.0\r\nhOsT:evil.example:8080\r\n\r\n"),
        (
            "evil.example:80",
            RefusalReason::HostHeader,
            "GET http://evil.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
        ),
        ("friend.example:80", RefusalReason::HostHeader, "GET / HTTP/1.1\r\nHost: friend.example\r\n\r\n"),
        (
            "good.example:80",
            RefusalReason::Malformed("there is more than one Host header"),
            "GET / HTTP/1.1\r\nHost: good.example\r\nHost: evil.example\r\n\r\n",
        ),
        (
            "good.example:80",
            RefusalReason::Malformed("a line feed stands alone"),
            "GET / HTTP/1.1\nHost: evil.example\n\n",
        ),
        (
            "good.example:80",
            RefusalReason::Malformed("the request line has not three parts"),
            "\r\n\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        ),
        (
            "good.example:80",
            RefusalReason::Malformed("the version is neither HTTP/1.1 nor HTTP/1.0"),
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ),
    ] {
        // The server echoes: a response without the request in it means that it received nothing.
        let world = world(echo());
        let mut tunnel = world.tunnel("good.example:80");
        let _ = tunnel.write_all(request.as_bytes()).and_then(|()| tunnel.shutdown(Shutdown::Write));
        let answer = String::from_utf8(read_all(&mut tunnel)).unwrap();
        assert!(answer.starts_with("HTTP/1.1 4") && answer.contains(reason.as_str()), "{request}: {answer}");
        let report = world.stop();
        let refused = &report.refused[0].item;
        assert_eq!((refused.target.as_str(), refused.reason), (target, reason), "{request}");
        assert_eq!((report.bytes_out, report.bytes_in), (0, 0), "{request}");
    }
}

#[test]
fn a_second_request_behind_the_first_goes_nowhere() {
    let (server, received) = web();
    let world = world(server);
    let first = "GET /a HTTP/1.1\r\nHost: good.example\r\nConnection: keep-alive\r\n\r\n";
    let mut tunnel = world.tunnel("good.example:80");
    tunnel.write_all(first.as_bytes()).unwrap();
    let _ = tunnel.write_all(b"GET /b HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    let answer = String::from_utf8(read_all(&mut tunnel)).unwrap();
    assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    let request = String::from_utf8(received.recv().unwrap()).unwrap();
    assert_eq!(request, "GET /a HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n");
}

#[test]
fn a_request_line_in_pieces_never_becomes_whole() {
    let world = world(echo());
    let mut tunnel = world.tunnel("good.example:80");
    let mut heard = [0; 6];
    // The server answers the first piece, so that the second arrives separately.
    tunnel.write_all(b"GET / ").unwrap();
    tunnel.read_exact(&mut heard).unwrap();
    tunnel.write_all(b"HTTP/1.1\r\nHost: evil.example\r\n\r\n").unwrap();
    let answer = String::from_utf8(read_all(&mut tunnel)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("malformed_request"), "{answer}");
    assert_eq!(world.refusal().1, RefusalReason::Malformed("a request line inside a tunnel came in pieces"));
    assert_eq!(world.stop().bytes_out, 6);
}

#[test]
fn a_request_for_the_tunnels_own_host_or_one_that_is_named_is_answered() {
    let (server, received) = web();
    let world = world(server);
    for (target, request, expected) in [
        ("good.example:80", "Host: good.example\r\nUpgrade: x\r\n", "Host: good.example\r\n"),
        ("good.example:443", "Host: good.example:443\r\n", "Host: good.example:443\r\n"),
        ("good.example:80", "Host: a.friend.example\r\n", "Host: a.friend.example\r\n"),
        ("good.example:80", "", "Host: good.example\r\n"),
        ("10.0.0.5:80", "Host: 10.0.0.5\r\n", "Host: 10.0.0.5\r\n"),
    ] {
        let mut tunnel = world.tunnel(target);
        write!(tunnel, "GET / HTTP/1.1\r\n{request}\r\n").unwrap();
        assert!(read_all(&mut tunnel).ends_with(b"\r\n\r\nok"), "{target} {request}");
        let received = String::from_utf8(received.recv().unwrap()).unwrap();
        assert_eq!(received, format!("GET / HTTP/1.1\r\n{expected}Connection: close\r\n\r\n"));
    }
    assert_eq!(world.stop().refused, []);
}

#[test]
fn other_protocols_are_told_from_requests_by_their_first_line() {
    for (bytes, begins) in [
        (&b"GET / HTTP/1.1\r\n"[..], Some(true)),
        (b"foo\t/ http/1.1", Some(true)),
        (b"\r\n\n  GET / HTTP/1.0", Some(true)),
        (b"GET /\xff HTTP/1.1", Some(true)),
        (b"", None),
        (b"\r\n", None),
        (b"GET", None),
        (b"GET / HTT", None),
        (b"ping", None),
        (b"GET /\r\n", Some(false)),
        (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", Some(false)),
        (b"*1\r\n$4\r\nPING\r\n", Some(false)),
        (b"EHLO a\r\n", Some(false)),
        (b"0033git-upload-pack /a\0host=b\0", Some(false)),
        (b"AMQP\0\0\x09\x01", Some(false)),
        (b"\0\0\0\x08\x04\xd2\x16\x2f", Some(false)),
        (b"<?xml version='1.0'?>", Some(false)),
    ] {
        assert_eq!(begins_request(bytes), begins, "{}", String::from_utf8_lossy(bytes));
    }
}
