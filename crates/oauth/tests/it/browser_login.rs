//! The response of a login, and what else comes to its port.

use std::time::Duration;

use serde_json::json;
use toolgate_oauth::LoginError;

use crate::fixture::{SECRET, begin, log_in, parameter, request, serve, visit};

const TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_login_sends_state_challenge_and_resource_and_the_verifier_fits() {
    let servers = serve().await;
    let pending = begin(&servers).await;
    let url = pending.url().to_owned();
    let origin = servers.lock().unwrap().origin.clone();
    assert_eq!(parameter(&url, "code_challenge_method"), "S256");
    assert_eq!(parameter(&url, "resource"), format!("{origin}/mcp"));
    assert_eq!(parameter(&url, "scope"), "issues:read");
    assert!(parameter(&url, "state").len() >= 43);
    let (redirect, state) = (parameter(&url, "redirect_uri"), parameter(&url, "state"));
    assert!(redirect.starts_with("http://127.0.0.1:") && redirect.ends_with("/callback"), "{redirect}");
    let query = format!("code=the-code&state={state}&iss={origin}");
    let (token, shown) = tokio::join!(pending.wait(TIMEOUT), visit(&redirect, &query));
    assert_eq!(shown, "HTTP/1.1 200 OK");
    let token = token.unwrap();
    assert_eq!((token.issuer(), token.scopes()), (origin.as_str(), ["issues:read".to_owned()].as_slice()));
    assert!(!format!("{token:?}").contains(SECRET));
    let seen = servers.lock().unwrap().seen.clone();
    let body = seen.iter().find(|(path, _)| path == "/token").map(|(_, body)| body.clone()).unwrap();
    let form = format!("http://x/?{body}");
    assert_eq!(parameter(&form, "resource"), format!("{origin}/mcp"));
    assert_eq!(parameter(&form, "redirect_uri"), redirect);
    // RFC 7636, section 4.6, computed apart from the gate.
    let digest =
        aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, parameter(&form, "code_verifier").as_bytes());
    assert_eq!(base64_url(digest.as_ref()), parameter(&url, "code_challenge"));
}

/// Base64 without padding (RFC 4648, section 5).
fn base64_url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0u32, |word, byte| (word << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            text.push(char::from(ALPHABET[((word >> (18 - 6 * place)) & 63) as usize]));
        }
    }
    text
}

#[tokio::test]
async fn requests_that_are_not_the_response_change_nothing() {
    let servers = serve().await;
    let pending = begin(&servers).await;
    let (redirect, state) = (parameter(pending.url(), "redirect_uri"), parameter(pending.url(), "state"));
    let origin = servers.lock().unwrap().origin.clone();
    let host = redirect.trim_start_matches("http://").trim_end_matches("/callback").to_owned();
    let good = format!("code=the-code&state={state}&iss={origin}");
    let attempts = async {
        for query in ["", "code=stolen", "code=stolen&state=guessed", &format!("code=a&code=b&state={state}")]
        {
            assert_eq!(visit(&redirect, query).await, "HTTP/1.1 400 Bad Request", "{query}");
        }
        let rebound = format!("GET /callback?{good} HTTP/1.1\r\nHost: evil.example\r\n\r\n");
        assert_eq!(request(&redirect, &rebound).await, "HTTP/1.1 421 Misdirected Request");
        let other_port = format!("GET /callback?{good} HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n");
        assert_eq!(request(&redirect, &other_port).await, "HTTP/1.1 421 Misdirected Request");
        let absolute = format!("GET http://evil.example/callback?{good} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(request(&redirect, &absolute).await, "HTTP/1.1 421 Misdirected Request");
        let form = format!("POST /callback?{good} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(request(&redirect, &form).await, "HTTP/1.1 405 Method Not Allowed");
        let other_path = format!("GET /?{good} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(request(&redirect, &other_path).await, "HTTP/1.1 404 Not Found");
        assert!(servers.lock().unwrap().seen.iter().all(|(path, _)| path != "/token"));
        visit(&redirect, &good).await
    };
    let (token, shown) = tokio::join!(pending.wait(TIMEOUT), attempts);
    assert_eq!(shown, "HTTP/1.1 200 OK");
    assert!(token.is_ok());
    // A replay of the response: nothing listens any more, and the code went out once.
    assert_eq!(visit(&redirect, &good).await, "refused");
    assert_eq!(servers.lock().unwrap().seen.iter().filter(|(path, _)| path == "/token").count(), 1);
}

#[tokio::test]
async fn a_response_of_another_authorization_server_is_refused() {
    for iss in ["", "&iss=https://evil.example", "&iss="] {
        let servers = serve().await;
        let pending = begin(&servers).await;
        let (redirect, state) = (parameter(pending.url(), "redirect_uri"), parameter(pending.url(), "state"));
        let query = format!("code=the-code&state={state}{iss}");
        let (token, _) = tokio::join!(pending.wait(TIMEOUT), visit(&redirect, &query));
        assert!(matches!(token, Err(LoginError::MixUp { .. })), "{iss}: {token:?}");
        assert!(servers.lock().unwrap().seen.iter().all(|(path, _)| path != "/token"));
    }
}

#[tokio::test]
async fn a_token_endpoint_that_redirects_is_not_followed() {
    let (servers, thief) = (serve().await, serve().await);
    servers.lock().unwrap().token_redirect = Some(format!("{}/token", thief.lock().unwrap().origin));
    let error = log_in(&servers).await.unwrap_err();
    assert!(error.to_string().contains("redirects"), "{error}");
    assert!(thief.lock().unwrap().seen.is_empty());
}

#[tokio::test]
async fn a_refusal_and_a_useless_answer_are_errors_without_secrets() {
    for (status, answer) in [
        (200, json!({"access_token": SECRET, "token_type": "mac"})),
        (200, json!({"access_token": format!("{SECRET}\r\nX-Evil: 1"), "token_type": "Bearer"})),
        (200, json!({"token": SECRET})),
        (400, json!({"error": "invalid_grant", "error_description": SECRET})),
        (500, json!(SECRET)),
    ] {
        let servers = serve().await;
        servers.lock().unwrap().token = answer.clone();
        servers.lock().unwrap().token_status = status;
        let error = log_in(&servers).await.unwrap_err();
        assert!(matches!(error, LoginError::Token { .. }), "{answer}: {error}");
        assert!(!format!("{error} {error:?}").contains(SECRET), "{error:?}");
    }
    let servers = serve().await;
    let pending = begin(&servers).await;
    let (redirect, state) = (parameter(pending.url(), "redirect_uri"), parameter(pending.url(), "state"));
    let origin = servers.lock().unwrap().origin.clone();
    let query = format!("error=access_denied&state={state}&iss={origin}");
    let (token, _) = tokio::join!(pending.wait(TIMEOUT), visit(&redirect, &query));
    assert_eq!(token.unwrap_err(), LoginError::Refused { reason: "access_denied".to_owned() });
}

#[tokio::test]
async fn a_login_that_nothing_answers_ends() {
    let servers = serve().await;
    let pending = begin(&servers).await;
    let redirect = parameter(pending.url(), "redirect_uri");
    let error = pending.wait(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, LoginError::Timeout { .. }));
    assert_eq!(visit(&redirect, "").await, "refused");
}

#[tokio::test]
async fn a_registration_for_another_address_is_refused() {
    let servers = serve().await;
    servers.lock().unwrap().registration =
        json!({"client_id": "x", "redirect_uris": ["https://evil.example/callback"]});
    let plan = toolgate_oauth::plan_login(crate::fixture::options(&servers)).await.unwrap();
    assert!(matches!(plan.begin().await, Err(LoginError::Registration { .. })));
}
