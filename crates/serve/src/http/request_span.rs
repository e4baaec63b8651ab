//! The span of an HTTP request: the parent of its call's span, in the trace that its client names.
//!
//! A request has one once its client is authenticated: a stranger must not fill the queue of the exporter. It holds the route and never the path, which
//! has ids and perhaps more in it. The `traceparent` of the client (W3C Trace Context) decides which trace the span stands in, and nothing else:
//! whether spans are exported is the operator's choice, so its flags are not obeyed, and `tracestate` and `baggage` are not read.

use std::future::Future;

use axum::http::{HeaderMap, Method, StatusCode};
use toolgate_gate::SPAN_TARGET;
use tracing::Span;
use tracing::field::Empty;
use tracing::instrument::Instrument as _;

/// The header of W3C Trace Context.
const TRACEPARENT: &str = "traceparent";

/// The length of version 00. A later version may be longer.
const TRACEPARENT_BYTES: usize = 55;

/// A longer header is not read.
const MAX_TRACEPARENT_BYTES: usize = 256;

/// The span of one request.
pub(super) struct RequestSpan(Span);

impl RequestSpan {
    /// `route` is the template of the path.
    pub(super) fn new(method: &Method, route: &str, headers: &HeaderMap) -> Self {
        let method = known(method);
        let span = tracing::debug_span!(
            target: SPAN_TARGET,
            "http_request",
            "otel.name" = format!("{method} {route}"),
            "otel.kind" = "server",
            "otel.status_code" = Empty,
            "http.request.method" = method,
            "http.route" = route,
            "http.response.status_code" = Empty,
            "error.type" = Empty,
            "toolgate.traceparent" = traceparent(headers),
        );
        Self(span)
    }

    /// Awaits the answer to the request within the span. Where no subscriber wants it, that costs nothing.
    pub(super) async fn run<Answer>(
        self,
        work: impl Future<Output = Answer>,
        status: impl FnOnce(&Answer) -> StatusCode,
    ) -> Answer {
        let Self(span) = self;
        if span.is_disabled() {
            return work.await;
        }
        let answer = Box::pin(work).instrument(span.clone()).await;
        let status = status(&answer);
        // Attributes of OpenTelemetry are signed; exporters turn an unsigned number into text.
        span.record("http.response.status_code", i64::from(status.as_u16()));
        if status.is_server_error() {
            span.record("otel.status_code", "ERROR");
            span.record("error.type", status.as_str());
        }
        answer
    }
}

/// A method by its name; one that is made up is `_OTHER`, as the conventions for HTTP spans name it.
fn known(method: &Method) -> &str {
    let all = [
        Method::GET,
        Method::POST,
        Method::PATCH,
        Method::DELETE,
        Method::PUT,
        Method::HEAD,
        Method::OPTIONS,
    ];
    if all.contains(method) { method.as_str() } else { "_OTHER" }
}

/// The `traceparent` of a request as version 00, if there is exactly one and it is valid. Sampled, whatever its flags say.
fn traceparent(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let text = value.to_str().ok().filter(|text| text.len() <= MAX_TRACEPARENT_BYTES)?;
    let (known, rest) = text.split_at_checked(TRACEPARENT_BYTES)?;
    let mut fields = known.split('-');
    let (Some(version), Some(trace), Some(parent), Some(flags), None) =
        (fields.next(), fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return None;
    };
    let is_hex = |field: &str, length: usize| {
        field.len() == length && field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |field: &str, length| is_hex(field, length) && field.bytes().any(|byte| byte != b'0');
    let is_whole = rest.is_empty() || (version != "00" && rest.starts_with('-'));
    let is_version = is_hex(version, 2) && version != "ff" && is_hex(flags, 2);
    (is_whole && is_version && is_id(trace, 32) && is_id(parent, 16))
        .then(|| format!("00-{trace}-{parent}-01"))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";

    fn read(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, HeaderValue::from_str(value).unwrap());
        }
        traceparent(&headers)
    }

    #[test]
    fn a_trace_is_named_in_one_header_of_its_form() {
        let good = format!("00-{TRACE}-{PARENT}-01");
        let later = |more: &str| format!("01-{TRACE}-{PARENT}-00{more}");
        for named in [good.clone(), format!("00-{TRACE}-{PARENT}-00"), later(""), later("-more"), later("-")]
        {
            assert_eq!(read(&[&named]).as_deref(), Some(&*good), "{named}");
        }
        for other in [
            String::new(),
            format!("00-{TRACE}-{PARENT}"),
            format!("00-{TRACE}-{PARENT}-01-more"),
            format!("01-{TRACE}-{PARENT}-01more"),
            format!("ff-{TRACE}-{PARENT}-01"),
            format!("0x-{TRACE}-{PARENT}-01"),
            format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
            format!("00-{}-{PARENT}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{TRACE}-{PARENT}-0g"),
            format!("00-{PARENT}-{TRACE}-01"),
            format!("00-{TRACE}{PARENT}--01"),
            format!(" 00-{TRACE}-{PARENT}-01"),
            later(&format!("-{}", "x".repeat(MAX_TRACEPARENT_BYTES))),
        ] {
            assert_eq!(read(&[&other]), None, "{other}");
        }
        assert_eq!(read(&[&good, &good]), None, "two of them");
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn a_method_that_is_made_up_is_not_named() {
        assert_eq!(known(&Method::PATCH), "PATCH");
        assert_eq!(known(&Method::from_bytes(b"CANARY").unwrap()), "_OTHER");
    }
}
