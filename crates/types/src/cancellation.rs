//! When long work must end.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Asked by every loop that could be long. Knows no runtime: the gate plugs its cancellation in as a question.
#[derive(Clone)]
pub struct Cancellation {
    deadline: Option<Instant>,
    cancelled: Arc<dyn Fn() -> bool + Send + Sync>,
    exceeds_size: Option<Arc<dyn Fn(u64) -> bool + Send + Sync>>,
}

/// Why work must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancellationReason {
    /// The call was cancelled.
    Cancelled,
    /// The call's time is up.
    Deadline,
}

impl Cancellation {
    /// Stops at the deadline, or as soon as `cancelled` says so.
    #[must_use]
    pub fn new(deadline: Option<Instant>, cancelled: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { deadline, cancelled: Arc::new(cancelled), exceeds_size: None }
    }

    /// Also stops work that says beforehand how many bytes it is about, when that is too much.
    #[must_use]
    pub fn with_size_limit(self, too_much: impl Fn(u64) -> bool + Send + Sync + 'static) -> Self {
        Self { exceeds_size: Some(Arc::new(too_much)), ..self }
    }

    /// Asked by work that knows beforehand how many bytes it is about.
    ///
    /// # Errors
    /// It shall not be begun.
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

    /// When the time is up.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether work must end now.
    #[must_use]
    pub fn reason(&self) -> Option<CancellationReason> {
        if (self.cancelled)() {
            Some(CancellationReason::Cancelled)
        } else if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            Some(CancellationReason::Deadline)
        } else {
            None
        }
    }

    /// `Err` when work must end now.
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
            .debug_struct("Stop")
            .field("deadline", &self.deadline)
            .field("reason", &self.reason())
            .finish()
    }
}
