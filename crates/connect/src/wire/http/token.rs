//! Access tokens for a server, fetched with the gate's own credentials.
//!
//! A token is cached until shortly before it expires, and dropped when the server rejects it. It is sent only to the server that it was requested
//! for, and neither it nor the client secret ever appears in an error.

use std::time::{Duration, Instant};

use reqwest::{Client, Response};
use serde::Deserialize;
use tokio::sync::Mutex;
use toolgate_types::time::{BEFORE_1970, is_before_1970};

use super::HttpTransportError;
use super::responses::read_body;
use crate::settings::OAuthSettings;

/// Timeout for fetching a token.
const FETCH_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum size of the token endpoint's response.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// A token is renewed this long before it expires.
const RENEWAL_MARGIN: Duration = Duration::from_secs(30);

/// The assumed lifetime of a token without `expires_in`.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);

/// Fetches and caches tokens.
pub(super) struct OAuthTokenCache {
    client: Client,
    credentials: OAuthSettings,
    resource: String,
    current: Mutex<Option<AccessToken>>,
}

#[derive(Clone)]
struct AccessToken {
    value: String,
    renew_at: Instant,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: String,
    expires_in: Option<u64>,
}

impl OAuthTokenCache {
    pub(super) fn new(client: Client, credentials: OAuthSettings, server: &str) -> Self {
        let resource = credentials.resource.clone().unwrap_or_else(|| server.to_owned());
        Self { client, credentials, resource, current: Mutex::default() }
    }

    /// A valid token. Only one request fetches at a time (single flight).
    pub(super) async fn get(&self) -> Result<String, HttpTransportError> {
        let mut current = self.current.lock().await;
        if let Some(token) = current.as_ref().filter(|token| Instant::now() < token.renew_at) {
            return Ok(token.value.clone());
        }
        let token = tokio::time::timeout(FETCH_TIMEOUT, self.fetch())
            .await
            .map_err(|_| token_error("it did not answer in time"))??;
        let value = token.value.clone();
        *current = Some(token);
        Ok(value)
    }

    /// Drops a token that the server rejected.
    pub(super) async fn invalidate(&self, value: &str) {
        let mut current = self.current.lock().await;
        current.take_if(|token| token.value == value);
    }

    async fn fetch(&self) -> Result<AccessToken, HttpTransportError> {
        let mut form =
            vec![("grant_type", "client_credentials".to_owned()), ("resource", self.resource.clone())];
        if !self.credentials.scopes.is_empty() {
            form.push(("scope", self.credentials.scopes.join(" ")));
        }
        let request = self
            .client
            .post(&self.credentials.token_url)
            .basic_auth(&self.credentials.client_id, Some(self.credentials.client_secret.expose()))
            .header("accept", "application/json")
            .form(&form);
        if is_before_1970() {
            return Err(token_error(BEFORE_1970));
        }
        let response = request.send().await.map_err(|_| token_error("it could not be reached"))?;
        if !response.status().is_success() {
            return Err(token_error(&format!("it answered with status {}", response.status().as_u16())));
        }
        parse_token_response(response).await
    }
}

async fn parse_token_response(response: Response) -> Result<AccessToken, HttpTransportError> {
    let bytes = read_body(response, MAX_RESPONSE_BYTES)
        .await
        .map_err(|_| token_error("its answer could not be read"))?;
    let granted: TokenResponse =
        serde_json::from_slice(&bytes).map_err(|_| token_error("its answer is not a token"))?;
    if !granted.token_type.eq_ignore_ascii_case("bearer") {
        return Err(token_error("its token is not a bearer token"));
    }
    let good_for =
        granted.expires_in.map_or(DEFAULT_LIFETIME, |seconds| Duration::from_secs(seconds.min(24 * 3600)));
    // A short-lived token is still used for the request that it was fetched for.
    let renew_at = Instant::now() + good_for.saturating_sub(RENEWAL_MARGIN).max(Duration::from_secs(1));
    Ok(AccessToken { value: granted.access_token, renew_at })
}

fn token_error(reason: &str) -> HttpTransportError {
    HttpTransportError::Token(reason.to_owned())
}
