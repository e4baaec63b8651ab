//! What a handler and the wire that carries it know of each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{CallToolResult, Tool};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::mcp::tool_response::ToolResponse;

/// What calls with their answers in memory may take together.
const MAX_CALL_WEIGHT: usize = 8;

/// How much room a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallWeight {
    /// A change: it answers with little, and mostly waits for the disk.
    Small,
    /// What is read may be long.
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

/// One connection, as both of its ends see it.
#[derive(Debug)]
pub(crate) struct McpConnection {
    /// The client will send nothing more: nobody can be asked, and nobody listens to changes.
    pub(crate) closing: CancellationToken,
    /// The client will read nothing more: what it asked for is of no use to anybody.
    pub(crate) gone: CancellationToken,
    /// A client says once that it is ready.
    is_ready: AtomicBool,
    /// The tools that the client was told of last.
    listed: Mutex<Option<Arc<[Tool]>>>,
    weights: Arc<Semaphore>,
}

impl Default for McpConnection {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(MAX_CALL_WEIGHT));
        let (closing, gone) = (CancellationToken::new(), CancellationToken::new());
        Self { closing, gone, is_ready: AtomicBool::new(false), listed: Mutex::default(), weights: room }
    }
}

/// Where the task that answers a request puts what our wire fetches with the answer. Each has a hold of it; when the client gives the request up, the wire
/// lets go, and nothing stays longer than the task.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseSlot(Arc<Mutex<PendingResponse>>);

/// What goes with an answer.
#[derive(Debug, Default)]
pub(crate) struct PendingResponse {
    /// The room it takes until the wire has written it.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
    /// The answer to a call. It does not go through the service, which would have to take it apart.
    pub(crate) response: Option<ToolResponse>,
}

impl McpConnection {
    /// Whether this is the first time that the client says that it is ready.
    pub(crate) fn mark_ready(&self) -> bool {
        !self.is_ready.swap(true, Ordering::Relaxed)
    }

    /// The client is told of these tools.
    pub(crate) fn set_listed(&self, tools: &Arc<[Tool]>) {
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(tools));
    }

    /// The tools that the client was told of last.
    pub(crate) fn listed(&self) -> Option<Arc<[Tool]>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Room for one more answer, if there is some and nobody waits for it.
    pub(crate) fn try_acquire(&self, size: CallWeight) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.weights).try_acquire_many_owned(size.permits()).ok()
    }

    /// Whether others have room besides whoever has just taken so much.
    pub(crate) fn is_shared(&self, size: CallWeight) -> bool {
        self.weights.available_permits() + (size.permits() as usize) < MAX_CALL_WEIGHT
    }
}

impl ResponseSlot {
    /// Keeps the room of an answer until it has left.
    pub(crate) fn hold(&self, room: &ConcurrencyPermit) {
        self.lock().permit = room.lock().take();
    }

    /// Hands an answer over. What the service is given then only says whose answer it is.
    pub(crate) fn fulfil(&self, answer: ToolResponse) -> CallToolResult {
        self.lock().response = Some(answer);
        CallToolResult::success(Vec::new())
    }

    /// What lies there, for the wire.
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

/// The room that one call takes until its answer has left, or until a person has to think about it.
#[derive(Debug, Default)]
pub(crate) struct ConcurrencyPermit {
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

impl ConcurrencyPermit {
    /// Room among the answers of a connection, once there is some. Whoever is given up meanwhile goes on without, to its end.
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

    /// Room that was there at once.
    pub(crate) fn from_permit(permit: OwnedSemaphorePermit) -> Arc<Self> {
        Arc::new(Self { held: Mutex::new(Some(permit)) })
    }

    /// For calls that may take long and answer with little.
    pub(crate) fn unlimited() -> Arc<Self> {
        Arc::default()
    }

    /// Lets others in.
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
