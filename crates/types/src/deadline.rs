//! When work has to end.
//!
//! One value for every loop and every future that may run long: an instant, a cancellation, and a signal that is only polled. Blocking work calls
//! [`Deadline::check`]; a future awaits [`Deadline::over`], which wakes when the instant or the cancellation comes and polls nothing. The clock is
//! tokio's, so that a test can stop it.

use std::fmt;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// When work has to end. A clone is the same deadline.
#[derive(Clone, Default)]
pub struct Deadline {
    at: Option<Instant>,
    /// In an `Arc`: cloning a token takes its lock.
    cancellation: Option<Arc<CancellationToken>>,
    signal: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    /// How much later the instant is.
    pauses: Option<Arc<watch::Sender<PausedTime>>>,
    exceeds_size: Option<Arc<dyn Fn(u64) -> bool + Send + Sync>>,
    /// An earlier end, and where it is noted that it came.
    earlier: Option<(Instant, Arc<AtomicBool>)>,
}

/// Why work must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancellationReason {
    /// It was cancelled.
    Cancelled,
    /// Its deadline has passed.
    Deadline,
}

/// The time that does not count towards a deadline, because a person is waited for.
#[derive(Clone, Copy, Debug, Default)]
struct PausedTime {
    /// Of pauses that have ended.
    total: Duration,
    /// The pauses under way, and since when there is one.
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
#[must_use]
pub struct DeadlinePause(Option<Arc<watch::Sender<PausedTime>>>);

impl Drop for DeadlinePause {
    fn drop(&mut self) {
        if let Some(pauses) = &self.0 {
            pauses.send_modify(|paused| paused.end(Instant::now()));
        }
    }
}

impl Deadline {
    /// Never comes.
    #[must_use]
    pub fn never() -> Self {
        Self::default()
    }

    /// At an instant.
    #[must_use]
    pub fn at(instant: impl Into<Instant>) -> Self {
        Self { at: Some(instant.into()), ..Self::default() }
    }

    /// After a timeout from now. One beyond the range of the clock never comes.
    #[must_use]
    pub fn after(timeout: Duration) -> Self {
        Self { at: Instant::now().checked_add(timeout), ..Self::default() }
    }

    /// Also as soon as the token is cancelled.
    #[must_use]
    pub fn with_cancellation(self, token: CancellationToken) -> Self {
        Self { cancellation: Some(Arc::new(token)), ..self }
    }

    /// Also when `raised` returns true, as cancelled. A signal is polled by [`check`](Self::check) and wakes no future: a program that awaits also
    /// cancels the token on the signal.
    #[must_use]
    pub fn with_signal(self, raised: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { signal: Some(Arc::new(raised)), ..self }
    }

    /// The same with [`pause`](Self::pause).
    #[must_use]
    pub fn pausable(self) -> Self {
        Self { pauses: Some(Arc::default()), ..self }
    }

    /// Also rejects work that announces more bytes than `too_much` accepts.
    #[must_use]
    pub fn with_size_limit(self, too_much: impl Fn(u64) -> bool + Send + Sync + 'static) -> Self {
        Self { exceeds_size: Some(Arc::new(too_much)), ..self }
    }

    /// Also ends blocking work at an earlier instant, as cancelled, and notes in `ended` that it did.
    #[must_use]
    pub fn ending_early(self, until: impl Into<Instant>, ended: Arc<AtomicBool>) -> Self {
        Self { earlier: Some((until.into(), ended)), ..self }
    }

    /// A part of this work: ends with it, and after at most `timeout`. Pauses are shared.
    #[must_use]
    pub fn child(&self, timeout: Duration) -> Self {
        self.child_at(Instant::now().checked_add(timeout))
    }

    /// The same with an instant.
    #[must_use]
    pub fn child_at(&self, instant: Option<Instant>) -> Self {
        Self { at: self.at.into_iter().chain(instant).min(), ..self.clone() }
    }

    /// Stops the time until the returned value is dropped, for all clones and children: while a person is asked. Without
    /// [`pausable`](Self::pausable) the time goes on.
    pub fn pause(&self) -> DeadlinePause {
        if let Some(pauses) = &self.pauses {
            pauses.send_modify(|paused| paused.begin(Instant::now()));
        }
        DeadlinePause(self.pauses.clone())
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

    /// The time that is left; `None` without an end.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        let (at, now) = (self.at?, Instant::now());
        Some(later(at, self.paused(now)).saturating_duration_since(now))
    }

    /// Why work must end now; `None` if it may continue.
    #[must_use]
    pub fn reason(&self) -> Option<CancellationReason> {
        if self.cancellation.as_ref().is_some_and(|token| token.is_cancelled())
            || self.signal.as_ref().is_some_and(|raised| raised())
        {
            return Some(CancellationReason::Cancelled);
        }
        if self.at.is_none() && self.earlier.is_none() {
            return None;
        }
        // One look at the clock for both.
        let now = Instant::now();
        if self.at.is_some_and(|at| now >= at && now >= later(at, self.paused(now))) {
            return Some(CancellationReason::Deadline);
        }
        let (_, ended) = self.earlier.as_ref().filter(|(until, _)| now >= *until)?;
        ended.store(true, Ordering::Relaxed);
        Some(CancellationReason::Cancelled)
    }

    /// `Err` when work must end now.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self) -> Result<(), CancellationReason> {
        self.reason().map_or(Ok(()), Err)
    }

    /// Waits until work must end. Needs a runtime with timers if there is an instant.
    pub async fn over(&self) -> CancellationReason {
        if let Some(reason) = self.reason() {
            return reason;
        }
        tokio::select! {
            biased;
            () = self.cancelled() => CancellationReason::Cancelled,
            () = self.passed() => CancellationReason::Deadline,
        }
    }

    /// Waits for a future until work must end. A future that is ready counts, also at the last moment.
    ///
    /// # Errors
    /// The reason to end it; the future is dropped.
    pub async fn wait<Output>(
        &self,
        work: impl Future<Output = Output>,
    ) -> Result<Output, CancellationReason> {
        let work = pin!(work);
        tokio::select! {
            biased;
            output = work => Ok(output),
            reason = self.over() => Err(reason),
        }
    }

    /// How long it was paused until now.
    fn paused(&self, now: Instant) -> Duration {
        self.pauses.as_ref().map_or(Duration::ZERO, |pauses| pauses.borrow().until(now))
    }

    async fn cancelled(&self) {
        match &self.cancellation {
            Some(token) => token.cancelled().await,
            None => pending().await,
        }
    }

    async fn passed(&self) {
        let Some(at) = self.at else { return pending().await };
        let Some(pauses) = &self.pauses else { return sleep_until(at).await };
        let mut changes = pauses.subscribe();
        loop {
            let PausedTime { total, since, .. } = *changes.borrow_and_update();
            let end = async {
                match since {
                    Some(_) => pending().await,
                    None => sleep_until(later(at, total)).await,
                }
            };
            tokio::select! {
                biased;
                // The sender is a field of this value.
                _ = changes.changed() => {}
                () = end => return,
            }
        }
    }
}

/// An instant beyond the range of the clock is not moved.
fn later(at: Instant, by: Duration) -> Instant {
    at.checked_add(by).unwrap_or(at)
}

impl fmt::Debug for Deadline {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Deadline").field("at", &self.at).field("reason", &self.reason()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spawns a wait for the end.
    fn waiting(deadline: &Deadline) -> tokio::task::JoinHandle<CancellationReason> {
        let deadline = deadline.clone();
        tokio::spawn(async move { deadline.over().await })
    }

    /// The clock of these tests only advances when everything sleeps.
    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_question_does_not_count() {
        let deadline = Deadline::after(Duration::from_secs(60)).pausable();
        let began = Instant::now();
        let waiting = waiting(&deadline);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (first, second) = (deadline.pause(), deadline.child(Duration::from_secs(3)).pause());
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!((deadline.left(), deadline.reason()), (Some(Duration::from_secs(50)), None));
        drop(first);
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(deadline.left(), Some(Duration::from_secs(50)), "another question is open");
        drop(second);
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(deadline.left(), Some(Duration::from_secs(30)));
        assert_eq!(waiting.await.unwrap(), CancellationReason::Deadline);
        assert_eq!(began.elapsed(), Duration::from_secs(60 + 3700));
        assert_eq!(deadline.check(), Err(CancellationReason::Deadline));
    }

    #[tokio::test(start_paused = true)]
    async fn cancelling_is_noticed_while_a_person_thinks() {
        let token = CancellationToken::new();
        let deadline = Deadline::after(Duration::from_secs(60)).pausable().with_cancellation(token.clone());
        let _pause = deadline.pause();
        let waiting = waiting(&deadline);
        tokio::task::yield_now().await;
        token.cancel();
        assert_eq!(waiting.await.unwrap(), CancellationReason::Cancelled);
    }

    /// A poll every few milliseconds would be late by up to one interval.
    #[tokio::test(start_paused = true)]
    async fn waiting_ends_at_the_instant_and_not_at_a_poll_after_it() {
        for milliseconds in [1, 49, 1_001] {
            let (began, timeout) = (Instant::now(), Duration::from_millis(milliseconds));
            let never = pending::<()>();
            assert_eq!(Deadline::after(timeout).wait(never).await, Err(CancellationReason::Deadline));
            assert_eq!(began.elapsed(), timeout);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_with_the_cancellation_and_at_no_time_after_it() {
        let token = CancellationToken::new();
        let waiting = waiting(&Deadline::never().with_cancellation(token.clone()));
        tokio::time::sleep(Duration::from_millis(7)).await;
        let cancelled = Instant::now();
        token.cancel();
        assert_eq!(waiting.await.unwrap(), CancellationReason::Cancelled);
        assert_eq!(cancelled.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_ends_with_its_parent_and_never_after_it() {
        let token = CancellationToken::new();
        let parent = Deadline::after(Duration::from_secs(10)).with_cancellation(token.clone());
        let [short, long] = [2, 99].map(|seconds| parent.child(Duration::from_secs(seconds)));
        assert_eq!(short.left(), Some(Duration::from_secs(2)));
        assert_eq!(long.left(), Some(Duration::from_secs(10)));
        assert_eq!(Deadline::never().child(Duration::from_secs(3)).left(), Some(Duration::from_secs(3)));
        assert_eq!(Deadline::never().left(), None);
        token.cancel();
        assert_eq!([short.reason(), long.reason()], [Some(CancellationReason::Cancelled); 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_and_an_early_end_are_polled() {
        let raised = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&raised);
        let signalled = Deadline::never().with_signal(move || flag.load(Ordering::Relaxed));
        assert_eq!(signalled.check(), Ok(()));
        raised.store(true, Ordering::Relaxed);
        assert_eq!(signalled.over().await, CancellationReason::Cancelled);

        let ended = Arc::new(AtomicBool::new(false));
        let brief =
            Deadline::never().ending_early(Instant::now() + Duration::from_millis(2), Arc::clone(&ended));
        assert_eq!((brief.reason(), ended.load(Ordering::Relaxed)), (None, false));
        tokio::time::advance(Duration::from_millis(2)).await;
        assert_eq!(brief.reason(), Some(CancellationReason::Cancelled));
        assert!(ended.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_ready_counts_also_after_the_deadline() {
        assert_eq!(Deadline::after(Duration::ZERO).wait(async { 7 }).await, Ok(7));
    }
}
