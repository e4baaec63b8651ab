//! SOCKS5.

use std::io::{Read, Write};
use std::net::Shutdown;

use toolgate_egress::RefusalReason;

use crate::fixture::{ProxyFixture, echo, read_all};

const OPEN: [u8; 10] = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0];

fn request(kind: u8, host: &[u8], port: u16) -> Vec<u8> {
    [&[5, 1, 0, kind], host, &port.to_be_bytes()].concat()
}

fn name(name: &str) -> Vec<u8> {
    [&[u8::try_from(name.len()).unwrap()], name.as_bytes()].concat()
}

fn world() -> ProxyFixture {
    let world = ProxyFixture::new(&["good.example:7000", "10.0.0.5:7000", "[fd12::5]:7000"]);
    let server = echo();
    world.network.host("good.example", 7000, server);
    world.network.route("10.0.0.5".parse().unwrap(), 7000, server);
    world.network.route("fd12::5".parse().unwrap(), 7000, server);
    world
}

#[test]
fn names_and_both_kinds_of_addresses_are_reached() {
    let world = world();
    let ipv6: [u8; 16] = "fd12::5".parse::<std::net::Ipv6Addr>().unwrap().octets();
    let cases = [
        (3, name("GOOD.example."), "good.example:7000"),
        (3, name("10.0.0.5"), "10.0.0.5:7000"),
        (1, vec![10, 0, 0, 5], "10.0.0.5:7000"),
        (4, ipv6.to_vec(), "[fd12::5]:7000"),
    ];
    for (kind, host, target) in cases {
        let mut stream = world.connect();
        stream.write_all(&[5, 2, 0, 2]).unwrap();
        let mut method = [0; 2];
        stream.read_exact(&mut method).unwrap();
        assert_eq!(method, [5, 0]);
        // The request arrives byte by byte, followed by data.
        for byte in [&request(kind, &host, 7000), &b"early"[..]].concat() {
            stream.write_all(&[byte]).unwrap();
        }
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&mut stream), [&OPEN, &b"early"[..]].concat(), "{target}");
        assert!(world.egress.report().allowed.iter().any(|line| line.item.target == target));
    }
}

#[test]
fn what_is_not_offered_is_answered_with_its_code() {
    let ipv4_mapped: [u8; 16] = "::ffff:10.0.0.5".parse::<std::net::Ipv6Addr>().unwrap().octets();
    let cases: &[(u8, Vec<u8>)] = &[
        (2, request(3, &name("evil.example"), 7000)),
        (2, request(3, &name("good.example"), 7001)),
        (2, request(3, &name(""), 7000)),
        (2, request(3, &name("evil.com\0.good.example"), 7000)),
        (2, request(3, &[2, 0xff, 0xfe], 7000)),
        (2, request(3, &name("[fd12::5]:7000"), 7000)),
        (2, request(1, &[10, 0, 0, 6], 7000)),
        (2, request(1, &[127, 0, 0, 1], 7000)),
        (2, request(4, &ipv4_mapped, 7000)),
        (1, request(1, &[10, 0, 0, 5], 0)),
        (1, vec![5, 1, 1, 1, 10, 0, 0, 5, 0x1b, 0x58]),
        (1, vec![4, 1, 0, 1, 10, 0, 0, 5, 0x1b, 0x58]),
        (7, vec![5, 2, 0, 1, 10, 0, 0, 5, 0x1b, 0x58]),
        (7, vec![5, 3, 0, 1, 10, 0, 0, 5, 0x1b, 0x58]),
        (7, vec![5, 9, 0, 1, 10, 0, 0, 5, 0x1b, 0x58]),
        (8, request(2, &[10, 0, 0, 5], 7000)),
    ];
    let world = world();
    for (code, request) in cases {
        let answer = world.exchange(&[&[5, 1, 0], &request[..]].concat());
        assert_eq!(answer, [5, 0, 5, *code, 0, 1, 0, 0, 0, 0, 0, 0], "{request:?}");
    }
    assert_eq!(world.dialled(), []);
    assert_eq!(world.exchange(&[5, 1, 2]), [5, 0xff]);
    assert_eq!(world.exchange(&[5, 0]), [5, 0xff]);
}

#[test]
fn failures_have_a_code_of_their_own() {
    let world = ProxyFixture::new(&["unknown.example"]);
    let answer = world.exchange(&[&[5, 1, 0], &request(3, &name("unknown.example"), 443)[..]].concat());
    assert_eq!(answer, [5, 0, 5, 4, 0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(world.refusal(), ("unknown.example:443".to_owned(), RefusalReason::Unresolved));
}

#[test]
fn the_server_name_of_tls_is_checked_here_too() {
    let world = ProxyFixture::new(&["good.example"]);
    world.network.host("good.example", 443, echo());
    let hello = crate::tls::client_hello(Some("evil.example"), &[], 10_000);
    let answer = world.exchange(&[&[5, 1, 0], &request(3, &name("good.example"), 443)[..], &hello].concat());
    assert_eq!(answer, [&[5, 0], &OPEN[..], &[0x15, 3, 3, 0, 2, 2, 49]].concat());
    assert_eq!(world.refusal(), ("evil.example:443".to_owned(), RefusalReason::ServerName));
}
