//! The state of one connection, or of one session over several.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{InitializeRequestParams, Tool};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use toolgate_gate::{LogSeverity, OutputObserver};
use toolgate_types::Outcome;

use crate::mcp::client_sink::ServerRequests;
use crate::mcp::subscriptions::SubscribedResources;

/// Maximum weight of calls on one connection whose responses are held in memory.
const MAX_CALL_WEIGHT: usize = 8;

/// A call with a response up to this size counts only until the response is there: not while its record is being written, nor while the client does
/// not read. A connection has at most a thousand requests in flight, so this is at most 16 MiB.
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

/// One connection.
pub(crate) struct McpConnection {
    /// Cancelled when the client will send nothing more: elicitations and list notifications are pointless.
    pub(crate) closing: CancellationToken,
    /// Cancelled when the client will read nothing more: its calls are cancelled.
    pub(crate) gone: CancellationToken,
    /// What was negotiated with `initialize`.
    session: Mutex<Option<Arc<InitializeRequestParams>>>,
    /// The requests of the gate that the client has not answered.
    pub(crate) requests: Arc<ServerRequests>,
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
            session: Mutex::default(),
            requests: Arc::default(),
            is_ready: AtomicBool::new(false),
            listed: Mutex::default(),
            log_level: Mutex::default(),
            subscribed: Mutex::default(),
            weights: room,
        }
    }
}

impl McpConnection {
    /// What was negotiated with `initialize`, if it was.
    pub(crate) fn session(&self) -> Option<Arc<InitializeRequestParams>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_session(&self, negotiated: InitializeRequestParams) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(negotiated));
    }

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

    /// Whether other calls hold permits besides the one that just acquired this weight.
    pub(crate) fn is_shared(&self, size: CallWeight) -> bool {
        self.weights.available_permits() + (size.permits() as usize) < MAX_CALL_WEIGHT
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

    impl McpConnection {
        fn try_acquire(&self, size: CallWeight) -> Option<OwnedSemaphorePermit> {
            Arc::clone(&self.weights).try_acquire_many_owned(size.permits()).ok()
        }
    }

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
    fn there_is_room_for_eight_changes_or_four_reads() {
        for (size, most) in [(CallWeight::Small, 8), (CallWeight::Large, 4)] {
            let connection = McpConnection::default();
            let taken: Vec<_> = std::iter::from_fn(|| connection.try_acquire(size)).collect();
            assert_eq!(taken.len(), most, "{size:?}");
        }
    }

    #[test]
    fn a_small_answer_counts_until_it_is_there_and_a_large_one_longer() {
        let connection = McpConnection::default();
        let large = "a".repeat(MAX_UNCOUNTED_BYTES + 1);
        for (text, is_free) in [("a", true), (&*large, false)] {
            let permit = connection.try_acquire(CallWeight::Large);
            let permit = ConcurrencyPermit { held: Mutex::new(permit) };
            let structured = JsonObjectWriter::with_capacity(8).finish();
            permit.output_ready(&Outcome::Done(ToolOutput::new(text, structured)));
            assert_eq!(connection.weights.available_permits() == MAX_CALL_WEIGHT, is_free, "{}", text.len());
        }
    }
}
