//! The HTTP client of a login: bounded in size, time and redirects, and for checked addresses alone.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, LOCATION};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, redirect};
use toolgate_egress::SystemDialer;

use crate::address_policy::{AddressPolicy, is_loopback};
use crate::endpoint::{authority, endpoint, same_origin};
use crate::error::LoginError;

/// Timeout of one request, its body included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a document.
const MAX_DOCUMENT_BYTES: usize = 128 << 10;

/// How many redirects within one origin are followed.
const MAX_REDIRECTS: usize = 3;

/// Requests for one login.
#[derive(Clone, Debug)]
pub(crate) struct MetadataClient {
    client: Client,
    policy: AddressPolicy,
}

/// A response with its whole body.
pub(crate) struct Document {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

impl MetadataClient {
    /// A client for what the server at this URL names. Reads the system's certificates and resolves the server's name, so it works on a blocking thread.
    pub(crate) async fn new(server: &Url) -> Result<Self, LoginError> {
        let server = server.clone();
        let cannot = |reason: &str| LoginError::Machine { reason: reason.to_owned() };
        let built = tokio::task::spawn_blocking(move || {
            let policy = AddressPolicy::of_server(&server, Arc::new(SystemDialer));
            let builder = || {
                Client::builder()
                    .redirect(redirect::Policy::none())
                    .no_proxy()
                    .referer(false)
                    .connect_timeout(CONNECT_TIMEOUT)
                    .dns_resolver(Arc::new(policy.clone()))
            };
            // Plain HTTP to loopback needs no certificates, and some machines have none.
            let client = match builder().build() {
                Err(_) if is_loopback(&server) => builder().tls_certs_only([]).build(),
                built => built,
            };
            client.map(|client| Self { client, policy })
        });
        let built = built.await.map_err(|_| cannot("the client could not be made"))?;
        built.map_err(|_| cannot("the certificates of this machine could not be read"))
    }

    pub(crate) fn policy(&self) -> &AddressPolicy {
        &self.policy
    }

    /// A JSON document, if there is one at this URL.
    pub(crate) async fn get(&self, what: &'static str, url: &Url) -> Result<Option<Vec<u8>>, LoginError> {
        let mut at = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            self.policy.check_host(&at).map_err(|reason| LoginError::address(what, at.as_str(), reason))?;
            let request = self.client.get(at.clone()).header(ACCEPT, "application/json");
            let response = self.send(what, &at, request).await?;
            if response.status().is_redirection() {
                at = redirected(what, &at, &response)?;
                continue;
            }
            if response.status() != StatusCode::OK {
                return Ok(None);
            }
            return Ok(Some(self.read(what, &at, response).await?.body));
        }
        Err(fetch_error(what, url, "it redirects too often"))
    }

    /// Sends a request that is not followed anywhere.
    pub(crate) async fn exchange(
        &self,
        what: &'static str,
        url: &Url,
        build: impl FnOnce(&Client, Url) -> RequestBuilder,
    ) -> Result<Document, LoginError> {
        self.policy.check_host(url).map_err(|reason| LoginError::address(what, url.as_str(), reason))?;
        let response = self.send(what, url, build(&self.client, url.clone())).await?;
        if response.status().is_redirection() {
            return Err(fetch_error(what, url, "it redirects, which nothing secret follows"));
        }
        self.read(what, url, response).await
    }

    /// Only the head of a response.
    pub(crate) async fn head_of(
        &self,
        what: &'static str,
        url: &Url,
        build: impl FnOnce(&Client, Url) -> RequestBuilder,
    ) -> Result<Response, LoginError> {
        self.policy.check_host(url).map_err(|reason| LoginError::address(what, url.as_str(), reason))?;
        self.send(what, url, build(&self.client, url.clone())).await
    }

    async fn send(
        &self,
        what: &'static str,
        url: &Url,
        request: RequestBuilder,
    ) -> Result<Response, LoginError> {
        // The timeout also holds while the body is read.
        let sent = request.timeout(REQUEST_TIMEOUT).send().await;
        sent.map_err(|error| fetch_error(what, url, reason_of(&error)))
    }

    async fn read(
        &self,
        what: &'static str,
        url: &Url,
        mut response: Response,
    ) -> Result<Document, LoginError> {
        let (status, mut body) = (response.status(), Vec::new());
        loop {
            let piece = response.chunk().await.map_err(|error| fetch_error(what, url, reason_of(&error)))?;
            let Some(piece) = piece else { return Ok(Document { status, body }) };
            if body.len() + piece.len() > MAX_DOCUMENT_BYTES {
                return Err(fetch_error(what, url, "it is too long"));
            }
            body.extend_from_slice(&piece);
        }
    }
}

/// Where a redirect leads, if that is the same origin.
fn redirected(what: &'static str, from: &Url, response: &Response) -> Result<Url, LoginError> {
    let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    let to = location.and_then(|location| from.join(location).ok());
    to.filter(|to| same_origin(from, to)).ok_or_else(|| fetch_error(what, from, "it redirects elsewhere"))
}

pub(crate) fn fetch_error(what: &'static str, url: &Url, reason: &str) -> LoginError {
    LoginError::Fetch { what, host: authority(url), reason: reason.to_owned() }
}

/// Why a request failed, without its URL.
fn reason_of(error: &reqwest::Error) -> &'static str {
    match error {
        error if error.is_timeout() => "it took too long",
        error if error.is_connect() => "it could not be reached",
        _ => "the request failed",
    }
}

/// Parses an address of the operator's own, or of a stored token.
pub(crate) fn known_endpoint(
    what: &'static str,
    text: &str,
    client: &MetadataClient,
) -> Result<Url, LoginError> {
    endpoint(what, text, client.policy())
}
