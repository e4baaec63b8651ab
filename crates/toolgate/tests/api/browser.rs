//! A browser: its cookie, and what other sites make it send.

use serde_json::json;

use crate::gate::{Client, Gate, refused};

const SCRIPT: &str = "steps: [{say: Hello.}]\n";

/// A browser after the login.
fn browser(gate: &Gate) -> Client {
    let origin = format!("http://{}", gate.address);
    let page = gate.stranger().header("Origin", &origin);
    let login = page.post("login", &json!({"token": gate.token.as_ref().unwrap()}));
    assert_eq!(login.status, 200, "{login:?}");
    let cookie = login.headers["set-cookie"].split(';').next().unwrap().to_owned();
    gate.stranger().header("Cookie", &cookie)
}

#[test]
fn a_cookie_is_given_for_the_token_and_counts_with_the_own_origin() {
    let gate = Gate::serve(SCRIPT);
    let own = format!("http://{}", gate.address);
    let stranger = gate.stranger();
    assert_eq!(
        stranger.post("login", &json!({"token": "guess"})).problem(),
        (401, "unauthenticated".to_owned())
    );
    assert_eq!(stranger.post("login", &json!({})).problem().0, 400);
    let evil = stranger.header("Origin", "http://evil.example");
    assert_eq!(evil.post("login", &json!({"token": gate.token.as_ref().unwrap()})).status, 403);
    let browser = browser(&gate);
    assert_eq!(browser.get("me").expect(200)["subject"], gate.person().get("me").expect(200)["subject"]);
    // What changes something needs the page's own origin.
    let create = |client: &Client| client.post("sessions", &json!({})).status;
    assert_eq!(create(&browser), 403, "without an origin");
    for origin in
        ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1", "http://localhost"]
    {
        assert_eq!(create(&browser.header("Origin", origin)), 403, "{origin}");
    }
    let localhost = own.replace("127.0.0.1", "localhost");
    assert_eq!(
        create(&browser.header("Origin", &localhost)),
        403,
        "another name of this machine is another site"
    );
    assert_eq!(create(&browser.header("Origin", &own)), 201);
    // A form cannot send JSON.
    let form = browser.header("Origin", &own).header("Content-Type", "text/plain");
    assert_eq!(form.post("sessions", &json!({})).status, 415);
    assert_eq!(gate.person().get("sessions").expect(200)["items"].as_array().unwrap().len(), 1);
    // A wrong cookie is removed, and a token beside it counts alone.
    let altered = gate.stranger().header("Cookie", &format!("{}0", browser.headers[0].1));
    let reply = altered.get("me");
    assert_eq!(reply.problem().0, 401);
    assert!(reply.headers["set-cookie"].contains("Max-Age=0"), "{reply:?}");
    let logout = browser.header("Origin", &own).post("logout", &json!({}));
    assert!(logout.status == 204 && logout.headers["set-cookie"].contains("Max-Age=0"), "{logout:?}");
}

#[test]
fn the_websocket_takes_no_cookie_from_another_site() {
    let gate = Gate::serve(SCRIPT);
    let own = format!("http://{}", gate.address);
    let session = gate.person().session();
    let browser = browser(&gate);
    assert_eq!(refused(browser.try_socket(&session, 0)), 403, "without an origin");
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        assert_eq!(refused(browser.header("Origin", origin).try_socket(&session, 0)), 403, "{origin}");
    }
    assert_eq!(refused(gate.stranger().try_socket(&session, 0)), 401);
    assert_eq!(refused(gate.stranger().header("Origin", &own).try_socket(&session, 0)), 401);
    assert_eq!(refused(browser.header("Origin", &own).try_socket(&session, 0)), 101);
}

#[test]
fn no_route_answers_for_another_host() {
    let gate = Gate::serve(SCRIPT);
    let session = gate.person().session();
    for host in ["evil.example", "127.0.0.1.evil.example", "evil.example:80"] {
        let rebound = gate.person().header("Host", host);
        for path in ["/", "/api/v1/me", "/api/v1/sessions", "/api/v1/openapi.json", "/mcp", "/healthz"] {
            assert_eq!(rebound.get(path).status, 421, "{host} {path}");
        }
        assert_eq!(rebound.post("login", &json!({"token": "x"})).status, 421, "{host}");
        assert_eq!(refused(rebound.try_socket(&session, 0)), 421, "{host}");
    }
}

#[test]
fn without_authentication_other_sites_change_nothing() {
    let gate = Gate::with(SCRIPT, "", &["--auth", "none"]);
    let own = format!("http://{}", gate.address);
    let stranger = gate.stranger();
    let session = stranger.session();
    for origin in ["http://evil.example", "null"] {
        let page = stranger.header("Origin", origin);
        assert_eq!(page.post("sessions", &json!({})).status, 403, "{origin}");
        assert_eq!(page.get("sessions").status, 403, "{origin}");
        assert_eq!(refused(page.try_socket(&session, 0)), 403, "{origin}");
    }
    let page = stranger.header("Origin", &own);
    assert_eq!(page.post("sessions", &json!({})).status, 201);
    assert_eq!(refused(page.try_socket(&session, 0)), 101);
}

#[test]
fn no_error_names_a_token_or_a_path_of_this_machine() {
    let gate = Gate::serve(SCRIPT);
    let person = gate.person();
    let session = person.session();
    let token = gate.token.as_deref().unwrap();
    let root = gate.place.scratch.path().display().to_string();
    let long = "x".repeat(10_000);
    let answers = [
        person.post("sessions", &json!({"model": "scripted/missing.yaml"})),
        person.post("sessions", &json!({"model": long})),
        person.post(&format!("sessions/{session}/messages"), &json!({"text": ""})),
        person.send("POST", "sessions", Some("{")),
        person.send("PUT", "sessions", Some("{}")),
        person.get("nothing"),
        person.get(&format!("sessions/{long}")),
        person.get("sessions?cursor=x"),
        person.get("sessions?limit=x"),
        person.get("audit?since=yesterday"),
        person.get("audit?decision=MAYBE"),
        person.get("changes/x"),
        person.post("pins/a/b", &json!({"digest": "x"})),
        person.header("Idempotency-Key", &"k".repeat(500)).post("sessions", &json!({})),
        gate.stranger().get("me"),
        gate.stranger().header("Authorization", "Bearer wrong").get("me"),
    ];
    for answer in answers {
        let (status, _) = answer.problem();
        assert!((400..500).contains(&status), "{answer:?}");
        let whole = format!("{answer:?}");
        assert!(!whole.contains(token) && !whole.contains(&root), "{whole}");
        assert_eq!(answer.headers["cache-control"], "no-store", "{whole}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{whole}");
    }
}

#[test]
fn the_page_is_kept_from_frames_foreign_scripts_and_referrers() {
    let gate = Gate::serve(SCRIPT);
    for path in ["/", "/sessions/x", "/nothing.js"] {
        let page = gate.stranger().get(path);
        let policy = &page.headers["content-security-policy"];
        for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(
            policy.contains("require-trusted-types-for 'script'") && !policy.contains("unsafe"),
            "{policy}"
        );
        for (name, value) in [
            ("referrer-policy", "no-referrer"),
            ("x-content-type-options", "nosniff"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(page.headers[name], value, "{path}");
        }
    }
    assert_eq!(gate.stranger().send("POST", "/", Some("{}")).status, 405);
}
