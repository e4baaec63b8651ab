//! The events of a step while its bytes come in.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::decode::{StepDecoder, truncated};
use crate::endpoint::Key;
use crate::error::ProviderError;
use crate::event::Event;
use crate::record::{HowEnded, StepRecorder};
use crate::transport::{hide, silent};

/// How long, and for how much, the end of an answer is waited for after the finish, so that its connection can serve the next step.
const TRAILING_TIME: Duration = Duration::from_secs(2);
const TRAILING_BYTES: usize = 64 << 10;

/// Bytes on their way to events.
pub(crate) struct Incoming<S> {
    /// Until the step is over.
    bytes: Option<Pin<Box<S>>>,
    decoder: StepDecoder,
    recording: Option<StepRecorder>,
    /// Told after the events that came before it.
    failed: Option<ProviderError>,
    idle: Duration,
    patience: Pin<Box<Sleep>>,
    secrets: Vec<Key>,
}

impl<S> Incoming<S> {
    pub(crate) fn new(
        bytes: S,
        decoder: StepDecoder,
        recording: Option<StepRecorder>,
        idle: Duration,
        secrets: Vec<Key>,
    ) -> Self {
        let (bytes, patience) = (Some(Box::pin(bytes)), Box::pin(sleep(idle)));
        Self { bytes, decoder, recording, failed: None, idle, patience, secrets }
    }

    /// Takes a piece, or the end where there is none.
    fn take(&mut self, piece: Option<&[u8]>) -> Result<(), ProviderError> {
        if let Some(recording) = &self.recording {
            match piece {
                Some(piece) => recording.bytes(piece)?,
                None => recording.ended(HowEnded::Ended)?,
            }
        }
        match piece {
            Some(piece) => self.decoder.feed(piece),
            None => self.decoder.end(),
        }
    }

    /// The bytes broke off, or stopped coming.
    fn broke(&mut self, error: ProviderError) -> Result<(), ProviderError> {
        if let Some(recording) = &self.recording {
            recording.ended(HowEnded::Broke)?;
        }
        Err(error)
    }
}

impl<S, Piece> Incoming<S>
where
    S: Stream<Item = reqwest::Result<Piece>> + Send + 'static,
    Piece: AsRef<[u8]> + Send + 'static,
{
    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ProviderError>> {
        let Some(bytes) = &mut self.bytes else { return Poll::Ready(Ok(())) };
        Poll::Ready(match bytes.as_mut().poll_next(context) {
            Poll::Ready(Some(Ok(piece))) => {
                self.patience.as_mut().reset(Instant::now() + self.idle);
                self.take(Some(piece.as_ref()))
            }
            Poll::Ready(Some(Err(_))) => self.broke(truncated()),
            Poll::Ready(None) => self.take(None),
            Poll::Pending => match self.patience.as_mut().poll(context) {
                Poll::Ready(()) => self.broke(silent(self.idle)),
                Poll::Pending => return Poll::Pending,
            },
        })
    }

    /// The step is over: nothing that still comes can change it.
    fn finish(&mut self) {
        let Some(bytes) = self.bytes.take() else { return };
        tokio::spawn(timeout(TRAILING_TIME, read_to_end(bytes)));
    }
}

impl<S, Piece> Stream for Incoming<S>
where
    S: Stream<Item = reqwest::Result<Piece>> + Send + 'static,
    Piece: AsRef<[u8]> + Send + 'static,
{
    type Item = Result<Event, ProviderError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.decoder.next_event() {
                return Poll::Ready(Some(Ok(event)));
            }
            if let Some(failed) = self.failed.take() {
                return Poll::Ready(Some(Err(hide(failed, &self.secrets))));
            }
            if self.bytes.is_none() {
                return Poll::Ready(None);
            }
            match self.poll_bytes(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if self.decoder.is_finished() => self.finish(),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    self.failed = Some(error);
                    self.bytes = None;
                }
            }
        }
    }
}

async fn read_to_end<S, Piece>(mut bytes: Pin<Box<S>>)
where
    S: Stream<Item = reqwest::Result<Piece>>,
    Piece: AsRef<[u8]> + Send + 'static,
{
    let mut seen = 0;
    while let Some(Ok(piece)) = poll_fn(|context| bytes.as_mut().poll_next(context)).await {
        seen += piece.as_ref().len();
        if seen > TRAILING_BYTES {
            return;
        }
    }
}
