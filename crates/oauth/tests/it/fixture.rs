//! An MCP server and an authorization server whose documents a test can change, and a browser.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use toolgate_oauth::{
    LoginError, LoginOptions, PendingLogin, StoredToken, TokenBinding, TokenStore, plan_login,
};
use toolgate_types::StateKey;

/// A secret that no error may have in it.
pub(crate) const SECRET: &str = "hunter2-of-a-token";

/// What the servers answer, and what they were sent.
#[derive(Default)]
pub(crate) struct Servers {
    pub(crate) origin: String,
    pub(crate) challenge: String,
    pub(crate) resource: Value,
    pub(crate) metadata: Value,
    pub(crate) registration: Value,
    pub(crate) token: Value,
    pub(crate) token_status: u16,
    /// Where the token endpoint redirects to.
    pub(crate) token_redirect: Option<String>,
    /// Where the resource metadata redirects to.
    pub(crate) resource_redirect: Option<String>,
    /// Padding of the authorization server metadata.
    pub(crate) padding: usize,
    /// Requests: path, body, credentials.
    pub(crate) seen: Vec<(String, String)>,
    /// The refresh token that is taken; each is taken once.
    pub(crate) refresh_token: String,
    pub(crate) refreshes: usize,
}

pub(crate) type Shared = Arc<Mutex<Servers>>;

/// Both servers at one origin, well behaved.
pub(crate) async fn serve() -> Shared {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let servers = Servers {
        challenge: format!("Bearer resource_metadata=\"{origin}/prm\", scope=\"issues:read\""),
        resource: json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin]}),
        metadata: json!({
            "issuer": origin, "authorization_endpoint": format!("{origin}/authorize"),
            "token_endpoint": format!("{origin}/token"), "registration_endpoint": format!("{origin}/register"),
            "revocation_endpoint": format!("{origin}/revoke"), "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
        }),
        registration: json!({"client_id": "the-gate"}),
        token: json!({
            "access_token": SECRET, "token_type": "Bearer", "expires_in": 3600, "refresh_token": "refresh-0",
        }),
        token_status: 200,
        refresh_token: "refresh-0".to_owned(),
        origin,
        ..Servers::default()
    };
    let shared = Arc::new(Mutex::new(servers));
    let router = Router::new().fallback(any(answer)).with_state(Arc::clone(&shared));
    tokio::spawn(async move { axum::serve(listener, router).await });
    shared
}

async fn answer(State(shared): State<Shared>, request: axum::extract::Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    let mut servers = shared.lock().unwrap();
    let path = head.uri.path().to_owned();
    servers.seen.push((path.clone(), body.clone()));
    let json =
        |value: &Value| ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response();
    match path.as_str() {
        "/mcp" => {
            let mut headers = HeaderMap::new();
            headers.insert(header::WWW_AUTHENTICATE, servers.challenge.parse().unwrap());
            (StatusCode::UNAUTHORIZED, headers).into_response()
        }
        "/prm" | "/.well-known/oauth-protected-resource/mcp" => match &servers.resource_redirect {
            Some(to) => (StatusCode::FOUND, [(header::LOCATION, to.clone())]).into_response(),
            None => json(&servers.resource),
        },
        "/.well-known/oauth-authorization-server" => {
            let text = format!("{}{}", servers.metadata, " ".repeat(servers.padding));
            ([(header::CONTENT_TYPE, "application/json")], text).into_response()
        }
        "/endless" => Response::new(Body::from_stream(Endless)),
        "/register" => json(&servers.registration),
        "/token" => token(&mut servers, &body),
        "/revoke" => StatusCode::OK.into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

fn token(servers: &mut Servers, body: &str) -> Response {
    let status = StatusCode::from_u16(servers.token_status).unwrap();
    if let Some(to) = &servers.token_redirect {
        return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to.clone())]).into_response();
    }
    let mut token = servers.token.clone();
    if body.contains("grant_type=refresh_token") {
        // Rotation: a refresh token that comes twice withdraws the login.
        if !body.contains(&format!("refresh_token={}", servers.refresh_token)) {
            servers.refresh_token = "none".to_owned();
            let refusal = json!({"error": "invalid_grant", "error_description": SECRET});
            return (
                StatusCode::BAD_REQUEST,
                [(header::CONTENT_TYPE, "application/json")],
                refusal.to_string(),
            )
                .into_response();
        }
        servers.refreshes += 1;
        servers.refresh_token = format!("refresh-{}", servers.refreshes);
        token["access_token"] = json!(format!("{SECRET}-{}", servers.refreshes));
        token["refresh_token"] = json!(servers.refresh_token);
    }
    (status, [(header::CONTENT_TYPE, "application/json")], token.to_string()).into_response()
}

/// A body without end.
struct Endless;

impl futures_core::Stream for Endless {
    type Item = Result<Vec<u8>, std::convert::Infallible>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(Some(Ok(vec![b' '; 4096])))
    }
}

pub(crate) fn options(servers: &Shared) -> LoginOptions {
    LoginOptions { server: format!("{}/mcp", servers.lock().unwrap().origin), ..LoginOptions::default() }
}

/// Why no login is even begun.
pub(crate) async fn refused(servers: &Shared) -> LoginError {
    let plan = plan_login(options(servers)).await.err();
    plan.unwrap_or_else(|| panic!("{:?}", servers.lock().unwrap().metadata))
}

pub(crate) async fn begin(servers: &Shared) -> PendingLogin {
    plan_login(options(servers)).await.unwrap().begin().await.unwrap()
}

/// A parameter of the address that the browser opens.
pub(crate) fn parameter(url: &str, name: &str) -> String {
    let url = reqwest::Url::parse(url).unwrap();
    url.query_pairs()
        .find(|(known, _)| known == name)
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}

/// One request as bytes, and the status of its answer.
pub(crate) async fn request(redirect: &str, head: &str) -> String {
    let url = reqwest::Url::parse(redirect).unwrap();
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", url.port().unwrap())).await else {
        return "refused".to_owned();
    };
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap().lines().next().unwrap_or_default().to_owned()
}

/// A browser that was sent to the redirect URI with this query.
pub(crate) async fn visit(redirect: &str, query: &str) -> String {
    let host = redirect.trim_start_matches("http://").trim_end_matches("/callback");
    request(redirect, &format!("GET /callback?{query} HTTP/1.1\r\nHost: {host}\r\n\r\n")).await
}

/// The whole of a login, as a person makes it.
pub(crate) async fn log_in(servers: &Shared) -> Result<StoredToken, LoginError> {
    let pending = begin(servers).await;
    let (redirect, state) = (parameter(pending.url(), "redirect_uri"), parameter(pending.url(), "state"));
    let issuer = servers.lock().unwrap().origin.clone();
    let query = format!("code=the-code&state={state}&iss={issuer}");
    let (token, _) = tokio::join!(pending.wait(std::time::Duration::from_secs(20)), visit(&redirect, &query));
    token
}

/// A store of one user, and what a token in it belongs to.
pub(crate) fn store(folder: &TempDir, key: u8) -> Arc<TokenStore> {
    Arc::new(TokenStore::new(folder.path().join("tokens.toolgate"), Some(StateKey::new([key; 32]))))
}

pub(crate) fn binding(url: &str) -> TokenBinding {
    TokenBinding {
        configuration: "/home/alice/toolgate.yaml".to_owned(),
        server: "tracker".to_owned(),
        url: url.to_owned(),
        caller: None,
    }
}
