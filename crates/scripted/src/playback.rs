//! The bytes of a response, with delays and faults.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use futures_core::Stream;
use tokio::time::Sleep;

use crate::script::BreakEnd;

/// The delay between the last bytes and the end of the connection, so that they are sent.
const LINGER_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug)]
enum TapeItem {
    Bytes(Bytes),
    Wait(Duration),
    End(BreakEnd),
}

/// The whole response, prepared before any of it is sent.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    pieces: VecDeque<TapeItem>,
    slow: Option<Duration>,
}

impl Tape {
    /// A tape with this delay before each delta.
    pub(crate) fn new(slow: Option<Duration>) -> Self {
        Self { pieces: VecDeque::new(), slow }
    }

    pub(crate) fn bytes(&mut self, bytes: impl Into<Bytes>) {
        self.pieces.push_back(TapeItem::Bytes(bytes.into()));
    }

    /// Adds the delay before a delta.
    pub(crate) fn pace(&mut self) {
        self.pieces.extend(self.slow.map(TapeItem::Wait));
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.pieces.push_back(TapeItem::Wait(time));
    }

    pub(crate) fn end(&mut self, end: BreakEnd) {
        // The bytes before are sent before the connection is closed.
        self.pieces.push_back(TapeItem::Wait(LINGER_INTERVAL));
        self.pieces.push_back(TapeItem::End(end));
    }

    /// The same, cut after this many bytes.
    pub(crate) fn cut(mut self, cut: Option<(usize, BreakEnd)>) -> Self {
        let Some((mut left, end)) = cut else { return self };
        let mut kept = VecDeque::new();
        while let Some(mut piece) = self.pieces.pop_front() {
            if let TapeItem::Bytes(bytes) = &mut piece {
                bytes.truncate(left);
                left -= bytes.len();
            }
            kept.push_back(piece);
            if left == 0 {
                break;
            }
        }
        self.pieces = kept;
        self.end(end);
        self
    }

    pub(crate) fn play(self) -> Playback {
        Playback { pieces: self.pieces, waiting: None }
    }
}

/// Plays a tape.
#[derive(Debug)]
pub(crate) struct Playback {
    pieces: VecDeque<TapeItem>,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Stream for Playback {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                if waiting.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.waiting = None;
            }
            match self.pieces.pop_front() {
                Some(TapeItem::Bytes(bytes)) if bytes.is_empty() => {}
                Some(TapeItem::Bytes(bytes)) => return Poll::Ready(Some(Ok(bytes))),
                Some(TapeItem::Wait(time)) => self.waiting = Some(Box::pin(tokio::time::sleep(time))),
                Some(TapeItem::End(BreakEnd::Reset)) => {
                    return Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into())));
                }
                Some(TapeItem::End(BreakEnd::Idle)) => {
                    // Waits until the client disconnects.
                    self.pieces.push_front(TapeItem::End(BreakEnd::Idle));
                    return Poll::Pending;
                }
                Some(TapeItem::End(BreakEnd::Truncate)) | None => return Poll::Ready(None),
            }
        }
    }
}
