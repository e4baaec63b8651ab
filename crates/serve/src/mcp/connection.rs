//! What a handler and the wire that carries it know of each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{CallToolResult, Tool};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::mcp::answer::Answered;

/// What calls with their answers in memory may take together.
const ROOM: usize = 8;

/// How much room a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// A change: it answers with little, and mostly waits for the disk.
    Small,
    /// What is read may be long.
    Large,
}

impl Size {
    const fn permits(self) -> u32 {
        match self {
            Self::Small => 1,
            Self::Large => 2,
        }
    }
}

/// One connection, as both of its ends see it.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The client will send nothing more: nobody can be asked, and nobody listens to changes.
    pub(crate) closing: CancellationToken,
    /// The client will read nothing more: what it asked for is of no use to anybody.
    pub(crate) gone: CancellationToken,
    /// A client says once that it is ready.
    is_ready: AtomicBool,
    /// The tools that the client was told of last.
    listed: Mutex<Option<Arc<[Tool]>>>,
    room: Arc<Semaphore>,
}

impl Default for Connection {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(ROOM));
        let (closing, gone) = (CancellationToken::new(), CancellationToken::new());
        Self { closing, gone, is_ready: AtomicBool::new(false), listed: Mutex::default(), room }
    }
}

/// Where the task that answers a request puts what our wire fetches with the answer. Each has a hold of it; when the client gives the request up, the wire
/// lets go, and nothing stays longer than the task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tray(Arc<Mutex<Leaving>>);

/// What goes with an answer.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    /// The room it takes until the wire has written it.
    pub(crate) room: Option<OwnedSemaphorePermit>,
    /// The answer to a call. It does not go through the service, which would have to take it apart.
    pub(crate) answer: Option<Answered>,
}

impl Connection {
    /// Whether this is the first time that the client says that it is ready.
    pub(crate) fn becomes_ready(&self) -> bool {
        !self.is_ready.swap(true, Ordering::Relaxed)
    }

    /// The client is told of these tools.
    pub(crate) fn lists(&self, tools: &Arc<[Tool]>) {
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(tools));
    }

    /// The tools that the client was told of last.
    pub(crate) fn listed(&self) -> Option<Arc<[Tool]>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Room for one more answer, if there is some and nobody waits for it.
    pub(crate) fn try_room(&self, size: Size) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room).try_acquire_many_owned(size.permits()).ok()
    }

    /// Whether others have room besides whoever has just taken so much.
    pub(crate) fn is_shared(&self, size: Size) -> bool {
        self.room.available_permits() + (size.permits() as usize) < ROOM
    }
}

impl Tray {
    /// Keeps the room of an answer until it has left.
    pub(crate) fn keep(&self, room: &Room) {
        self.lock().room = room.lock().take();
    }

    /// Hands an answer over. What the service is given then only says whose answer it is.
    pub(crate) fn hand_over(&self, answer: Answered) -> CallToolResult {
        self.lock().answer = Some(answer);
        CallToolResult::success(Vec::new())
    }

    /// What lies there, for the wire.
    pub(crate) fn take(&self) -> Leaving {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Leaving> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// The room that one call takes until its answer has left, or until a person has to think about it.
#[derive(Debug, Default)]
pub(crate) struct Room {
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Room {
    /// Room among the answers of a connection, once there is some. Whoever is given up meanwhile goes on without, to its end.
    pub(crate) async fn among(
        connection: &Connection,
        size: Size,
        given_up: impl Future<Output = ()>,
    ) -> Arc<Self> {
        let permit = tokio::select! {
            permit = Arc::clone(&connection.room).acquire_many_owned(size.permits()) => permit.ok(),
            () = given_up => None,
        };
        Arc::new(Self { held: Mutex::new(permit) })
    }

    /// Room that was there at once.
    pub(crate) fn taken(permit: OwnedSemaphorePermit) -> Arc<Self> {
        Arc::new(Self { held: Mutex::new(Some(permit)) })
    }

    /// For calls that may take long and answer with little.
    pub(crate) fn unlimited() -> Arc<Self> {
        Arc::default()
    }

    /// Lets others in.
    pub(crate) fn leave(&self) {
        drop(self.lock().take());
    }

    fn lock(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::answer::Ended;

    #[test]
    fn room_is_shared_while_others_have_some() {
        let connection = Connection::default();
        let first = connection.try_room(Size::Large);
        assert!(first.is_some() && !connection.is_shared(Size::Large));
        let second = connection.try_room(Size::Small);
        assert!(second.is_some() && connection.is_shared(Size::Small));
        drop(first);
        assert!(!connection.is_shared(Size::Small));
    }

    #[test]
    fn what_nobody_fetches_goes_with_the_task_that_made_it() {
        let connection = Connection::default();
        let answer = || Answered { text: "t".to_owned(), more: Vec::new(), ended: Ended::Done(None) };
        for wire_lets_go_first in [true, false] {
            let (of_wire, room) = (Tray::default(), Room::taken(connection.try_room(Size::Large).unwrap()));
            let of_task = of_wire.clone();
            let of_wire = (!wire_lets_go_first).then_some(of_wire);
            of_task.keep(&room);
            assert!(of_task.hand_over(answer()).content.is_empty());
            assert!(connection.is_shared(Size::Small), "it takes room");
            drop(of_wire);
            drop(of_task);
            assert!(!connection.is_shared(Size::Small), "the wire let go first: {wire_lets_go_first}");
        }
        let tray = Tray::default();
        tray.hand_over(answer());
        assert!(tray.take().answer.is_some() && tray.take().answer.is_none(), "it is fetched once");
    }

    #[test]
    fn there_is_room_for_eight_changes_or_four_reads() {
        for (size, most) in [(Size::Small, 8), (Size::Large, 4)] {
            let connection = Connection::default();
            let taken: Vec<_> = std::iter::from_fn(|| connection.try_room(size)).collect();
            assert_eq!(taken.len(), most, "{size:?}");
        }
    }
}
