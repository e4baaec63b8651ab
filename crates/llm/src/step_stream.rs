//! The events of a step while its bytes arrive.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::endpoint::ApiKey;
use crate::error::ProviderError;
use crate::event::StepEvent;
use crate::recording::{PendingWrite, StepRecorder, StreamItem};
use crate::step_decoder::{StepDecoder, truncated};
use crate::transport::{idle_timeout, redact_secrets};

/// The limits for reading the rest of a response after the finish, so that its connection can be reused.
const TRAILING_READ_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_TRAILING_BYTES: usize = 64 << 10;

/// Turns a stream of bytes into events.
pub(crate) struct StepStream<S, Piece> {
    /// `None` once the step is over.
    bytes: Option<Pin<Box<S>>>,
    decoder: StepDecoder,
    recording: Option<StepRecorder>,
    /// Each item is recorded before it is decoded.
    writing: Option<PendingWrite<StreamItem<Piece>>>,
    /// Reported after the events that came before it.
    failed: Option<ProviderError>,
    idle: Duration,
    idle_timer: Pin<Box<Sleep>>,
    secrets: Vec<ApiKey>,
}

impl<S, Piece> StepStream<S, Piece>
where
    S: Stream<Item = reqwest::Result<Piece>> + Send + 'static,
    Piece: AsRef<[u8]> + Send + 'static,
{
    pub(crate) fn new(
        bytes: S,
        decoder: StepDecoder,
        recording: Option<StepRecorder>,
        idle: Duration,
        secrets: Vec<ApiKey>,
    ) -> Self {
        let (bytes, idle_timer) = (Some(Box::pin(bytes)), Box::pin(sleep(idle)));
        Self { bytes, decoder, recording, writing: None, failed: None, idle, idle_timer, secrets }
    }

    /// Decodes an item.
    fn take(&mut self, came: StreamItem<Piece>) -> Result<(), ProviderError> {
        // Restarted here, so that a slow disk does not count as the server's idle time.
        self.idle_timer.as_mut().reset(Instant::now() + self.idle);
        match came {
            StreamItem::Chunk(piece) => self.decoder.feed(piece.as_ref()),
            StreamItem::End => self.decoder.end(),
            StreamItem::Failed(error) => Err(error),
        }
    }

    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ProviderError>> {
        let Some(bytes) = &mut self.bytes else { return Poll::Ready(Ok(())) };
        if self.writing.is_none() {
            let came = match bytes.as_mut().poll_next(context) {
                Poll::Ready(Some(Ok(piece))) => StreamItem::Chunk(piece),
                Poll::Ready(Some(Err(_))) => StreamItem::Failed(truncated()),
                Poll::Ready(None) => StreamItem::End,
                Poll::Pending => {
                    ready!(self.idle_timer.as_mut().poll(context));
                    StreamItem::Failed(idle_timeout(self.idle))
                }
            };
            match &self.recording {
                Some(recording) => self.writing = Some(recording.write(came)),
                None => return Poll::Ready(self.take(came)),
            }
        }
        let Some(writing) = &mut self.writing else { return Poll::Ready(Ok(())) };
        let came = ready!(Pin::new(writing).poll(context));
        self.writing = None;
        Poll::Ready(came.and_then(|came| self.take(came)))
    }

    /// The step is over: nothing that still arrives can change it.
    fn finish(&mut self) {
        let Some(bytes) = self.bytes.take() else { return };
        tokio::spawn(timeout(TRAILING_READ_TIMEOUT, read_to_end(bytes)));
    }
}

impl<S, Piece> Stream for StepStream<S, Piece>
where
    S: Stream<Item = reqwest::Result<Piece>> + Send + 'static,
    Piece: AsRef<[u8]> + Send + 'static,
{
    type Item = Result<StepEvent, ProviderError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.decoder.next_event() {
                return Poll::Ready(Some(Ok(event)));
            }
            if let Some(failed) = self.failed.take() {
                return Poll::Ready(Some(Err(redact_secrets(failed, &self.secrets))));
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
        if seen > MAX_TRAILING_BYTES {
            return;
        }
    }
}
