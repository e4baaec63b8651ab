//! Hosted servers that want a login.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use serde_json::{Value, json};
use toolgate_connect::{HealthState, HttpSettings, LoginSettings, TransportSettings};
use toolgate_oauth::{StoredToken, TokenBinding};
use toolgate_types::{ErrorCode, Outcome};

use crate::fixture::{BridgeFixture, login_tokens, server};

/// A server that takes one token, and what it was sent.
#[derive(Default)]
struct Hosted {
    good: String,
    /// Where everything is redirected to.
    redirect: Option<String>,
    /// Further tokens that are good.
    more: Vec<String>,
    /// Whether calls need another scope.
    is_scope_missing: bool,
    /// Requests, with their token.
    seen: Vec<Option<String>>,
}

type Shared = Arc<Mutex<Hosted>>;

async fn serve() -> (Shared, String) {
    let hosted: Shared = Arc::new(Mutex::new(Hosted { good: "good-1".to_owned(), ..Hosted::default() }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = Router::new().fallback(any(answer)).with_state(Arc::clone(&hosted));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (hosted, url)
}

async fn answer(State(hosted): State<Shared>, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    let mut hosted = hosted.lock().unwrap();
    let token = headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
    hosted.seen.push(token.clone());
    if let Some(to) = &hosted.redirect {
        return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to.clone())]).into_response();
    }
    let known = [&hosted.good].into_iter().chain(&hosted.more);
    let user = known.into_iter().find(|good| token == Some(format!("Bearer {good}"))).cloned();
    let Some(user) = user else {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response();
    };
    if method != Method::POST {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    let Some(id) = message.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let result = match message["method"].as_str().unwrap() {
        "server/discover" => return (StatusCode::BAD_REQUEST, "initialize first").into_response(),
        "initialize" => {
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "f", "version": "1"}})
        }
        "tools/list" => {
            json!({"tools": [{"name": "echo", "description": "Says it.", "inputSchema": {"type": "object"}}]})
        }
        _ if hosted.is_scope_missing => {
            let challenge = r#"Bearer error="insufficient_scope", scope="issues:write $(id)""#;
            return (StatusCode::FORBIDDEN, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
        }
        _ => json!({"content": [{"type": "text", "text": user}]}),
    };
    let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
    ([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
}

fn binding(url: &str) -> TokenBinding {
    TokenBinding {
        configuration: "/home/alice/toolgate.yaml".to_owned(),
        server: "far".to_owned(),
        url: url.to_owned(),
        caller: None,
    }
}

/// A token as a login leaves it, without a refresh token.
fn token(value: &str) -> StoredToken {
    let token = json!({
        "issuer": "https://login.example", "resource": "https://far.example", "token_endpoint": "https://login.example/token",
        "revocation_endpoint": null, "client_id": "the-gate", "client_secret": null, "secret_in_form": false,
        "access_token": value, "refresh_token": null, "expires_at": null, "scopes": ["issues:read"], "withdrawn": false,
    });
    serde_json::from_value(token).unwrap()
}

async fn bridge(url: &str) -> BridgeFixture {
    bridge_with(url, false).await
}

async fn bridge_with(url: &str, per_caller: bool) -> BridgeFixture {
    let login = LoginSettings { binding: binding(url), per_caller };
    let http = HttpSettings { url: url.to_owned(), headers: Vec::new(), oauth: None, login: Some(login) };
    BridgeFixture::ready(vec![server("far", TransportSettings::Http(http))]).await
}

fn log_in(setting: &BridgeFixture, url: &str, value: &str) {
    login_tokens(setting.folder.path()).save(&binding(url), &token(value)).unwrap();
}

#[tokio::test]
async fn a_server_that_wants_a_login_is_waited_for_without_a_request() {
    let (hosted, url) = serve().await;
    let setting = bridge(&url).await;
    setting.until_state("far", HealthState::NeedsLogin).await;
    let failure = setting.bridge.absent_tool("far__echo").unwrap().failure;
    assert_eq!(failure.code, ErrorCode::ServerUnavailable);
    assert!(failure.help.as_deref().unwrap().contains("toolgate mcp login far"), "{failure:?}");
    let requests = hosted.lock().unwrap().seen.len();
    assert!(requests <= 4, "{requests}");
    log_in(&setting, &url, "good-1");
    setting.until_state("far", HealthState::Ready).await;
    setting.reload();
    assert_eq!(setting.done("far__echo", json!({})).await.text, "good-1");
}

#[tokio::test]
async fn a_withdrawn_login_is_waited_for_and_not_tried_again() {
    let (hosted, url) = serve().await;
    let setting = bridge(&url).await;
    log_in(&setting, &url, "good-1");
    setting.until_state("far", HealthState::Ready).await;
    setting.reload();
    setting.done("far__echo", json!({})).await;
    hosted.lock().unwrap().good = "good-2".to_owned();
    let (_, failure) = setting.failed("far__echo", json!({})).await;
    assert!(failure.message.contains("withdrawn"), "{failure:?}");
    setting.until_state("far", HealthState::NeedsLogin).await;
    let before = hosted.lock().unwrap().seen.len();
    for _ in 0..10 {
        let (_, failure) = setting.failed("far__echo", json!({})).await;
        assert!(failure.help.as_deref().unwrap().contains("toolgate mcp login far"), "{failure:?}");
    }
    assert_eq!(hosted.lock().unwrap().seen.len(), before);
    let shown = format!("{:?} {:?}", setting.bridge.health(), setting.warnings.lock().unwrap());
    assert!(!shown.contains("good-"), "{shown}");
    log_in(&setting, &url, "good-2");
    setting.until_state("far", HealthState::Ready).await;
    assert_eq!(setting.done("far__echo", json!({})).await.text, "good-2");
}

#[tokio::test]
async fn a_token_follows_no_redirect() {
    let ((hosted, url), (thief, elsewhere)) = (serve().await, serve().await);
    let setting = bridge(&url).await;
    log_in(&setting, &url, "good-1");
    setting.until_state("far", HealthState::Ready).await;
    setting.reload();
    hosted.lock().unwrap().redirect = Some(elsewhere);
    setting.failed("far__echo", json!({})).await;
    assert!(thief.lock().unwrap().seen.is_empty());
    assert!(hosted.lock().unwrap().seen.iter().flatten().any(|token| token == "Bearer good-1"));
}

#[tokio::test]
async fn another_url_of_the_server_gets_no_token() {
    let ((_, url), (thief, elsewhere)) = (serve().await, serve().await);
    let setting = bridge(&elsewhere).await;
    log_in(&setting, &url, "good-1");
    setting.until_state("far", HealthState::NeedsLogin).await;
    assert!(thief.lock().unwrap().seen.iter().all(Option::is_none));
}

#[tokio::test]
async fn a_call_that_needs_more_scopes_says_how_to_ask_for_them() {
    let (hosted, url) = serve().await;
    let setting = bridge(&url).await;
    log_in(&setting, &url, "good-1");
    setting.until_state("far", HealthState::Ready).await;
    setting.reload();
    hosted.lock().unwrap().is_scope_missing = true;
    let (_, failure) = setting.failed("far__echo", json!({})).await;
    let command = "toolgate mcp login far --scope issues:read --scope issues:write --scope '$(id)'";
    assert!(failure.help.as_deref().unwrap().contains(command), "{failure:?}");
    // The login is still good.
    hosted.lock().unwrap().is_scope_missing = false;
    assert_eq!(setting.done("far__echo", json!({})).await.text, "good-1");
}

#[tokio::test]
async fn each_caller_has_its_own_login_and_connection() {
    let (hosted, url) = serve().await;
    hosted.lock().unwrap().more = vec!["of-alice".to_owned(), "of-bob".to_owned()];
    let setting = bridge_with(&url, true).await;
    log_in(&setting, &url, "good-1");
    let tokens = login_tokens(setting.folder.path());
    for caller in ["alice", "bob"] {
        tokens.save(&binding(&url).of_caller(caller), &token(&format!("of-{caller}"))).unwrap();
    }
    setting.until_state("far", HealthState::Ready).await;
    let callers = setting.reload_with_callers();
    // Each with a connection of its own, open at the same time as those of the others.
    for caller in ["alice", "bob", "alice", "bob"] {
        let Outcome::Done(output) = setting.outcome_for(&callers, caller, "far__echo").await else {
            panic!("{caller}: {:?}", setting.warnings.lock().unwrap())
        };
        assert_eq!(output.text, format!("of-{caller}"));
    }
    let before = hosted.lock().unwrap().seen.len();
    let Outcome::Failed { failure, .. } = setting.outcome_for(&callers, "carol", "far__echo").await else {
        panic!("carol has no login")
    };
    assert_eq!(failure.code, ErrorCode::ServerUnavailable);
    assert!(
        failure.help.as_deref().unwrap().contains("toolgate mcp login far --caller carol"),
        "{failure:?}"
    );
    assert_eq!(hosted.lock().unwrap().seen.len(), before);
    // A caller whose login is forgotten does not go on with the open connection.
    tokens.remove(&binding(&url).of_caller("bob")).unwrap();
    assert!(matches!(setting.outcome_for(&callers, "bob", "far__echo").await, Outcome::Failed { .. }));
    assert_eq!(hosted.lock().unwrap().seen.len(), before);
    // The user of this machine has the operator's.
    assert_eq!(setting.done("far__echo", json!({})).await.text, "good-1");
}
