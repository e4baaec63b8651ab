//! The files of the page. They hold nothing of a caller, so everyone may read them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};

use super::application::PageFile;
use super::responses::{error_response, method_not_allowed, text_response};
use super::server::HttpServer;

const TEXT: &str = "text/plain; charset=utf-8";

/// A request that no other route takes.
pub(super) async fn page(State(door): State<Arc<HttpServer>>, request: Request) -> Response<Body> {
    let Some(source) = &door.options.application.page else {
        return error_response(StatusCode::NOT_FOUND, "there is nothing here; MCP is at /mcp");
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return method_not_allowed();
    }
    let path = request.uri().path();
    let text = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    let accepted = text(ACCEPT_ENCODING).unwrap_or_default();
    // A path without an extension is a view of the page, which it shows itself.
    let is_view = || !path.rsplit('/').next().unwrap_or_default().contains('.');
    let file =
        source.file(path, accepted).or_else(|| is_view().then(|| source.file("/", accepted)).flatten());
    let mut response = match file {
        Some(file) => {
            let is_known = text(IF_NONE_MATCH).is_some_and(|known| {
                known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == file.etag)
            });
            page_response(&file, is_known)
        }
        None if path == "/" => text_response(StatusCode::OK, TEXT, source.fallback()),
        None => text_response(StatusCode::NOT_FOUND, TEXT, "there is no such file\n"),
    };
    for (name, value) in source.headers() {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

fn page_response(file: &PageFile, is_known: bool) -> Response<Body> {
    let PageFile { bytes, encoding, content_type, etag, cache_control } = *file;
    let mut response = Response::new(if is_known { Body::empty() } else { Body::from(bytes) });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(ETAG, HeaderValue::from_static(etag));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache_control));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    if !is_known {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(encoding) = encoding {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
    }
    response
}
