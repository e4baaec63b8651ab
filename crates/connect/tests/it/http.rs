//! Servers over HTTP, with tokens and without.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, post};
use serde_json::{Value, json};
use toolgate_connect::{HealthState, HttpSettings, OAuthSettings, SecretString, TransportSettings};
use toolgate_types::ErrorCode;

use crate::fixture::{BridgeFixture, MEMORY, server};

/// The fixture's behaviour, and what it has received.
#[derive(Default)]
struct Fixture {
    events: bool,
    wants_token: bool,
    newer: bool,
    tokens: AtomicU32,
    /// The number of the valid token.
    good: AtomicU32,
    asked: Mutex<Vec<String>>,
    seen: Mutex<Vec<HeaderMap>>,
    sessions: AtomicU32,
    session: AtomicU32,
    /// Whether its event stream is endless comments.
    remarks: bool,
}

const SECRET: &str = "hunter2-of-the-gate";

async fn token(State(fixture): State<Arc<Fixture>>, headers: HeaderMap, body: String) -> Response {
    fixture.asked.lock().unwrap().push(body);
    // `me` and the secret as Basic credentials (RFC 6749).
    let basic = headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
    if basic.as_deref() != Some("Basic bWU6aHVudGVyMi1vZi10aGUtZ2F0ZQ==") {
        return (StatusCode::UNAUTHORIZED, SECRET).into_response();
    }
    let number = fixture.tokens.fetch_add(1, Ordering::SeqCst) + 1;
    fixture.good.store(number, Ordering::SeqCst);
    json_answer(
        &json!({"access_token": format!("token-{number}"), "token_type": "Bearer", "expires_in": 3600}),
    )
}

fn json_answer(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

async fn mcp(
    State(fixture): State<Arc<Fixture>>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    fixture.seen.lock().unwrap().push(headers.clone());
    let good = format!("Bearer token-{}", fixture.good.load(Ordering::SeqCst));
    if fixture.wants_token
        && headers.get(header::AUTHORIZATION).is_none_or(|value| value.to_str().unwrap() != good)
    {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], "no").into_response();
    }
    if method == Method::GET && fixture.remarks {
        return ([(header::CONTENT_TYPE, "text/event-stream")], endless(b":\n\n")).into_response();
    }
    if method != Method::POST {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    let session = format!("session-{}", fixture.session.load(Ordering::SeqCst));
    let is_beginning = matches!(message["method"].as_str(), Some("initialize" | "server/discover"));
    if !is_beginning
        && !fixture.newer
        && headers.get("mcp-session-id").is_none_or(|value| value.to_str().unwrap() != session)
    {
        return StatusCode::NOT_FOUND.into_response();
    }
    let Some(id) = message.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let result = match message["method"].as_str().unwrap() {
        "server/discover" if fixture.newer => {
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "f", "version": "1"}, "ttlMs": 0, "cacheScope": "private"})
        }
        "server/discover" => return (StatusCode::BAD_REQUEST, "initialize first").into_response(),
        "initialize" => {
            fixture.sessions.fetch_add(1, Ordering::SeqCst);
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "f", "version": "1"}})
        }
        "tools/list" => json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [
            {"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object"}},
            {"name": "flood", "description": "Never ends.", "inputSchema": {"type": "object"}},
            {"name": "remarks", "description": "Never ends.", "inputSchema": {"type": "object"}},
            {"name": "broken", "description": "Is broken.", "inputSchema": {"type": "object"}}]}),
        "tools/call" => match message["params"]["name"].as_str().unwrap() {
            "flood" => return ([(header::CONTENT_TYPE, "application/json")], endless(b"x")).into_response(),
            "remarks" => {
                return ([(header::CONTENT_TYPE, "text/event-stream")], endless(b": alive\n\n"))
                    .into_response();
            }
            "broken" => return (StatusCode::INTERNAL_SERVER_ERROR, SECRET).into_response(),
            _ => {
                json!({"resultType": "complete", "content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]})
            }
        },
        _ => {
            return json_answer(
                &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}),
            );
        }
    };
    let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
    let mut response = match fixture.events {
        true => {
            ([(header::CONTENT_TYPE, "text/event-stream")], format!("event: message\ndata: {answer}\n\n"))
                .into_response()
        }
        false => json_answer(&answer),
    };
    response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
    response
}

/// An endless body.
fn endless(piece: &[u8]) -> Body {
    Body::from_stream(Endless(piece.repeat(1 << 13).into()))
}

struct Endless(Bytes);

impl futures_core::Stream for Endless {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(Some(Ok(self.0.clone())))
    }
}

async fn serve(fixture: Fixture) -> (Arc<Fixture>, String) {
    let fixture = Arc::new(fixture);
    let router =
        Router::new().route("/token", post(token)).route("/mcp", any(mcp)).with_state(Arc::clone(&fixture));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (fixture, address)
}

fn settings(address: &str, oauth: bool) -> HttpSettings {
    let oauth = oauth.then(|| OAuthSettings {
        token_url: format!("{address}/token"),
        client_id: "me".to_owned(),
        client_secret: SecretString::new(SECRET),
        scopes: vec!["read".to_owned(), "write".to_owned()],
        resource: None,
    });
    HttpSettings {
        url: format!("{address}/mcp"),
        headers: vec![("X-Team".to_owned(), SecretString::new("blue"))],
        oauth,
        login: None,
    }
}

async fn connected(fixture: Fixture, oauth: bool) -> (BridgeFixture, Arc<Fixture>) {
    let (fixture, address) = serve(fixture).await;
    let setting =
        BridgeFixture::ready(vec![server("far", TransportSettings::Http(settings(&address, oauth)))]).await;
    (setting, fixture)
}

#[tokio::test]
async fn calls_go_over_json_and_over_events_in_both_eras() {
    for (events, newer) in [(false, false), (true, false), (false, true), (true, true)] {
        let (setting, fixture) = connected(Fixture { events, newer, ..Fixture::default() }, false).await;
        assert_eq!(
            setting.done("far__echo", json!({"text": "hello"})).await.text,
            "hello",
            "{events} {newer}"
        );
        let protocol = setting.health("far").protocol;
        assert_eq!(protocol.as_deref(), Some(if newer { "2026-07-28" } else { "2025-11-25" }));
        assert!(fixture.seen.lock().unwrap().iter().all(|headers| headers["x-team"] == "blue"));
        setting.bridge.close().await;
    }
}

#[tokio::test]
async fn tokens_are_fetched_renewed_when_refused_and_never_shown() {
    let (setting, fixture) = connected(Fixture { wants_token: true, ..Fixture::default() }, true).await;
    setting.done("far__echo", json!({"text": "x"})).await;
    assert_eq!(fixture.tokens.load(Ordering::SeqCst), 1);
    let asked = fixture.asked.lock().unwrap()[0].clone();
    for part in ["grant_type=client_credentials", "scope=read+write", "resource=http%3A%2F%2F127.0.0.1"] {
        assert!(asked.contains(part), "{asked}");
    }
    // The server no longer accepts earlier tokens.
    fixture.good.store(99, Ordering::SeqCst);
    setting.done("far__echo", json!({"text": "x"})).await;
    assert_eq!(fixture.tokens.load(Ordering::SeqCst), 2);
    let (_, failure) = setting.failed("far__broken", json!({})).await;
    let told = format!("{failure:?} {:?} {:?}", setting.bridge.health(), setting.warnings.lock().unwrap());
    assert!(!told.contains(SECRET) && !told.contains("token-"), "{told}");
}

#[tokio::test]
async fn a_token_server_that_refuses_is_named_and_its_words_are_not() {
    let (_fixture, address) = serve(Fixture { wants_token: true, ..Fixture::default() }).await;
    let mut far = settings(&address, true);
    far.oauth.as_mut().unwrap().client_id = "nobody".to_owned();
    let setting = BridgeFixture::ready(vec![server("far", TransportSettings::Http(far))]).await;
    let health = setting.health("far");
    assert!(health.last_error.as_deref().unwrap().contains("status 401"), "{health:?}");
    assert!(!format!("{health:?}").contains(SECRET));
}

#[tokio::test]
async fn a_session_that_ran_out_is_made_anew() {
    let (setting, fixture) = connected(Fixture::default(), false).await;
    setting.done("far__echo", json!({"text": "x"})).await;
    fixture.session.store(7, Ordering::SeqCst);
    assert_eq!(setting.failed("far__echo", json!({"text": "x"})).await.1.code, ErrorCode::Interrupted);
    setting.until("a new session", || fixture.sessions.load(Ordering::SeqCst) == 2).await;
    setting.until_state("far", HealthState::Ready).await;
    assert_eq!(setting.done("far__echo", json!({"text": "x"})).await.text, "x");
}

#[tokio::test]
async fn endless_bodies_end() {
    let _alone = MEMORY.lock().await;
    let (setting, _fixture) = connected(Fixture::default(), false).await;
    let (_, failure) = setting.failed("far__flood", json!({})).await;
    assert!(matches!(failure.code, ErrorCode::Interrupted), "{failure:?}");
    assert_eq!(setting.done("far__echo", json!({"text": "x"})).await.text, "x");
}

#[tokio::test]
async fn remarks_without_end_end_the_connection_and_it_is_made_anew() {
    let (setting, _fixture) = connected(Fixture::default(), false).await;
    let (_, failure) = setting.failed("far__remarks", json!({})).await;
    assert!(matches!(failure.code, ErrorCode::Interrupted), "{failure:?}");
    assert_eq!(setting.done("far__echo", json!({"text": "x"})).await.text, "x");
    let health = setting.health("far");
    assert!(
        health.restarts == 1 && health.last_error.as_deref().unwrap().contains("nobody asked for"),
        "{health:?}"
    );
    // The same on a stream that belongs to no call.
    let (setting, _fixture) = connected(Fixture { remarks: true, ..Fixture::default() }, false).await;
    setting.until("cut off", || setting.health("far").restarts > 0).await;
    let health = setting.health("far");
    assert!(health.last_error.as_deref().unwrap().contains("nobody asked for"), "{health:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_to_be() {
    let nowhere = HttpSettings {
        url: "http://127.0.0.1:9/mcp?key=hunter2".to_owned(),
        headers: Vec::new(),
        oauth: None,
        login: None,
    };
    let setting = BridgeFixture::ready(vec![server("far", TransportSettings::Http(nowhere))]).await;
    setting.until_state("far", HealthState::BackingOff).await;
    let health = setting.health("far");
    assert!(
        health.last_error.as_deref().unwrap().contains("could not be reached")
            && !format!("{health:?}").contains("hunter2"),
        "{health:?}"
    );
}
