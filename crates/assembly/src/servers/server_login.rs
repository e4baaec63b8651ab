//! The logins at a declared remote server.

use jiff::Timestamp;
use toolgate_manifest::{ServerConfig, ServerTransport};
use toolgate_oauth::{LoginOptions, StoredToken, TokenBinding, TokenStore, TokenStoreError};

use crate::ambient::real_path;
use crate::error::BuildError;
use crate::gate_builder::TOKENS;
use crate::settings::Settings;
use crate::state_dir;

/// What a login at a server needs, and where its token is kept.
#[derive(Debug)]
pub struct ServerLogin {
    /// The tokens of this user.
    pub store: TokenStore,
    /// What the operator's token belongs to.
    pub binding: TokenBinding,
    /// What is asked for.
    pub options: LoginOptions,
    /// Whether each caller has a login of its own.
    pub per_caller: bool,
}

/// The state of a login, without its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginState {
    /// The authorization server.
    pub issuer: String,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// When the token expires, if its server said so.
    pub expires_at: Option<Timestamp>,
    /// Whether it is refreshed without a person.
    pub is_refreshable: bool,
    /// Whether only another login helps.
    pub needs_login: bool,
}

impl From<&StoredToken> for LoginState {
    fn from(token: &StoredToken) -> Self {
        let seconds = token.expires_at().and_then(|at| i64::try_from(at).ok());
        Self {
            issuer: token.issuer().to_owned(),
            scopes: token.scopes().to_vec(),
            expires_at: seconds.and_then(|at| Timestamp::from_second(at).ok()),
            is_refreshable: token.is_refreshable(),
            needs_login: token.needs_login(),
        }
    }
}

impl ServerLogin {
    /// The login at a server; `None` if it is a process, or is sent a header or the gate's own credentials.
    ///
    /// # Errors
    /// A variable is missing.
    pub fn of(settings: &Settings, server: &ServerConfig) -> Result<Option<Self>, BuildError> {
        let ServerTransport::Remote(remote) = &server.transport else { return Ok(None) };
        let Some(login) = &remote.login else { return Ok(None) };
        let variable = |name: &str| settings.environment.var(name);
        let expanded = |text: &toolgate_manifest::VariableText| {
            text.expand(variable).map_err(|missing| {
                BuildError::usage(missing.to_string()).help("set it for the gate, and run the command again")
            })
        };
        let url = expanded(&remote.url.value)?;
        let optional = |text: Option<&toolgate_manifest::Located<toolgate_manifest::VariableText>>| {
            text.map(|text| expanded(&text.value)).transpose()
        };
        Ok(Some(Self {
            store: token_store(settings),
            binding: token_binding(settings, &server.name.value, &url),
            options: LoginOptions {
                client_id: optional(login.client_id.as_ref())?,
                client_secret: optional(login.client_secret.as_ref())?,
                scopes: login.scopes.clone(),
                more_scopes: Vec::new(),
                issuer: login.issuer.as_ref().map(|issuer| issuer.value.clone()),
                server: url,
            },
            per_caller: login.per_caller,
        }))
    }

    /// The state of a login that was made.
    ///
    /// # Errors
    /// There is one that cannot be read.
    pub fn state(&self) -> Result<Option<LoginState>, TokenStoreError> {
        Ok(self.store.load(&self.binding)?.as_ref().map(LoginState::from))
    }
}

/// What a token of this server belongs to: another configuration, or another URL of the server, gets none of it.
pub(super) fn token_binding(settings: &Settings, server: &str, url: &str) -> TokenBinding {
    let configuration = settings.loaded.file().map(|file| real_path(file)).unwrap_or_default();
    TokenBinding {
        configuration: configuration.to_string_lossy().into_owned(),
        server: server.to_owned(),
        url: url.to_owned(),
        caller: None,
    }
}

pub(super) fn token_store(settings: &Settings) -> TokenStore {
    TokenStore::new(settings.state_dir.join(TOKENS), state_dir::key(settings).ok())
}
