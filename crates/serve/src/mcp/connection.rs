//! What a handler and the wire that carries it know of each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::RequestId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// How many calls may have their answers in memory at once.
const ANSWERS_AT_ONCE: usize = 8;

/// One connection, as both of its ends see it.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The client will send nothing more: nobody can be asked, and nobody listens to changes.
    pub(crate) closing: CancellationToken,
    room: Arc<Semaphore>,
    /// The room that answers take, until the wire has written them.
    taken: Option<Mutex<HashMap<RequestId, OwnedSemaphorePermit>>>,
}

impl Connection {
    /// A connection whose wire says when an answer has left.
    pub(crate) fn with_wire() -> Self {
        Self { taken: Some(Mutex::default()), ..Self::without_wire() }
    }

    /// A connection whose wire holds back by itself.
    pub(crate) fn without_wire() -> Self {
        let room = Arc::new(Semaphore::new(ANSWERS_AT_ONCE));
        Self { closing: CancellationToken::new(), room, taken: None }
    }

    /// Waits for room for one more answer.
    pub(crate) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room).acquire_owned().await.ok()
    }

    /// Keeps the room of an answer that is on its way to the wire.
    pub(crate) fn keep(&self, id: &RequestId, permit: Option<OwnedSemaphorePermit>) {
        if let (Some(taken), Some(permit)) = (&self.taken, permit) {
            taken.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), permit);
        }
    }

    /// The room of an answer that the wire has now.
    pub(crate) fn release(&self, id: &RequestId) -> Option<OwnedSemaphorePermit> {
        self.taken.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }
}
