//! `Idempotency-Key`: a repeated request gets the answer of the first one.
//!
//! A request with a key goes on when its client leaves, since the client may come back for its answer: otherwise a lost connection would leave a call half
//! done, and its repetition would do it again. Keys are kept in memory, so a restart forgets them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, Response, StatusCode};
use axum::middleware::Next;
use toolgate_serve::{ApiClient, ClientOwner, Problem};
use toolgate_types::Sha256;
use tracing::instrument::Instrument as _;

use crate::failure::{conflict, internal, invalid, unavailable};
use crate::state::ApiState;

const HEADER: &str = "idempotency-key";
const REPLAYED: &str = "idempotency-replayed";

/// How long an answer is kept, how many of one caller and of all are, and how long the longest of them is.
const KEPT_FOR: Duration = Duration::from_secs(10 * 60);
const MAX_ANSWERS_PER_CALLER: usize = 256;
const MAX_ANSWERS: usize = 2048;
const MAX_ANSWER_BYTES: usize = 16 * 1024;
const MAX_KEY_BYTES: usize = 128;

/// The answers that are kept, by caller: a key belongs to its caller, and the keys of one caller do not push out those of another.
#[derive(Default)]
pub(crate) struct IdempotencyCache(Mutex<HashMap<ClientOwner, Answers>>);

/// The answers of one caller, by key.
type Answers = HashMap<String, KnownAnswer>;

struct KnownAnswer {
    /// Digest of the method, the path and the body.
    request: Sha256,
    at: Instant,
    progress: Progress,
}

enum Progress {
    /// The first request is being answered.
    Running,
    Answered(StoredAnswer),
    /// It was answered with more than is kept.
    AnsweredAtLength,
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
    AnsweredAtLength,
    Mismatch,
    /// This caller has too many requests with keys under way.
    TooMany,
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
    let (owner, key) = (client.owner, key.to_owned());
    let (parts, body) = request.into_parts();
    // The HTTP server has read and bounded it.
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return invalid("the body is incomplete").into_response();
    };
    let head = format!("{} {}\n", parts.method, parts.uri);
    let digest = Sha256::of(&[head.as_bytes(), &body].concat());
    match state.idempotency.begin(owner, &key, digest, Instant::now()) {
        KeyUse::First => {}
        refused => return refused.into_response(),
    }
    let first = FirstRequest { state, owner, key, is_answered: false };
    let request = Request::from_parts(parts, Body::from(body));
    // In a task of its own: it goes on without its client.
    let answering = tokio::spawn(first.answer(request, next).in_current_span());
    answering.await.unwrap_or_else(|_| internal("answering the request").into_response())
}

impl KeyUse {
    fn into_response(self) -> Response<Body> {
        let problem = match self {
            Self::Repeated(answer) => return answer.into_response(),
            Self::First | Self::Running => {
                conflict("conflict", "the first request with this key is not answered yet")
                    .help("repeat it in a moment")
            }
            Self::AnsweredAtLength => conflict(
                "answered",
                "the first request with this key was answered, at more length than is kept",
            )
            .help("do not repeat it: it was carried out"),
            Self::Mismatch => {
                let detail = "this `Idempotency-Key` was used with another request";
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_mismatch", detail)
            }
            Self::TooMany => unavailable("too many requests with an `Idempotency-Key` are under way"),
        };
        problem.into_response()
    }
}

/// The first request with a key. Dropping it forgets the key, unless it was answered: its client may try again.
struct FirstRequest {
    state: Arc<ApiState>,
    owner: ClientOwner,
    key: String,
    is_answered: bool,
}

impl FirstRequest {
    async fn answer(mut self, request: Request, next: Next) -> Response<Body> {
        let response = next.run(request).await;
        if response.status().is_server_error() {
            return response;
        }
        let (parts, body) = response.into_parts();
        let Ok(body) = to_bytes(body, usize::MAX).await else {
            return internal("reading the answer").into_response();
        };
        let progress = match body.len() <= MAX_ANSWER_BYTES {
            true => {
                let kind = parts.headers.get(CONTENT_TYPE).cloned();
                Progress::Answered(StoredAnswer { status: parts.status, kind, body: body.clone() })
            }
            false => Progress::AnsweredAtLength,
        };
        self.is_answered = true;
        self.state.idempotency.finish(self.owner, &self.key, progress);
        Response::from_parts(parts, Body::from(body))
    }
}

impl Drop for FirstRequest {
    fn drop(&mut self) {
        if !self.is_answered
            && let Some(answers) = self.state.idempotency.lock().get_mut(&self.owner)
        {
            answers.remove(&self.key);
        }
    }
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

impl IdempotencyCache {
    fn begin(&self, owner: ClientOwner, key: &str, request: Sha256, now: Instant) -> KeyUse {
        let mut all = self.lock();
        all.retain(|_, answers| {
            answers
                .retain(|_, known| known.is_running() || now.saturating_duration_since(known.at) < KEPT_FOR);
            !answers.is_empty()
        });
        let own = all.entry(owner).or_default();
        if let Some(known) = own.get(key) {
            return match &known.progress {
                _ if known.request != request => KeyUse::Mismatch,
                Progress::Answered(answer) => KeyUse::Repeated(answer.clone()),
                Progress::AnsweredAtLength => KeyUse::AnsweredAtLength,
                Progress::Running => KeyUse::Running,
            };
        }
        if own.len() >= MAX_ANSWERS_PER_CALLER && !forget_oldest(own) {
            return KeyUse::TooMany;
        }
        own.insert(key.to_owned(), KnownAnswer { request, at: now, progress: Progress::Running });
        // Of too many callers, the one with most answers loses its oldest.
        if all.values().map(Answers::len).sum::<usize>() > MAX_ANSWERS
            && let Some(largest) = all.values_mut().max_by_key(|answers| answers.len())
        {
            forget_oldest(largest);
        }
        KeyUse::First
    }

    fn finish(&self, owner: ClientOwner, key: &str, progress: Progress) {
        if let Some(known) = self.lock().get_mut(&owner).and_then(|answers| answers.get_mut(key)) {
            known.progress = progress;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClientOwner, Answers>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownAnswer {
    fn is_running(&self) -> bool {
        matches!(self.progress, Progress::Running)
    }
}

/// Forgets the oldest answer; whether there was one. A key whose request is being answered stays: repeated now, the request would be carried out twice.
fn forget_oldest(answers: &mut Answers) -> bool {
    let answered = answers.iter().filter(|(_, known)| !known.is_running());
    let oldest = answered.min_by_key(|(_, known)| known.at).map(|(key, _)| key.clone());
    oldest.is_some_and(|oldest| answers.remove(&oldest).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: fn(&str) -> Progress = |text| {
        let body = Bytes::copy_from_slice(text.as_bytes());
        Progress::Answered(StoredAnswer { status: StatusCode::OK, kind: None, body })
    };

    fn owner(number: u8) -> ClientOwner {
        ClientOwner::Caller(Sha256::of(&[number]))
    }

    fn body(found: KeyUse) -> String {
        match found {
            KeyUse::Repeated(answer) => String::from_utf8(answer.body.to_vec()).unwrap(),
            KeyUse::First => "first".to_owned(),
            KeyUse::Running => "running".to_owned(),
            KeyUse::AnsweredAtLength => "at length".to_owned(),
            KeyUse::Mismatch => "mismatch".to_owned(),
            KeyUse::TooMany => "too many".to_owned(),
        }
    }

    #[test]
    fn a_key_counts_for_its_caller_and_request_until_it_is_too_old() {
        let (cache, start) = (IdempotencyCache::default(), Instant::now());
        let request = Sha256::of(b"request");
        let ask = |number, key, request, at| body(cache.begin(owner(number), key, request, at));
        assert_eq!(ask(1, "key", request, start), "first");
        assert_eq!(ask(1, "key", request, start), "running");
        assert_eq!(ask(2, "key", request, start), "first", "another caller's");
        cache.finish(owner(1), "key", ANSWER("one"));
        cache.finish(owner(2), "key", Progress::AnsweredAtLength);
        assert_eq!(ask(1, "key", request, start), "one");
        assert_eq!(ask(2, "key", request, start), "at length");
        assert_eq!(ask(1, "key", Sha256::of(b"another"), start), "mismatch");
        assert_eq!(ask(1, "key", request, start + KEPT_FOR), "first");
    }

    #[test]
    fn a_caller_that_uses_keys_without_end_pushes_out_its_own_and_no_running_one() {
        let (cache, start) = (IdempotencyCache::default(), Instant::now());
        let request = Sha256::of(b"request");
        let ask = |number, key: &str, at| body(cache.begin(owner(number), key, request, at));
        ask(1, "kept", start);
        cache.finish(owner(1), "kept", ANSWER("kept"));
        ask(2, "running", start);
        for number in 0..2 * MAX_ANSWERS {
            let (key, at) = (number.to_string(), start + Duration::from_millis(number as u64 / 10));
            ask(2, &key, at);
            cache.finish(owner(2), &key, ANSWER("x"));
        }
        let (end, last) = (start + KEPT_FOR / 2, (2 * MAX_ANSWERS - 1).to_string());
        assert_eq!(ask(1, "kept", end), "kept");
        assert_eq!(ask(2, "running", end), "running");
        assert_eq!(ask(2, &last, end), "x");
        assert_eq!(ask(2, "0", end), "first", "the oldest is forgotten");
        let own = cache.lock().get(&owner(2)).unwrap().len();
        assert_eq!(own, MAX_ANSWERS_PER_CALLER);
    }

    #[test]
    fn many_callers_and_running_requests_are_bounded() {
        let (cache, start) = (IdempotencyCache::default(), Instant::now());
        let request = Sha256::of(b"request");
        for number in 0..=u8::MAX {
            for key in 0..32 {
                cache.begin(owner(number), &key.to_string(), request, start);
                cache.finish(owner(number), &key.to_string(), ANSWER("x"));
            }
        }
        let total: usize = cache.lock().values().map(Answers::len).sum();
        assert!(total <= MAX_ANSWERS, "{total}");
        let cache = IdempotencyCache::default();
        let asked = (0..=MAX_ANSWERS_PER_CALLER)
            .map(|key| body(cache.begin(owner(1), &key.to_string(), request, start)));
        assert_eq!(asked.last().unwrap(), "too many");
    }
}
