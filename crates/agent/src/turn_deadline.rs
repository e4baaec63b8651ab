//! How long a turn goes on: until the person has enough of it, or its time is up.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// What ends a turn from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnInterruption {
    /// The person wants no more of it.
    Cancelled,
    /// Its time is up.
    TimedOut,
}

/// How long a turn may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnTimeout {
    pub(crate) total: Duration,
    /// How much of it is kept for the last step.
    pub(crate) final_step_reserve: Duration,
}

/// Until when a turn goes on.
#[derive(Clone, Debug)]
pub(crate) struct TurnDeadline {
    cancelled: CancellationToken,
    began: Instant,
    deadline: Instant,
    /// Until when the last step may take, which is the whole time.
    end: Instant,
}

impl TurnDeadline {
    /// So much time, of which some is reserved for the last step: with it, too, a turn takes no longer than it may.
    pub(crate) fn new(cancelled: CancellationToken, time: TurnTimeout) -> Self {
        let began = Instant::now();
        Self { cancelled, began, deadline: began, end: began }.with_timeout(time)
    }

    /// With so much time from its beginning on.
    pub(crate) fn with_timeout(
        self,
        TurnTimeout { total: whole, final_step_reserve: reserved }: TurnTimeout,
    ) -> Self {
        let deadline = saturating_deadline(self.began, whole.saturating_sub(reserved));
        Self { deadline, end: saturating_deadline(self.began, whole), ..self }
    }

    /// With what is left for the last step.
    pub(crate) fn for_final_step(&self) -> Self {
        Self { deadline: self.end, ..self.clone() }
    }

    /// How much time is left.
    pub(crate) fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether it is over.
    pub(crate) fn check(&self) -> Option<TurnInterruption> {
        if self.cancelled.is_cancelled() {
            Some(TurnInterruption::Cancelled)
        } else {
            self.remaining().is_zero().then_some(TurnInterruption::TimedOut)
        }
    }

    /// Waits until it is over.
    pub(crate) async fn expired(&self) -> TurnInterruption {
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => TurnInterruption::Cancelled,
            () = sleep_until(self.deadline) => TurnInterruption::TimedOut,
        }
    }

    /// Waits for something, but no longer than this lasts.
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

/// A time that no clock reaches is as good as none.
fn saturating_deadline(began: Instant, time: Duration) -> Instant {
    const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    began.checked_add(time.min(MAX_TIMEOUT)).unwrap_or(began)
}
