//! The deadline and cancellation of a turn.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
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

/// The time for which a deadline did not run: a turn is not shorter because a person thinks about a question.
#[derive(Clone, Copy, Debug, Default)]
struct PausedTime {
    /// Of pauses that have ended.
    total: Duration,
    /// How many questions are open, and since when there is one.
    open: usize,
    since: Option<Instant>,
}

impl PausedTime {
    fn begin(&mut self, now: Instant) {
        self.open += 1;
        self.since.get_or_insert(now);
    }

    fn end(&mut self, now: Instant) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0
            && let Some(since) = self.since.take()
        {
            self.total += now.saturating_duration_since(since);
        }
    }

    /// The whole time until now.
    fn until(&self, now: Instant) -> Duration {
        self.total + self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

/// Keeps a deadline from running until it is dropped.
pub(crate) struct DeadlinePause(Arc<watch::Sender<PausedTime>>);

impl Drop for DeadlinePause {
    fn drop(&mut self) {
        self.0.send_modify(|paused| paused.end(Instant::now()));
    }
}

/// The deadline of a turn.
#[derive(Clone, Debug)]
pub(crate) struct TurnDeadline {
    cancelled: CancellationToken,
    /// Shared by all clones.
    paused: Arc<watch::Sender<PausedTime>>,
    began: Instant,
    deadline: Instant,
    /// The deadline of the final step: the end of the whole timeout.
    end: Instant,
}

impl TurnDeadline {
    /// A deadline from now. A part of the timeout is reserved for the final step, so that the turn with its final step stays within it.
    pub(crate) fn new(cancelled: CancellationToken, time: TurnTimeout) -> Self {
        let began = Instant::now();
        let paused = Arc::new(watch::Sender::new(PausedTime::default()));
        Self { cancelled, paused, began, deadline: began, end: began }.with_timeout(time)
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

    /// Stops the deadline until the returned value is dropped: while a person is asked.
    pub(crate) fn pause(&self) -> DeadlinePause {
        self.paused.send_modify(|paused| paused.begin(Instant::now()));
        DeadlinePause(Arc::clone(&self.paused))
    }

    /// The remaining time.
    pub(crate) fn remaining(&self) -> Duration {
        let now = Instant::now();
        let deadline = saturating_deadline(self.deadline, self.paused.borrow().until(now));
        deadline.saturating_duration_since(now)
    }

    /// Waits until the deadline has passed.
    async fn passed(&self) {
        let mut paused = self.paused.subscribe();
        loop {
            let time = *paused.borrow_and_update();
            if time.since.is_none() {
                tokio::select! {
                    biased;
                    changed = paused.changed() => if changed.is_ok() { continue },
                    () = sleep_until(saturating_deadline(self.deadline, time.total)) => {}
                }
                return;
            }
            if paused.changed().await.is_err() {
                return;
            }
        }
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
            () = self.passed() => TurnInterruption::TimedOut,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn deadline(seconds: u64) -> TurnDeadline {
        let time = TurnTimeout { total: Duration::from_secs(seconds), final_step_reserve: Duration::ZERO };
        TurnDeadline::new(CancellationToken::new(), time)
    }

    /// The clock of these tests only advances when everything sleeps.
    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_question_does_not_count() {
        let deadline = deadline(60);
        let began = Instant::now();
        let waiting = tokio::spawn({
            let deadline = deadline.clone();
            async move { deadline.expired().await }
        });
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (first, second) = (deadline.pause(), deadline.for_final_step().pause());
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!((deadline.remaining(), deadline.check()), (Duration::from_secs(50), None));
        drop(first);
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(deadline.remaining(), Duration::from_secs(50), "another question is open");
        drop(second);
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(deadline.remaining(), Duration::from_secs(30));
        assert_eq!(waiting.await.unwrap(), TurnInterruption::TimedOut);
        assert_eq!(began.elapsed(), Duration::from_secs(60 + 3700));
        assert_eq!(deadline.check(), Some(TurnInterruption::TimedOut));
    }

    #[tokio::test(start_paused = true)]
    async fn cancelling_is_noticed_while_a_person_thinks() {
        let deadline = deadline(60);
        let _pause = deadline.pause();
        deadline.cancelled.cancel();
        assert_eq!(deadline.expired().await, TurnInterruption::Cancelled);
    }
}
