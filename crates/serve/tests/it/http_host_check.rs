//! Which values of `Host` and `Origin` and which tokens are accepted.

use serde_json::json;

use crate::http_fixture::{Sent, TOKEN, by_token, get, initialize, newer, open, post, read_file};

/// What is tried, and the status that it must get.
type Case = (Option<&'static str>, Option<&'static str>, Option<&'static str>, u16);

#[test]
fn host_origin_and_token_must_all_be_good() {
    let world = by_token().start();
    let good = Some("Bearer the-token-of-the-person-0123456789abcdef");
    let cases: &[Case] = &[
        (Some("{own}"), None, good, 200),
        (Some("localhost"), None, good, 200),
        (Some("gate.example:443"), None, good, 200),
        (Some("{own}"), Some("http://{own}"), good, 200),
        (Some("{own}"), Some("https://app.example"), good, 200),
        // A foreign name that resolves to this address (DNS rebinding).
        (Some("evil.example"), None, good, 421),
        (Some("evil.example"), Some("http://evil.example"), good, 421),
        (Some("127.0.0.1.evil.example"), None, good, 421),
        (None, None, good, 400),
        (Some("localhost@evil.example"), None, good, 400),
        // A page of a foreign origin.
        (Some("{own}"), Some("https://evil.example"), good, 403),
        (Some("{own}"), Some("https://app.example.evil.example"), good, 403),
        (Some("{own}"), Some("http://app.example"), good, 403),
        (Some("{own}"), Some("null"), good, 403),
        (Some("{own}"), Some("http://localhost:1"), good, 403),
        // An unauthenticated client.
        (Some("{own}"), None, None, 401),
        (Some("{own}"), None, Some("Bearer wrong"), 401),
        (Some("{own}"), None, Some("Bearer the-token-of-the-person-0123456789abcdeg"), 401),
        (Some("{own}"), None, Some("Bearer the-token-of-the-person-0123456789abcde"), 401),
        (Some("{own}"), None, Some("Basic the-token-of-the-person-0123456789abcdef"), 401),
        (Some("{own}"), None, Some("the-token-of-the-person-0123456789abcdef"), 401),
        // `Host` and `Origin` are checked first, so that such a client learns nothing about tokens.
        (Some("evil.example"), None, Some("Bearer wrong"), 421),
        (Some("{own}"), Some("https://evil.example"), None, 403),
    ];
    for (host, origin, token, status) in cases {
        let sent = post(&initialize()).instead("Host", *host);
        let sent = sent.instead("Origin", *origin).instead("Authorization", *token);
        let got = world.send(&sent);
        assert_eq!(got.status, *status, "{host:?} {origin:?} {token:?}: {got:?}");
        assert_eq!(got.header("mcp-session-id").is_some(), *status == 200, "{got:?}");
    }
    assert_eq!(world.records().len(), 0, "no call was made");
}

#[test]
fn what_is_said_twice_or_elsewhere_counts_for_nothing() {
    let world = by_token().start();
    let good = || post(&initialize()).bearing(TOKEN);
    let refused: &[(Sent, u16)] = &[
        (good().with("Host", "{own}"), 400),
        (good().with("Host", "evil.example"), 400),
        (good().with("Origin", "https://app.example").with("Origin", "https://evil.example"), 403),
        (good().with("Authorization", "Bearer other"), 401),
        (good().line("POST http://evil.example/mcp HTTP/1.1"), 421),
        (good().instead("Authorization", None).line(&format!("POST /mcp?token={TOKEN} HTTP/1.1")), 401),
        (
            good().instead("Authorization", None).line(&format!("POST /mcp?access_token={TOKEN} HTTP/1.1")),
            401,
        ),
        (good().instead("Authorization", None).with("X-Forwarded-Host", "gate.example"), 401),
        (good().instead("Host", Some("evil.example")).with("X-Forwarded-Host", "gate.example"), 421),
        (good().with("Mcp-Session-Id", "a").with("Mcp-Session-Id", "b"), 400),
    ];
    for (sent, status) in refused {
        let got = world.send(sent);
        assert_eq!(got.status, *status, "{}\n{got:?}", sent.render(world.address));
    }
    assert_eq!(world.send(&good()).status, 200);
}

#[test]
fn every_path_looks_at_names_and_only_some_are_open() {
    let world = by_token().start();
    for (path, stranger, person) in [
        ("/healthz", 200, 200),
        ("/readyz", 200, 200),
        ("/metrics", 401, 200),
        ("/nowhere", 404, 404),
        ("/.well-known/oauth-protected-resource", 404, 404),
        ("/.well-known/oauth-protected-resource/mcp", 404, 404),
    ] {
        assert_eq!(world.send(&get(path)).status, stranger, "{path}");
        assert_eq!(world.send(&get(path).bearing(TOKEN)).status, person, "{path}");
        let rebound = get(path).bearing(TOKEN).instead("Host", Some("evil.example"));
        assert_eq!(world.send(&rebound).status, 421, "{path}");
        let paged = get(path).bearing(TOKEN).with("Origin", "https://evil.example");
        assert_eq!(world.send(&paged).status, 403, "{path}");
    }
    let counted = world.send(&get("/metrics").bearing(TOKEN)).body;
    for line in [
        "toolgate_http_refused_total{reason=\"host\"} 6",
        "toolgate_http_refused_total{reason=\"origin\"} 6",
        "toolgate_http_refused_total{reason=\"no_token\"} 1",
        "toolgate_http_requests_total{status=\"421\"} 6",
    ] {
        assert!(counted.lines().any(|found| found == line), "{line}\n{counted}");
    }
}

#[test]
fn a_page_that_may_use_the_gate_is_let_see_its_answers() {
    let world = by_token().start();
    let asked = get("/mcp").line("OPTIONS /mcp HTTP/1.1").with("Access-Control-Request-Method", "POST");
    let got = world.send(&asked.clone().with("Origin", "https://app.example"));
    assert_eq!(got.status, 204);
    assert_eq!(got.header("access-control-allow-origin"), Some("https://app.example"));
    assert!(got.header("access-control-allow-headers").unwrap().contains("authorization"));
    let got = world.send(&asked.clone().with("Origin", "https://evil.example"));
    assert_eq!((got.status, got.header("access-control-allow-origin")), (403, None));
    let got = world.send(&post(&initialize()).bearing(TOKEN).with("Origin", "https://app.example"));
    assert!(got.header("access-control-expose-headers").unwrap().contains("mcp-session-id"));
    assert_eq!(got.header("vary"), Some("Origin"));
    // Without `Origin` it is no preflight request.
    assert_ne!(world.send(&asked).status, 204);
}

#[test]
fn without_a_lock_whoever_is_here_is_the_person_and_pages_are_not_here() {
    let world = open().start();
    assert_eq!(world.send(&get("/metrics")).status, 200);
    let got = world.send(&newer(read_file(7)));
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(got.message()["result"]["content"][0]["text"], json!("hello\n"));
    assert_eq!(world.send(&newer(read_file(7)).with("Origin", "https://evil.example")).status, 403);
    assert_eq!(world.send(&newer(read_file(7)).instead("Host", Some("evil.example"))).status, 421);
    let records = world.records();
    assert_eq!(records.len(), 1, "{records:?}");
}
