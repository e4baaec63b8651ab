//! How a connection comes to its end, and when a server has said too much.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

/// How much a server may say at once that is of no use to anybody: so many short messages, or fewer long ones.
const MOST_USELESS: u64 = 10_000;

/// How many bytes of a useless message count as one more.
const BYTES_OF_ONE: usize = 16 << 10;

/// Why a connection came to its end; the first reason stays.
#[derive(Clone, Debug)]
pub(crate) struct Ending(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    reason: Mutex<Option<String>>,
    useless: Mutex<Useless>,
    over: CancellationToken,
    /// Whether it was the server that closed the connection.
    left: AtomicBool,
}

/// What was said that is of no use, less what is forgotten.
#[derive(Debug)]
struct Useless {
    /// How many messages are forgotten every second.
    forgotten: u64,
    /// In thousandths of a message.
    thousandths: u64,
    last: Option<Instant>,
}

impl Useless {
    fn new(forgotten: u64) -> Self {
        Self { forgotten, thousandths: 0, last: None }
    }

    fn add(&mut self, messages: u64, now: Instant) -> bool {
        let passed = self.last.replace(now).map_or(0, |last| now.saturating_duration_since(last).as_millis());
        let forgotten = u64::try_from(passed).unwrap_or(u64::MAX).saturating_mul(self.forgotten);
        self.thousandths =
            self.thousandths.saturating_sub(forgotten).saturating_add(messages.saturating_mul(1000));
        self.thousandths > MOST_USELESS * 1000
    }
}

impl Ending {
    /// Of a connection on which so many messages that nobody asked for are forgotten every second.
    pub(crate) fn new(forgotten: u64) -> Self {
        Self(Arc::new(Inner {
            reason: Mutex::default(),
            useless: Mutex::new(Useless::new(forgotten)),
            over: CancellationToken::new(),
            left: AtomicBool::new(false),
        }))
    }

    pub(crate) fn because(&self, reason: impl Into<String>) {
        locked(&self.0.reason).get_or_insert_with(|| reason.into());
    }

    pub(crate) fn reason(&self) -> Option<String> {
        locked(&self.0.reason).clone()
    }

    /// It is the server that closes the connection.
    pub(super) fn left(&self) {
        self.0.left.store(true, Ordering::Relaxed);
    }

    /// Whether the server did.
    pub(crate) fn was_left(&self) -> bool {
        self.0.left.load(Ordering::Relaxed)
    }

    /// Counts something that nobody asked for, of so many bytes. Too much of it ends the connection.
    pub(super) fn count_useless(&self, bytes: usize) {
        let messages = u64::try_from(1 + bytes / BYTES_OF_ONE).unwrap_or(u64::MAX);
        if locked(&self.0.useless).add(messages, Instant::now()) {
            self.end_because(format!("it sent more than {MOST_USELESS} messages that nobody asked for"));
        }
    }

    /// Ends the connection, whoever is waiting for what on it.
    pub(super) fn end_because(&self, reason: impl Into<String>) {
        self.because(reason);
        self.0.over.cancel();
    }

    /// Whether the connection must end.
    pub(super) fn is_over(&self) -> bool {
        self.0.over.is_cancelled()
    }

    /// Resolves when the connection must end.
    pub(super) async fn over(&self) {
        self.0.over.cancelled().await;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Patience;

    #[test]
    fn what_comes_slowly_is_forgotten_and_what_does_not_is_too_much() {
        let (begun, usual) = (Instant::now(), Patience::default().forgotten);
        let mut slow = Useless::new(usual);
        for step in 0..100_000u64 {
            assert!(!slow.add(1, begun + Duration::from_millis(step)), "{step}");
        }
        let mut fast = Useless::new(usual);
        let ended = (0..100_000u64).find(|step| fast.add(2, begun + Duration::from_millis(*step)));
        assert!(ended.is_some_and(|step| (9_000..11_000).contains(&step)), "{ended:?}");
        let mut at_once = Useless::new(usual);
        assert!(!at_once.add(MOST_USELESS, begun) && at_once.add(1, begun));
    }

    #[test]
    fn long_messages_count_for_several() {
        let ending = Ending::new(0);
        (0..5).for_each(|_| ending.count_useless(16 << 20));
        assert!(!ending.is_over());
        (0..10).for_each(|_| ending.count_useless(16 << 20));
        assert!(ending.is_over() && ending.reason().unwrap().contains("nobody asked for"));
    }
}
