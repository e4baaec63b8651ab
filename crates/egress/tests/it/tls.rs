//! The server name of a TLS handshake.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use toolgate_egress::{ProxyLimits, RefusalReason};

use crate::fixture::{ProxyFixture, echo, read_all};

/// A fatal alert `access_denied`.
const ALERT: &[u8] = &[0x15, 3, 3, 0, 2, 2, 49];

fn block16(content: &[u8]) -> Vec<u8> {
    [&u16::try_from(content.len()).unwrap().to_be_bytes(), content].concat()
}

pub(crate) fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &block16(content)].concat()
}

fn server_name(name: &str) -> Vec<u8> {
    extension(0, &block16(&[&[0], &block16(name.as_bytes())[..]].concat()))
}

/// A ClientHello as clients send it, in records of at most this many bytes.
pub(crate) fn client_hello(name: Option<&str>, more: &[Vec<u8>], record: usize) -> Vec<u8> {
    let mut extensions = extension(43, &[2, 3, 4]);
    extensions.extend(name.map(server_name).unwrap_or_default());
    extensions.extend(more.concat());
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([&[32][..], &[9; 32]].concat());
    body.extend([0, 2, 0x13, 1, 1, 0]);
    body.extend(block16(&extensions));
    let mut message = vec![1, 0];
    message.extend(block16(&body));
    message.chunks(record).flat_map(|part| [&[0x16, 3, 1][..], &block16(part)].concat()).collect()
}

fn world() -> ProxyFixture {
    let world = ProxyFixture::new(&["good.example", "*.friend.example", "good.example:8443", "10.0.0.5"]);
    let server = echo();
    world.network.host("good.example", 443, server).host("good.example", 8443, server);
    world.network.route("10.0.0.5".parse().unwrap(), 443, server);
    world
}

#[test]
fn a_hello_for_an_allowed_name_goes_through_byte_for_byte() {
    let world = world();
    let cases = [
        ("good.example:443", client_hello(Some("good.example"), &[], 10_000)),
        ("good.example:443", client_hello(Some("GOOD.example."), &[], 10_000)),
        ("good.example:443", client_hello(Some("a.friend.example"), &[], 1)),
        ("good.example:8443", client_hello(Some("good.example"), &[], 7)),
        ("good.example:8443", client_hello(None, &[], 10_000)),
        ("10.0.0.5:443", client_hello(None, &[], 10_000)),
        ("good.example:443", b"SSH-2.0-client\r\n".to_vec()),
        ("good.example:443", vec![0x16]),
        ("good.example:443", vec![0x16, 2, 0]),
        ("good.example:443", Vec::new()),
    ];
    for (target, hello) in cases {
        let mut tunnel = world.tunnel(target);
        for piece in hello.chunks(11) {
            tunnel.write_all(piece).unwrap();
        }
        tunnel.write_all(b"").unwrap();
        tunnel.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&mut tunnel), hello, "{target}");
    }
    assert_eq!(world.stop().refused, []);
}

#[test]
fn a_hello_for_another_name_never_reaches_the_server() {
    let good = || client_hello(Some("good.example"), &[], 10_000);
    let twice = server_name("evil.example");
    let cases = [
        ("evil.example:443", RefusalReason::ServerName, client_hello(Some("evil.example"), &[], 10_000)),
        ("evil.example:443", RefusalReason::ServerName, client_hello(Some("evil.example"), &[], 3)),
        ("friend.example:443", RefusalReason::ServerName, client_hello(Some("friend.example"), &[], 100)),
        (
            "good.example:443",
            RefusalReason::ServerName,
            client_hello(Some("evil.com\0.good.example"), &[], 100),
        ),
        ("good.example:443", RefusalReason::ServerName, client_hello(Some(""), &[], 100)),
        (
            "good.example:443",
            RefusalReason::HiddenName,
            client_hello(Some("good.example"), &[extension(0xfe0d, &[0; 50])], 999),
        ),
        ("good.example:443", RefusalReason::HiddenName, client_hello(None, &[], 999)),
        ("good.example:443", RefusalReason::Handshake, client_hello(Some("good.example"), &[twice], 999)),
        (
            "good.example:443",
            RefusalReason::Handshake,
            client_hello(Some("good.example"), &[vec![0, 0, 0]], 999),
        ),
        ("good.example:443", RefusalReason::Handshake, [&[0x14, 3, 3, 0, 1, 1], &good()[..]].concat()),
        ("good.example:443", RefusalReason::Handshake, [&[0x15, 3, 3, 0, 2, 1, 90], &good()[..]].concat()),
        ("good.example:443", RefusalReason::Handshake, [&[0x16, 3, 3, 0, 0], &good()[..]].concat()),
        ("good.example:443", RefusalReason::Handshake, [0x16, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff].to_vec()),
        ("good.example:443", RefusalReason::Handshake, [0x16, 3, 1, 0, 4, 2, 0, 0, 0].to_vec()),
        ("good.example:443", RefusalReason::Handshake, good()[..40].to_vec()),
        (
            "good.example:443",
            RefusalReason::Handshake,
            client_hello(Some("good.example"), &[extension(21, &[0; 17_000])], 16_000),
        ),
    ];
    for (target, reason, hello) in cases {
        let world = world();
        let mut tunnel = world.tunnel("good.example:443");
        let _ = tunnel.write_all(&hello).and_then(|()| tunnel.shutdown(Shutdown::Write));
        // The server echoes, so a response with only the alert means that it received nothing.
        assert_eq!(read_all(&mut tunnel), ALERT, "{reason:?}");
        let report = world.stop();
        assert_eq!(report.refused.len(), 1, "{report:?}");
        assert_eq!((report.refused[0].item.target.as_str(), report.refused[0].item.reason), (target, reason));
        assert_eq!((report.bytes_out, report.bytes_in), (0, 0));
    }
}

#[test]
fn a_hello_sent_with_the_request_is_checked_too() {
    let world = world();
    let hello = client_hello(Some("evil.example"), &[], 10_000);
    let answer = world.exchange(&[b"CONNECT good.example:443 HTTP/1.1\r\n\r\n", &hello[..]].concat());
    assert!(answer.ends_with(ALERT));
    assert_eq!(world.refusal(), ("evil.example:443".to_owned(), RefusalReason::ServerName));
}

#[test]
fn a_hello_that_stops_halfway_is_not_waited_for() {
    // The timeout starts with the connection, so the tunnel must be open within it.
    let bounds = ProxyLimits { handshake_timeout: Duration::from_secs(2), ..ProxyLimits::default() };
    let world = ProxyFixture::within(bounds, &["good.example"]);
    world.network.host("good.example", 443, echo());
    let mut tunnel = world.tunnel("good.example:443");
    tunnel.write_all(&client_hello(Some("good.example"), &[], 10_000)[..60]).unwrap();
    assert_eq!(world.refusal(), ("good.example:443".to_owned(), RefusalReason::TooSlow));
    assert_eq!(read_all(&mut tunnel), b"");
}

#[test]
fn a_server_that_speaks_first_is_heard() {
    let world = ProxyFixture::new(&["good.example"]);
    let server = crate::fixture::server(|mut stream| {
        stream.write_all(b"SSH-2.0-server\r\n").unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        stream.write_all(&answer).unwrap();
    });
    world.network.host("good.example", 443, server);
    let mut tunnel = world.tunnel("good.example:443");
    let mut banner = [0; 16];
    tunnel.read_exact(&mut banner).unwrap();
    assert_eq!(&banner, b"SSH-2.0-server\r\n");
    tunnel.write_all(b"ping").unwrap();
    assert_eq!(read_all(&mut tunnel), b"ping");
}
