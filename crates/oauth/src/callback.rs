//! The listener at the redirect URI: `http://127.0.0.1:PORT/callback` (RFC 8252, section 7.3).
//!
//! Every process and every page of this machine can connect to it. So a request counts only with the exact `Host` (DNS rebinding), path and method, and
//! with the state of the login. Any other is refused, and does not end the login. After the first one that counts, the port is closed: a code that is
//! sent again is refused.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};

use crate::authorization_response::AuthorizationResponse;
use crate::error::LoginError;

/// The path of the redirect URI.
const PATH: &str = "/callback";

/// Timeout of one connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum concurrent connections; more wait.
const MAX_CONNECTIONS: usize = 16;

/// Maximum size of a request's head.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// A port that waits for the response of one login.
pub(crate) struct CallbackListener {
    listener: TcpListener,
    authority: String,
}

impl CallbackListener {
    /// Listens on a free port, and on loopback alone.
    pub(crate) async fn bind() -> Result<Self, LoginError> {
        let failed = |error: std::io::Error| LoginError::Machine { reason: error.to_string() };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let authority = listener.local_addr().map_err(failed)?.to_string();
        Ok(Self { listener, authority })
    }

    /// The redirect URI.
    pub(crate) fn redirect_uri(&self) -> String {
        format!("http://{}{PATH}", self.authority)
    }

    /// Waits for the response with this state, and closes the port.
    pub(crate) async fn wait(self, state: &str) -> AuthorizationResponse {
        let (sender, mut found) = mpsc::channel(1);
        let expected = Arc::new(Expected { authority: self.authority, state: state.to_owned(), sender });
        tokio::select! {
            Some(response) = found.recv() => response,
            never = accept(self.listener, expected) => match never {},
        }
    }
}

async fn accept(listener: TcpListener, expected: Arc<Expected>) -> Infallible {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // An error of `accept` is one of this connection, or a lack of descriptors that passes.
        let (Ok(place), Ok((stream, _))) =
            (Arc::clone(&places).acquire_owned().await, listener.accept().await)
        else {
            tokio::task::yield_now().await;
            continue;
        };
        let expected = Arc::clone(&expected);
        drop(tokio::spawn(async move {
            let _place = place;
            let _ = tokio::time::timeout(CONNECTION_TIMEOUT, serve(stream, expected)).await;
        }));
    }
}

/// What a request must have.
struct Expected {
    authority: String,
    state: String,
    sender: mpsc::Sender<AuthorizationResponse>,
}

impl Expected {
    /// The answer to a request, and the response of the login if it is one.
    fn check(&self, request: &Request<Incoming>) -> Result<AuthorizationResponse, StatusCode> {
        let mut hosts = request.headers().get_all(HOST).iter();
        let is_own = hosts.next().is_some_and(|host| host.as_bytes() == self.authority.as_bytes());
        if !is_own || hosts.next().is_some() || request.uri().authority().is_some() {
            return Err(StatusCode::MISDIRECTED_REQUEST);
        }
        if request.uri().path() != PATH {
            return Err(StatusCode::NOT_FOUND);
        }
        if request.method() != Method::GET {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        let query = request.uri().query().unwrap_or_default();
        AuthorizationResponse::read(query, &self.state).ok_or(StatusCode::BAD_REQUEST)
    }
}

/// Serves one request.
async fn serve(stream: TcpStream, expected: Arc<Expected>) {
    let service = service_fn(|request: Request<Incoming>| {
        let expected = Arc::clone(&expected);
        async move {
            let page = match expected.check(&request) {
                Ok(response) => {
                    let is_refusal = response.error.is_some();
                    // Full only if another one came first, and that one counts.
                    match expected.sender.try_send(response) {
                        Ok(()) if is_refusal => {
                            page(StatusCode::OK, "The login was refused. You can close this page.")
                        }
                        Ok(()) => page(StatusCode::OK, "The gate has the answer. You can close this page."),
                        Err(_) => page(StatusCode::GONE, "This login is over."),
                    }
                }
                Err(status) => page(status, "This is not the answer to the login."),
            };
            Ok::<_, Infallible>(page)
        }
    });
    let mut builder = http1::Builder::new();
    builder.keep_alive(false).max_buf_size(MAX_HEAD_BYTES).timer(TokioTimer::new());
    builder.header_read_timeout(CONNECTION_TIMEOUT);
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

/// A page without scripts that passes on neither the code nor the state.
fn page(status: StatusCode, text: &str) -> Response<String> {
    let mut response =
        Response::new(format!("<!doctype html><meta charset=utf-8><title>Toolgate</title><p>{text}</p>\n"));
    *response.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (CONNECTION, "close"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
