//! The requests of a connection that are being answered.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::stream::{FuturesUnordered, StreamExt as _};

use crate::future_pool::{FuturePool, PooledFuture};
use crate::mcp::AnsweredRequest;

/// The future of a request.
pub(super) type RequestFuture = PooledFuture<AnsweredRequest>;

/// Polls requests, each when it can make progress.
#[derive(Default)]
pub(super) struct RunningRequests {
    running: FuturesUnordered<RunningRequest>,
    pool: FuturePool<AnsweredRequest>,
}

impl RunningRequests {
    /// Boxes the future of a request.
    pub(super) fn boxed(
        &self,
        request: impl Future<Output = AnsweredRequest> + Send + 'static,
    ) -> RequestFuture {
        self.pool.boxed(request)
    }

    /// Polls a request once. If it waits for something, it is polled with the others from then on.
    pub(super) async fn begin(&mut self, mut request: RequestFuture) -> Option<AnsweredRequest> {
        match poll_fn(|context| Poll::Ready(request.poll(context))).await {
            Poll::Ready(answered) => {
                self.pool.keep(request);
                Some(answered)
            }
            Poll::Pending => {
                self.running.push(RunningRequest(Some(request)));
                None
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// The next request that has ended; `None` if none is running.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<AnsweredRequest>> {
        let Some((answered, ended)) = ready!(self.running.poll_next_unpin(context)) else {
            return Poll::Ready(None);
        };
        if let Some(ended) = ended {
            self.pool.keep(ended);
        }
        Poll::Ready(Some(answered))
    }
}

/// One request. It ends with its allocation.
struct RunningRequest(Option<RequestFuture>);

impl Future for RunningRequest {
    type Output = (AnsweredRequest, Option<RequestFuture>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // It is there until it has ended, and the set does not poll what has ended.
        let Some(boxed) = &mut self.0 else { return Poll::Pending };
        let answered = ready!(boxed.poll(context));
        Poll::Ready((answered, self.0.take()))
    }
}
