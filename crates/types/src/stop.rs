//! When long work must end.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Asked by every loop that could be long. Knows no runtime: the gate plugs its cancellation in as a question.
#[derive(Clone)]
pub struct Stop {
    deadline: Option<Instant>,
    cancelled: Arc<dyn Fn() -> bool + Send + Sync>,
    too_much: Option<Arc<dyn Fn(u64) -> bool + Send + Sync>>,
}

/// Why work must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The call was cancelled.
    Cancelled,
    /// The call's time is up.
    Deadline,
}

impl Stop {
    /// Stops at the deadline, or as soon as `cancelled` says so.
    #[must_use]
    pub fn new(deadline: Option<Instant>, cancelled: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { deadline, cancelled: Arc::new(cancelled), too_much: None }
    }

    /// Also stops work that says beforehand how many bytes it is about, when that is too much.
    #[must_use]
    pub fn unless(self, too_much: impl Fn(u64) -> bool + Send + Sync + 'static) -> Self {
        Self { too_much: Some(Arc::new(too_much)), ..self }
    }

    /// Asked by work that knows beforehand how many bytes it is about.
    ///
    /// # Errors
    /// It shall not be begun.
    pub fn begin(&self, bytes: u64) -> Result<(), StopReason> {
        match &self.too_much {
            Some(too_much) if too_much(bytes) => Err(StopReason::Cancelled),
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
    pub fn reason(&self) -> Option<StopReason> {
        if (self.cancelled)() {
            Some(StopReason::Cancelled)
        } else if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            Some(StopReason::Deadline)
        } else {
            None
        }
    }

    /// `Err` when work must end now.
    ///
    /// # Errors
    /// The reason to stop.
    pub fn check(&self) -> Result<(), StopReason> {
        self.reason().map_or(Ok(()), Err)
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Stop")
            .field("deadline", &self.deadline)
            .field("reason", &self.reason())
            .finish()
    }
}
