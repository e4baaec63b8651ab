//! Server-sent events with a maximum size, and limits on comments and keep-alives.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::BoxStream;
use reqwest::Response;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};

use super::{HttpTransportError, redacted_error};
use crate::wire::CloseReason;
use crate::wire::large_messages::{LargeMessage, MAX_UNCHECKED_BYTES, classify, too_complex_error};

/// The events of a response, each with a maximum size.
pub(super) fn events(
    response: Response,
    most: usize,
    ending: &CloseReason,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let bounded = BoundedEvents::new(Box::pin(response.bytes_stream()), most, ending.clone());
    Box::pin(FilteredEvents {
        inner: Box::pin(SseStream::from_bytes_stream(bounded)),
        close_reason: ending.clone(),
    })
}

/// Events after filtering.
struct FilteredEvents<S> {
    inner: Pin<Box<S>>,
    close_reason: CloseReason,
}

impl<S: Stream<Item = Result<Sse, SseError>>> Stream for FilteredEvents<S> {
    type Item = Result<Sse, SseError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.inner.as_mut().poll_next(context));
        Poll::Ready(next.map(|event| event.map(|event| filter_event(event, &self.close_reason))))
    }
}

/// Removes the data of an event that must not be parsed. Its id and retry interval are kept,
/// because resuming needs them.
fn filter_event(event: Sse, ending: &CloseReason) -> Sse {
    let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
    let Some(data) = event.data.as_deref().filter(|data| !data.trim().is_empty() && is_message) else {
        ending.count_unsolicited(event.data.as_deref().map_or(0, str::len));
        return Sse { data: None, ..event };
    };
    match classify(data.as_bytes()) {
        LargeMessage::Response(_) => event,
        LargeMessage::TooComplex(id) => {
            Sse { data: serde_json::to_string(&too_complex_error(id)).ok(), ..event }
        }
        LargeMessage::Unsolicited | LargeMessage::Invalid => {
            ending.count_unsolicited(data.len());
            let kept = event.data.filter(|data| data.len() <= MAX_UNCHECKED_BYTES);
            Sse { data: kept, ..event }
        }
    }
}

/// Counts the bytes of each event, from one empty line to the next.
struct BoundedEvents<S> {
    inner: Pin<Box<S>>,
    event: usize,
    line: usize,
    /// Whether the event has more than comments.
    is_event: bool,
    max_bytes: usize,
    close_reason: CloseReason,
}

impl<S> BoundedEvents<S> {
    fn new(inner: Pin<Box<S>>, max_bytes: usize, close_reason: CloseReason) -> Self {
        Self { inner, event: 0, line: 0, is_event: false, max_bytes, close_reason }
    }

    /// Counts bytes; returns whether the event is still within the limit.
    fn count(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            self.event += 1;
            match byte {
                b'\n' if self.line == 0 => self.end(),
                b'\n' => self.line = 0,
                b'\r' => {}
                _ => {
                    self.is_event |= self.line == 0 && *byte != b':';
                    self.line += 1;
                }
            }
            if self.event > self.max_bytes {
                self.close_reason.close(HttpTransportError::TooLong.to_string());
            }
            if self.close_reason.is_closed() {
                return false;
            }
        }
        true
    }

    /// Comments keep a connection alive; too many of them are a flood.
    fn end(&mut self) {
        if !self.is_event {
            self.close_reason.count_unsolicited(self.event);
        }
        (self.event, self.is_event) = (0, false);
    }
}

impl<S, Piece> Stream for BoundedEvents<S>
where
    S: Stream<Item = reqwest::Result<Piece>>,
    Piece: AsRef<[u8]>,
{
    type Item = Result<Piece, HttpTransportError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.close_reason.is_closed() {
            return Poll::Ready(None);
        }
        match ready!(self.inner.as_mut().poll_next(context)) {
            None => Poll::Ready(None),
            Some(Ok(piece)) if self.count(piece.as_ref()) => Poll::Ready(Some(Ok(piece))),
            Some(result) => Poll::Ready(Some(Err(result.map_or_else(
                |error| HttpTransportError::Request(redacted_error(&error)),
                |_| HttpTransportError::TooLong,
            )))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bounded(most: usize) -> BoundedEvents<()> {
        BoundedEvents::new(Box::pin(()), most, CloseReason::new(0))
    }

    #[test]
    fn events_are_counted_one_by_one() {
        let mut bounded = bounded(20);
        for _ in 0..100 {
            assert!(bounded.count(b"data: 12345\r\n\r\n"));
        }
        assert!(bounded.count(b"data: 1\ndata: 2"));
        assert!(!bounded.count(b"data: 3456"));
        assert!(bounded.close_reason.reason().unwrap().contains("longer than"));
    }

    #[test]
    fn remarks_without_end_end_the_connection() {
        for remark in [b":\n\n".as_slice(), b"\n", b": alive\r\n\r\n"] {
            let mut bounded = bounded(1 << 20);
            assert!((0..100).all(|_| bounded.count(remark)));
            assert!((0..100_000).any(|_| !bounded.count(remark)));
            assert!(bounded.close_reason.reason().unwrap().contains("nobody asked for"));
        }
        let mut events = bounded(1 << 20);
        assert!((0..100_000).all(|_| events.count(b"id: 1\n: remark\ndata: {}\n\n")));
    }

    #[test]
    fn only_answers_may_be_long() {
        let ending = CloseReason::new(0);
        let event = |data: String| Sse { data: Some(data), id: Some("9".to_owned()), ..Sse::default() };
        let long = "x".repeat(MAX_UNCHECKED_BYTES);
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"a": long}}).to_string();
        assert_eq!(filter_event(event(answer.clone()), &ending).data, Some(answer));
        let unasked =
            json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"a": long}}).to_string();
        let left = filter_event(event(unasked), &ending);
        assert_eq!((left.data, left.id.as_deref()), (None, Some("9")));
        let heavy = json!({"jsonrpc": "2.0", "id": 1, "result": vec![0; 300_000]}).to_string();
        assert!(filter_event(event(heavy), &ending).data.unwrap().contains("too much to be read"));
        assert!(!ending.is_closed());
        for useless in ["", "x", "{}", r#"{"method": 5}"#] {
            let ending = CloseReason::new(0);
            assert!((0..100_000).any(|_| {
                filter_event(event(useless.to_owned()), &ending);
                ending.is_closed()
            }));
        }
    }
}
