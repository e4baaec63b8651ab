//! Fetches the key set of an issuer.
//!
//! One GET to a configured URL: https, or http to loopback; no redirects, no proxy from the environment, no
//! cookies, no credentials, and a maximum size. The caller sets the timeout.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;

use reqwest::{Client, ClientBuilder, Response, StatusCode, Url, redirect};
use tokio::sync::OnceCell;

use crate::error::FetchError;

/// Maximum size of a key set.
pub const MAX_KEY_SET_BYTES: usize = 256 * 1024;

/// A fetch in progress.
pub type FetchFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<u8>, FetchError>> + Send + 'a>>;

/// Fetches key sets: the only network access of this crate.
pub trait FetchKeys: Send + Sync {
    /// Fetches the bytes at this URL, which comes from the configuration.
    fn fetch<'a>(&'a self, url: &'a str) -> FetchFuture<'a>;
}

/// Fetches over HTTP. Clients are built on first use: most gates never fetch, and without CA certificates the
/// https client cannot be built.
#[derive(Debug, Default)]
pub struct HttpKeyFetcher {
    secure: OnceCell<Client>,
    loopback: OnceCell<Client>,
}

impl HttpKeyFetcher {
    /// Opens nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    async fn client(&self, address: EndpointKind) -> Result<&Client, FetchError> {
        match address {
            EndpointKind::Secure => self.secure.get_or_try_init(|| build(secure_client)).await,
            EndpointKind::Loopback => self.loopback.get_or_try_init(|| build(loopback_client)).await,
        }
    }

    async fn get(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        let (url, address) = checked_address(url).ok_or(FetchError::InsecureAddress)?;
        // rustls panics during certificate verification if the clock is before 1970.
        if matches!(address, EndpointKind::Secure) && toolgate_types::time::is_before_1970() {
            return Err(FetchError::Unreachable);
        }
        let request = self.client(address).await?.get(url).header("accept", "application/json");
        let response = request.send().await.map_err(|_| FetchError::Unreachable)?;
        match response.status() {
            StatusCode::OK => body(response).await,
            status if status.is_redirection() => Err(FetchError::Redirected),
            status => Err(FetchError::Status { status: status.as_u16() }),
        }
    }
}

impl FetchKeys for HttpKeyFetcher {
    fn fetch<'a>(&'a self, url: &'a str) -> FetchFuture<'a> {
        Box::pin(self.get(url))
    }
}

/// Loads the system's certificates, so it runs on a blocking thread.
async fn build(make: fn() -> ClientBuilder) -> Result<Client, FetchError> {
    let built = tokio::task::spawn_blocking(move || make().build()).await;
    built.map_err(|_| FetchError::Aborted)?.map_err(|_| FetchError::NoClient)
}

fn secure_client() -> ClientBuilder {
    Client::builder().redirect(redirect::Policy::none()).no_proxy().referer(false).https_only(true)
}

/// For plain http to loopback. It trusts no certificate, so that it can be built where none are installed.
fn loopback_client() -> ClientBuilder {
    Client::builder().redirect(redirect::Policy::none()).no_proxy().referer(false).tls_certs_only([])
}

async fn body(mut response: Response) -> Result<Vec<u8>, FetchError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| FetchError::Unreachable)? {
        if body.len() + chunk.len() > MAX_KEY_SET_BYTES {
            return Err(FetchError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The kind of an allowed URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndpointKind {
    Secure,
    Loopback,
}

/// Whether keys may be fetched from this URL.
pub(crate) fn is_allowed_address(url: &str) -> bool {
    checked_address(url).is_some()
}

/// A URL for display: a password in it must not end up in a log.
pub(crate) fn redact_password(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) if url.username().is_empty() && url.password().is_none() => text.to_owned(),
        Ok(url) => format!("{}://…@{}", url.scheme(), url.host_str().unwrap_or_default()),
        Err(_) if text.contains('@') => "…".to_owned(),
        Err(_) => text.to_owned(),
    }
}

fn checked_address(text: &str) -> Option<(Url, EndpointKind)> {
    let url = Url::parse(text).ok()?;
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return None;
    }
    match url.scheme() {
        "https" => Some((url, EndpointKind::Secure)),
        "http" if is_loopback(url.host_str()?) => Some((url, EndpointKind::Loopback)),
        _ => None,
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_or_this_machine() {
        for good in [
            "https://issuer.example/.well-known/jwks.json",
            "https://issuer.example:8443/keys?tenant=1",
            "http://127.0.0.1:9000/keys",
            "http://[::1]/keys",
            "http://localhost/keys",
        ] {
            assert!(is_allowed_address(good), "{good} was refused");
        }
        for bad in [
            "",
            "issuer.example",
            "http://issuer.example/keys",
            "http://127.0.0.1.issuer.example/keys",
            "http://localhost.issuer.example/",
            "http://169.254.169.254/",
            "http://0.0.0.0/",
            "http://10.0.0.1/",
            "file:///etc/passwd",
            "ftp://127.0.0.1/",
            "https://user@issuer.example/",
            "https://:x@issuer.example/",
            "http://127.0.0.1@issuer.example/",
            "https://issuer.example/#keys",
            "data:,x",
            "https://",
        ] {
            assert!(!is_allowed_address(bad), "{bad} was accepted");
        }
    }
}
