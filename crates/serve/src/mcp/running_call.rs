//! A call of the gate that is under way, in the hands of whoever drives it.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_gate::Tool;
use toolgate_tools::CallResponse;

use crate::mcp::approval::PendingQuestion;
use crate::mcp::connection::ConcurrencyPermit;
use crate::mcp::progress::ProgressNotifier;

/// The end of a call, some time; nothing where it ended in a way that it should not.
pub(crate) type CallFuture = Pin<Box<dyn Future<Output = Option<CallResponse>> + Send>>;

/// A call that is under way.
pub(crate) struct RunningCall {
    pub(crate) future: CallFuture,
    /// The tool, if there is one of that name.
    pub(crate) tool: Option<Arc<dyn Tool>>,
    /// Ends the call; it is still answered and recorded.
    pub(crate) cancelled: CancellationToken,
    /// Where the gate's question comes, where the client has to come again for it.
    pub(crate) questions: Option<mpsc::Receiver<PendingQuestion>>,
    /// What the call says meanwhile, where somebody may listen.
    pub(crate) progress: Option<Arc<ProgressNotifier>>,
    pub(crate) permit: Arc<ConcurrencyPermit>,
}

impl RunningCall {
    /// The same call, going on by itself: its client is away.
    pub(crate) fn detach(mut self, calls: &TaskTracker) -> Self {
        let handle = calls.spawn(self.future);
        self.future = Box::pin(async move { handle.await.ok().flatten() });
        self
    }

    /// The gate's next question; never one, where questions go elsewhere.
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
