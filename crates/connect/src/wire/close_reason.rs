//! Why a connection ends, and the budget of unsolicited messages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

/// Maximum burst of unsolicited messages; long ones count more.
const MAX_UNSOLICITED: u64 = 10_000;

/// This many bytes of a message count as one more.
const UNSOLICITED_UNIT_BYTES: usize = 16 << 10;

/// Why a connection ended; the first reason is kept.
#[derive(Clone, Debug)]
pub(crate) struct CloseReason(Arc<CloseState>);

#[derive(Debug)]
struct CloseState {
    reason: Mutex<Option<String>>,
    unsolicited: Mutex<UnsolicitedBudget>,
    closed: CancellationToken,
    /// Whether the server closed the connection.
    closed_by_peer: AtomicBool,
}

/// A leaky bucket of unsolicited messages.
#[derive(Debug)]
struct UnsolicitedBudget {
    /// Messages drained per second.
    refill_per_second: u64,
    /// The level, in thousandths of a message.
    thousandths: u64,
    last: Option<Instant>,
}

impl UnsolicitedBudget {
    fn new(refill_per_second: u64) -> Self {
        Self { refill_per_second, thousandths: 0, last: None }
    }

    fn add(&mut self, messages: u64, now: Instant) -> bool {
        let passed = self.last.replace(now).map_or(0, |last| now.saturating_duration_since(last).as_millis());
        let forgotten = u64::try_from(passed).unwrap_or(u64::MAX).saturating_mul(self.refill_per_second);
        self.thousandths =
            self.thousandths.saturating_sub(forgotten).saturating_add(messages.saturating_mul(1000));
        self.thousandths > MAX_UNSOLICITED * 1000
    }
}

impl CloseReason {
    /// For a connection with this drain rate of unsolicited messages.
    pub(crate) fn new(forgotten: u64) -> Self {
        Self(Arc::new(CloseState {
            reason: Mutex::default(),
            unsolicited: Mutex::new(UnsolicitedBudget::new(forgotten)),
            closed: CancellationToken::new(),
            closed_by_peer: AtomicBool::new(false),
        }))
    }

    pub(crate) fn record(&self, reason: impl Into<String>) {
        locked(&self.0.reason).get_or_insert_with(|| reason.into());
    }

    pub(crate) fn reason(&self) -> Option<String> {
        locked(&self.0.reason).clone()
    }

    /// The server has closed the connection.
    pub(super) fn set_closed_by_peer(&self) {
        self.0.closed_by_peer.store(true, Ordering::Relaxed);
    }

    /// Whether the server has closed it.
    pub(crate) fn is_closed_by_peer(&self) -> bool {
        self.0.closed_by_peer.load(Ordering::Relaxed)
    }

    /// Counts an unsolicited message of this size. Too many close the connection.
    pub(super) fn count_unsolicited(&self, bytes: usize) {
        let messages = u64::try_from(1 + bytes / UNSOLICITED_UNIT_BYTES).unwrap_or(u64::MAX);
        if locked(&self.0.unsolicited).add(messages, Instant::now()) {
            self.close(format!("it sent more than {MAX_UNSOLICITED} messages that nobody asked for"));
        }
    }

    /// Closes the connection; all pending requests fail.
    pub(super) fn close(&self, reason: impl Into<String>) {
        self.record(reason);
        self.0.closed.cancel();
    }

    /// Whether the connection must close.
    pub(super) fn is_closed(&self) -> bool {
        self.0.closed.is_cancelled()
    }

    /// Resolves when the connection must close.
    pub(super) async fn closed(&self) {
        self.0.closed.cancelled().await;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ServerTimeouts;

    #[test]
    fn what_comes_slowly_is_forgotten_and_what_does_not_is_too_much() {
        let (begun, usual) = (Instant::now(), ServerTimeouts::default().unsolicited_per_second);
        let mut slow = UnsolicitedBudget::new(usual);
        for step in 0..100_000u64 {
            assert!(!slow.add(1, begun + Duration::from_millis(step)), "{step}");
        }
        let mut fast = UnsolicitedBudget::new(usual);
        let ended = (0..100_000u64).find(|step| fast.add(2, begun + Duration::from_millis(*step)));
        assert!(ended.is_some_and(|step| (9_000..11_000).contains(&step)), "{ended:?}");
        let mut at_once = UnsolicitedBudget::new(usual);
        assert!(!at_once.add(MAX_UNSOLICITED, begun) && at_once.add(1, begun));
    }

    #[test]
    fn long_messages_count_for_several() {
        let ending = CloseReason::new(0);
        (0..5).for_each(|_| ending.count_unsolicited(16 << 20));
        assert!(!ending.is_closed());
        (0..10).for_each(|_| ending.count_unsolicited(16 << 20));
        assert!(ending.is_closed() && ending.reason().unwrap().contains("nobody asked for"));
    }
}
