//! The deadline and cancellation of a turn.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// What interrupts a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnInterruption {
    /// The user cancelled it.
    Cancelled,
    /// Its deadline has passed.
    TimedOut,
}

/// The timeout of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnTimeout {
    pub(crate) total: Duration,
    /// The part of it that is reserved for the final step.
    pub(crate) final_step_reserve: Duration,
}

/// The deadline of a turn.
#[derive(Clone, Debug)]
pub(crate) struct TurnDeadline {
    cancelled: CancellationToken,
    began: Instant,
    deadline: Instant,
    /// The deadline of the final step: the end of the whole timeout.
    end: Instant,
}

impl TurnDeadline {
    /// A deadline from now. A part of the timeout is reserved for the final step, so that the turn with its final step stays within it.
    pub(crate) fn new(cancelled: CancellationToken, time: TurnTimeout) -> Self {
        let began = Instant::now();
        Self { cancelled, began, deadline: began, end: began }.with_timeout(time)
    }

    /// The same start with another timeout.
    pub(crate) fn with_timeout(
        self,
        TurnTimeout { total: whole, final_step_reserve: reserved }: TurnTimeout,
    ) -> Self {
        let deadline = saturating_deadline(self.began, whole.saturating_sub(reserved));
        Self { deadline, end: saturating_deadline(self.began, whole), ..self }
    }

    /// The deadline of the final step.
    pub(crate) fn for_final_step(&self) -> Self {
        Self { deadline: self.end, ..self.clone() }
    }

    /// The remaining time.
    pub(crate) fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The interruption, if there is one.
    pub(crate) fn check(&self) -> Option<TurnInterruption> {
        if self.cancelled.is_cancelled() {
            Some(TurnInterruption::Cancelled)
        } else {
            self.remaining().is_zero().then_some(TurnInterruption::TimedOut)
        }
    }

    /// Waits for an interruption.
    pub(crate) async fn expired(&self) -> TurnInterruption {
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => TurnInterruption::Cancelled,
            () = sleep_until(self.deadline) => TurnInterruption::TimedOut,
        }
    }

    /// Waits for a future until an interruption.
    pub(crate) async fn wait<Output>(
        &self,
        work: impl Future<Output = Output>,
    ) -> Result<Output, TurnInterruption> {
        let work = pin!(work);
        tokio::select! {
            biased;
            stopped = self.expired() => Err(stopped),
            output = work => Ok(output),
        }
    }
}

/// A deadline beyond the clock's range is capped.
fn saturating_deadline(began: Instant, time: Duration) -> Instant {
    const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    began.checked_add(time.min(MAX_TIMEOUT)).unwrap_or(began)
}
