//! `Idempotency-Key`: a repeated request gets the answer of the first one.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, Response, StatusCode};
use axum::middleware::Next;
use toolgate_serve::{ApiClient, ClientOwner, Problem};
use toolgate_types::Sha256;

use crate::failure::{conflict, invalid};
use crate::state::ApiState;

const HEADER: &str = "idempotency-key";
const REPLAYED: &str = "idempotency-replayed";

/// How long an answer is kept, how many are, and how long the longest of them is.
const KEPT_FOR: Duration = Duration::from_secs(10 * 60);
const MAX_ANSWERS: usize = 512;
const MAX_ANSWER_BYTES: usize = 64 * 1024;
const MAX_KEY_BYTES: usize = 128;

/// The answers that are kept.
#[derive(Default)]
pub(crate) struct IdempotencyCache(Mutex<Answers>);

#[derive(Default)]
struct Answers {
    known: HashMap<RequestKey, KnownAnswer>,
    order: VecDeque<RequestKey>,
}

/// A key belongs to its caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RequestKey {
    owner: ClientOwner,
    key: String,
}

struct KnownAnswer {
    /// Digest of the method, the path and the body.
    request: Sha256,
    at: Instant,
    /// Absent while the first request is being answered.
    answer: Option<StoredAnswer>,
}

#[derive(Clone)]
struct StoredAnswer {
    status: StatusCode,
    kind: Option<HeaderValue>,
    body: Bytes,
}

/// What a key means for a request.
enum KeyUse {
    First,
    Repeated(StoredAnswer),
    Running,
    Mismatch,
}

/// Answers a repeated request with the stored answer.
pub(crate) async fn answer_once(
    State(state): State<Arc<ApiState>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let is_unsafe = matches!(*request.method(), Method::POST | Method::PATCH | Method::DELETE);
    let (Some(key), Some(client)) =
        (request.headers().get(HEADER).filter(|_| is_unsafe), request.extensions().get::<ApiClient>())
    else {
        return next.run(request).await;
    };
    let is_good = |key: &&str| (1..=MAX_KEY_BYTES).contains(&key.len());
    let Some(key) = key.to_str().ok().filter(is_good) else {
        return invalid("`Idempotency-Key` is empty or too long").into_response();
    };
    let key = RequestKey { owner: client.owner, key: key.to_owned() };
    let (parts, body) = request.into_parts();
    // The HTTP server has read and bounded it.
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return invalid("the body is incomplete").into_response();
    };
    let head = format!("{} {}\n", parts.method, parts.uri);
    let digest = Sha256::of(&[head.as_bytes(), &body].concat());
    match state.idempotency.begin(&key, digest) {
        KeyUse::First => {}
        KeyUse::Repeated(answer) => return answer.into_response(),
        KeyUse::Running => {
            return conflict("conflict", "the first request with this key is not answered yet")
                .into_response();
        }
        KeyUse::Mismatch => {
            let detail = "this `Idempotency-Key` was used with another request";
            return Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_mismatch", detail)
                .into_response();
        }
    }
    let forgets = ForgetOnDrop { cache: &state.idempotency, key: Some(&key) };
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    if response.status().is_server_error() {
        return response;
    }
    let (parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else { return invalid("no answer").into_response() };
    if body.len() <= MAX_ANSWER_BYTES {
        let kind = parts.headers.get(CONTENT_TYPE).cloned();
        state.idempotency.finish(&key, StoredAnswer { status: parts.status, kind, body: body.clone() });
        forgets.disarm();
    }
    Response::from_parts(parts, Body::from(body))
}

impl StoredAnswer {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        if let Some(kind) = self.kind {
            response.headers_mut().insert(CONTENT_TYPE, kind);
        }
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        response
    }
}

/// Forgets a key whose request was not answered: its client may try again.
struct ForgetOnDrop<'c> {
    cache: &'c IdempotencyCache,
    key: Option<&'c RequestKey>,
}

impl ForgetOnDrop<'_> {
    fn disarm(mut self) {
        self.key = None;
    }
}

impl Drop for ForgetOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.cache.lock().known.remove(key);
        }
    }
}

impl IdempotencyCache {
    fn begin(&self, key: &RequestKey, request: Sha256) -> KeyUse {
        let (mut answers, now) = (self.lock(), Instant::now());
        answers.sweep(now);
        if let Some(known) = answers.known.get(key) {
            return match &known.answer {
                _ if known.request != request => KeyUse::Mismatch,
                Some(answer) => KeyUse::Repeated(answer.clone()),
                None => KeyUse::Running,
            };
        }
        answers.known.insert(key.clone(), KnownAnswer { request, at: now, answer: None });
        answers.order.push_back(key.clone());
        KeyUse::First
    }

    fn finish(&self, key: &RequestKey, answer: StoredAnswer) {
        if let Some(known) = self.lock().known.get_mut(key) {
            known.answer = Some(answer);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answers {
    /// Drops the oldest answers while they are too old or too many.
    fn sweep(&mut self, now: Instant) {
        while let Some(oldest) = self.order.front() {
            let age = self.known.get(oldest).map(|known| now.saturating_duration_since(known.at));
            if self.order.len() <= MAX_ANSWERS && age.is_some_and(|age| age < KEPT_FOR) {
                return;
            }
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }
}
