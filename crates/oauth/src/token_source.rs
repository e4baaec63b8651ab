//! The token of one login, for requests to its server.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reqwest::Url;
use thiserror::Error;

use crate::challenge::{BearerChallenge, usable_scopes};
use crate::metadata_client::MetadataClient;
use crate::stored_token::StoredToken;
use crate::token_endpoint::{TokenRefusal, refresh};
use crate::token_store::{TokenBinding, TokenStore, TokenStoreError};

/// After a failed refresh none is tried for this long, so that calls do not become a storm of requests.
const REFRESH_RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Why only a person can help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginNeed {
    /// There is no login.
    NoLogin,
    /// The login has expired, or was withdrawn.
    Withdrawn,
    /// There is a login, for another URL of the server, another configuration or another user.
    NotOurs,
    /// The login has too few scopes: those that are needed.
    Scopes(Vec<String>),
}

/// Why there is no token for a request.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenFailure {
    /// Only a login helps.
    #[error("it needs a login")]
    Login(LoginNeed),
    /// The authorization server cannot be asked, or the disk cannot be read; later it may.
    #[error("its login cannot be refreshed: {0}")]
    Later(String),
}

/// Tokens for one server and one caller.
pub struct TokenSource {
    store: Arc<TokenStore>,
    binding: TokenBinding,
    state: Mutex<SourceState>,
    /// One refresh at a time in this process; other processes are kept out by the store's lock.
    refreshing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct SourceState {
    stamp: Option<[i64; 4]>,
    token: Option<StoredToken>,
    /// Why the stored login, with this stamp, cannot be used.
    need: Option<LoginNeed>,
    /// Whether the server has asked for a login while there is none. Not every request needs one, so requests without a token go on.
    is_asked_for: bool,
    failed: Option<(Instant, String)>,
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenSource").field("binding", &self.binding).finish_non_exhaustive()
    }
}

impl TokenSource {
    /// The source of the tokens that belong to this.
    #[must_use]
    pub fn new(store: Arc<TokenStore>, binding: TokenBinding) -> Self {
        Self { store, binding, state: Mutex::default(), refreshing: tokio::sync::Mutex::default() }
    }

    /// What its tokens belong to.
    #[must_use]
    pub fn binding(&self) -> &TokenBinding {
        &self.binding
    }

    /// Changes with each login, refresh and logout, of any process.
    #[must_use]
    pub fn stamp(&self) -> Option<[i64; 4]> {
        self.store.stamp(&self.binding)
    }

    /// Why only a login helps, if that is so.
    #[must_use]
    pub fn need(&self) -> Option<LoginNeed> {
        let state = self.state();
        state.need.clone().or_else(|| state.is_asked_for.then_some(LoginNeed::NoLogin))
    }

    /// The token for the next request; `None` without a login, which some servers accept.
    ///
    /// # Errors
    /// It was withdrawn, or has expired and cannot be refreshed.
    pub async fn token(&self) -> Result<Option<String>, TokenFailure> {
        let Some(token) = self.current()? else { return Ok(None) };
        if !token.is_expired() {
            return Ok(Some(token.access_token));
        }
        self.refresh(&token.access_token).await.map(Some)
    }

    /// Another token for one that the server has rejected (status 401), or that was sent by mistake.
    ///
    /// # Errors
    /// Only a login helps, or the authorization server cannot be asked now.
    pub async fn replace(&self, rejected: &str) -> Result<String, TokenFailure> {
        match self.current()? {
            None => Err(self.asked_for()),
            Some(token) if token.access_token != rejected => Ok(token.access_token),
            Some(_) => self.refresh(rejected).await,
        }
    }

    /// The server wants a login and there is none, or takes no token of it: nothing is sent until there is another.
    pub fn reject(&self, token: Option<&str>) -> TokenFailure {
        let Some(token) = token else { return self.asked_for() };
        if let Ok(Some(current)) = self.current()
            && current.access_token == token
        {
            self.withdraw(current);
        }
        self.needs(LoginNeed::Withdrawn)
    }

    /// The server takes the token, and wants more scopes for this request.
    #[must_use]
    pub fn scopes_needed(&self, challenge: &BearerChallenge) -> TokenFailure {
        let held = self.state().token.as_ref().map(|token| token.scopes.clone()).unwrap_or_default();
        let scopes = usable_scopes(held.into_iter().chain(challenge.scopes.iter().cloned()));
        TokenFailure::Login(LoginNeed::Scopes(scopes))
    }

    /// The stored token, read again when its file has changed.
    fn current(&self) -> Result<Option<StoredToken>, TokenFailure> {
        let stamp = self.stamp();
        let mut state = self.state();
        if stamp.is_none() {
            let is_asked_for = state.is_asked_for && state.stamp.is_none();
            *state = SourceState { is_asked_for, ..SourceState::default() };
            return Ok(None);
        }
        if state.stamp != stamp {
            let loaded = self.store.load(&self.binding);
            *state = SourceState { stamp, ..SourceState::default() };
            match loaded {
                Ok(token) => {
                    state.need =
                        token.as_ref().filter(|token| token.needs_login()).map(|_| LoginNeed::Withdrawn);
                    state.token = token;
                }
                Err(TokenStoreError::NotOurs) => state.need = Some(LoginNeed::NotOurs),
                Err(error) => {
                    state.stamp = None;
                    return Err(TokenFailure::Later(error.to_string()));
                }
            }
        }
        match &state.need {
            Some(need) => Err(TokenFailure::Login(need.clone())),
            None => Ok(state.token.clone()),
        }
    }

    /// Refreshes the token, unless another request or process has replaced this one already (single flight).
    async fn refresh(&self, old: &str) -> Result<String, TokenFailure> {
        let _single = self.refreshing.lock().await;
        let (store, binding) = (Arc::clone(&self.store), self.binding.clone());
        let later = |error: &dyn fmt::Display| TokenFailure::Later(error.to_string());
        let locked = tokio::task::spawn_blocking(move || store.lock(&binding)).await;
        let _lock = locked.map_err(|error| later(&error))?.map_err(|error| later(&error))?;
        let Some(token) = self.current()? else { return Err(self.asked_for()) };
        if token.access_token != old {
            return Ok(token.access_token);
        }
        if let Some((_, reason)) =
            self.state().failed.clone().filter(|(at, _)| at.elapsed() < REFRESH_RETRY_INTERVAL)
        {
            return Err(TokenFailure::Later(reason));
        }
        let Some(refresh_token) = token.refresh_token.clone() else {
            self.withdraw(token);
            return Err(self.needs(LoginNeed::Withdrawn));
        };
        match self.exchange(&token, &refresh_token).await {
            Ok(token) => {
                let access_token = token.access_token.clone();
                self.keep(token).map_err(|error| later(&error))?;
                Ok(access_token)
            }
            Err(TokenRefusal::Invalid(_)) => {
                self.withdraw(token);
                Err(self.needs(LoginNeed::Withdrawn))
            }
            Err(TokenRefusal::Failed(reason)) => {
                self.state().failed = Some((Instant::now(), reason.clone()));
                Err(TokenFailure::Later(reason))
            }
        }
    }

    async fn exchange(&self, token: &StoredToken, refresh_token: &str) -> Result<StoredToken, TokenRefusal> {
        let failed = |error: &dyn fmt::Display| TokenRefusal::Failed(error.to_string());
        let server = Url::parse(&self.binding.url).map_err(|error| failed(&error))?;
        let http = MetadataClient::new(&server).await;
        let http = http.map_err(|error| failed(&error))?;
        refresh(&http, token, refresh_token).await.map(|granted| token.refreshed(granted))
    }

    fn keep(&self, token: StoredToken) -> Result<(), TokenStoreError> {
        let saved = self.store.save(&self.binding, &token);
        // Also where the disk is full: the old refresh token may be used up.
        *self.state() = SourceState { stamp: self.stamp(), token: Some(token), ..SourceState::default() };
        saved
    }

    /// Writes down that the token is taken no more, so that other processes do not try it either.
    fn withdraw(&self, token: StoredToken) {
        let withdrawn = StoredToken { withdrawn: true, ..token };
        // If it cannot be written, this process still knows.
        let _ = self.store.save(&self.binding, &withdrawn);
        *self.state() = SourceState { stamp: self.stamp(), token: Some(withdrawn), ..SourceState::default() };
    }

    fn asked_for(&self) -> TokenFailure {
        self.state().is_asked_for = true;
        TokenFailure::Login(LoginNeed::NoLogin)
    }

    fn needs(&self, need: LoginNeed) -> TokenFailure {
        self.state().need = Some(need.clone());
        TokenFailure::Login(need)
    }

    fn state(&self) -> MutexGuard<'_, SourceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
