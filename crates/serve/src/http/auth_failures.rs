//! Rejecting unauthenticated requests, and recording calls with bad tokens.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::HOST;
use axum::http::{HeaderMap, Method, Response, StatusCode};
use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_gate::{CallOptions, Credential};
use toolgate_types::{Sha256, ToolCall};

use super::auth::{AuthRejection, AuthRequirement, AuthenticatedClient, bearer};
use super::connection_slots::ConnectionSlot;
use super::request_metrics::add;
use super::responses::{self, error_response, json_response, retry_later};
use super::server::{HttpServer, MCP_METADATA_PATH, MCP_PATH, Peer};
use crate::admission::RateLimit;

/// How much of a rejected request's body is read: enough for the record to name the tool.
const MAX_REJECTED_BODY_BYTES: usize = 64 * 1024;

/// Maximum size of the cache. When it is full, it is cleared and refills with use.
const MAX_KNOWN_TOKENS: usize = 4096;

/// Digests of tokens that were valid when last verified.
#[derive(Debug, Default)]
pub(super) struct KnownGoodTokenCache(Mutex<HashSet<Sha256>>);

impl KnownGoodTokenCache {
    fn contains(&self, token: &Sha256) -> bool {
        self.lock().contains(token)
    }

    fn record(&self, token: Sha256, is_good: bool) {
        let mut known = self.lock();
        if !is_good {
            known.remove(&token);
        } else if known.len() < MAX_KNOWN_TOKENS || known.contains(&token) {
            known.insert(token);
        } else {
            known.clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Sha256>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpServer {
    /// Authenticates a request, or returns the response that rejects it.
    pub(super) async fn admit(&self, request: &mut Request) -> Result<AuthenticatedClient, Response<Body>> {
        let token = self.issued_token(request.headers());
        let peer = request.extensions().get::<Peer>().map(|Peer(peer)| *peer);
        let is_unknown = token.as_ref().is_some_and(|token| !self.known_tokens.contains(token));
        // Verifying a signature costs CPU time. An address that sent too many bad tokens gets none for unknown tokens.
        if is_unknown && peer.is_some_and(|peer| self.unknown_tokens.is_exhausted(&peer)) {
            add(&self.meter.bad_token, 1);
            return Err(retry_later(StatusCode::TOO_MANY_REQUESTS, "too many bad tokens", "1"));
        }
        let admitted = self.options.auth.admit(request.headers(), self.service.front().gate()).await;
        if let Some(token) = token {
            self.known_tokens.record(token, admitted.is_ok());
        }
        match admitted {
            Ok(guest) => {
                if let Some(slot) = request.extensions_mut().remove::<Arc<ConnectionSlot>>() {
                    slot.mark_authenticated();
                }
                Ok(guest)
            }
            Err(stranger) => {
                let request = std::mem::replace(request, Request::new(Body::empty()));
                Err(self.reject(stranger, peer, request).await)
            }
        }
    }

    /// The digest of a token that needs to be verified.
    fn issued_token(&self, headers: &HeaderMap) -> Option<Sha256> {
        let is_issued = matches!(self.options.auth.requirement, AuthRequirement::Issued { .. });
        bearer(headers).filter(|_| is_issued).map(|token| Sha256::of(token.as_bytes()))
    }

    /// Rejects a request with a challenge. A call with a bad token still goes to the gate, which refuses and records it.
    async fn reject(
        &self,
        stranger: AuthRejection,
        peer: Option<IpAddr>,
        request: Request,
    ) -> Response<Body> {
        let challenge = self.challenge(request.headers(), &stranger);
        match stranger {
            AuthRejection::NoToken => {
                add(&self.meter.without_token, 1);
                responses::unauthorized(&challenge, "a bearer token is needed")
            }
            AuthRejection::BadToken(credential) => {
                add(&self.meter.bad_token, 1);
                let counts = |limit: &RateLimit<IpAddr>| peer.is_none_or(|peer| limit.check(peer));
                let (_, is_heard) = (counts(&self.unknown_tokens), counts(&self.bad_tokens));
                if !is_heard {
                    return retry_later(StatusCode::TOO_MANY_REQUESTS, "too many bad tokens", "60");
                }
                self.refuse_call(credential, request).await;
                responses::unauthorized(&challenge, "the token is not good here")
            }
        }
    }

    /// Records a call with a bad token. The record contains no arguments, because they were not parsed.
    async fn refuse_call(&self, credential: Credential, request: Request) {
        let (parts, body) = request.into_parts();
        if parts.uri.path() != MCP_PATH || parts.method != Method::POST {
            return;
        }
        let Ok(read) = self.reader.read_prefix(body, MAX_REJECTED_BODY_BYTES).await else { return };
        let Some(tool) = called_tool(&read.bytes, read.is_whole) else { return };
        // Cancelled in advance: even if the token has become valid since, this request must not run.
        let cancelled = CancellationToken::new();
        cancelled.cancel();
        let options = CallOptions { cancelled, ..CallOptions::default() };
        let called = self.service.front().call(ToolCall::new(tool, json!({})), credential, options).await;
        self.service.metrics.answered(&called);
    }

    /// `WWW-Authenticate`: where the resource metadata is (RFC 9728), and whether a token was rejected (RFC 6750).
    fn challenge(&self, headers: &HeaderMap, stranger: &AuthRejection) -> String {
        let mut parts = Vec::new();
        if let AuthRequirement::Issued { .. } = self.options.auth.requirement {
            parts.push(format!("resource_metadata=\"{}{MCP_METADATA_PATH}\"", self.base(headers)));
        } else {
            parts.push("realm=\"toolgate\"".to_owned());
        }
        if let AuthRejection::BadToken(_) = stranger {
            parts.push("error=\"invalid_token\"".to_owned());
        }
        format!("Bearer {}", parts.join(", "))
    }

    /// The base URL that clients use. `Host` was checked before.
    fn base(&self, headers: &HeaderMap) -> String {
        let host = || headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let public = self.options.public_url.as_deref().map(|url| url.trim_end_matches('/').to_owned());
        public.unwrap_or_else(|| format!("http://{}", host()))
    }
}

/// OAuth protected resource metadata (RFC 9728).
pub(super) async fn metadata(State(door): State<Arc<HttpServer>>, request: Request) -> Response<Body> {
    let AuthRequirement::Issued { issuer } = &door.options.auth.requirement else {
        return error_response(StatusCode::NOT_FOUND, "this gate takes no tokens of an issuer");
    };
    let resource = format!("{}{MCP_PATH}", door.base(request.headers()));
    let mut told = json!({
        "resource": resource, "resource_name": "Toolgate", "bearer_methods_supported": ["header"],
    });
    if let (Some(issuer), Value::Object(told)) = (issuer, &mut told) {
        told.insert("authorization_servers".to_owned(), json!([issuer]));
    }
    json_response(StatusCode::OK, &told)
}

/// The tool that a message calls, if it is a `tools/call`. A truncated message is assumed to be one unless its method was seen to
/// be another.
fn called_tool(bytes: &[u8], is_whole: bool) -> Option<String> {
    let mut seen = SeenCall::default();
    let mut reading = serde_json::Deserializer::from_slice(bytes);
    let read = CallSeed { seen: &mut seen, level: MessageLevel::Message }
        .deserialize(&mut reading)
        .and_then(|()| reading.end());
    // In a truncated message, what was parsed before the end counts. Malformed JSON is no message.
    let is_message = read.is_ok() || (!is_whole && read.is_err_and(|error| error.is_eof()));
    let SeenCall { method, tool } = seen;
    let is_call = method.as_deref().map_or(!is_whole, |method| method == "tools/call");
    let tool = if is_whole { tool? } else { tool.unwrap_or_default() };
    (is_message && is_call).then_some(tool)
}

/// The parts of a message that are kept.
#[derive(Default)]
struct SeenCall {
    method: Option<String>,
    tool: Option<String>,
}

/// The object that is being parsed.
#[derive(Clone, Copy)]
enum MessageLevel {
    Message,
    Params,
}

struct CallSeed<'s> {
    seen: &'s mut SeenCall,
    level: MessageLevel,
}

impl<'de> DeserializeSeed<'de> for CallSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for CallSeed<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
            match (self.level, &*name) {
                (MessageLevel::Message, "method") => self.seen.method = Some(fields.next_value()?),
                (MessageLevel::Message, "params") => {
                    fields
                        .next_value_seed(CallSeed { seen: &mut *self.seen, level: MessageLevel::Params })?;
                }
                (MessageLevel::Params, "name") => self.seen.tool = Some(fields.next_value()?),
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_stranger_only_the_tool_is_seen() {
        for (text, whole, cut) in [
            (r#"{"method":"tools/call","params":{"name":"t","arguments":{"a":[1]}}}"#, Some("t"), Some("t")),
            (
                r#"{"params":{"arguments":{"name":"x"},"name":"t"},"method":"tools/call"}"#,
                Some("t"),
                Some("t"),
            ),
            (r#"{"method":"tools/list","params":{"name":"t"}}"#, None, None),
            (r#"{"method":"tools/call","params":{}}"#, None, Some("")),
            (r#"{"method":"tools/call","params":{"name":"t","arguments":{"a":"xxx"#, None, Some("t")),
            (r#"{"params":{"arguments":{"a":"xxx"#, None, Some("")),
            (r#"{"method":"tools/call","params":{"name":7}}"#, None, None),
            (r#"{"method":"tools/call"}}"#, None, None),
            ("nonsense", None, None),
            ("[1", None, None),
        ] {
            assert_eq!(called_tool(text.as_bytes(), true).as_deref(), whole, "{text}");
            assert_eq!(called_tool(text.as_bytes(), false).as_deref(), cut, "{text}");
        }
    }

    #[test]
    fn tokens_become_familiar_and_are_forgotten() {
        let familiar = KnownGoodTokenCache::default();
        let token = |number: usize| Sha256::of(&number.to_be_bytes());
        assert!(!familiar.contains(&token(0)));
        familiar.record(token(0), true);
        assert!(familiar.contains(&token(0)));
        familiar.record(token(0), false);
        assert!(!familiar.contains(&token(0)));
        (0..10 * MAX_KNOWN_TOKENS).for_each(|number| familiar.record(token(number), true));
        assert!(familiar.lock().len() <= MAX_KNOWN_TOKENS);
    }
}
