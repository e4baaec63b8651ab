//! Whoever cannot say who it is: what it is told, and what is kept of it.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::HOST;
use axum::http::{HeaderMap, Method, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_gate::{CallOptions, Credential};
use toolgate_types::ToolCall;

use super::answers::{self, in_json, later, refusal};
use super::body::Read;
use super::door::{Door, MCP, MCP_METADATA, Peer};
use super::meter::add;
use super::who::{Demand, Guest, Stranger};

impl Door {
    /// Lets somebody in, or says why not.
    pub(super) async fn admit(&self, request: &mut Request) -> Result<Guest, Response<Body>> {
        match self.options.auth.admit(request.headers(), self.service.front().gate()).await {
            Ok(guest) => Ok(guest),
            Err(stranger) => {
                let request = std::mem::replace(request, Request::new(Body::empty()));
                Err(self.turn_away(stranger, request).await)
            }
        }
    }

    /// Says how to come in. A call that came with a bad token goes to the gate all the same, which refuses it and records it.
    async fn turn_away(&self, stranger: Stranger, request: Request) -> Response<Body> {
        let challenge = self.challenge(request.headers(), &stranger);
        match stranger {
            Stranger::NoToken => {
                add(&self.meter.without_token, 1);
                answers::unauthorized(&challenge, "a bearer token is needed")
            }
            Stranger::BadToken(credential) => {
                add(&self.meter.bad_token, 1);
                let peer = request.extensions().get::<Peer>().copied();
                if peer.is_some_and(|Peer(peer)| !self.bad_tokens.admits(peer, Instant::now())) {
                    return later(StatusCode::TOO_MANY_REQUESTS, "too many bad tokens", "60");
                }
                self.refuse_call(credential, request).await;
                answers::unauthorized(&challenge, "the token is not good here")
            }
        }
    }

    /// One record for a call that nobody may make.
    async fn refuse_call(&self, credential: Credential, request: Request) {
        let (parts, body) = request.into_parts();
        if parts.uri.path() != MCP || parts.method != Method::POST {
            return;
        }
        let Ok(Read { bytes, .. }) = self.reader.read(body).await else { return };
        let Some(call) = called(&bytes) else { return };
        // Should the token have become good in this moment, it is still not this request that it is good for.
        let cancelled = CancellationToken::new();
        cancelled.cancel();
        let options = CallOptions { cancelled, ..CallOptions::default() };
        let called = self.service.front().call(call, credential, options).await;
        self.service.metrics.count(None, &called);
    }

    /// `WWW-Authenticate`: where to learn how to get a token, and whether one was tried.
    fn challenge(&self, headers: &HeaderMap, stranger: &Stranger) -> String {
        let mut parts = Vec::new();
        if let Demand::Issued { .. } = self.options.auth.demand {
            parts.push(format!("resource_metadata=\"{}{MCP_METADATA}\"", self.base(headers)));
        } else {
            parts.push("realm=\"toolgate\"".to_owned());
        }
        if let Stranger::BadToken(_) = stranger {
            parts.push("error=\"invalid_token\"".to_owned());
        }
        format!("Bearer {}", parts.join(", "))
    }

    /// The address that clients know this door by. `Host` was checked before.
    fn base(&self, headers: &HeaderMap) -> String {
        let host = || headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let public = self.options.public_url.as_deref().map(|url| url.trim_end_matches('/').to_owned());
        public.unwrap_or_else(|| format!("http://{}", host()))
    }
}

/// RFC 9728: what is protected here, and by whom.
pub(super) async fn metadata(State(door): State<Arc<Door>>, request: Request) -> Response<Body> {
    let Demand::Issued { issuer } = &door.options.auth.demand else {
        return refusal(StatusCode::NOT_FOUND, "this gate takes no tokens of an issuer");
    };
    let resource = format!("{}{MCP}", door.base(request.headers()));
    let mut told = json!({
        "resource": resource, "resource_name": "Toolgate", "bearer_methods_supported": ["header"],
    });
    if let (Some(issuer), Value::Object(told)) = (issuer, &mut told) {
        told.insert("authorization_servers".to_owned(), json!([issuer]));
    }
    in_json(StatusCode::OK, &told)
}

/// The call that a message makes, if it makes one.
fn called(bytes: &[u8]) -> Option<ToolCall> {
    #[derive(Deserialize)]
    struct Message {
        method: String,
        params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        name: String,
        #[serde(default)]
        arguments: Option<Value>,
    }
    let Message { method, params } = serde_json::from_slice(bytes).ok()?;
    let arguments = params.arguments.unwrap_or_else(|| json!({}));
    (method == "tools/call").then(|| ToolCall::new(params.name, arguments))
}
