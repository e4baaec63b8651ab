//! A server over streamable HTTP.
//!
//! Only the configured URL is contacted: redirects are not followed, no proxy is taken from the environment, and secrets leave this machine only
//! over TLS. Responses are read up to a limit.

mod address;
mod responses;
mod sse;
mod token;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_core::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use rmcp::RoleClient;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::service::ServiceError;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use sse_stream::Sse;
use thiserror::Error;
use toolgate_oauth::{BearerChallenge, LoginNeed, TokenFailure, TokenSource};
use toolgate_types::time::{BEFORE_1970, is_before_1970};

use super::{CloseReason, MAX_MESSAGE_BYTES};
use crate::error::ConnectError;
use crate::settings::HttpSettings;
use address::{check_address, client, headers};
use responses::{content_type, read_post, unauthorized};
use sse::events;
use token::OAuthTokenCache;

/// Timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a broken event stream is resumed.
const MAX_RESUMES: usize = 5;

/// An error of a request, without its URL or any secret.
#[derive(Debug, Error)]
pub(super) enum HttpTransportError {
    /// The request failed.
    #[error("{0}")]
    Request(String),
    /// The token endpoint returned no token.
    #[error("no token from the token server: {0}")]
    Token(String),
    /// There is no token of a login.
    #[error("{0}")]
    Login(TokenFailure),
    /// The response is too long.
    #[error("the answer is longer than {MAX_MESSAGE_BYTES} bytes")]
    TooLong,
}

type HttpRequestError = StreamableHttpError<HttpTransportError>;

impl From<HttpTransportError> for HttpRequestError {
    fn from(error: HttpTransportError) -> Self {
        Self::Client(error)
    }
}

/// A transport to a server over HTTP.
pub(crate) async fn transport(
    settings: &HttpSettings,
    most_calls: usize,
    ending: CloseReason,
    login: Option<Arc<TokenSource>>,
) -> Result<impl Transport<RoleClient> + 'static, ConnectError> {
    let door = HttpTransport::new(settings, ending, login).await?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(settings.url.clone())
        .max_sse_event_size(MAX_MESSAGE_BYTES)
        .max_concurrent_requests(most_calls)
        .reinit_on_expired_session(false);
    let mut backoff = ExponentialBackoff::default();
    backoff.max_times = Some(MAX_RESUMES);
    backoff.max_delay = Some(CONNECT_TIMEOUT);
    config.retry_config = Arc::new(backoff);
    Ok(StreamableHttpClientTransport::with_client(door, config))
}

/// Whether the server has dropped the session of a request.
pub(crate) fn is_expired(error: &ServiceError) -> bool {
    request_error(error).is_some_and(|refused| matches!(refused, StreamableHttpError::SessionExpired))
}

/// The login that a request lacks.
pub(crate) fn login_need(error: &ServiceError) -> Option<LoginNeed> {
    match request_error(error)? {
        StreamableHttpError::Client(HttpTransportError::Login(TokenFailure::Login(need))) => {
            Some(need.clone())
        }
        _ => None,
    }
}

fn request_error(error: &ServiceError) -> Option<&HttpRequestError> {
    match error {
        ServiceError::TransportSend(error) => error.error.downcast_ref::<HttpRequestError>(),
        _ => None,
    }
}

/// The HTTP client for one server.
#[derive(Clone)]
struct HttpTransport {
    client: Client,
    headers: HeaderMap,
    tokens: Option<Arc<OAuthTokenCache>>,
    login: Option<Arc<TokenSource>>,
    close_reason: CloseReason,
}

impl HttpTransport {
    async fn new(
        settings: &HttpSettings,
        ending: CloseReason,
        login: Option<Arc<TokenSource>>,
    ) -> Result<Self, ConnectError> {
        // Where a token would leave the machine in clear text, there is none.
        let login = login.filter(|_| check_address(&settings.url, true).is_ok());
        let secrets = !settings.headers.is_empty() || settings.oauth.is_some();
        let loopback = check_address(&settings.url, secrets)?;
        let own = client(loopback).await?;
        let tokens = match &settings.oauth {
            None => None,
            Some(oauth) => {
                let token_client = client(check_address(&oauth.token_url, true)?).await?;
                Some(Arc::new(OAuthTokenCache::new(token_client, oauth.clone(), &settings.url)))
            }
        };
        Ok(Self { client: own, headers: headers(settings)?, tokens, login, close_reason: ending })
    }

    /// Sends a request; retries once with a new token if the first was rejected.
    async fn send(&self, request: RequestBuilder) -> Result<Response, HttpRequestError> {
        // Otherwise rmcp would keep resuming a stream that was cut off.
        if let Some(reason) = self.close_reason.reason().filter(|_| self.close_reason.is_closed()) {
            return Err(HttpTransportError::Request(reason).into());
        }
        if let Some(login) = &self.login {
            return Ok(self.send_with_login(login, request).await?);
        }
        let again = request.try_clone();
        let (response, token) = self.send_once(request).await?;
        let (Some(tokens), Some(token), Some(again), StatusCode::UNAUTHORIZED) =
            (&self.tokens, token, again, response.status())
        else {
            return Ok(response);
        };
        tokens.invalidate(&token).await;
        Ok(self.send_once(again).await?.0)
    }

    async fn send_once(
        &self,
        request: RequestBuilder,
    ) -> Result<(Response, Option<String>), HttpTransportError> {
        let token = match &self.tokens {
            Some(tokens) => Some(tokens.get().await?),
            None => None,
        };
        Ok((self.send_with_token(request, token.as_deref()).await?, token))
    }

    async fn send_with_token(
        &self,
        request: RequestBuilder,
        token: Option<&str>,
    ) -> Result<Response, HttpTransportError> {
        let request = request.headers(self.headers.clone());
        let request = token.iter().fold(request, |request, token| request.bearer_auth(token));
        if is_before_1970() {
            return Err(HttpTransportError::Request(BEFORE_1970.to_owned()));
        }
        request.send().await.map_err(|error| HttpTransportError::Request(redacted_error(&error)))
    }

    /// Sends a request with the token of a login. A rejected token is replaced once; after that only another login helps, and nothing more is sent.
    async fn send_with_login(
        &self,
        login: &TokenSource,
        request: RequestBuilder,
    ) -> Result<Response, HttpTransportError> {
        let again = request.try_clone();
        let token = login.token().await.map_err(HttpTransportError::Login)?;
        let response = self.send_with_token(request, token.as_deref()).await?;
        let (response, token) = match (response.status(), again, token) {
            (StatusCode::UNAUTHORIZED, Some(again), Some(rejected)) => {
                let token = login.replace(&rejected).await.map_err(HttpTransportError::Login)?;
                (self.send_with_token(again, Some(&token)).await?, Some(token))
            }
            (_, _, token) => (response, token),
        };
        if response.status() == StatusCode::UNAUTHORIZED {
            return Err(HttpTransportError::Login(login.reject(token.as_deref())));
        }
        if response.status() == StatusCode::FORBIDDEN
            && let Some(challenge) = challenge(&response).filter(BearerChallenge::is_insufficient_scope)
        {
            return Err(HttpTransportError::Login(login.scopes_needed(&challenge)));
        }
        Ok(response)
    }

    async fn post(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
        most: usize,
    ) -> Result<StreamableHttpPostResponse, HttpRequestError> {
        let mut request = self
            .client
            .post(uri)
            .header(ACCEPT, "text/event-stream, application/json")
            .header(CONTENT_TYPE, "application/json")
            .headers(headers.into_iter().collect());
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        let response = self.send(request.body(serde_json::to_vec(message)?)).await?;
        read_post(response, message, session.is_some(), most, &self.close_reason).await
    }
}

fn challenge(response: &Response) -> Option<BearerChallenge> {
    let headers = response.headers().get_all(WWW_AUTHENTICATE).iter();
    BearerChallenge::find(headers.filter_map(|value| value.to_str().ok()))
}

/// Why a request failed, without its URL, which may contain secrets.
fn redacted_error(error: &reqwest::Error) -> String {
    let what = match error {
        error if error.is_timeout() => "it took too long",
        error if error.is_connect() => "the server could not be reached",
        error if error.is_builder() => "the request could not be made",
        _ => "the request failed",
    };
    what.to_owned()
}

impl StreamableHttpClient for HttpTransport {
    type Error = HttpTransportError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _authorization: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpRequestError> {
        self.post(&uri, &message, session.as_deref(), headers, MAX_MESSAGE_BYTES).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _authorization: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        most: usize,
    ) -> Result<StreamableHttpPostResponse, HttpRequestError> {
        self.post(&uri, &message, session.as_deref(), headers, most).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _authorization: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpRequestError> {
        let request = self
            .client
            .delete(uri.as_ref())
            .headers(headers.into_iter().collect())
            .header("mcp-session-id", session.as_ref());
        self.send(request).await.map(|_| ())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        authorization: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpRequestError> {
        self.get_stream_with_max_sse_event_size(
            uri,
            session,
            last_event,
            authorization,
            headers,
            MAX_MESSAGE_BYTES,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _authorization: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        most: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpRequestError> {
        let mut request = self
            .client
            .get(uri.as_ref())
            .header(ACCEPT, "text/event-stream")
            .headers(headers.into_iter().collect());
        for (name, value) in
            [("mcp-session-id", session.as_deref()), ("last-event-id", last_event.as_deref())]
        {
            request = value.into_iter().fold(request, |request, value| request.header(name, value));
        }
        let response = self.send(request).await?;
        match response.status() {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(unauthorized(&response)),
            // A response other than an event stream means that the server sends no unsolicited messages.
            status if !status.is_success() || content_type(&response) != "text/event-stream" => {
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
            _ => Ok(events(response, most, &self.close_reason)),
        }
    }
}
