//! HTTP to a model server: one request, and its streamed response.
//!
//! A key is sent to the configured address and nowhere else: no redirect is followed, and other machines are only reached over TLS. Dropping the
//! events of a step closes its connection.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, Url, redirect};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use toolgate_text::{ELLIPSIS, without_secret};
use toolgate_types::time::{BEFORE_1970, is_before_1970};

use crate::endpoint::{ApiKey, Endpoint, Timeouts};
use crate::error::{ErrorKind, ProviderError};
use crate::limits::{MAX_ANSWER_BYTES, MAX_VALUES, exceeds_max_values};
use crate::provider::{ModelName, StepEvents};
use crate::step_decoder::StepDecoder;
use crate::step_stream::StepStream;
use crate::vendor_error::{VendorError, sanitize, with_hints};
use crate::wire_names::WireNames;
use crate::wires::{Framing, KeyHeader, Wire};

/// The timeout of queries for which no model has to be loaded or to think.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);

/// The HTTP client for one server.
#[derive(Debug)]
pub(crate) struct Transport {
    endpoint: Endpoint,
    wire: Wire,
    /// Created on first use: it loads the system's CA certificates.
    connected: OnceCell<ConnectedClient>,
}

#[derive(Debug)]
struct ConnectedClient {
    client: Client,
    base: Url,
    host: String,
    headers: HeaderMap,
}

impl Transport {
    pub(crate) fn new(endpoint: Endpoint, wire: Wire) -> Self {
        Self { endpoint, wire, connected: OnceCell::new() }
    }

    /// Requests a step.
    pub(crate) async fn stream(
        &self,
        path: &str,
        body: &impl Serialize,
        model: &ModelName,
        names: WireNames,
    ) -> Result<StepEvents, ProviderError> {
        let recording = match &self.endpoint.recorder {
            Some(recorder) => Some(recorder.step(self.wire, model, &names).await?),
            None => None,
        };
        let response = self.send(Method::POST, path, None, Some(to_json_bytes(body)?)).await?;
        let response = self.expect_stream(response).await?;
        let decoder = StepDecoder::with_names(self.wire, model, names);
        let secrets = self.secrets();
        Ok(StepEvents::new(StepStream::new(
            response.bytes_stream(),
            decoder,
            recording,
            self.endpoint.timeouts.idle,
            secrets,
        )))
    }

    /// Sends a query, such as for a model's capabilities. The timeout covers the whole answer, however steadily it arrives.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ProviderError> {
        self.ask_for(method, path, None, body).await
    }

    /// The same with a query string.
    pub(crate) async fn ask_for(
        &self,
        method: Method,
        path: &str,
        query: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Value, ProviderError> {
        let body = body.map(to_json_bytes).transpose()?;
        let answer = async {
            let response = self.send(method, path, query, body).await?;
            bounded_body(response, self.endpoint.timeouts).await
        };
        let patience = QUERY_TIMEOUT.min(self.endpoint.timeouts.first_byte);
        let Ok(answer) = timeout(patience, answer).await else {
            let message = format!("the server did not answer within {patience:?}");
            return Err(ProviderError::new(ErrorKind::Silent, message));
        };
        let answer = answer?;
        if exceeds_max_values(&answer) {
            let message = format!("the answer holds more than {MAX_VALUES} values");
            return Err(ProviderError::new(ErrorKind::TooLarge, message));
        }
        serde_json::from_slice(&answer).map_err(|_| {
            ProviderError::new(ErrorKind::Garbled, "the server answers with something that is not JSON")
        })
    }

    /// Sends a request; an unsuccessful status is an error.
    async fn send(
        &self,
        method: Method,
        path: &str,
        query: Option<&str>,
        body: Option<Vec<u8>>,
    ) -> Result<Response, ProviderError> {
        let connected =
            self.connected.get_or_try_init(|| ConnectedClient::new(&self.endpoint, self.wire)).await?;
        let mut address = connected.address(path)?;
        address.set_query(query);
        if address.scheme() == "https" && is_before_1970() {
            return Err(ProviderError::new(ErrorKind::Unreachable, BEFORE_1970).help("set the clock"));
        }
        let mut request = connected.client.request(method, address).headers(connected.headers.clone());
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let answered = timeout(self.endpoint.timeouts.first_byte, request.send()).await;
        let Ok(answered) = answered else { return Err(idle_timeout(self.endpoint.timeouts.first_byte)) };
        let response = answered.map_err(|error| connected.unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.error_from_response(response, &connected.host).await)
    }

    async fn error_from_response(&self, response: Response, host: &str) -> ProviderError {
        let (status, headers) = (response.status(), response.headers().clone());
        if status.is_redirection() {
            let message =
                format!("`{host}` answers with status {}: it sends the request elsewhere", status.as_u16());
            return ProviderError::new(ErrorKind::BadRequest, message)
                .help("set `base_url` to where the server really is; a key does not follow redirects");
        }
        // An unreadable body does not change that the status is an error.
        let body = bounded_body(response, self.endpoint.timeouts).await.unwrap_or_default();
        let failed = VendorError::read_bytes(&body).with_status(status.as_u16(), host);
        redact_secrets(with_hints(failed, &headers, Timestamp::now()), &self.secrets())
    }

    /// A response that is not a stream is an error, whatever its status.
    async fn expect_stream(&self, response: Response) -> Result<Response, ProviderError> {
        let header = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        if header(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Err(ProviderError::new(
                ErrorKind::Garbled,
                "the server compresses its answer, and nobody asked for that",
            ));
        }
        let kind = header(CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
        // Lines of JSON may be declared as `application/json`.
        let is_whole = kind.starts_with("application/json") && self.wire.spec().framing != Framing::JsonLines;
        if !is_whole && !kind.starts_with("text/html") {
            return Ok(response);
        }
        let body = bounded_body(response, self.endpoint.timeouts).await?;
        let said = VendorError::read_bytes(&body);
        if !said.is_empty() {
            return Err(redact_secrets(said.in_stream(), &self.secrets()));
        }
        let message = format!("the server answers with `{}`, not with a stream", sanitize(&kind));
        Err(ProviderError::new(ErrorKind::BadRequest, message)
            .help("check that `base_url` and the wire fit the server"))
    }

    fn secrets(&self) -> Vec<ApiKey> {
        self.endpoint
            .key
            .iter()
            .chain(self.endpoint.headers.iter().map(|(_, value)| value))
            .cloned()
            .collect()
    }
}

impl ConnectedClient {
    async fn new(endpoint: &Endpoint, wire: Wire) -> Result<Self, ProviderError> {
        let has_secrets = endpoint.key.is_some() || !endpoint.headers.is_empty();
        let (base, is_plain) = validate_url(&endpoint.base_url, has_secrets)?;
        let headers = headers(endpoint, wire)?;
        let connect = endpoint.timeouts.connect;
        // Created on a blocking thread, since it loads the system's CA certificates.
        let made = tokio::task::spawn_blocking(move || {
            let builder =
                Client::builder().redirect(redirect::Policy::none()).referer(false).connect_timeout(connect);
            // Plain HTTP needs no certificates, and some machines have none.
            if is_plain {
                builder.no_proxy().tls_certs_only([]).build()
            } else {
                builder.https_only(true).build()
            }
        });
        let client = made.await.ok().and_then(Result::ok).ok_or_else(|| {
            ProviderError::new(ErrorKind::Unusable, "no client for https can be made on this machine").help(
                "install the system's CA certificates (package `ca-certificates`), or set SSL_CERT_FILE",
            )
        })?;
        let host = base.host_str().unwrap_or_default();
        let host = base.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Ok(Self { client, base, host, headers })
    }

    fn address(&self, path: &str) -> Result<Url, ProviderError> {
        let mut address = self.base.clone();
        let whole = format!("{}{path}", self.base.path().trim_end_matches('/'));
        address.set_path(&whole);
        if address.path() == whole {
            Ok(address)
        } else {
            Err(unusable("the path of `base_url` cannot be sent"))
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> ProviderError {
        let host = &self.host;
        if !error.is_connect() {
            return ProviderError::new(
                ErrorKind::Unreachable,
                format!("`{host}` hung up before it answered"),
            );
        }
        let reason = if error.is_timeout() { "it takes too long".to_owned() } else { root_cause(error) };
        ProviderError::new(ErrorKind::Unreachable, format!("`{host}` cannot be reached: {reason}"))
            .help("check that the server runs, and `base_url`")
    }
}

/// The root cause of a failed connection, without the address, which the message already contains.
fn root_cause(error: &reqwest::Error) -> String {
    let mut reason: &dyn std::error::Error = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    sanitize(&reason.to_string())
}

/// Parses an address; returns whether it is plain HTTP.
fn validate_url(address: &str, has_secrets: bool) -> Result<(Url, bool), ProviderError> {
    let Ok(url) = Url::parse(address.trim()) else { return Err(unusable("`base_url` is not an address")) };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unusable("`base_url` has a password in it").help("give it as the key, or as a header"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(
            unusable("`base_url` goes on after its path").help("leave out what begins with `?` or `#`")
        );
    }
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback =
        host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        "https" => Ok((url, false)),
        "http" if is_loopback || !has_secrets => Ok((url, true)),
        "http" => Err(unusable("a key would leave this machine without encryption")
            .help("use https in `base_url`, or leave out the key and the headers")),
        _ => Err(unusable("`base_url` is neither https nor http")),
    }
}

/// The headers of every request; secrets are marked sensitive so that they are not printed.
fn headers(endpoint: &Endpoint, wire: Wire) -> Result<HeaderMap, ProviderError> {
    let mut headers = HeaderMap::new();
    for (name, value) in wire.spec().headers {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if let Some(key) = &endpoint.key {
        let (name, text) = match wire.spec().key {
            KeyHeader::Bearer => ("authorization", format!("Bearer {}", key.expose())),
            KeyHeader::ApiKey => ("x-api-key", key.expose().to_owned()),
        };
        let value = secret(&text)
            .ok_or_else(|| unusable("the key cannot be sent").help("check it for stray characters"))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    for (name, value) in &endpoint.headers {
        let shown = sanitize(name);
        let known = HeaderName::try_from(name.as_str())
            .map_err(|_| unusable(&format!("`{shown}` is not the name of a header")))?;
        let value = secret(value.expose())
            .ok_or_else(|| unusable(&format!("the value of the header `{shown}` cannot be sent")))?;
        headers.insert(known, value);
    }
    Ok(headers)
}

fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Redacts keys from an error: some servers echo what they reject.
pub(crate) fn redact_secrets(mut failed: ProviderError, secrets: &[ApiKey]) -> ProviderError {
    for secret in secrets.iter().map(ApiKey::expose).filter(|secret| !secret.is_empty()) {
        if failed.message.contains(secret) {
            failed.message = without_secret(&failed.message, secret, ELLIPSIS);
        }
        // Where text was truncated, its end may be the beginning of a key.
        let pieces: Vec<&str> = failed.message.split(ELLIPSIS).collect();
        if let Some((last, cut)) = pieces.split_last().filter(|(_, cut)| !cut.is_empty()) {
            let mut cut: Vec<&str> = cut.iter().map(|piece| strip_partial_secret(piece, secret)).collect();
            cut.push(last);
            failed.message = cut.join(ELLIPSIS);
        }
    }
    failed
}

/// A text without a trailing prefix of a secret.
fn strip_partial_secret<'t>(text: &'t str, secret: &str) -> &'t str {
    let beginnings = secret.char_indices().rev().filter_map(|(end, _)| secret.get(..end));
    beginnings.filter_map(|beginning| text.strip_suffix(beginning)).next().unwrap_or(text)
}

/// The server sent nothing before the timeout.
pub(crate) fn idle_timeout(waited: Duration) -> ProviderError {
    ProviderError::new(ErrorKind::Silent, format!("nothing came from the server for {waited:?}"))
        .help("check the server, or let it take longer with `conversation.stream_timeout`")
}

async fn bounded_body(mut response: Response, timeouts: Timeouts) -> Result<Vec<u8>, ProviderError> {
    let mut body = Vec::new();
    loop {
        let Ok(chunk) = timeout(timeouts.idle, response.chunk()).await else {
            return Err(idle_timeout(timeouts.idle));
        };
        let Some(chunk) =
            chunk.map_err(|_| ProviderError::new(ErrorKind::Truncated, "the answer broke off"))?
        else {
            return Ok(body);
        };
        if body.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(ProviderError::new(
                ErrorKind::TooLarge,
                format!("the answer has more than {MAX_ANSWER_BYTES} bytes"),
            ));
        }
        body.extend_from_slice(&chunk);
    }
}

fn to_json_bytes(body: &impl Serialize) -> Result<Vec<u8>, ProviderError> {
    serde_json::to_vec(body).map_err(|_| unusable("the request cannot be written as JSON"))
}

fn unusable(message: &str) -> ProviderError {
    ProviderError::new(ErrorKind::Unusable, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendor_error::MAX_MESSAGE_CHARS;

    #[test]
    fn keys_leave_this_machine_only_over_tls() {
        for (address, has_secrets, fine) in [
            ("https://api.anthropic.com", true, true),
            ("https://proxy.example/v1/", true, true),
            ("http://127.0.0.1:11434", true, true),
            ("http://[::1]:8080/v1", true, true),
            ("http://localhost:8080/v1", true, true),
            ("http://192.168.0.7:11434", false, true),
            ("http://192.168.0.7:11434", true, false),
            ("http://127.0.0.1.example", true, false),
            ("https://user:word@models.example", false, false),
            ("https://models.example?key=x", false, false),
            ("ftp://models.example", false, false),
            ("models.example", false, false),
            ("", false, false),
        ] {
            assert_eq!(validate_url(address, has_secrets).is_ok(), fine, "{address}");
        }
    }

    #[test]
    fn keys_that_a_server_repeats_are_hidden() {
        let failed = ProviderError::new(ErrorKind::Unauthorized, "no such key: sk-123, sk-123!");
        let hidden = redact_secrets(failed, &[ApiKey::new("sk-123\n"), ApiKey::new("")]);
        assert_eq!(hidden.message, "no such key: …, …!");
        let failed = ProviderError::new(ErrorKind::Unauthorized, "a bad key: a");
        assert_eq!(redact_secrets(failed, &[ApiKey::new("a")]).message, "… bad key: …");
    }

    #[test]
    fn keys_that_were_cut_with_the_words_around_them_are_hidden() {
        let key = ApiKey::new("sk-test-SECRETKEY");
        for shown in 0..key.expose().len() {
            // One key echoed completely, and another at the truncated end.
            let words =
                format!("sk-test-SECRETKEY {}", "x".repeat(MAX_MESSAGE_CHARS - 18 - shown)) + key.expose();
            let failed =
                redact_secrets(VendorError::read(&words.into()).in_stream(), std::slice::from_ref(&key));
            let expected = format!("the server broke off: … {}…", "x".repeat(MAX_MESSAGE_CHARS - 18 - shown));
            assert_eq!(failed.message, expected, "{shown}");
        }
    }
}
