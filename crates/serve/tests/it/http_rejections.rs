//! Everything that is rejected before MCP has the same form.

use serde_json::json;

use crate::http_fixture::{TOKEN, by_token, get, initialize, post, read_file};

#[test]
fn every_refusal_is_an_error_of_json_rpc() {
    let world = by_token().start();
    let got = world.send(&post(&initialize()).bearing(TOKEN));
    let session = got.header("mcp-session-id").unwrap().to_owned();
    let ping = json!({"jsonrpc": "2.0", "id": 5, "method": "ping"});
    let within = || post(&ping).bearing(TOKEN).with("Mcp-Session-Id", &session);
    let put = |path: &str| post(&ping).bearing(TOKEN).line(&format!("PUT {path} HTTP/1.1"));
    for (what, sent, status) in [
        ("no session", post(&read_file(2)).bearing(TOKEN), 400),
        ("no session to listen in", get("/mcp").bearing(TOKEN).with("Accept", "text/event-stream"), 400),
        ("no such version", within().with("MCP-Protocol-Version", "1999-01-01"), 400),
        ("no such session", post(&ping).bearing(TOKEN).with("Mcp-Session-Id", "x"), 404),
        ("no such path", get("/nothing").bearing(TOKEN), 404),
        ("no such method", put("/mcp"), 405),
        ("no such method of a page", put("/healthz"), 405),
        ("accepts no streams", within().instead("Accept", Some("application/json")), 406),
        ("listens to no streams", get("/mcp").bearing(TOKEN).with("Mcp-Session-Id", &session), 406),
        ("is no JSON", within().instead("Content-Type", Some("text/plain")), 415),
        ("no token", post(&ping), 401),
        ("another host", within().instead("Host", Some("other.example")), 421),
    ] {
        let got = world.send(&sent);
        assert_eq!(got.status, status, "{what}: {got:?}");
        assert_eq!(got.header("content-type"), Some("application/json"), "{what}: {got:?}");
        let message = got.message();
        assert_eq!((&message["jsonrpc"], &message["id"]), (&json!("2.0"), &json!(null)), "{what}: {message}");
        assert!(message["error"]["code"].is_i64(), "{what}: {message}");
        assert!(!message["error"]["message"].as_str().unwrap().is_empty(), "{what}: {message}");
        assert_eq!(got.header("allow").is_some(), status == 405, "{what}: {got:?}");
    }
    assert_eq!(world.send(&put("/mcp")).header("allow"), Some("GET, POST, DELETE"));
    // None of this has affected the session.
    assert_eq!(world.send(&within()).status, 200);
}
