//! Every host notation known to bypass filters, through the allowlist and through the proxy itself.

use toolgate_egress::{Host, NetworkAllowlist, RefusalReason};

use crate::fixture::ProxyFixture;

const ENTRIES: &[&str] = &[
    "example.com",
    "*.good.com",
    "a_b.example.net",
    "localhost:3000",
    "10.0.0.5:5432",
    "93.184.216.34",
    "[2606:4700::1]:443",
    "xn--bcher-kva.example",
];

fn cases() -> Vec<(String, String)> {
    let lines = include_str!("hosts.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let cases = lines.map(|line| line.split_once(' ').unwrap());
    cases.map(|(outcome, form)| (outcome.to_owned(), unescape(form.trim()))).collect()
}

fn unescape(text: &str) -> String {
    let mut text = text.to_owned();
    for (escape, character) in [("\\0", "\0"), ("\\r", "\r"), ("\\n", "\n"), ("\\t", "\t"), ("\\\\", "\\")] {
        text = text.replace(escape, character);
    }
    while let Some((before, rest)) = text.split_once("\\u{") {
        let (digits, after) = rest.split_once('}').unwrap();
        let character = char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap();
        text = format!("{before}{character}{after}");
    }
    text
}

#[test]
fn the_rules_judge_every_spelling() {
    let rules = NetworkAllowlist::parse(ENTRIES).unwrap();
    let cases = cases();
    assert!(cases.len() >= 60, "the table has {} cases", cases.len());
    for (expected, form) in cases {
        let host = Host::parse_with_port(&form, None).map_err(RefusalReason::from);
        let outcome = host.and_then(|(host, port)| rules.admit(host, port).map(|_| ()));
        let outcome = outcome.map_or_else(RefusalReason::as_str, |()| "allowed");
        assert_eq!(outcome, expected, "{form:?}");
    }
    for long in [format!("{}.good.com:443", "a".repeat(64)), format!("{}good.com:443", "a.".repeat(130))] {
        assert_eq!(
            Host::parse_with_port(&long, None).map_err(|error| error.to_string()),
            Err("the host name is too long".to_owned())
        );
    }
}

#[test]
fn nothing_that_is_refused_is_resolved_or_dialled() {
    let world = ProxyFixture::new(ENTRIES);
    for (expected, form) in cases().into_iter().filter(|(expected, _)| expected != "allowed") {
        let connect = world.exchange(format!("CONNECT {form} HTTP/1.1\r\n\r\n").as_bytes());
        let plain = world.exchange(format!("GET http://{form}/ HTTP/1.1\r\n\r\n").as_bytes());
        for answer in [connect, plain] {
            let answer = String::from_utf8(answer).unwrap();
            let refused = answer.starts_with("HTTP/1.1 403 ") || answer.starts_with("HTTP/1.1 400 ");
            // Without a port it is a whole URL, of an allowed host.
            let known = form == "www.good.com";
            assert!(refused || known, "{form:?} ({expected}): {answer}");
        }
    }
    let resolved = world.network.resolved.lock().unwrap().clone();
    assert!(resolved.iter().all(|name| name == "www.good.com"), "{resolved:?}");
    assert_eq!(world.dialled(), []);
}

#[test]
fn socks_names_are_judged_by_the_same_table() {
    let world = ProxyFixture::new(ENTRIES);
    for (expected, form) in cases() {
        let Some((host, port)) =
            form.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)))
        else {
            continue;
        };
        if expected == "allowed"
            || port == 0
            || host.is_empty()
            || form.ends_with(":00443")
            || form.ends_with("+443")
        {
            continue;
        }
        let mut bytes = vec![5, 1, 0, 5, 1, 0, 3, u8::try_from(host.len()).unwrap()];
        bytes.extend_from_slice(host.as_bytes());
        bytes.extend_from_slice(&port.to_be_bytes());
        let answer = world.exchange(&bytes);
        assert_eq!(answer, [5, 0, 5, 2, 0, 1, 0, 0, 0, 0, 0, 0], "{form:?}");
    }
    assert_eq!(world.dialled(), []);
    assert!(world.network.resolved.lock().unwrap().is_empty());
}
