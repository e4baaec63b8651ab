//! The token endpoint and the revocation endpoint of an authorization server.

use oauth2::basic::{BasicClient, BasicErrorResponse, BasicErrorResponseType, BasicTokenResponse};
use oauth2::{
    AuthType, AuthUrl, AuthorizationCode, ClientId, ClientSecret, EndpointNotSet, EndpointSet, HttpRequest,
    HttpResponse, PkceCodeVerifier, RedirectUrl, RefreshToken, RequestTokenError, TokenResponse as _,
    TokenUrl,
};
use reqwest::Url;
use reqwest::header::HeaderValue;
use serde::Deserialize;

use crate::challenge::usable_scopes;
use crate::endpoint::endpoint;
use crate::error::{LoginError, quoted};
use crate::metadata_client::{Document, MetadataClient};
use crate::stored_token::{StoredToken, now};

const TOKEN_ENDPOINT: &str = "token endpoint";

/// Maximum length of a token.
const MAX_TOKEN_BYTES: usize = 32 << 10;

type LibraryClient = BasicClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointSet>;

/// The gate as a client of an authorization server.
#[derive(Clone)]
pub(crate) struct RegisteredClient {
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
    /// Whether the secret is sent in the form instead of the header.
    pub(crate) secret_in_form: bool,
}

/// A token as the endpoint gave it out.
pub(crate) struct GrantedToken {
    pub(crate) access_token: String,
    pub(crate) refresh_token: Option<String>,
    pub(crate) expires_at: Option<u64>,
    /// The granted scopes; `None` if they are those that were asked for.
    pub(crate) scopes: Option<Vec<String>>,
}

/// Why there is no token.
#[derive(Debug)]
pub(crate) enum TokenRefusal {
    /// The code or the refresh token is not, or no longer, valid.
    Invalid(String),
    /// It could not be asked, or did not answer as it should.
    Failed(String),
}

impl From<TokenRefusal> for LoginError {
    fn from(refusal: TokenRefusal) -> Self {
        let (TokenRefusal::Invalid(reason) | TokenRefusal::Failed(reason)) = refusal;
        Self::Token { reason }
    }
}

/// The client of the OAuth library.
pub(crate) fn oauth_client(
    client: &RegisteredClient,
    authorization: &Url,
    token: &Url,
    redirect: &str,
) -> Result<LibraryClient, LoginError> {
    let cannot = |_| LoginError::Machine { reason: "an address cannot be used".to_owned() };
    let built = BasicClient::new(ClientId::new(client.id.clone()))
        .set_auth_uri(AuthUrl::new(authorization.to_string()).map_err(cannot)?)
        .set_token_uri(TokenUrl::new(token.to_string()).map_err(cannot)?)
        .set_redirect_uri(RedirectUrl::new(redirect.to_owned()).map_err(cannot)?)
        .set_auth_type(if client.secret_in_form { AuthType::RequestBody } else { AuthType::BasicAuth });
    Ok(match &client.secret {
        Some(secret) => built.set_client_secret(ClientSecret::new(secret.clone())),
        None => built,
    })
}

/// Exchanges the code of a response for a token (RFC 6749, section 4.1.3; RFC 7636; RFC 8707).
pub(crate) async fn exchange_code(
    http: &MetadataClient,
    client: &LibraryClient,
    code: String,
    verifier: PkceCodeVerifier,
    resource: &str,
) -> Result<GrantedToken, TokenRefusal> {
    let send = sender(http);
    let request = client
        .exchange_code(AuthorizationCode::new(code))
        .set_pkce_verifier(verifier)
        .add_extra_param("resource", resource);
    granted(request.request_async(&send).await)
}

/// Exchanges a refresh token for a new token (RFC 6749, section 6). The scopes stay those that were granted.
pub(crate) async fn refresh(
    http: &MetadataClient,
    token: &StoredToken,
    refresh_token: &str,
) -> Result<GrantedToken, TokenRefusal> {
    let at = token_url(http, token).map_err(|error| TokenRefusal::Failed(error.to_string()))?;
    let client = oauth_client(&token.client(), &at, &at, "http://127.0.0.1/callback")
        .map_err(|error| TokenRefusal::Failed(error.to_string()))?;
    let send = sender(http);
    let refresh_token = RefreshToken::new(refresh_token.to_owned());
    let request = client.exchange_refresh_token(&refresh_token).add_extra_param("resource", &token.resource);
    granted(request.request_async(&send).await)
}

fn token_url(http: &MetadataClient, token: &StoredToken) -> Result<Url, LoginError> {
    endpoint(TOKEN_ENDPOINT, &token.token_endpoint, http.policy())
}

/// Withdraws a token at its authorization server, where that offers it (RFC 7009); returns whether it did. The refresh token goes first: most
/// servers withdraw the access tokens that came from it too.
///
/// # Errors
/// The endpoint cannot be used, or refused.
pub async fn revoke(token: &StoredToken, server: &str) -> Result<bool, LoginError> {
    let Some(at) = &token.revocation_endpoint else { return Ok(false) };
    let server = Url::parse(server).map_err(|_| LoginError::address("server", server, "it is not a URL"))?;
    let http = MetadataClient::new(&server).await?;
    let at = endpoint("revocation endpoint", at, http.policy())?;
    let refresh = token.refresh_token.iter().map(|value| (value, "refresh_token"));
    let mut is_withdrawn = false;
    for (value, hint) in refresh.chain([(&token.access_token, "access_token")]) {
        let answer = revoke_one(&http, &at, &token.client(), value, hint).await?;
        let refusal = serde_json::from_slice::<Refusal>(&answer.body).ok().map(|refusal| refusal.error);
        match answer.status.is_success() {
            true => is_withdrawn = true,
            // RFC 7009, section 2.2.1: a token that its server only signs cannot be withdrawn. It ends soon.
            false if refusal.as_deref() == Some("unsupported_token_type") => {}
            false => {
                let status = answer.status.as_u16();
                let reason = format!("the revocation endpoint answered with status {status}");
                return Err(LoginError::Token { reason });
            }
        }
    }
    Ok(is_withdrawn)
}

/// An error of the revocation endpoint.
#[derive(Deserialize)]
struct Refusal {
    error: String,
}

async fn revoke_one(
    http: &MetadataClient,
    at: &Url,
    client: &RegisteredClient,
    token: &str,
    hint: &str,
) -> Result<Document, LoginError> {
    let mut form = vec![("token", token), ("token_type_hint", hint)];
    if client.secret.is_none() || client.secret_in_form {
        form.push(("client_id", &client.id));
    }
    if let Some(secret) = client.secret.as_deref().filter(|_| client.secret_in_form) {
        form.push(("client_secret", secret));
    }
    let answer = http.exchange("revocation endpoint", at, |http, url| {
        let request = http.post(url).form(&form);
        match (&client.secret, client.secret_in_form) {
            (Some(secret), false) => request.basic_auth(&client.id, Some(secret)),
            _ => request,
        }
    });
    answer.await
}

/// Sends a request of the OAuth library: to the one address that was checked, and followed nowhere.
fn sender(
    http: &MetadataClient,
) -> impl Fn(HttpRequest) -> std::pin::Pin<Box<dyn Future<Output = Result<HttpResponse, LoginError>> + Send>> + '_
{
    |request| {
        let http = http.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let url = endpoint(TOKEN_ENDPOINT, &head.uri.to_string(), http.policy())?;
            let answer = http
                .exchange(TOKEN_ENDPOINT, &url, |client, url| {
                    client.request(head.method, url).headers(head.headers).body(body)
                })
                .await?;
            let mut response = HttpResponse::new(answer.body);
            *response.status_mut() = answer.status;
            Ok(response)
        })
    }
}

type TokenResult = Result<BasicTokenResponse, RequestTokenError<LoginError, BasicErrorResponse>>;

/// Reads the answer. A body that is no token is not quoted: it may have one in it.
fn granted(result: TokenResult) -> Result<GrantedToken, TokenRefusal> {
    let failed = |reason: &str| Err(TokenRefusal::Failed(reason.to_owned()));
    let response = match result {
        Ok(response) => response,
        Err(RequestTokenError::ServerResponse(refusal)) => {
            let reason = format!("it answered `{}`", quoted(refusal.error().as_ref()));
            return Err(match refusal.error() {
                BasicErrorResponseType::InvalidGrant
                | BasicErrorResponseType::InvalidClient
                | BasicErrorResponseType::UnauthorizedClient => TokenRefusal::Invalid(reason),
                _ => TokenRefusal::Failed(reason),
            });
        }
        Err(RequestTokenError::Request(error)) => return failed(&error.to_string()),
        Err(RequestTokenError::Parse(..)) => return failed("its answer is not a token"),
        Err(RequestTokenError::Other(_)) => return failed("its answer is of another kind"),
    };
    if !response.token_type().as_ref().eq_ignore_ascii_case("bearer") {
        return failed("its token is not a bearer token");
    }
    let access_token = response.access_token().secret().clone();
    let refresh_token = response.refresh_token().map(|token| token.secret().clone());
    let is_usable = |token: &str| {
        (1..=MAX_TOKEN_BYTES).contains(&token.len())
            && token.bytes().all(|byte| byte.is_ascii_graphic())
            && HeaderValue::try_from(token).is_ok()
    };
    if !is_usable(&access_token) || !refresh_token.as_deref().is_none_or(is_usable) {
        return failed("its token has characters that a token cannot have");
    }
    let expires_at = response.expires_in().map(|seconds| now().saturating_add(seconds.as_secs()));
    let scopes = response.scopes().map(|scopes| usable_scopes(scopes.iter().map(|scope| scope.to_string())));
    Ok(GrantedToken { access_token, refresh_token, expires_at, scopes })
}
