//! How much runs concurrently on one connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolgate_gate::OutputObserver;
use toolgate_types::Outcome;

/// Maximum unanswered requests of one connection; more are rejected.
pub(crate) const MAX_UNANSWERED: usize = 1024;

/// Maximum weight of calls on one connection that run, or whose responses are held in memory: eight changes or four reads. With 32 changes of
/// one directory, they wait for its lock more than they share of the disk: a fifth of the edits per second.
const MAX_CALL_WEIGHT: usize = 8;

/// A call with a response up to this size counts only until the response is there: not while its record is being written, nor while the client does
/// not read. With [`MAX_UNANSWERED`] this is at most 16 MiB.
const MAX_UNCOUNTED_BYTES: usize = 16 * 1024;

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

/// The calls of one connection whose responses are in memory.
#[derive(Debug)]
pub(crate) struct ConnectionLimit(Arc<Semaphore>);

impl Default for ConnectionLimit {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_CALL_WEIGHT)))
    }
}

impl ConnectionLimit {
    /// Whether other calls hold permits besides the one that just acquired this weight.
    pub(crate) fn is_shared(&self, size: CallWeight) -> bool {
        self.0.available_permits() + (size.permits() as usize) < MAX_CALL_WEIGHT
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
        limit: &ConnectionLimit,
        size: CallWeight,
        given_up: impl Future<Output = ()>,
    ) -> Arc<Self> {
        let permit = tokio::select! {
            permit = Arc::clone(&limit.0).acquire_many_owned(size.permits()) => permit.ok(),
            () = given_up => None,
        };
        Arc::new(Self { held: Mutex::new(permit) })
    }

    /// No permit, for calls that may take long and have short responses.
    pub(crate) fn unlimited() -> Arc<Self> {
        Arc::default()
    }

    /// Releases the permit early.
    pub(crate) fn release(&self) {
        drop(self.take());
    }

    /// Takes the permit, to hold it until the response is written.
    pub(crate) fn take(&self) -> Option<OwnedSemaphorePermit> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutputObserver for ConcurrencyPermit {
    /// The calls of a connection share one `fsync` of their records as far as they may wait for it together.
    fn output_ready(&self, outcome: &Outcome) {
        if outcome.fits(MAX_UNCOUNTED_BYTES) {
            self.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use toolgate_types::{JsonObjectWriter, ToolOutput};

    use super::*;

    impl ConnectionLimit {
        fn try_acquire(&self, size: CallWeight) -> Option<OwnedSemaphorePermit> {
            Arc::clone(&self.0).try_acquire_many_owned(size.permits()).ok()
        }
    }

    #[test]
    fn room_is_shared_while_others_have_some() {
        let connection = ConnectionLimit::default();
        let first = connection.try_acquire(CallWeight::Large);
        assert!(first.is_some() && !connection.is_shared(CallWeight::Large));
        let second = connection.try_acquire(CallWeight::Small);
        assert!(second.is_some() && connection.is_shared(CallWeight::Small));
        drop(first);
        assert!(!connection.is_shared(CallWeight::Small));
    }

    #[test]
    fn there_is_room_for_eight_changes_or_four_reads() {
        for (size, most) in [(CallWeight::Small, 8), (CallWeight::Large, 4)] {
            let connection = ConnectionLimit::default();
            let taken: Vec<_> = std::iter::from_fn(|| connection.try_acquire(size)).collect();
            assert_eq!(taken.len(), most, "{size:?}");
        }
    }

    #[test]
    fn a_small_answer_counts_until_it_is_there_and_a_large_one_longer() {
        let connection = ConnectionLimit::default();
        let large = "a".repeat(MAX_UNCOUNTED_BYTES + 1);
        for (text, is_free) in [("a", true), (&*large, false)] {
            let permit = ConcurrencyPermit { held: Mutex::new(connection.try_acquire(CallWeight::Large)) };
            let structured = JsonObjectWriter::with_capacity(8).finish();
            permit.output_ready(&Outcome::Done(ToolOutput::new(text, structured)));
            assert_eq!(connection.0.available_permits() == MAX_CALL_WEIGHT, is_free, "{}", text.len());
        }
    }
}
