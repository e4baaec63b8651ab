//! The HTTP client for a search engine: one query, one response.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolving};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use tokio::sync::OnceCell;
use toolgate_egress::{AddressClass, Host, NetworkAllowlist, RefusalReason, Resolve, resolve_allowed};
use toolgate_gate::CallContext;
use toolgate_manifest::SearchBackend;
use toolgate_text::escape_control_chars;
use toolgate_types::time::{BEFORE_1970, is_before_1970};
use toolgate_types::{CancellationReason, ErrorCode, Failure};

use super::WebSearchError;
use super::engine::{EngineRequest, default_address, engine_request, key_header, path, results};
use super::key::SearchKey;
use super::result::EngineResult;

/// A longer response is not a list of results.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The timeout of name resolution and of connecting, each.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout of a whole request, unless the call's own is shorter.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Help for a model that cannot fix the problem.
const GO_ON: &str = "go on without searching the web; the operator is told more";

/// The client for one engine.
pub(super) struct SearchClient {
    backend: SearchBackend,
    /// The URL of the search endpoint.
    endpoint: Url,
    /// The engine's host, for messages.
    host: String,
    key: Option<(SearchKey, HeaderValue)>,
    rules: Arc<NetworkAllowlist>,
    resolver: Arc<dyn Resolve>,
    /// Created on first use: it loads the system's CA certificates.
    client: OnceCell<Client>,
}

impl SearchClient {
    pub(super) fn new(
        backend: SearchBackend,
        address: Option<&str>,
        key: Option<SearchKey>,
        resolver: Arc<dyn Resolve>,
    ) -> Result<Self, WebSearchError> {
        let address = address.or(default_address(backend)).ok_or(WebSearchError::NoAddress)?;
        let endpoint = endpoint(backend, address)?;
        let (host, port) = destination(&endpoint)?;
        let shown = format!("{host}:{port}");
        let refused = |reason: String| WebSearchError::Address(reason);
        let rules = NetworkAllowlist::parse(&[&shown]).map_err(|error| refused(error.to_string()))?;
        refuse_link_local(&host)?;
        // A literal IP address is never resolved, so it is checked here.
        rules.admit(host, port).map_err(|reason| refused(reason.to_string()))?;
        let key = key.map(|key| Ok((key.clone(), header(backend, &key).ok_or(WebSearchError::Key)?)));
        Ok(Self {
            backend,
            endpoint,
            host: shown,
            key: key.transpose()?,
            rules: Arc::new(rules),
            resolver,
            client: OnceCell::new(),
        })
    }

    pub(super) fn backend(&self) -> SearchBackend {
        self.backend
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn address(&self) -> &str {
        self.endpoint.as_str()
    }

    /// Requests `most` results.
    pub(super) async fn search(
        &self,
        query: &str,
        most: u64,
        context: &CallContext,
    ) -> Result<Vec<EngineResult>, Failure> {
        let question = engine_request(self.backend, &self.endpoint, query, most);
        let answer = self.with_deadline(context, self.ask(question)).await??;
        let Some(found) = results(self.backend, &answer) else {
            return Err(self.failed(ErrorCode::OutputInvalid, "answers with something that are no results"));
        };
        Ok(found)
    }

    /// A text without the key: some servers echo their request.
    pub(super) fn redact_key(&self, text: String) -> String {
        match &self.key {
            Some((key, _)) => key.redact(text),
            None => text,
        }
    }

    async fn ask(&self, question: EngineRequest) -> Result<Vec<u8>, Failure> {
        let client = self.client.get_or_try_init(|| self.connect()).await?;
        let EngineRequest { method, address, body } = question;
        if address.scheme() == "https" && is_before_1970() {
            return Err(
                Failure::new(ErrorCode::IoError, BEFORE_1970).help("ask the operator to set the clock")
            );
        }
        let mut request = client.request(method, address).header(ACCEPT, "application/json");
        if let Some((_, value)) = &self.key {
            request = request.header(key_header(self.backend).name, value.clone());
        }
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        match response.status() {
            StatusCode::OK => self.body(response).await,
            status => Err(self.status_error(status, &response)),
        }
    }

    /// Creates the client on a blocking thread, since it loads the system's CA certificates.
    async fn connect(&self) -> Result<Client, Failure> {
        let is_plain = self.endpoint.scheme() == "http";
        let judge = FilteringResolver {
            rules: Arc::clone(&self.rules),
            resolver: Arc::clone(&self.resolver),
            port: self.endpoint.port_or_known_default().unwrap_or_default(),
        };
        let build = move || {
            let builder = Client::builder()
                .redirect(redirect::Policy::none())
                .no_proxy()
                .referer(false)
                .user_agent(concat!("toolgate/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECT_TIMEOUT)
                // No idle connections: every request resolves and checks the address anew.
                .pool_max_idle_per_host(0)
                .dns_resolver(judge);
            // Plain HTTP needs no certificates, and some machines have none.
            if is_plain { builder.tls_certs_only([]).build() } else { builder.https_only(true).build() }
        };
        let built = tokio::task::spawn_blocking(build).await.ok().and_then(Result::ok);
        built.ok_or_else(|| {
            self.failed(ErrorCode::IoError, "cannot be asked over https").operator_note(
                "no client for https can be made on this machine: install the system's CA certificates (package `ca-certificates`), or set \
                 SSL_CERT_FILE",
            )
        })
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        loop {
            let piece = response.chunk().await;
            let piece = piece.map_err(|_| self.failed(ErrorCode::IoError, "broke off its answer"))?;
            let Some(piece) = piece else { return Ok(body) };
            if body.len() + piece.len() > MAX_ANSWER_BYTES {
                return Err(self.failed(ErrorCode::OutputInvalid, "answers with more than a megabyte"));
            }
            body.extend_from_slice(&piece);
        }
    }

    /// The failure for an unsuccessful status. The response body is not repeated: it may quote the key.
    fn status_error(&self, status: StatusCode, response: &Response) -> Failure {
        let number = status.as_u16();
        let note = |text: &str| format!("`{}` answers with status {number}: {text}", self.host);
        let failed = |what: &str| self.failed(ErrorCode::IoError, what).detail("status", number);
        match number {
            300..=399 => failed("sends the question elsewhere").operator_note(note(
                "redirects are not followed; set `url` under `web_search` to where the engine really is",
            )),
            401 | 403 if self.backend == SearchBackend::Searxng => failed(
                "does not answer questions of programs",
            )
            .operator_note(note("add `json` to `search.formats` in its settings.yml, and check its limiter")),
            401 | 403 => failed("does not take the key")
                .operator_note(note("check the key in the variable that `key_env` names")),
            402 | 429 | 432 | 433 => {
                let wait = response
                    .headers()
                    .get(RETRY_AFTER)
                    .and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
                let help = match wait {
                    Some(seconds) => format!("search again after {seconds} seconds, or go on without"),
                    None => "search again later, or go on without".to_owned(),
                };
                failed("was asked too often")
                    .help(help)
                    .operator_note(note("the rate or the quota of the key is used up"))
            }
            400 | 422 => failed("does not understand the question").help("put it in fewer and simpler words"),
            500..=599 => failed("is out of order").help("search again later, or go on without"),
            _ => failed("refuses the question")
                .operator_note(note("check `backend` and `url` under `web_search`")),
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        if let Some(AddressRejection(reason, address)) =
            refusal(error).filter(|refused| !refused.0.is_failure())
        {
            let address = address.map(|address| format!(" ({address})")).unwrap_or_default();
            return self.failed(ErrorCode::NotPermitted, "may not be asked").operator_note(format!(
                "`{}`: {reason}{address}; a name opens public addresses alone, so write the address itself into `url`",
                self.host
            ));
        }
        let reason = match error.is_timeout() {
            true => "it takes too long to connect".to_owned(),
            false => root_cause(error),
        };
        self.failed(ErrorCode::IoError, "cannot be reached")
            .operator_note(format!("`{}`: {reason}", self.host))
    }

    fn failed(&self, code: ErrorCode, what: &str) -> Failure {
        Failure::new(code, format!("the search engine {what}")).help(GO_ON)
    }

    /// Awaits a future until the call's deadline or cancellation, which drops the future.
    async fn with_deadline<T>(
        &self,
        context: &CallContext,
        something: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let ended = context.stop.child(REQUEST_TIMEOUT).wait(something).await;
        ended.map_err(|reason| match reason {
            CancellationReason::Cancelled => Failure::new(ErrorCode::Cancelled, "the search was cancelled"),
            CancellationReason::Deadline => {
                Failure::new(ErrorCode::Timeout, "the search engine did not answer in time")
                    .help("search again later, or go on without")
            }
        })
    }
}

/// The endpoint: the configured URL plus the engine's own path.
fn endpoint(backend: SearchBackend, address: &str) -> Result<Url, WebSearchError> {
    let unusable = |reason: &str| WebSearchError::Address(reason.to_owned());
    let mut url = Url::parse(address.trim()).map_err(|_| unusable("it is not an address of the web"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(unusable("it is neither https nor http"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unusable("it has a password in it"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(unusable("it goes on after its path"));
    }
    let whole = format!("{}{}", url.path().trim_end_matches('/'), path(backend));
    url.set_path(&whole);
    Ok(url)
}

fn destination(endpoint: &Url) -> Result<(Host, u16), WebSearchError> {
    let unusable = |reason: String| WebSearchError::Address(reason);
    let host = Host::parse(endpoint.host_str().unwrap_or_default());
    let host = host.map_err(|error| unusable(error.to_string()))?;
    let port = endpoint.port_or_known_default().ok_or_else(|| unusable("it has no port".to_owned()))?;
    Ok((host, port))
}

/// Rejects link-local addresses: no search engine is there, but a cloud's metadata service that hands out credentials is. Private and loopback
/// addresses are allowed for a self-hosted engine.
fn refuse_link_local(host: &Host) -> Result<(), WebSearchError> {
    let Host::Address(address) = host else { return Ok(()) };
    match AddressClass::of(*address) {
        class @ (AddressClass::LinkLocal | AddressClass::Metadata) => {
            Err(WebSearchError::Address(format!("`{address}` is a {class} address")))
        }
        _ => Ok(()),
    }
}

/// The header value with the key, marked sensitive so that it is not printed.
fn header(backend: SearchBackend, key: &SearchKey) -> Option<HeaderValue> {
    let text = format!("{}{}", key_header(backend).before, key.expose());
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Resolves the engine's name once per connection, and returns only addresses that may be dialled.
struct FilteringResolver {
    rules: Arc<NetworkAllowlist>,
    resolver: Arc<dyn Resolve>,
    port: u16,
}

/// Why no address may be dialled, and the address that was the reason.
#[derive(Debug)]
struct AddressRejection(RefusalReason, Option<IpAddr>);

impl fmt::Display for AddressRejection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl std::error::Error for AddressRejection {}

impl reqwest::dns::Resolve for FilteringResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (rules, resolver, port) = (Arc::clone(&self.rules), Arc::clone(&self.resolver), self.port);
        Box::pin(async move {
            let host = Host::parse(name.as_str()).map_err(|error| AddressRejection(error.into(), None))?;
            let found = resolve_allowed(&rules, host, port, resolver, CONNECT_TIMEOUT).await;
            let destination = found.map_err(|(reason, address)| AddressRejection(reason, address))?;
            let addresses: Vec<_> = destination.addresses().collect();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// The rejection that caused an error, if one did.
fn refusal(error: &reqwest::Error) -> Option<&AddressRejection> {
    let mut reason: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = reason {
        if let Some(refused) = error.downcast_ref() {
            return Some(refused);
        }
        reason = error.source();
    }
    None
}

/// The root cause of a failed connection, without the URL: that contains the query.
fn root_cause(error: &reqwest::Error) -> String {
    let Some(mut reason) = std::error::Error::source(error) else {
        return "the connection failed".to_owned();
    };
    while let Some(source) = reason.source() {
        reason = source;
    }
    escape_control_chars(&reason.to_string())
}
