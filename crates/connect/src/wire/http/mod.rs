//! A server elsewhere, over streamable HTTP.
//!
//! One address and no other: redirects are not followed, no proxy is taken from the environment, and secrets leave this machine only over TLS. What
//! comes back is read up to a bound.

mod address;
mod answers;
mod events;
mod token;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_core::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
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
use toolgate_types::time::{BEFORE_1970, is_before_1970};

use super::{Ending, LONGEST_MESSAGE};
use crate::error::ConnectError;
use crate::settings::HttpSettings;
use address::{checked, client, headers};
use answers::{content_type, read_post, unauthorized};
use events::events;
use token::Tokens;

/// How long a connection may take to be made.
const CONNECTING: Duration = Duration::from_secs(10);

/// How often a broken stream of events is taken up again.
const MOST_RESUMED: usize = 5;

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
    ending: Ending,
) -> Result<impl Transport<RoleClient> + 'static, ConnectError> {
    let door = Door::new(settings, ending).await?;
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
    ending: Ending,
}

impl Door {
    async fn new(settings: &HttpSettings, ending: Ending) -> Result<Self, ConnectError> {
        let secrets = !settings.headers.is_empty() || settings.oauth.is_some();
        let loopback = checked(&settings.url, secrets)?;
        let own = client(loopback).await?;
        let tokens = match &settings.oauth {
            None => None,
            Some(oauth) => {
                let token_client = client(checked(&oauth.token_url, true)?).await?;
                Some(Arc::new(Tokens::new(token_client, oauth.clone(), &settings.url)))
            }
        };
        Ok(Self { client: own, headers: headers(settings)?, tokens, ending })
    }

    /// Sends a request; once more with a fresh token if the first was refused.
    async fn send(&self, request: RequestBuilder) -> Result<Response, Refused> {
        // A stream that was cut off is asked for again and again otherwise.
        if let Some(reason) = self.ending.reason().filter(|_| self.ending.is_over()) {
            return Err(DoorError::Request(reason).into());
        }
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
        if is_before_1970() {
            return Err(DoorError::Request(BEFORE_1970.to_owned()));
        }
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
        read_post(response, message, session.is_some(), most, &self.ending).await
    }
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
            _ => Ok(events(response, most, &self.ending)),
        }
    }
}
