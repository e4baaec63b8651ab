//! Tokens that expire, are rotated, and are withdrawn.

use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use toolgate_oauth::{LoginNeed, TokenFailure, TokenSource, revoke};

use crate::fixture::{SECRET, Shared, binding, log_in, serve, store};

/// A user with a login whose token has expired already.
async fn expired() -> (Shared, TempDir, toolgate_oauth::TokenBinding) {
    let servers = serve().await;
    servers.lock().unwrap().token["expires_in"] = json!(1);
    let token = log_in(&servers).await.unwrap();
    servers.lock().unwrap().token["expires_in"] = json!(3600);
    let (folder, binding) =
        (TempDir::new().unwrap(), binding(&format!("{}/mcp", servers.lock().unwrap().origin)));
    store(&folder, 7).save(&binding, &token).unwrap();
    (servers, folder, binding)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_requests_of_many_processes_refresh_once() {
    let (servers, folder, binding) = expired().await;
    // A store and a source of its own for each, as every process has them: only the lock file is shared.
    let requests: Vec<_> = (0..8)
        .map(|_| {
            let source = Arc::new(TokenSource::new(store(&folder, 7), binding.clone()));
            let again = Arc::clone(&source);
            tokio::spawn(async move { (source.token().await, again.token().await) })
        })
        .collect();
    for request in requests {
        let wanted = Ok(Some(format!("{SECRET}-1")));
        assert_eq!(request.await.unwrap(), (wanted.clone(), wanted));
    }
    assert_eq!(servers.lock().unwrap().refreshes, 1);
    // The rotated refresh token is the one that is kept.
    let kept = store(&folder, 7).load(&binding).unwrap().unwrap();
    assert!(kept.is_refreshable() && !kept.needs_login());
}

#[tokio::test]
async fn a_rejected_token_is_refreshed_and_a_withdrawn_login_is_not_tried_again() {
    let (servers, folder, binding) = expired().await;
    let source = TokenSource::new(store(&folder, 7), binding.clone());
    let first = source.token().await.unwrap().unwrap();
    let second = source.replace(&first).await.unwrap();
    assert_eq!((first, second.clone()), (format!("{SECRET}-1"), format!("{SECRET}-2")));
    // The authorization server has withdrawn the login.
    servers.lock().unwrap().refresh_token = "none".to_owned();
    let before = servers.lock().unwrap().seen.len();
    let withdrawn = TokenFailure::Login(LoginNeed::Withdrawn);
    assert_eq!(source.replace(&second).await, Err(withdrawn.clone()));
    for _ in 0..20 {
        assert_eq!(source.token().await, Err(withdrawn.clone()));
        assert_eq!(source.replace(&second).await, Err(withdrawn.clone()));
    }
    // Another process knows it from the disk.
    let other = TokenSource::new(store(&folder, 7), binding.clone());
    assert_eq!(other.token().await, Err(withdrawn));
    assert_eq!(servers.lock().unwrap().seen.len(), before + 1);
    // A new login counts without a restart.
    store(&folder, 7).save(&binding, &log_in(&servers).await.unwrap()).unwrap();
    assert_eq!(source.token().await, Ok(Some(SECRET.to_owned())));
    assert_eq!(source.need(), None);
}

#[tokio::test]
async fn a_token_endpoint_that_fails_is_not_asked_by_every_call() {
    let (servers, folder, binding) = expired().await;
    servers.lock().unwrap().token_status = 503;
    let source = TokenSource::new(store(&folder, 7), binding);
    for _ in 0..10 {
        assert!(matches!(source.token().await, Err(TokenFailure::Later(_))));
    }
    let asked = servers
        .lock()
        .unwrap()
        .seen
        .iter()
        .filter(|(_, body)| body.contains("grant_type=refresh_token"))
        .count();
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn a_token_without_refresh_is_over_when_it_has_expired() {
    let servers = serve().await;
    servers.lock().unwrap().token = json!({"access_token": SECRET, "token_type": "Bearer", "expires_in": 1});
    let token = log_in(&servers).await.unwrap();
    assert!(token.needs_login() && !token.is_refreshable());
    let (folder, binding) = (TempDir::new().unwrap(), binding("http://127.0.0.1/mcp"));
    store(&folder, 7).save(&binding, &token).unwrap();
    let source = TokenSource::new(store(&folder, 7), binding);
    assert_eq!(source.token().await, Err(TokenFailure::Login(LoginNeed::Withdrawn)));
}

#[tokio::test]
async fn a_logout_withdraws_both_tokens_and_ends_the_use() {
    let servers = serve().await;
    let token = log_in(&servers).await.unwrap();
    let url = format!("{}/mcp", servers.lock().unwrap().origin);
    let (folder, binding) = (TempDir::new().unwrap(), binding(&url));
    let users = store(&folder, 7);
    users.save(&binding, &token).unwrap();
    let source = TokenSource::new(Arc::clone(&users), binding.clone());
    assert_eq!(source.token().await, Ok(Some(SECRET.to_owned())));
    assert!(users.remove(&binding).unwrap() && !users.remove(&binding).unwrap());
    assert_eq!(source.token().await, Ok(None));
    assert_eq!(revoke(&token, &url).await, Ok(true));
    let seen = servers.lock().unwrap().seen.clone();
    let bodies: Vec<&str> =
        seen.iter().filter(|(path, _)| path == "/revoke").map(|(_, body)| body.as_str()).collect();
    assert_eq!(bodies.len(), 2);
    assert!(
        bodies[0].contains("token=refresh-0") && bodies[1].contains(&format!("token={SECRET}")),
        "{bodies:?}"
    );
}
