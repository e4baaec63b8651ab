//! Bounded request bodies and tracked response bodies.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::task_tracker::TaskTrackerToken;
use toolgate_text::json_complexity::measure;

use crate::json_limits::{self, MAX_DEPTH};

/// Why a body was not read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// Above the size limit.
    TooLong,
    /// Timed out.
    TooSlow,
    /// More JSON values than allowed.
    TooMuch,
    /// Nested too deeply.
    TooDeep,
    /// The memory budget for all bodies is used up.
    NoRoom,
    /// The connection failed.
    Broken,
}

/// Reads bodies within a size limit, a timeout and a memory budget that all bodies share.
#[derive(Debug)]
pub(crate) struct BodyReader {
    max_bytes: usize,
    timeout: Duration,
    budget: Arc<Semaphore>,
}

/// One permit of the budget semaphore stands for this many bytes.
const BUDGET_UNIT_BYTES: usize = 1024;

/// A body and its share of the memory budget.
#[derive(Debug)]
pub(crate) struct BufferedBody {
    pub(crate) bytes: Bytes,
    /// Whether this is the whole body.
    pub(crate) is_whole: bool,
    permit: Option<OwnedSemaphorePermit>,
}

impl BodyReader {
    pub(crate) fn new(max_bytes: usize, all_together: usize, timeout: Duration) -> Self {
        let pieces = (all_together / BUDGET_UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Self { max_bytes, timeout, budget: Arc::new(Semaphore::new(pieces)) }
    }

    pub(crate) async fn read(&self, body: Body) -> Result<BufferedBody, BodyError> {
        // A `Content-Length` above the limit is rejected before any byte is read.
        if body.size_hint().lower() > self.max_bytes as u64 {
            return Err(BodyError::TooLong);
        }
        let read = self.read_prefix(body, self.max_bytes).await?;
        if read.is_whole { self.reserve_parsed(read) } else { Err(BodyError::TooLong) }
    }

    /// Reads at most `most` bytes of a body.
    pub(crate) async fn read_prefix(&self, body: Body, most: usize) -> Result<BufferedBody, BodyError> {
        let reading = self.read_up_to(body, most);
        tokio::time::timeout(self.timeout, reading).await.map_err(|_| BodyError::TooSlow)?
    }

    async fn read_up_to(&self, mut body: Body, most: usize) -> Result<BufferedBody, BodyError> {
        let mut bytes = Vec::new();
        let mut room = None;
        while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        {
            let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
            let fits = data.get(..most - bytes.len()).unwrap_or(&data);
            self.take(&mut room, bytes.len() + fits.len())?;
            bytes.extend_from_slice(fits);
            if fits.len() < data.len() {
                return Ok(BufferedBody { bytes: bytes.into(), is_whole: false, permit: room });
            }
        }
        Ok(BufferedBody { bytes: bytes.into(), is_whole: true, permit: room })
    }

    /// Reserves budget for the parsed JSON as well.
    fn reserve_parsed(&self, mut read: BufferedBody) -> Result<BufferedBody, BodyError> {
        let weight = block_in_place_if_long(read.bytes.len(), || measure(&read.bytes));
        match json_limits::within_limits(weight) {
            true => self
                .take(&mut read.permit, read.bytes.len() + json_limits::estimated_bytes(weight))
                .map(|()| read),
            false if weight.depth > MAX_DEPTH => Err(BodyError::TooDeep),
            false => Err(BodyError::TooMuch),
        }
    }

    /// Grows a reservation to this many bytes.
    fn take(&self, room: &mut Option<OwnedSemaphorePermit>, bytes: usize) -> Result<(), BodyError> {
        let taken = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = u32::try_from(bytes.div_ceil(BUDGET_UNIT_BYTES).saturating_sub(taken))
            .map_err(|_| BodyError::NoRoom)?;
        let more = Arc::clone(&self.budget).try_acquire_many_owned(more).map_err(|_| BodyError::NoRoom)?;
        match room {
            Some(room) => room.merge(more),
            None => *room = Some(more),
        }
        Ok(())
    }
}

/// From this length on, parsing a body delays other tasks of the thread noticeably.
const MIN_BLOCKING_BYTES: usize = 128 * 1024;

/// Runs work on a body of this length; a long one within `block_in_place`, so that the other tasks of this worker
/// thread move to another.
pub(crate) fn block_in_place_if_long<T>(length: usize, work: impl FnOnce() -> T) -> T {
    let is_shared =
        || Handle::try_current().is_ok_and(|here| here.runtime_flavor() == RuntimeFlavor::MultiThread);
    if length >= MIN_BLOCKING_BYTES && is_shared() { tokio::task::block_in_place(work) } else { work() }
}

/// The permits of an endless stream: one of the global limit, one of its caller's.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    pub(crate) _global: OwnedSemaphorePermit,
    pub(crate) _per_caller: OwnedSemaphorePermit,
}

/// A response body.
pub(crate) struct TrackedBody {
    inner: Body,
    /// Ends the body early. Only set for endless streams.
    until: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    sent: Arc<AtomicU64>,
    /// Keeps the response in flight until the body is dropped.
    _in_flight: Option<TaskTrackerToken>,
    /// The permits, for a stream.
    _permit: Option<StreamPermit>,
}

impl TrackedBody {
    /// The body of a response that ends by itself.
    pub(crate) fn answer(inner: Body, sent: &Arc<AtomicU64>, under_way: TaskTrackerToken) -> Self {
        Self { inner, until: None, sent: Arc::clone(sent), _in_flight: Some(under_way), _permit: None }
    }

    /// An endless stream, until the client disconnects or `until` is cancelled.
    pub(crate) fn stream(
        inner: Body,
        sent: &Arc<AtomicU64>,
        until: CancellationToken,
        place: StreamPermit,
    ) -> Self {
        let until = Some(Box::pin(until.cancelled_owned()));
        let sent = Arc::clone(sent);
        Self { inner, until, sent, _in_flight: None, _permit: Some(place) }
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(until) = &mut self.until
            && until.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            frame.inspect(|frame| {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader() -> BodyReader {
        BodyReader::new(4096, 8 * BUDGET_UNIT_BYTES, Duration::from_secs(60))
    }

    /// A body in frames, without a `Content-Length`.
    struct Pieces(Vec<usize>);

    impl HttpBody for Pieces {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Ready(self.0.pop().map(|length| Ok(Frame::data(vec![b'x'; length].into()))))
        }
    }

    #[tokio::test]
    async fn bodies_are_read_up_to_their_bound() {
        for (pieces, expected) in [
            (vec![], Ok(0)),
            (vec![1], Ok(1)),
            (vec![2048, 2048], Ok(4096)),
            (vec![1; 4096], Ok(4096)),
            (vec![4097], Err(BodyError::TooLong)),
            (vec![1, 4096], Err(BodyError::TooLong)),
        ] {
            let read = reader().read(Body::new(Pieces(pieces.clone()))).await;
            assert_eq!(read.map(|read| read.bytes.len()), expected, "{pieces:?}");
        }
        let announced = reader().read(Body::from(vec![b'x'; 4097])).await;
        assert_eq!(announced.err(), Some(BodyError::TooLong));
    }

    #[tokio::test]
    async fn bodies_share_their_room_and_give_it_back() {
        let reader = reader();
        let first = reader.read(Body::from(vec![b'x'; 4096])).await.unwrap();
        assert_eq!(reader.read(Body::from(vec![b'x'; 4096])).await.err(), Some(BodyError::NoRoom));
        let second = reader.read(Body::from(vec![b'x'; 2048])).await.unwrap();
        drop((first, second));
        assert_eq!(reader.budget.available_permits(), 8);
        // Budget is reserved for the parsed value, too.
        let many = b"[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]";
        let read = reader.read(Body::from(&many[..])).await.unwrap();
        assert_eq!(reader.budget.available_permits(), 3);
        drop(read);
        assert!(reader.read(Body::from(vec![b'x'; 4096])).await.is_ok());
    }

    #[tokio::test]
    async fn what_would_become_too_much_is_not_read() {
        let reader = BodyReader::new(1 << 20, 1 << 30, Duration::from_secs(60));
        let values = format!("[{}0]", "0,".repeat(json_limits::MAX_VALUES));
        assert_eq!(reader.read(Body::from(values)).await.err(), Some(BodyError::TooMuch));
        assert_eq!(reader.read(Body::from("[".repeat(MAX_DEPTH + 1))).await.err(), Some(BodyError::TooDeep));
    }

    #[tokio::test]
    async fn of_a_body_the_beginning_can_be_read_alone() {
        for (pieces, length, is_whole) in [
            (vec![], 0, true),
            (vec![10], 10, true),
            (vec![11], 10, false),
            (vec![5, 5], 10, true),
            (vec![1, 5, 5], 10, false),
        ] {
            let read = reader().read_prefix(Body::new(Pieces(pieces.clone())), 10).await.unwrap();
            assert_eq!((read.bytes.len(), read.is_whole), (length, is_whole), "{pieces:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_comes_is_not_waited_for() {
        struct Never;
        impl HttpBody for Never {
            type Data = Bytes;
            type Error = std::convert::Infallible;
            fn poll_frame(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
                Poll::Pending
            }
        }
        assert_eq!(reader().read(Body::new(Never)).await.err(), Some(BodyError::TooSlow));
    }
}
