//! Tokens for a server, fetched with the gate's own credentials.
//!
//! A token is kept until shortly before it runs out, and thrown away when the server refuses it. It is sent to nobody but the server it was asked
//! for, and neither it nor the secret is ever in an error.

use std::time::{Duration, Instant};

use reqwest::{Client, Response};
use serde::Deserialize;
use tokio::sync::Mutex;
use toolgate_types::time::{BEFORE_1970, is_before_1970};

use super::DoorError;
use super::answers::body;
use crate::settings::ClientCredentials;

/// How long fetching one may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// The longest answer of a token server.
const LONGEST: usize = 64 << 10;

/// A token is renewed this long before it runs out.
const MARGIN: Duration = Duration::from_secs(30);

/// How long a token is believed to be good that does not say.
const UNSAID: Duration = Duration::from_secs(300);

/// Where tokens come from.
pub(super) struct Tokens {
    client: Client,
    credentials: ClientCredentials,
    resource: String,
    current: Mutex<Option<Token>>,
}

#[derive(Clone)]
struct Token {
    value: String,
    renew_at: Instant,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    token_type: String,
    expires_in: Option<u64>,
}

impl Tokens {
    pub(super) fn new(client: Client, credentials: ClientCredentials, server: &str) -> Self {
        let resource = credentials.resource.clone().unwrap_or_else(|| server.to_owned());
        Self { client, credentials, resource, current: Mutex::default() }
    }

    /// A token that should be good. Only one is fetched at a time.
    pub(super) async fn get(&self) -> Result<String, DoorError> {
        let mut current = self.current.lock().await;
        if let Some(token) = current.as_ref().filter(|token| Instant::now() < token.renew_at) {
            return Ok(token.value.clone());
        }
        let token = tokio::time::timeout(PATIENCE, self.fetch())
            .await
            .map_err(|_| refused("it did not answer in time"))??;
        let value = token.value.clone();
        *current = Some(token);
        Ok(value)
    }

    /// The server refused this token: it is not used again.
    pub(super) async fn throw_away(&self, value: &str) {
        let mut current = self.current.lock().await;
        current.take_if(|token| token.value == value);
    }

    async fn fetch(&self) -> Result<Token, DoorError> {
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
            return Err(refused(BEFORE_1970));
        }
        let response = request.send().await.map_err(|_| refused("it could not be reached"))?;
        if !response.status().is_success() {
            return Err(refused(&format!("it answered with status {}", response.status().as_u16())));
        }
        granted(response).await
    }
}

async fn granted(response: Response) -> Result<Token, DoorError> {
    let bytes = body(response, LONGEST).await.map_err(|_| refused("its answer could not be read"))?;
    let granted: Granted =
        serde_json::from_slice(&bytes).map_err(|_| refused("its answer is not a token"))?;
    if !granted.token_type.eq_ignore_ascii_case("bearer") {
        return Err(refused("its token is not a bearer token"));
    }
    let good_for = granted.expires_in.map_or(UNSAID, |seconds| Duration::from_secs(seconds.min(24 * 3600)));
    // A token that hardly lives is still good for the request that it was fetched for.
    let renew_at = Instant::now() + good_for.saturating_sub(MARGIN).max(Duration::from_secs(1));
    Ok(Token { value: granted.access_token, renew_at })
}

fn refused(reason: &str) -> DoorError {
    DoorError::Token(reason.to_owned())
}
