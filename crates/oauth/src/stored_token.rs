//! A token with what is needed to use, refresh and withdraw it.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::metadata::AuthorizationServer;
use crate::token_endpoint::{GrantedToken, RegisteredClient};

/// A token is refreshed this many seconds before it expires.
const RENEWAL_MARGIN_SECONDS: u64 = 30;

/// The token of one login.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredToken {
    pub(crate) issuer: String,
    pub(crate) resource: String,
    pub(crate) token_endpoint: String,
    pub(crate) revocation_endpoint: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<String>,
    pub(crate) secret_in_form: bool,
    pub(crate) access_token: String,
    pub(crate) refresh_token: Option<String>,
    pub(crate) expires_at: Option<u64>,
    pub(crate) scopes: Vec<String>,
    /// Whether the server or its authorization server takes it no more.
    pub(crate) withdrawn: bool,
}

impl fmt::Debug for StoredToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StoredToken").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl StoredToken {
    pub(crate) fn new(
        server: &AuthorizationServer,
        client: RegisteredClient,
        resource: String,
        asked: Vec<String>,
        granted: GrantedToken,
    ) -> Self {
        Self {
            issuer: server.issuer.clone(),
            resource,
            token_endpoint: server.token_endpoint.to_string(),
            revocation_endpoint: server.revocation_endpoint.as_ref().map(ToString::to_string),
            client_id: client.id,
            client_secret: client.secret,
            secret_in_form: client.secret_in_form,
            access_token: granted.access_token,
            refresh_token: granted.refresh_token,
            expires_at: granted.expires_at,
            scopes: granted.scopes.unwrap_or(asked),
            withdrawn: false,
        }
    }

    /// The same login after a refresh. A server that rotates refresh tokens sends a new one, and takes the old one no more.
    pub(crate) fn refreshed(&self, granted: GrantedToken) -> Self {
        Self {
            access_token: granted.access_token,
            refresh_token: granted.refresh_token.or_else(|| self.refresh_token.clone()),
            expires_at: granted.expires_at,
            scopes: granted.scopes.unwrap_or_else(|| self.scopes.clone()),
            withdrawn: false,
            ..self.clone()
        }
    }

    pub(crate) fn client(&self) -> RegisteredClient {
        let (id, secret) = (self.client_id.clone(), self.client_secret.clone());
        RegisteredClient { id, secret, secret_in_form: self.secret_in_form }
    }

    /// The authorization server.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The scopes that were granted.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// When it expires, in seconds since 1970, if its server said so.
    #[must_use]
    pub fn expires_at(&self) -> Option<u64> {
        self.expires_at
    }

    /// Whether it can be refreshed without a person.
    #[must_use]
    pub fn is_refreshable(&self) -> bool {
        self.refresh_token.is_some()
    }

    /// Whether the server takes it no more.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn
    }

    /// Whether it has expired, or is about to.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.expires_at.is_some_and(|at| now().saturating_add(RENEWAL_MARGIN_SECONDS) >= at)
    }

    /// Whether only another login helps.
    #[must_use]
    pub fn needs_login(&self) -> bool {
        self.withdrawn || (self.is_expired() && self.refresh_token.is_none())
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_secs()).unwrap_or_default()
}
