//! Where blocking work runs.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use toolgate_types::{Deadline, ErrorCode, Failure};

/// Where blocking work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockingStrategy {
    /// On the calling thread: for one call at a time, as on the command line.
    Inline,
    /// On the runtime's blocking thread pool (`spawn_blocking`).
    ThreadPool,
    /// On the calling thread if the work is read-only and short, otherwise on the blocking pool. A hand-over to another thread and back costs more
    /// than reading a small file.
    InlineFirst,
    /// As `InlineFirst`, but with a much smaller size limit, because other requests are waiting for this thread: the work is spread over all cores
    /// instead.
    InlineSmall,
}

/// How long an inline attempt may hold up other requests.
const INLINE_TIMEOUT: Duration = Duration::from_millis(2);

/// Work that announces more bytes than this (`Deadline::check_size`) is not run inline.
const MAX_INLINE_BYTES: u64 = 256 * 1024;

/// The limit while inline attempts succeed: most machines need about half of [`INLINE_TIMEOUT`] for this much.
const MAX_ADAPTIVE_INLINE_BYTES: u64 = 5 * MAX_INLINE_BYTES;

/// After an inline attempt times out, the small limit [`MAX_INLINE_BYTES`] applies until this many calls exceeded it: the disk or the machine is slow.
const COOLDOWN_CALLS: u32 = 16;

/// Shared by all calls of the process.
static ADAPTIVE_INLINE_LIMIT: AdaptiveInlineLimit = AdaptiveInlineLimit { cooldown: AtomicU32::new(0) };

/// The limit while other requests are waiting.
const MAX_CONTENDED_INLINE_BYTES: u64 = 16 * 1024;

impl BlockingStrategy {
    /// The strategy for a call whose thread other requests are waiting for.
    #[must_use]
    pub fn contended(self) -> Self {
        match self {
            Self::InlineFirst => Self::InlineSmall,
            Self::Inline | Self::ThreadPool | Self::InlineSmall => self,
        }
    }

    /// The size limit for inline read-only work; `None` if this strategy never tries inline first.
    fn max_inline_bytes(self) -> Option<u64> {
        match self {
            Self::InlineFirst => Some(ADAPTIVE_INLINE_LIMIT.max_bytes()),
            Self::InlineSmall => Some(MAX_CONTENDED_INLINE_BYTES),
            Self::Inline | Self::ThreadPool => None,
        }
    }

    /// Runs blocking work and waits for it without blocking the runtime.
    ///
    /// # Errors
    /// Those of the work. A panic in it becomes an internal failure of this call alone.
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

    /// The same for read-only work that polls `stop`. An inline attempt may be abandoned and the work started again on the pool, so it must be safe
    /// to run twice.
    ///
    /// # Errors
    /// Those of the work. A panic in it becomes an internal failure of this call alone.
    pub async fn run_read_only<Output: Send + 'static>(
        self,
        stop: &Deadline,
        work: impl Fn(&Deadline) -> Result<Output, Failure> + Send + 'static,
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

/// The inline size limit: larger as long as inline attempts finish in time.
struct AdaptiveInlineLimit {
    /// How many more calls must exceed the small limit before the larger one applies again.
    cooldown: AtomicU32,
}

impl AdaptiveInlineLimit {
    fn max_bytes(&self) -> u64 {
        if self.cooldown.load(Ordering::Relaxed) == 0 { MAX_ADAPTIVE_INLINE_BYTES } else { MAX_INLINE_BYTES }
    }

    /// An inline attempt timed out.
    fn start_cooldown(&self) {
        self.cooldown.store(COOLDOWN_CALLS, Ordering::Relaxed);
    }

    /// A call was too large for the current limit.
    fn tick_cooldown(&self) {
        let fewer = |spared: u32| spared.checked_sub(1);
        let _ = self.cooldown.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }
}

/// Tries the work inline. Returns `None`, and discards its result, if it polled `stop` after the timeout or announced too many bytes.
fn try_inline<Output>(
    stop: &Deadline,
    most: u64,
    work: &impl Fn(&Deadline) -> Result<Output, Failure>,
) -> Option<Result<Output, Failure>> {
    let (ran_out, is_long) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let foretold = Arc::clone(&is_long);
    let brief = stop.clone().ending_early(Instant::now() + INLINE_TIMEOUT, Arc::clone(&ran_out));
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

    /// Counts how often work was started, and whether on the calling thread.
    struct Counting {
        begun: Arc<AtomicUsize>,
        here: Arc<Mutex<Vec<bool>>>,
    }

    impl Counting {
        fn new() -> Self {
            Self { begun: Arc::default(), here: Arc::default() }
        }

        /// Work that runs until it is cancelled the first time, and returns immediately the second time.
        fn long(&self) -> impl Fn(&Deadline) -> Result<usize, Failure> + Send + 'static {
            let (begun, here, caller) =
                (Arc::clone(&self.begun), Arc::clone(&self.here), thread::current().id());
            move |stop: &Deadline| {
                here.lock().unwrap().push(thread::current().id() == caller);
                if begun.fetch_add(1, Ordering::SeqCst) == 0 {
                    while stop.reason().is_none() {
                        thread::yield_now();
                    }
                    // Some tools return a partial result.
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
        let short = |here: thread::ThreadId| move |_: &Deadline| Ok(thread::current().id() == here);
        let me = thread::current().id();
        for (blocking, is_here) in [
            (BlockingStrategy::Inline, true),
            (BlockingStrategy::InlineFirst, true),
            (BlockingStrategy::ThreadPool, false),
        ] {
            assert_eq!(
                run(blocking.run_read_only(&Deadline::never(), short(me))).unwrap(),
                is_here,
                "{blocking:?}"
            );
        }
        let counting = Counting::new();
        assert_eq!(
            run(BlockingStrategy::InlineFirst.run_read_only(&Deadline::never(), counting.long())),
            Ok(42)
        );
        assert_eq!(counting.told(), (2, vec![true, false]));
        // Nor is work that announces a large size.
        let large = move |stop: &Deadline| match stop.check_size(MAX_ADAPTIVE_INLINE_BYTES + 1) {
            Ok(()) => Ok(thread::current().id() == me),
            Err(_) => Ok(true),
        };
        assert!(!run(BlockingStrategy::InlineFirst.run_read_only(&Deadline::never(), large)).unwrap());
        // With other requests waiting, the limit is much smaller.
        let middling = move |stop: &Deadline| match stop.check_size(MAX_CONTENDED_INLINE_BYTES + 1) {
            Ok(()) => Ok(thread::current().id() == me),
            Err(_) => Ok(true),
        };
        let among_others = BlockingStrategy::InlineFirst.contended();
        assert!(run(BlockingStrategy::InlineFirst.run_read_only(&Deadline::never(), middling)).unwrap());
        assert!(!run(among_others.run_read_only(&Deadline::never(), middling)).unwrap());
        assert!(run(among_others.run_read_only(&Deadline::never(), short(me))).unwrap());
        // Work with an effect is never run inline.
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
        for stop in [Deadline::never().with_signal(|| true), Deadline::at(Instant::now())] {
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
            let failure =
                run(blocking.run_read_only::<()>(&Deadline::never(), |_| panic!("on purpose"))).unwrap_err();
            assert_eq!(failure.code, ErrorCode::Internal);
        }
    }
}
