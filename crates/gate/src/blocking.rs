//! Where work is done that blocks a thread.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use toolgate_types::{Cancellation, CancellationReason, ErrorCode, Failure};

/// Where work that blocks is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockingStrategy {
    /// Where it is asked for: one call at a time, as at the command line.
    Inline,
    /// On the runtime's threads for blocking work.
    ThreadPool,
    /// Where it is asked for, if it is soon done and changes nothing; otherwise on the runtime's threads. Handing work to another thread and waiting
    /// for it costs more than reading a small file.
    InlineFirst,
    /// The same while others wait already: then whatever is not very small goes to the runtime's threads, so that all processors have something to do.
    InlineSmall,
}

/// How long others wait for work that is done where it is asked for.
const INLINE_TIMEOUT: Duration = Duration::from_millis(2);

/// Work that says beforehand that it is about more than this is not begun where others might wait.
const MAX_INLINE_BYTES: u64 = 256 * 1024;

/// The same as long as that goes well: on most machines so much is done in half the time that others wait.
const MAX_ADAPTIVE_INLINE_BYTES: u64 = 5 * MAX_INLINE_BYTES;

/// After work that took too long, so many times what is not brief for certain is not tried: the disk is slow, or the machine is.
const COOLDOWN_CALLS: u32 = 16;

/// How it goes with what is not brief for certain.
static ADAPTIVE_INLINE_LIMIT: AdaptiveInlineLimit = AdaptiveInlineLimit { cooldown: AtomicU32::new(0) };

/// The same where others do wait.
const MAX_CONTENDED_INLINE_BYTES: u64 = 16 * 1024;

impl BlockingStrategy {
    /// Where work is done for a caller whom others wait for.
    #[must_use]
    pub fn contended(self) -> Self {
        match self {
            Self::InlineFirst => Self::InlineSmall,
            Self::Inline | Self::ThreadPool | Self::InlineSmall => self,
        }
    }

    /// How many bytes harmless work may be about to be begun where it is asked for, if it may be at all.
    fn max_inline_bytes(self) -> Option<u64> {
        match self {
            Self::InlineFirst => Some(ADAPTIVE_INLINE_LIMIT.max_bytes()),
            Self::InlineSmall => Some(MAX_CONTENDED_INLINE_BYTES),
            Self::Inline | Self::ThreadPool => None,
        }
    }

    /// Runs work that blocks and waits for it without holding up the runtime.
    ///
    /// # Errors
    /// Those of the work; a panic in it is an internal failure of this call alone.
    pub async fn run<Output: Send + 'static>(
        self,
        work: impl FnOnce() -> Result<Output, Failure> + Send + 'static,
    ) -> Result<Output, Failure> {
        match self {
            Self::Inline => work(),
            Self::ThreadPool | Self::InlineFirst | Self::InlineSmall => {
                tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(panicked()))
            }
        }
    }

    /// The same for work that changes nothing and asks `stop` as it goes: it may be begun twice, and only the second time be done to its end.
    ///
    /// # Errors
    /// Those of the work; a panic in it is an internal failure of this call alone.
    pub async fn run_read_only<Output: Send + 'static>(
        self,
        stop: &Cancellation,
        work: impl Fn(&Cancellation) -> Result<Output, Failure> + Send + 'static,
    ) -> Result<Output, Failure> {
        if let Some(most) = self.max_inline_bytes()
            && let Some(done) = try_inline(stop, most, &work)
        {
            return done;
        }
        let stop = stop.clone();
        self.run(move || work(&stop)).await
    }
}

/// How many bytes work may be about to be begun where others might wait: more, as long as it is done in time.
struct AdaptiveInlineLimit {
    /// How many times more than what is certainly brief is not tried.
    cooldown: AtomicU32,
}

impl AdaptiveInlineLimit {
    fn max_bytes(&self) -> u64 {
        if self.cooldown.load(Ordering::Relaxed) == 0 { MAX_ADAPTIVE_INLINE_BYTES } else { MAX_INLINE_BYTES }
    }

    /// Work was not done in time.
    fn start_cooldown(&self) {
        self.cooldown.store(COOLDOWN_CALLS, Ordering::Relaxed);
    }

    /// Work was about too much to be tried.
    fn tick_cooldown(&self) {
        let fewer = |spared: u32| spared.checked_sub(1);
        let _ = self.cooldown.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }
}

/// Does the work, unless it asks whether to go on when it has taken too long for those who wait. Whatever it answers then is not used.
fn try_inline<Output>(
    stop: &Cancellation,
    most: u64,
    work: &impl Fn(&Cancellation) -> Result<Output, Failure>,
) -> Option<Result<Output, Failure>> {
    let (ran_out, is_long) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (outer, told, foretold) = (stop.clone(), Arc::clone(&ran_out), Arc::clone(&is_long));
    let until = Instant::now() + INLINE_TIMEOUT;
    let brief = Cancellation::new(stop.deadline(), move || match outer.reason() {
        Some(reason) => reason == CancellationReason::Cancelled,
        None => {
            let is_late = Instant::now() >= until;
            told.fetch_or(is_late, Ordering::Relaxed);
            is_late
        }
    });
    let brief = brief.with_size_limit(move |bytes| {
        let is_too_much = bytes > most;
        foretold.fetch_or(is_too_much, Ordering::Relaxed);
        is_too_much
    });
    let done =
        std::panic::catch_unwind(AssertUnwindSafe(|| work(&brief))).unwrap_or_else(|_| Err(panicked()));
    match (is_long.load(Ordering::Relaxed), ran_out.load(Ordering::Relaxed)) {
        (false, false) => return Some(done),
        (true, _) => ADAPTIVE_INLINE_LIMIT.tick_cooldown(),
        (false, true) => ADAPTIVE_INLINE_LIMIT.start_cooldown(),
    }
    None
}

fn panicked() -> Failure {
    Failure::new(ErrorCode::Internal, "the tool ended unexpectedly")
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    fn run<Output>(future: impl Future<Output = Output>) -> Output {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    /// How often work was begun, and each time whether that was on the thread that asked for it.
    struct Counting {
        begun: Arc<AtomicUsize>,
        here: Arc<Mutex<Vec<bool>>>,
    }

    impl Counting {
        fn new() -> Self {
            Self { begun: Arc::default(), here: Arc::default() }
        }

        /// Work that takes as long as it is let, the first time, and is done at once the second time.
        fn long(&self) -> impl Fn(&Cancellation) -> Result<usize, Failure> + Send + 'static {
            let (begun, here, caller) =
                (Arc::clone(&self.begun), Arc::clone(&self.here), thread::current().id());
            move |stop: &Cancellation| {
                here.lock().unwrap().push(thread::current().id() == caller);
                if begun.fetch_add(1, Ordering::SeqCst) == 0 {
                    while stop.reason().is_none() {
                        thread::yield_now();
                    }
                    // Some answer with what they have so far.
                    return Ok(0);
                }
                Ok(42)
            }
        }

        fn told(&self) -> (usize, Vec<bool>) {
            (self.begun.load(Ordering::SeqCst), self.here.lock().unwrap().clone())
        }
    }

    #[test]
    fn short_work_is_done_here_and_long_work_is_begun_again_elsewhere() {
        let short = |here: thread::ThreadId| move |_: &Cancellation| Ok(thread::current().id() == here);
        let me = thread::current().id();
        for (blocking, is_here) in [
            (BlockingStrategy::Inline, true),
            (BlockingStrategy::InlineFirst, true),
            (BlockingStrategy::ThreadPool, false),
        ] {
            assert_eq!(
                run(blocking.run_read_only(&Cancellation::never(), short(me))).unwrap(),
                is_here,
                "{blocking:?}"
            );
        }
        let counting = Counting::new();
        assert_eq!(
            run(BlockingStrategy::InlineFirst.run_read_only(&Cancellation::never(), counting.long())),
            Ok(42)
        );
        assert_eq!(counting.told(), (2, vec![true, false]));
        // Nor is what is known to be long.
        let large = move |stop: &Cancellation| match stop.check_size(MAX_ADAPTIVE_INLINE_BYTES + 1) {
            Ok(()) => Ok(thread::current().id() == me),
            Err(_) => Ok(true),
        };
        assert!(!run(BlockingStrategy::InlineFirst.run_read_only(&Cancellation::never(), large)).unwrap());
        // While others wait, much less is long.
        let middling = move |stop: &Cancellation| match stop.check_size(MAX_CONTENDED_INLINE_BYTES + 1) {
            Ok(()) => Ok(thread::current().id() == me),
            Err(_) => Ok(true),
        };
        let among_others = BlockingStrategy::InlineFirst.contended();
        assert!(run(BlockingStrategy::InlineFirst.run_read_only(&Cancellation::never(), middling)).unwrap());
        assert!(!run(among_others.run_read_only(&Cancellation::never(), middling)).unwrap());
        assert!(run(among_others.run_read_only(&Cancellation::never(), short(me))).unwrap());
        // What has an effect is never begun here.
        assert!(!run(BlockingStrategy::InlineFirst.run(move || Ok(thread::current().id() == me))).unwrap());
    }

    #[test]
    fn what_may_not_be_brief_is_tried_again_after_a_while() {
        let lenience = AdaptiveInlineLimit { cooldown: AtomicU32::new(0) };
        assert_eq!(lenience.max_bytes(), MAX_ADAPTIVE_INLINE_BYTES);
        lenience.start_cooldown();
        for _ in 0..COOLDOWN_CALLS {
            assert_eq!(lenience.max_bytes(), MAX_INLINE_BYTES);
            lenience.tick_cooldown();
        }
        assert_eq!(lenience.max_bytes(), MAX_ADAPTIVE_INLINE_BYTES);
        lenience.tick_cooldown();
        assert_eq!(lenience.max_bytes(), MAX_ADAPTIVE_INLINE_BYTES);
    }

    #[test]
    fn the_end_of_the_call_ends_brief_work_and_it_is_not_begun_again() {
        for stop in [Cancellation::new(None, || true), Cancellation::new(Some(Instant::now()), || false)] {
            let counting = Counting::new();
            assert_eq!(run(BlockingStrategy::InlineFirst.run_read_only(&stop, counting.long())), Ok(0));
            assert_eq!(counting.told(), (1, vec![true]));
        }
    }

    #[test]
    fn a_panic_is_a_failure_of_the_call_alone() {
        for blocking in
            [BlockingStrategy::ThreadPool, BlockingStrategy::InlineFirst, BlockingStrategy::InlineSmall]
        {
            let failure = run(blocking.run_read_only::<()>(&Cancellation::never(), |_| panic!("on purpose")))
                .unwrap_err();
            assert_eq!(failure.code, ErrorCode::Internal);
        }
    }
}
