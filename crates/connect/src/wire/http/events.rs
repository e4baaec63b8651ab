//! Events as they come, none of them longer than a bound.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::BoxStream;
use reqwest::Response;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};

use super::{DoorError, said};

/// Events, none of them longer than a bound.
pub(super) fn events(response: Response, most: usize) -> BoxStream<'static, Result<Sse, SseError>> {
    let bounded = Bounded { inner: Box::pin(response.bytes_stream()), event: 0, line: 0, most, over: false };
    Box::pin(SseStream::from_bytes_stream(bounded))
}

/// Bytes of events, counted from one empty line to the next.
struct Bounded<S> {
    inner: Pin<Box<S>>,
    event: usize,
    line: usize,
    most: usize,
    over: bool,
}

impl<S> Bounded<S> {
    /// Counts more bytes; whether the event they belong to is still short enough.
    fn count(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            self.event += 1;
            match byte {
                b'\n' if self.line == 0 => self.event = 0,
                b'\n' => self.line = 0,
                b'\r' => {}
                _ => self.line += 1,
            }
            if self.event > self.most {
                return false;
            }
        }
        true
    }
}

impl<S, Piece> Stream for Bounded<S>
where
    S: Stream<Item = reqwest::Result<Piece>>,
    Piece: AsRef<[u8]>,
{
    type Item = Result<Piece, DoorError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        match ready!(self.inner.as_mut().poll_next(context)) {
            None => Poll::Ready(None),
            Some(Ok(piece)) if self.count(piece.as_ref()) => Poll::Ready(Some(Ok(piece))),
            Some(result) => {
                self.over = true;
                let error =
                    result.map_or_else(|error| DoorError::Request(said(&error)), |_| DoorError::TooLong);
                Poll::Ready(Some(Err(error)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_one_by_one() {
        let mut bounded = Bounded { inner: Box::pin(()), event: 0, line: 0, most: 20, over: false };
        for _ in 0..100 {
            assert!(bounded.count(b"data: 12345\r\n\r\n"));
        }
        assert!(bounded.count(b"data: 1\ndata: 2"));
        assert!(!bounded.count(b"data: 3456"));
    }
}
