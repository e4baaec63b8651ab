//! A call of the gate that is under way, in the hands of whoever drives it.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_gate::Tool;
use toolgate_tools::CallResponse;

use crate::mcp::approval::Asked;
use crate::mcp::connection::Room;
use crate::mcp::progress::Relay;

/// The end of a call, some time; nothing where it ended in a way that it should not.
pub(crate) type Calling = Pin<Box<dyn Future<Output = Option<CallResponse>> + Send>>;

/// A call that is under way.
pub(crate) struct Running {
    pub(crate) calling: Calling,
    /// The tool, if there is one of that name.
    pub(crate) tool: Option<Arc<dyn Tool>>,
    /// Ends the call; it is still answered and recorded.
    pub(crate) cancelled: CancellationToken,
    /// Where the gate's question comes, where the client has to come again for it.
    pub(crate) questions: Option<mpsc::Receiver<Asked>>,
    /// What the call says meanwhile, where somebody may listen.
    pub(crate) relay: Option<Arc<Relay>>,
    pub(crate) room: Arc<Room>,
}

impl Running {
    /// The same call, going on by itself: its client is away.
    pub(crate) fn by_itself(mut self, calls: &TaskTracker) -> Self {
        let handle = calls.spawn(self.calling);
        self.calling = Box::pin(async move { handle.await.ok().flatten() });
        self
    }

    /// The gate's next question; never one, where questions go elsewhere.
    pub(crate) async fn question(questions: &mut Option<mpsc::Receiver<Asked>>) -> Asked {
        match questions {
            Some(receiver) => match receiver.recv().await {
                Some(asked) => asked,
                None => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    }
}
