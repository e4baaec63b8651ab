//! Any bytes from a command: parsed the same however they are split, and forwarded only to a host that was named.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use toolgate_egress::wire::body::BodyReframer;
use toolgate_egress::wire::client_hello::{ClientHello, read_client_hello};
use toolgate_egress::wire::http::{BodyFraming, ForwardRequest, ProxyRequest, read_head};
use toolgate_egress::wire::socks::{read_greeting, read_request};
use toolgate_egress::wire::{ParseStatus, ProxyProtocol};
use toolgate_egress::{Host, NetworkAllowlist, RefusalReason};

fuzz_target!(|bytes: &[u8]| {
    let Some(first) = bytes.first() else { return };
    match ProxyProtocol::detect(*first) {
        Ok(ProxyProtocol::Http) => http(bytes),
        Ok(ProxyProtocol::Socks5) => socks(bytes),
        Err(_) => hello(bytes),
    }
    let _ = NetworkAllowlist::parse(&[String::from_utf8_lossy(bytes)]);
});

fn http(bytes: &[u8]) {
    match whole(read_head, bytes) {
        Some((ProxyRequest::Connect { host, port }, _)) => judge(host, port),
        Some((ProxyRequest::Forward(forward), rest)) => {
            passed_on(&forward);
            judge(forward.host, forward.port);
            body(forward.body, rest);
        }
        None => {}
    }
}

fn socks(bytes: &[u8]) {
    let Some((_, rest)) = whole(read_greeting, bytes) else { return };
    if let Some(((host, port), rest)) = whole(read_request, rest) {
        judge(host, port);
        hello(rest);
    }
}

fn hello(bytes: &[u8]) {
    if let Ok(ParseStatus::Complete { value: ClientHello::ServerName(name), length }) =
        read_client_hello(bytes)
    {
        assert_eq!(read_client_hello(&bytes[..length]), read_client_hello(bytes));
        assert_eq!(read_client_hello(&bytes[..length - 1]), Ok(ParseStatus::Partial));
        if let Ok(host) = Host::parse(&name) {
            judge(host, 443);
        }
    }
}

/// A parsed value does not depend on what follows it, and is incomplete before its last byte.
fn whole<T: PartialEq + std::fmt::Debug>(
    reader: fn(&[u8]) -> Result<ParseStatus<T>, RefusalReason>,
    bytes: &[u8],
) -> Option<(T, &[u8])> {
    let Ok(ParseStatus::Complete { value, length }) = reader(bytes) else { return None };
    assert_eq!(reader(&bytes[..length - 1]), Ok(ParseStatus::Partial));
    let Ok(ParseStatus::Complete { value: alone, .. }) = reader(&bytes[..length]) else {
        panic!("not there alone")
    };
    assert_eq!(value, alone);
    Some((value, &bytes[length..]))
}

/// The head sent to a server is one head, for the host of the URL.
fn passed_on(forward: &ForwardRequest) {
    let head = std::str::from_utf8(&forward.head).unwrap();
    let lines: Vec<&str> = head.strip_suffix("\r\n\r\n").unwrap().split("\r\n").collect();
    assert!(lines.iter().all(|line| !line.is_empty() && !line.contains(['\r', '\n', '\0'])));
    let named = |name: &str| {
        let lines = lines[1..].iter().filter_map(|line| line.split_once(':'));
        lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).count()
    };
    let port = if forward.port == 80 { String::new() } else { format!(":{}", forward.port) };
    assert_eq!(lines[1], format!("Host: {}{port}", forward.host));
    assert_eq!((named("host"), named("connection"), named("proxy-authorization")), (1, 1, 0));
    assert!(named("content-length") + named("transfer-encoding") <= 1);
    assert_eq!(named("transfer-encoding") == 1, forward.body == BodyFraming::Chunked);
}

/// The end of a body is the same in one chunk and byte by byte.
fn body(framing: BodyFraming, bytes: &[u8]) {
    let (mut at_once, mut slowly) = (BodyReframer::new(framing), BodyReframer::new(framing));
    let (mut out, mut slow_out) = (Vec::new(), Vec::new());
    let result = at_once.pass(bytes, &mut out);
    let slow_result = bytes.iter().try_for_each(|byte| slowly.pass(&[*byte], &mut slow_out));
    assert_eq!((result, at_once.is_finished()), (slow_result, slowly.is_finished()));
    if let BodyFraming::Length(length) = framing {
        assert!(out == slow_out && out.len() as u64 <= length);
    }
}

/// An independent check of the rules, from the name alone.
fn judge(host: Host, port: u16) {
    static RULES: OnceLock<NetworkAllowlist> = OnceLock::new();
    let rules = RULES
        .get_or_init(|| NetworkAllowlist::parse(&["*.good.com", "10.0.0.5:5432", "localhost:3000"]).unwrap());
    let name = host.to_string();
    assert!(name.is_ascii() && !name.contains(['%', '@', '/', '\\', ' ', '\0']));
    if rules.admit(host, port).is_ok() {
        let known = match port {
            443 | 80 => name.ends_with(".good.com"),
            5432 => name == "10.0.0.5",
            3000 => ["localhost", "127.0.0.1", "[::1]"].contains(&name.as_str()),
            _ => false,
        };
        assert!(known, "{name}:{port}");
    }
}
