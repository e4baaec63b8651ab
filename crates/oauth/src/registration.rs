//! Registers the gate as a client where the operator has not (RFC 7591).

use reqwest::{StatusCode, Url};
use serde::Deserialize;
use serde_json::json;

use crate::error::{LoginError, quoted};
use crate::metadata::AuthorizationServer;
use crate::metadata_client::{Document, MetadataClient};
use crate::token_endpoint::RegisteredClient;

/// What people are shown by the authorization server.
const CLIENT_NAME: &str = "Toolgate";

/// Maximum length of a client id or secret.
const MAX_ID_BYTES: usize = 4096;

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
    redirect_uris: Option<Vec<String>>,
    token_endpoint_auth_method: Option<String>,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}

/// The methods that are known, the least secret first.
const METHODS: [&str; 3] = ["none", "client_secret_basic", "client_secret_post"];

/// Registers a public client for exactly this redirect URI.
pub(crate) async fn register(
    http: &MetadataClient,
    server: &AuthorizationServer,
    redirect: &str,
    scopes: &[String],
) -> Result<RegisteredClient, LoginError> {
    let nowhere = || LoginError::NoRegistration { issuer: quoted(&server.issuer) };
    let at = server.registration_endpoint.as_ref().ok_or_else(nowhere)?;
    let offered = server.auth_methods.as_ref();
    let method = METHODS
        .into_iter()
        .find(|method| offered.is_none_or(|offered| offered.iter().any(|known| known == method)));
    let method = method.unwrap_or("none");
    let mut request = json!({
        "client_name": CLIENT_NAME, "application_type": "native", "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
        "token_endpoint_auth_method": method,
    });
    let plain = request.to_string();
    if let (false, Some(request)) = (scopes.is_empty(), request.as_object_mut()) {
        request.insert("scope".to_owned(), scopes.join(" ").into());
    }
    let mut answer = send(http, at, request.to_string()).await?;
    // Some servers want the scopes of a client, and others refuse those of a resource.
    if answer.status == StatusCode::BAD_REQUEST && !scopes.is_empty() {
        answer = send(http, at, plain).await?;
    }
    let refused = |reason: String| LoginError::Registration { reason };
    if !answer.status.is_success() {
        let error = serde_json::from_slice::<Refusal>(&answer.body).map(|refusal| quoted(&refusal.error));
        let error = error.map(|error| format!(" and `{error}`")).unwrap_or_default();
        return Err(refused(format!("it answered with status {}{error}", answer.status.as_u16())));
    }
    let registered: Registered = serde_json::from_slice(&answer.body)
        .map_err(|_| refused("its answer is no registration".to_owned()))?;
    if registered.redirect_uris.is_some_and(|uris| !uris.iter().any(|uri| uri == redirect)) {
        return Err(refused("it registered another redirect URI".to_owned()));
    }
    let secret = registered.client_secret.filter(|secret| !secret.is_empty());
    let is_usable = |text: &str| (1..=MAX_ID_BYTES).contains(&text.len()) && !text.contains(char::is_control);
    if !is_usable(&registered.client_id) || !secret.as_deref().is_none_or(is_usable) {
        return Err(refused("its client id cannot be used".to_owned()));
    }
    let method = registered.token_endpoint_auth_method.unwrap_or_else(|| method.to_owned());
    Ok(RegisteredClient {
        id: registered.client_id,
        secret: secret.filter(|_| method != "none"),
        secret_in_form: method == "client_secret_post",
    })
}

async fn send(http: &MetadataClient, at: &Url, body: String) -> Result<Document, LoginError> {
    let request = http.exchange("registration endpoint", at, |client, url| {
        client
            .post(url)
            .header("content-type", "application/json")
            .header("accept", "application/json")
            .body(body)
    });
    request.await
}
