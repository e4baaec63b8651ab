//! Cancellation and deadline of long-running work.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Checked by every loop that may run long. Independent of any async runtime: the gate supplies its cancellation as a closure.
#[derive(Clone)]
pub struct Cancellation {
    deadline: Option<Instant>,
    cancelled: Arc<dyn Fn() -> bool + Send + Sync>,
    exceeds_size: Option<Arc<dyn Fn(u64) -> bool + Send + Sync>>,
    /// An earlier end, and where it is noted that it came.
    earlier: Option<(Instant, Arc<AtomicBool>)>,
    /// How much later the deadline is.
    pause: Option<Arc<DeadlineExtension>>,
}

/// The time that does not count towards a deadline, because a person is waited for.
#[derive(Debug, Default)]
pub struct DeadlineExtension(Mutex<ExtensionTime>);

#[derive(Debug, Default)]
struct ExtensionTime {
    ended: Duration,
    /// The pauses under way, and since when there is one.
    open: usize,
    since: Option<Instant>,
}

impl DeadlineExtension {
    /// Pauses until the guard is dropped.
    pub fn start(self: &Arc<Self>) -> impl Drop + Send + Sync + use<> {
        {
            let mut time = self.lock();
            time.open += 1;
            time.since.get_or_insert_with(Instant::now);
        }
        PauseGuard(Arc::clone(self))
    }

    /// How long it was paused until now.
    fn total(&self, now: Instant) -> Duration {
        let time = self.lock();
        time.ended + time.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ExtensionTime> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct PauseGuard(Arc<DeadlineExtension>);

impl Drop for PauseGuard {
    fn drop(&mut self) {
        let mut time = self.0.lock();
        time.open = time.open.saturating_sub(1);
        if time.open == 0
            && let Some(since) = time.since.take()
        {
            time.ended += since.elapsed();
        }
    }
}

/// Why work must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancellationReason {
    /// The call was cancelled.
    Cancelled,
    /// The deadline of the call has passed.
    Deadline,
}

impl Cancellation {
    /// Stops at the deadline, or as soon as `cancelled` returns true.
    #[must_use]
    pub fn new(deadline: Option<Instant>, cancelled: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { deadline, cancelled: Arc::new(cancelled), exceeds_size: None, earlier: None, pause: None }
    }

    /// Also rejects work that announces more bytes than `too_much` accepts.
    #[must_use]
    pub fn with_size_limit(self, too_much: impl Fn(u64) -> bool + Send + Sync + 'static) -> Self {
        Self { exceeds_size: Some(Arc::new(too_much)), ..self }
    }

    /// Also ends work at an earlier instant, as cancelled, and notes in `ended` that it did.
    #[must_use]
    pub fn ending_early(self, until: Instant, ended: Arc<AtomicBool>) -> Self {
        Self { earlier: Some((until, ended)), ..self }
    }

    /// The deadline is later by these pauses.
    #[must_use]
    pub fn paused_by(self, pause: Arc<DeadlineExtension>) -> Self {
        Self { pause: Some(pause), ..self }
    }

    /// Called by work that knows its size in bytes beforehand.
    ///
    /// # Errors
    /// The size is over the limit; the work must not start.
    pub fn check_size(&self, bytes: u64) -> Result<(), CancellationReason> {
        match &self.exceeds_size {
            Some(too_much) if too_much(bytes) => Err(CancellationReason::Cancelled),
            _ => Ok(()),
        }
    }

    /// Never stops.
    #[must_use]
    pub fn never() -> Self {
        Self::new(None, || false)
    }

    /// The deadline, if any.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Why work must stop now; `None` if it may continue.
    #[must_use]
    pub fn reason(&self) -> Option<CancellationReason> {
        if (self.cancelled)() {
            return Some(CancellationReason::Cancelled);
        }
        if self.deadline.is_none() && self.earlier.is_none() {
            return None;
        }
        // One look at the clock for both.
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| now >= deadline && !self.is_extended(deadline, now)) {
            return Some(CancellationReason::Deadline);
        }
        let (_, ended) = self.earlier.as_ref().filter(|(until, _)| now >= *until)?;
        ended.store(true, Ordering::Relaxed);
        Some(CancellationReason::Cancelled)
    }

    /// Whether a deadline that has passed is later because of pauses.
    fn is_extended(&self, deadline: Instant, now: Instant) -> bool {
        self.pause.as_ref().is_some_and(|pause| {
            deadline.checked_add(pause.total(now)).is_some_and(|deadline| now < deadline)
        })
    }

    /// `Err` when work must stop now.
    ///
    /// # Errors
    /// The reason to stop.
    pub fn check(&self) -> Result<(), CancellationReason> {
        self.reason().map_or(Ok(()), Err)
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Cancellation")
            .field("deadline", &self.deadline)
            .field("reason", &self.reason())
            .finish()
    }
}
