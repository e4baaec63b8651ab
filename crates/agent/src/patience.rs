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

/// Until when a turn goes on.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    cancelled: CancellationToken,
    began: Instant,
    deadline: Instant,
}

impl Patience {
    pub(crate) fn new(cancelled: CancellationToken, time: Duration) -> Self {
        let began = Instant::now();
        Self { cancelled, began, deadline: after(began, time) }
    }

    /// With so much time from its beginning on.
    pub(crate) fn lasting(self, time: Duration) -> Self {
        Self { deadline: after(self.began, time), ..self }
    }

    /// With at least so much time from now on.
    pub(crate) fn at_least(&self, time: Duration) -> Self {
        Self { deadline: self.deadline.max(after(Instant::now(), time)), ..self.clone() }
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
