//! The state that a handler shares with its transport.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{CallToolResult, Tool};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use toolgate_gate::LogSeverity;

use crate::mcp::subscriptions::SubscribedResources;
use crate::mcp::tool_response::ToolResponse;

/// Maximum weight of calls on one connection whose responses are held in memory.
const MAX_CALL_WEIGHT: usize = 8;

/// How much a call counts against [`MAX_CALL_WEIGHT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallWeight {
    /// A change: its response is short, and it mostly waits for the disk.
    Small,
    /// A read, whose response may be long.
    Large,
}

impl CallWeight {
    const fn permits(self) -> u32 {
        match self {
            Self::Small => 1,
            Self::Large => 2,
        }
    }
}

/// One connection.
pub(crate) struct McpConnection {
    /// Cancelled when the client will send nothing more: elicitations and list notifications are pointless.
    pub(crate) closing: CancellationToken,
    /// Cancelled when the client will read nothing more: its calls are cancelled.
    pub(crate) gone: CancellationToken,
    /// Whether `notifications/initialized` arrived.
    is_ready: AtomicBool,
    /// The tools that were last listed to the client.
    listed: Mutex<Option<Arc<[Tool]>>>,
    /// What log messages the client wants (session protocol).
    log_level: Mutex<Option<LogSeverity>>,
    /// The resources that the client is subscribed to (session protocol).
    pub(crate) subscribed: Mutex<SubscribedResources>,
    weights: Arc<Semaphore>,
}

impl Default for McpConnection {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(MAX_CALL_WEIGHT));
        let (closing, gone) = (CancellationToken::new(), CancellationToken::new());
        Self {
            closing,
            gone,
            is_ready: AtomicBool::new(false),
            listed: Mutex::default(),
            log_level: Mutex::default(),
            subscribed: Mutex::default(),
            weights: room,
        }
    }
}

/// Shared by the task that answers a request and the stdio transport, which takes the contents when it writes the response. If the client cancels the
/// request, the transport drops its reference, and the contents are dropped with the task.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseSlot(Arc<Mutex<PendingResponse>>);

/// The parts of a response that bypass rmcp.
#[derive(Debug, Default)]
pub(crate) struct PendingResponse {
    /// The permit that is held until the response is written.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
    /// The response to a call. Passing it through rmcp would need another conversion.
    pub(crate) response: Option<ToolResponse>,
}

impl McpConnection {
    /// Whether this is the first `notifications/initialized`.
    pub(crate) fn mark_ready(&self) -> bool {
        !self.is_ready.swap(true, Ordering::Relaxed)
    }

    /// Records the tools that the client was sent.
    pub(crate) fn set_listed(&self, tools: &Arc<[Tool]>) {
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(tools));
    }

    pub(crate) fn set_log_level(&self, level: LogSeverity) {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    pub(crate) fn log_level(&self) -> Option<LogSeverity> {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tools that were last listed to the client.
    pub(crate) fn listed(&self) -> Option<Arc<[Tool]>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A permit for one more call, if one is free.
    pub(crate) fn try_acquire(&self, size: CallWeight) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.weights).try_acquire_many_owned(size.permits()).ok()
    }

    /// Whether other calls hold permits besides the one that just acquired this weight.
    pub(crate) fn is_shared(&self, size: CallWeight) -> bool {
        self.weights.available_permits() + (size.permits() as usize) < MAX_CALL_WEIGHT
    }
}

impl ResponseSlot {
    /// Takes over a call's permit until the response is written.
    pub(crate) fn hold(&self, room: &ConcurrencyPermit) {
        self.lock().permit = room.lock().take();
    }

    /// Stores the response for the transport, and returns an empty placeholder for rmcp.
    pub(crate) fn fulfil(&self, answer: ToolResponse) -> CallToolResult {
        self.lock().response = Some(answer);
        CallToolResult::success(Vec::new())
    }

    /// Takes the contents, for the transport.
    pub(crate) fn take(&self) -> PendingResponse {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, PendingResponse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for McpConnection {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// The permit of one call, held until its response is written or it waits for an approval.
#[derive(Debug, Default)]
pub(crate) struct ConcurrencyPermit {
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

impl ConcurrencyPermit {
    /// Waits for a permit. A call that is cancelled before then runs to its end without one.
    pub(crate) async fn acquire(
        connection: &McpConnection,
        size: CallWeight,
        given_up: impl Future<Output = ()>,
    ) -> Arc<Self> {
        let permit = tokio::select! {
            permit = Arc::clone(&connection.weights).acquire_many_owned(size.permits()) => permit.ok(),
            () = given_up => None,
        };
        Arc::new(Self { held: Mutex::new(permit) })
    }

    /// A permit that was free immediately.
    pub(crate) fn from_permit(permit: OwnedSemaphorePermit) -> Arc<Self> {
        Arc::new(Self { held: Mutex::new(Some(permit)) })
    }

    /// No permit, for calls that may take long and have short responses.
    pub(crate) fn unlimited() -> Arc<Self> {
        Arc::default()
    }

    /// Releases the permit early.
    pub(crate) fn release(&self) {
        drop(self.lock().take());
    }

    fn lock(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::tool_response::ResponseOutcome;

    #[test]
    fn room_is_shared_while_others_have_some() {
        let connection = McpConnection::default();
        let first = connection.try_acquire(CallWeight::Large);
        assert!(first.is_some() && !connection.is_shared(CallWeight::Large));
        let second = connection.try_acquire(CallWeight::Small);
        assert!(second.is_some() && connection.is_shared(CallWeight::Small));
        drop(first);
        assert!(!connection.is_shared(CallWeight::Small));
    }

    #[test]
    fn what_nobody_fetches_goes_with_the_task_that_made_it() {
        let connection = McpConnection::default();
        let answer =
            || ToolResponse { text: "t".to_owned(), more: Vec::new(), outcome: ResponseOutcome::Done(None) };
        for wire_lets_go_first in [true, false] {
            let (of_wire, room) = (
                ResponseSlot::default(),
                ConcurrencyPermit::from_permit(connection.try_acquire(CallWeight::Large).unwrap()),
            );
            let of_task = of_wire.clone();
            let of_wire = (!wire_lets_go_first).then_some(of_wire);
            of_task.hold(&room);
            assert!(of_task.fulfil(answer()).content.is_empty());
            assert!(connection.is_shared(CallWeight::Small), "it takes room");
            drop(of_wire);
            drop(of_task);
            assert!(!connection.is_shared(CallWeight::Small), "the wire let go first: {wire_lets_go_first}");
        }
        let tray = ResponseSlot::default();
        tray.fulfil(answer());
        assert!(tray.take().response.is_some() && tray.take().response.is_none(), "it is fetched once");
    }

    #[test]
    fn there_is_room_for_eight_changes_or_four_reads() {
        for (size, most) in [(CallWeight::Small, 8), (CallWeight::Large, 4)] {
            let connection = McpConnection::default();
            let taken: Vec<_> = std::iter::from_fn(|| connection.try_acquire(size)).collect();
            assert_eq!(taken.len(), most, "{size:?}");
        }
    }
}
