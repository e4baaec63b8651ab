//! One login, from what is asked for to the token.

use std::fmt;
use std::time::Duration;

use oauth2::{CsrfToken, PkceCodeChallenge, PkceCodeVerifier, Scope};
use reqwest::Url;

use crate::authorization_response::AuthorizationResponse;
use crate::callback::CallbackListener;
use crate::challenge::usable_scopes;
use crate::discovery::{Discovered, discover};
use crate::endpoint::authority;
use crate::error::LoginError;
use crate::metadata::AuthorizationServer;
use crate::metadata_client::{MetadataClient, known_endpoint};
use crate::registration::register;
use crate::stored_token::StoredToken;
use crate::token_endpoint::{RegisteredClient, exchange_code, oauth_client};

/// Timeout of discovery as a whole.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(40);

/// The scope with which OpenID providers give out refresh tokens.
const OFFLINE_ACCESS: &str = "offline_access";

/// Bytes of randomness in a state.
const STATE_BYTES: u32 = 32;

/// What an operator says about the logins at a server.
#[derive(Clone, Default)]
pub struct LoginOptions {
    /// The URL of the MCP server.
    pub server: String,
    /// The client id, if the gate is registered; also the URL of a client id metadata document.
    pub client_id: Option<String>,
    /// The client secret.
    pub client_secret: Option<String>,
    /// The scopes to ask for; empty means those that the server names.
    pub scopes: Vec<String>,
    /// Scopes to ask for besides.
    pub more_scopes: Vec<String>,
    /// The authorization server, if it must be this one.
    pub issuer: Option<String>,
}

impl fmt::Debug for LoginOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LoginOptions").field("server", &self.server).finish_non_exhaustive()
    }
}

/// What a login would ask for, and whom.
pub struct LoginPlan {
    http: MetadataClient,
    options: LoginOptions,
    host: String,
    resource: String,
    server: AuthorizationServer,
    scopes: Vec<String>,
}

/// Finds out where to log in. Nothing is asked for yet.
///
/// # Errors
/// Nothing says where, or what says it is not acceptable.
pub async fn plan_login(options: LoginOptions) -> Result<LoginPlan, LoginError> {
    let url = Url::parse(&options.server)
        .map_err(|_| LoginError::address("server", &options.server, "it is not a URL"))?;
    let http = MetadataClient::new(&url).await?;
    known_endpoint("server", &options.server, &http)?;
    let found =
        tokio::time::timeout(DISCOVERY_TIMEOUT, discover(&http, &url, options.issuer.as_deref())).await;
    let Discovered { resource, server, scopes } = found.map_err(|_| LoginError::Fetch {
        what: "metadata",
        host: authority(&url),
        reason: "it took too long".to_owned(),
    })??;
    let scopes = if options.scopes.is_empty() { scopes } else { options.scopes.clone() };
    // Only where it is offered: other servers refuse a scope that they do not know.
    let offline = server.scopes.iter().filter(|scope| *scope == OFFLINE_ACCESS && !scopes.is_empty());
    let scopes =
        usable_scopes(scopes.iter().chain(&options.more_scopes).chain(offline).cloned().collect::<Vec<_>>());
    Ok(LoginPlan { http, host: authority(&url), options, resource, server, scopes })
}

impl fmt::Debug for LoginPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LoginPlan").field("issuer", &self.server.issuer).finish_non_exhaustive()
    }
}

impl LoginPlan {
    /// The host of the MCP server.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The authorization server.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.server.issuer
    }

    /// The host that the browser is sent to.
    #[must_use]
    pub fn login_host(&self) -> String {
        authority(&self.server.authorization_endpoint)
    }

    /// What the token is for.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The scopes that are asked for; empty means the authorization server's own choice.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// Listens for the response, and registers the gate where it is not.
    ///
    /// # Errors
    /// It cannot be registered, or not listen.
    pub async fn begin(self) -> Result<PendingLogin, LoginError> {
        let Self { http, options, resource, server, scopes, .. } = self;
        let listener = CallbackListener::bind().await?;
        let redirect = listener.redirect_uri();
        let client = match options.client_id {
            Some(id) => known_client(id, options.client_secret, &server),
            None => register(&http, &server, &redirect, &scopes).await?,
        };
        let library =
            oauth_client(&client, &server.authorization_endpoint, &server.token_endpoint, &redirect)?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let mut request = library
            .authorize_url(|| CsrfToken::new_random_len(STATE_BYTES))
            .set_pkce_challenge(challenge)
            .add_scopes(scopes.iter().cloned().map(Scope::new))
            .add_extra_param("resource", &resource);
        if scopes.iter().any(|scope| scope == OFFLINE_ACCESS) {
            // OpenID Connect Core, section 11: without it, the scope is ignored.
            request = request.add_extra_param("prompt", "consent");
        }
        let (url, state) = request.url();
        // The one character that the encoding of forms leaves, and a shell expands.
        let url = url.as_str().replace('*', "%2A");
        let exchange = CodeExchange { http, server, client, resource, scopes, redirect, verifier };
        Ok(PendingLogin { exchange, listener, url, state })
    }
}

/// The client that an operator registered.
fn known_client(id: String, secret: Option<String>, server: &AuthorizationServer) -> RegisteredClient {
    let offers = |method: &str| {
        server.auth_methods.as_ref().is_some_and(|methods| methods.iter().any(|known| known == method))
    };
    let secret_in_form = offers("client_secret_post") && !offers("client_secret_basic");
    RegisteredClient { id, secret, secret_in_form }
}

/// A login that waits for its response.
pub struct PendingLogin {
    exchange: CodeExchange,
    listener: CallbackListener,
    url: String,
    state: CsrfToken,
}

impl fmt::Debug for PendingLogin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let issuer = &self.exchange.server.issuer;
        formatter.debug_struct("PendingLogin").field("issuer", issuer).finish_non_exhaustive()
    }
}

impl PendingLogin {
    /// The address to open in a browser: `https`, or `http` on loopback.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Waits for the browser to bring the response, and gets the token.
    ///
    /// # Errors
    /// It did not come in time, was a refusal or of another authorization server, or there is no token for it.
    pub async fn wait(self, timeout: Duration) -> Result<StoredToken, LoginError> {
        self.wait_or_paste(timeout, std::future::pending()).await
    }

    /// The same, also with the address of the response as it was copied from a browser on another machine.
    ///
    /// # Errors
    /// The same, or what was pasted is the address of something else, or of another login.
    pub async fn wait_or_paste(
        self,
        timeout: Duration,
        pasted: impl Future<Output = String>,
    ) -> Result<StoredToken, LoginError> {
        let Self { exchange, listener, state, .. } = self;
        let redirect = Url::parse(&exchange.redirect);
        let redirect = redirect.map_err(|_| LoginError::Response { reason: "it is not a URL" })?;
        let response = async {
            tokio::select! {
                response = listener.wait(state.secret()) => Ok(response),
                text = pasted => AuthorizationResponse::read_pasted(&text, &redirect, state.secret()),
            }
        };
        let waited = tokio::time::timeout(timeout, response).await;
        let response = waited.map_err(|_| LoginError::Timeout { seconds: timeout.as_secs() })??;
        exchange.finish(response).await
    }
}

/// What the code is exchanged with.
struct CodeExchange {
    http: MetadataClient,
    server: AuthorizationServer,
    client: RegisteredClient,
    resource: String,
    scopes: Vec<String>,
    redirect: String,
    verifier: PkceCodeVerifier,
}

impl CodeExchange {
    async fn finish(self, response: AuthorizationResponse) -> Result<StoredToken, LoginError> {
        let Self { http, server, client, resource, scopes, redirect, verifier } = self;
        let code = response.into_code(&server.issuer, server.names_itself)?;
        let library =
            oauth_client(&client, &server.authorization_endpoint, &server.token_endpoint, &redirect)?;
        let granted = exchange_code(&http, &library, code, verifier, &resource).await?;
        Ok(StoredToken::new(&server, client, resource, scopes, granted))
    }
}
