//! How long a turn goes on: until the person has enough of it, or its time is up.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// What ends a turn from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The person wants no more of it.
    Cancelled,
    /// Its time is up.
    TimedOut,
}

/// How long a turn may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnTime {
    pub(crate) whole: Duration,
    /// How much of it is kept for the last step.
    pub(crate) reserved: Duration,
}

/// Until when a turn goes on.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    cancelled: CancellationToken,
    began: Instant,
    deadline: Instant,
    /// Until when the last step may take, which is the whole time.
    end: Instant,
}

impl Patience {
    /// So much time, of which some is reserved for the last step: with it, too, a turn takes no longer than it may.
    pub(crate) fn new(cancelled: CancellationToken, time: TurnTime) -> Self {
        let began = Instant::now();
        Self { cancelled, began, deadline: began, end: began }.lasting(time)
    }

    /// With so much time from its beginning on.
    pub(crate) fn lasting(self, TurnTime { whole, reserved }: TurnTime) -> Self {
        let deadline = after(self.began, whole.saturating_sub(reserved));
        Self { deadline, end: after(self.began, whole), ..self }
    }

    /// With what is left for the last step.
    pub(crate) fn of_last_step(&self) -> Self {
        Self { deadline: self.end, ..self.clone() }
    }

    /// How much time is left.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether it is over.
    pub(crate) fn check(&self) -> Option<Stopped> {
        if self.cancelled.is_cancelled() {
            Some(Stopped::Cancelled)
        } else {
            self.left().is_zero().then_some(Stopped::TimedOut)
        }
    }

    /// Waits until it is over.
    pub(crate) async fn over(&self) -> Stopped {
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => Stopped::Cancelled,
            () = sleep_until(self.deadline) => Stopped::TimedOut,
        }
    }

    /// Waits for something, but no longer than this lasts.
    pub(crate) async fn wait<Output>(&self, work: impl Future<Output = Output>) -> Result<Output, Stopped> {
        let work = pin!(work);
        tokio::select! {
            biased;
            stopped = self.over() => Err(stopped),
            output = work => Ok(output),
        }
    }
}

/// A time that no clock reaches is as good as none.
fn after(began: Instant, time: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    began.checked_add(time.min(FAR)).unwrap_or(began)
}
