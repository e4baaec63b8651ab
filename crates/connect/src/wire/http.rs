//! A server elsewhere, over streamable HTTP.
//!
//! One address and no other: redirects are not followed, no proxy is taken from the environment, and secrets leave this machine only over TLS. What
//! comes back is read up to a bound.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, redirect};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::service::ServiceError;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, SseError, StreamableHttpClient, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use sse_stream::{Sse, SseStream};
use thiserror::Error;

use super::LONGEST_MESSAGE;
use super::token::Tokens;
use crate::error::ConnectError;
use crate::settings::HttpSettings;

/// How long a connection may take to be made.
const CONNECTING: Duration = Duration::from_secs(10);

/// How often a broken stream of events is taken up again.
const MOST_RESUMED: usize = 5;

/// The longest body of an answer that is an error.
const LONGEST_ERROR: usize = 64 << 10;

/// Headers that the protocol itself sets.
const RESERVED: [&str; 9] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// What can go wrong with a request, without its address or anything secret.
#[derive(Debug, Error)]
pub(super) enum DoorError {
    /// It could not be carried out.
    #[error("{0}")]
    Request(String),
    /// The token server gave no token.
    #[error("no token from the token server: {0}")]
    Token(String),
    /// The answer is too long.
    #[error("the answer is longer than {LONGEST_MESSAGE} bytes")]
    TooLong,
}

type Refused = StreamableHttpError<DoorError>;

impl From<DoorError> for Refused {
    fn from(error: DoorError) -> Self {
        Self::Client(error)
    }
}

/// A transport to a server elsewhere.
pub(crate) async fn transport(
    settings: &HttpSettings,
    most_calls: usize,
) -> Result<impl Transport<RoleClient> + 'static, ConnectError> {
    let door = Door::new(settings).await?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(settings.url.clone())
        .max_sse_event_size(LONGEST_MESSAGE)
        .max_concurrent_requests(most_calls)
        .reinit_on_expired_session(false);
    let mut backoff = ExponentialBackoff::default();
    backoff.max_times = Some(MOST_RESUMED);
    backoff.max_delay = Some(CONNECTING);
    config.retry_config = Arc::new(backoff);
    Ok(StreamableHttpClientTransport::with_client(door, config))
}

/// Whether a server elsewhere has forgotten the session that a request belonged to.
pub(crate) fn is_expired(error: &ServiceError) -> bool {
    match error {
        ServiceError::TransportSend(error) => error
            .error
            .downcast_ref::<Refused>()
            .is_some_and(|refused| matches!(refused, StreamableHttpError::SessionExpired)),
        _ => false,
    }
}

/// The way to one server.
#[derive(Clone)]
struct Door {
    client: Client,
    headers: HeaderMap,
    tokens: Option<Arc<Tokens>>,
}

impl Door {
    async fn new(settings: &HttpSettings) -> Result<Self, ConnectError> {
        let secrets = !settings.headers.is_empty() || settings.oauth.is_some();
        let loopback = checked(&settings.url, secrets)?;
        let client = client(loopback).await?;
        let tokens = match &settings.oauth {
            None => None,
            Some(oauth) => {
                let token_client = self::client(checked(&oauth.token_url, true)?).await?;
                Some(Arc::new(Tokens::new(token_client, oauth.clone(), &settings.url)))
            }
        };
        Ok(Self { client, headers: headers(settings)?, tokens })
    }

    /// Sends a request; once more with a fresh token if the first was refused.
    async fn send(&self, request: RequestBuilder) -> Result<Response, Refused> {
        let again = request.try_clone();
        let (response, token) = self.send_once(request).await?;
        let (Some(tokens), Some(token), Some(again), StatusCode::UNAUTHORIZED) =
            (&self.tokens, token, again, response.status())
        else {
            return Ok(response);
        };
        tokens.throw_away(&token).await;
        Ok(self.send_once(again).await?.0)
    }

    async fn send_once(&self, request: RequestBuilder) -> Result<(Response, Option<String>), DoorError> {
        let token = match &self.tokens {
            Some(tokens) => Some(tokens.get().await?),
            None => None,
        };
        let request = request.headers(self.headers.clone());
        let request = token.iter().fold(request, |request, token| request.bearer_auth(token));
        let response = request.send().await.map_err(|error| DoorError::Request(said(&error)))?;
        Ok((response, token))
    }

    async fn post(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
        most: usize,
    ) -> Result<StreamableHttpPostResponse, Refused> {
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
        read_post(response, message, session.is_some(), most).await
    }
}

/// Whether the address is one of this machine. Secrets go to others only over TLS.
fn checked(address: &str, secrets: bool) -> Result<bool, ConnectError> {
    let refused = |reason: &str| Err(ConnectError::Http { reason: reason.to_owned() });
    let Ok(url) = Url::parse(address) else { return refused("the address is not one") };
    if !url.username().is_empty() || url.password().is_some() {
        return refused("the address has a password in it; use a header");
    }
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let loopback = host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        "https" => Ok(false),
        "http" if loopback => Ok(true),
        "http" if !secrets => Ok(false),
        "http" => refused("headers and tokens go to other machines only over https"),
        _ => refused("the address is neither https nor http"),
    }
}

/// Reads the system's certificates, so it happens where it may block.
async fn client(loopback: bool) -> Result<Client, ConnectError> {
    let build = move || {
        let builder = Client::builder()
            .redirect(redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(CONNECTING);
        // Plain http to this machine needs no certificates, and some machines have none.
        if loopback { builder.tls_certs_only([]).build() } else { builder.build() }
    };
    let built = tokio::task::spawn_blocking(build).await;
    built
        .map_err(|_| ConnectError::Http { reason: "the client could not be made".to_owned() })?
        .map_err(|error| ConnectError::Http { reason: said(&error) })
}

fn headers(settings: &HttpSettings) -> Result<HeaderMap, ConnectError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &settings.headers {
        let refused = |what: &str| ConnectError::Http {
            reason: format!("the header `{}` {what}", name.escape_debug()),
        };
        let known = HeaderName::try_from(name.as_str()).map_err(|_| refused("is not one"))?;
        if RESERVED.contains(&known.as_str()) {
            return Err(refused("belongs to the protocol"));
        }
        let mut value =
            HeaderValue::try_from(value.expose()).map_err(|_| refused("has a value that cannot be sent"))?;
        value.set_sensitive(true);
        headers.append(known, value);
    }
    Ok(headers)
}

/// What a request came to, without its address: that may hold what nobody should read.
fn said(error: &reqwest::Error) -> String {
    let what = match error {
        error if error.is_timeout() => "it took too long",
        error if error.is_connect() => "the server could not be reached",
        error if error.is_builder() => "the request could not be made",
        _ => "the request failed",
    };
    what.to_owned()
}

/// A body, up to a bound.
pub(super) async fn body(mut response: Response, most: usize) -> Result<Vec<u8>, DoorError> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| DoorError::Request(said(&error)))? {
        if bytes.len() + piece.len() > most {
            return Err(DoorError::TooLong);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

async fn read_post(
    response: Response,
    message: &ClientJsonRpcMessage,
    had_session: bool,
    most: usize,
) -> Result<StreamableHttpPostResponse, Refused> {
    let status = response.status();
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if status == StatusCode::NOT_FOUND && had_session {
        return Err(StreamableHttpError::SessionExpired);
    }
    if !status.is_success() {
        return read_refusal(response, message, had_session).await;
    }
    let session =
        response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok()).map(ToOwned::to_owned);
    match content_type(&response).as_str() {
        "text/event-stream" => Ok(StreamableHttpPostResponse::Sse(events(response, most), session)),
        "application/json" => {
            let bytes = body(response, most).await?;
            match serde_json::from_slice(&bytes) {
                Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
                Err(_) if !matches!(message, ClientJsonRpcMessage::Request(_)) => {
                    Ok(StreamableHttpPostResponse::Accepted)
                }
                Err(_) => {
                    Err(StreamableHttpError::UnexpectedServerResponse("the answer is not a message".into()))
                }
            }
        }
        _ if !matches!(message, ClientJsonRpcMessage::Request(_)) => Ok(StreamableHttpPostResponse::Accepted),
        _ => {
            Err(StreamableHttpError::UnexpectedServerResponse("the answer is neither JSON nor events".into()))
        }
    }
}

fn content_type(response: &Response) -> String {
    let value =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// A refusal may say in the protocol's own words what is wrong; a server of the older era refuses the question of the newer one in words of its own.
async fn read_refusal(
    response: Response,
    message: &ClientJsonRpcMessage,
    had_session: bool,
) -> Result<StreamableHttpPostResponse, Refused> {
    let status = response.status();
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Err(unauthorized(&response));
    }
    if status == StatusCode::TOO_MANY_REQUESTS
        || content_type(&response) != "application/json" && status.is_server_error()
    {
        return Err(HttpStatusError::new(status.as_u16(), None).into());
    }
    let bytes = body(response, LONGEST_ERROR).await.unwrap_or_default();
    let error = match serde_json::from_slice(&bytes) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && !had_session
        && status.is_client_error()
    {
        let error = error.map_or_else(
            || ErrorData::invalid_request(format!("HTTP status {}", status.as_u16()), None),
            |error| error.error,
        );
        return Ok(StreamableHttpPostResponse::Json(
            ServerJsonRpcMessage::error(error, Some(request.id.clone())),
            None,
        ));
    }
    match error {
        Some(error) => Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), None)),
        None => Err(HttpStatusError::new(status.as_u16(), None).into()),
    }
}

fn unauthorized(response: &Response) -> Refused {
    let challenge =
        response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let challenge: String = challenge.chars().take(200).collect();
    StreamableHttpError::AuthRequired(AuthRequiredError::new(format!(
        "status {}: {challenge}",
        response.status().as_u16()
    )))
}

impl StreamableHttpClient for Door {
    type Error = DoorError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _authorization: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Refused> {
        self.post(&uri, &message, session.as_deref(), headers, LONGEST_MESSAGE).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _authorization: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        most: usize,
    ) -> Result<StreamableHttpPostResponse, Refused> {
        self.post(&uri, &message, session.as_deref(), headers, most).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _authorization: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Refused> {
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
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Refused> {
        self.get_stream_with_max_sse_event_size(
            uri,
            session,
            last_event,
            authorization,
            headers,
            LONGEST_MESSAGE,
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
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Refused> {
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
            // Whatever it says instead of events, it has none to send unasked.
            status if !status.is_success() || content_type(&response) != "text/event-stream" => {
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
            _ => Ok(events(response, most)),
        }
    }
}

/// Events, none of them longer than a bound.
fn events(response: Response, most: usize) -> BoxStream<'static, Result<Sse, SseError>> {
    let bounded = Bounded { inner: Box::pin(response.bytes_stream()), event: 0, line: 0, most, over: false };
    Box::pin(SseStream::from_bytes_stream(bounded))
}

/// Bytes of events, counted from one empty line to the next.
struct Bounded<S> {
    inner: Pin<Box<S>>,
    event: usize,
    line: usize,
    most: usize,
    over: bool,
}

impl<S> Bounded<S> {
    /// Counts more bytes; whether the event they belong to is still short enough.
    fn count(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            self.event += 1;
            match byte {
                b'\n' if self.line == 0 => self.event = 0,
                b'\n' => self.line = 0,
                b'\r' => {}
                _ => self.line += 1,
            }
            if self.event > self.most {
                return false;
            }
        }
        true
    }
}

impl<S, Piece> Stream for Bounded<S>
where
    S: Stream<Item = reqwest::Result<Piece>>,
    Piece: AsRef<[u8]>,
{
    type Item = Result<Piece, DoorError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        match ready!(self.inner.as_mut().poll_next(context)) {
            None => Poll::Ready(None),
            Some(Ok(piece)) if self.count(piece.as_ref()) => Poll::Ready(Some(Ok(piece))),
            Some(result) => {
                self.over = true;
                let error =
                    result.map_or_else(|error| DoorError::Request(said(&error)), |_| DoorError::TooLong);
                Poll::Ready(Some(Err(error)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_leave_this_machine_only_over_tls() {
        for (address, secrets, fine) in [
            ("https://tracker.example/mcp", true, true),
            ("http://127.0.0.1:8080/mcp", true, true),
            ("http://[::1]:8080/mcp", true, true),
            ("http://localhost/mcp", true, true),
            ("http://tracker.example/mcp", false, true),
            ("http://tracker.example/mcp", true, false),
            ("http://127.0.0.1.example/mcp", true, false),
            ("https://user:word@tracker.example/mcp", false, false),
            ("ftp://tracker.example", false, false),
            ("tracker.example", false, false),
        ] {
            assert_eq!(checked(address, secrets).is_ok(), fine, "{address}");
        }
    }

    #[test]
    fn events_are_counted_one_by_one() {
        let mut bounded = Bounded { inner: Box::pin(()), event: 0, line: 0, most: 20, over: false };
        for _ in 0..100 {
            assert!(bounded.count(b"data: 12345\r\n\r\n"));
        }
        assert!(bounded.count(b"data: 1\ndata: 2"));
        assert!(!bounded.count(b"data: 3456"));
    }
}
