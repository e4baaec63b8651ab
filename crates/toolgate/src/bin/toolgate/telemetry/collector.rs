//! The HTTP client of the exporter: the one of this binary, on the thread of the SDK, without redirects.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, redirect};
use tokio::runtime::{Builder, Runtime};
use toolgate_assembly::notices::warn;

/// No answer of a collector is longer; the rest is not read.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Whether the headers of the environment go to the collector. They hold its credentials, and no file may say where those are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderSource {
    Environment,
    None,
}

/// Sends batches, one at a time.
#[derive(Debug)]
pub(super) struct Collector {
    headers: HeaderSource,
    timeout: Duration,
    /// Made with the first batch: a process that exports nothing needs neither.
    connection: Mutex<Option<(Runtime, Client)>>,
    has_complained: AtomicBool,
}

impl Collector {
    pub(super) fn new(headers: HeaderSource, timeout: Duration) -> Self {
        Self { headers, timeout, connection: Mutex::new(None), has_complained: AtomicBool::new(false) }
    }

    fn send(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        if self.headers == HeaderSource::None {
            let kept = request.headers_mut().remove(CONTENT_TYPE);
            request.headers_mut().clear();
            request.headers_mut().extend(kept.map(|kind| (CONTENT_TYPE, kind)));
        }
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if connection.is_none() {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let client = self.client(request.uri().scheme_str() == Some("http"))?;
            *connection = Some((runtime, client));
        }
        let Some((runtime, client)) = &*connection else { return Err("no connection".into()) };
        runtime.block_on(exchange(client, request))
    }

    fn client(&self, is_plain: bool) -> Result<Client, reqwest::Error> {
        let builder =
            Client::builder().redirect(redirect::Policy::none()).referer(false).timeout(self.timeout);
        // Without the certificates of the system no client can be made, not even one that needs none.
        if is_plain { builder.tls_certs_only([]).build() } else { builder.build() }
    }

    /// Once: the next batches will fail as well.
    fn complain(&self, host: &str, reason: &str) {
        if !self.has_complained.swap(true, Ordering::Relaxed) {
            warn(&format!("spans cannot be exported to {host}: {reason}; calls go on without"));
        }
    }
}

async fn exchange(client: &Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let mut answer = client.execute(request.try_into()?).await?;
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_ANSWER_BYTES {
            break;
        }
    }
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = answer.status();
    Ok(response)
}

type Sent<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

impl HttpClient for Collector {
    fn send_bytes<'life0, 'async_trait>(&'life0 self, request: Request<Bytes>) -> Sent<'async_trait>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let host = request.uri().authority().map(|name| name.host().to_owned()).unwrap_or_default();
            // Blocks, as the thread that waits here is the SDK's own.
            let sent = self.send(request);
            match &sent {
                Ok(answer) if answer.status().is_success() => {}
                Ok(answer) => self.complain(&host, &format!("it answered {}", answer.status())),
                Err(_) => self.complain(&host, "it cannot be reached"),
            }
            sent
        })
    }
}
