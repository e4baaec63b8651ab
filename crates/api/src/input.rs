//! Bodies, paths and queries of requests. What is wrong with them is answered as problem details.

use std::str::FromStr;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use toolgate_serve::Problem;
use toolgate_types::{CallId, SessionId};

use crate::failure::{invalid, not_found};

/// A body in JSON. An empty one counts as an empty object.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_json = kind.is_some_and(|kind| {
            kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
        });
        let has_kind = kind.is_some();
        let unread = |_| Problem::new(StatusCode::BAD_REQUEST, "invalid_request", "the body is incomplete");
        let bytes = Bytes::from_request(request, state).await.map_err(unread)?;
        if !is_json && (has_kind || !bytes.is_empty()) {
            let detail = "send the body as `Content-Type: application/json`";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_request", detail));
        }
        let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        // Serde also reads a struct from an array.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(invalid("the body is not a JSON object"));
        }
        serde_json::from_slice(bytes).map(Self).map_err(|error| match error.is_data() {
            true => invalid(format!("the body does not fit: {error}")),
            false => {
                let detail = format!("the body is not JSON: {error}");
                Problem::new(StatusCode::BAD_REQUEST, "invalid_request", detail)
            }
        })
    }
}

/// A query.
pub(crate) struct QueryOf<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryOf<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Query::<T>::from_request_parts(parts, state).await;
        read.map(|Query(query)| Self(query)).map_err(|error| invalid(error.body_text()))
    }
}

/// An id in a path. One that cannot exist does not exist.
fn id<T: FromStr>(text: &str, what: &str) -> Result<T, Problem> {
    text.parse().map_err(|_| not_found(format!("there is no such {what}")))
}

pub(crate) fn session_id(text: &str) -> Result<SessionId, Problem> {
    id(text, "session")
}

pub(crate) fn call_id(text: &str) -> Result<CallId, Problem> {
    id(text, "call")
}

/// How many items a page of a list has at most, and by default.
pub(crate) fn page_size(asked: Option<usize>) -> usize {
    const DEFAULT: usize = 50;
    const MAX: usize = 200;
    asked.unwrap_or(DEFAULT).clamp(1, MAX)
}
