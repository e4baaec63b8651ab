//! A call of the gate in flight.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_gate::Tool;
use toolgate_tools::CallResponse;
use tracing::instrument::Instrument as _;

use crate::admission::ConcurrencyPermit;
use crate::future_pool::PooledFuture;
use crate::mcp::approval::PendingQuestion;
use crate::mcp::log_messages::LogNotifier;
use crate::mcp::progress::ProgressNotifier;

/// The future of a call; `None` if its task panicked.
pub(crate) type CallFuture = PooledFuture<Option<CallResponse>>;

/// A call in flight.
pub(crate) struct RunningCall {
    pub(crate) future: CallFuture,
    /// The tool, if there is one of that name.
    pub(crate) tool: Option<Arc<dyn Tool>>,
    /// Cancels the call; it still gets a response and a record.
    pub(crate) cancelled: CancellationToken,
    /// Receives the gate's question, if the client has to repeat its request to answer it.
    pub(crate) questions: Option<mpsc::Receiver<PendingQuestion>>,
    /// The call's output so far, if a client may want progress.
    pub(crate) progress: Option<Arc<ProgressNotifier>>,
    /// Log messages of its server, if the client wants them.
    pub(crate) logs: Option<Arc<LogNotifier>>,
    pub(crate) permit: Arc<ConcurrencyPermit>,
}

impl RunningCall {
    /// Continues the call in a task of its own, because its client disconnects.
    pub(crate) fn detach(mut self, calls: &TaskTracker) -> Self {
        let handle = calls.spawn(self.future.in_current_span());
        self.future = CallFuture::new(async move { handle.await.ok().flatten() });
        self
    }

    /// The gate's next question; pending forever if questions go elsewhere.
    pub(crate) async fn question(questions: &mut Option<mpsc::Receiver<PendingQuestion>>) -> PendingQuestion {
        match questions {
            Some(receiver) => match receiver.recv().await {
                Some(asked) => asked,
                None => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    }
}
