//! Where work is done that blocks a thread.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use toolgate_types::{Cancellation, CancellationReason, ErrorCode, Failure};

/// Where work that blocks is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// Where it is asked for: one call at a time, as at the command line.
    Here,
    /// On the runtime's threads for blocking work.
    Pool,
    /// Where it is asked for, if it is soon done and changes nothing; otherwise on the runtime's threads. Handing work to another thread and waiting
    /// for it costs more than reading a small file.
    Briefly,
    /// The same while others wait already: then whatever is not very small goes to the runtime's threads, so that all processors have something to do.
    AmongOthers,
}

/// How long others wait for work that is done where it is asked for.
const BRIEF: Duration = Duration::from_millis(2);

/// Work that says beforehand that it is about more than this is not begun where others might wait.
const BRIEF_BYTES: u64 = 256 * 1024;

/// The same as long as that goes well: on most machines so much is done in half the time that others wait.
const MOST_BRIEF_BYTES: u64 = 5 * BRIEF_BYTES;

/// After work that took too long, so many times what is not brief for certain is not tried: the disk is slow, or the machine is.
const SPARED: u32 = 16;

/// How it goes with what is not brief for certain.
static LENIENCE: Lenience = Lenience { spared: AtomicU32::new(0) };

/// The same where others do wait.
const BRIEF_BYTES_AMONG_OTHERS: u64 = 16 * 1024;

impl Blocking {
    /// Where work is done for a caller whom others wait for.
    #[must_use]
    pub fn among_others(self) -> Self {
        match self {
            Self::Briefly => Self::AmongOthers,
            Self::Here | Self::Pool | Self::AmongOthers => self,
        }
    }

    /// How many bytes harmless work may be about to be begun where it is asked for, if it may be at all.
    fn brief_bytes(self) -> Option<u64> {
        match self {
            Self::Briefly => Some(LENIENCE.most()),
            Self::AmongOthers => Some(BRIEF_BYTES_AMONG_OTHERS),
            Self::Here | Self::Pool => None,
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
            Self::Here => work(),
            Self::Pool | Self::Briefly | Self::AmongOthers => {
                tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(panicked()))
            }
        }
    }

    /// The same for work that changes nothing and asks `stop` as it goes: it may be begun twice, and only the second time be done to its end.
    ///
    /// # Errors
    /// Those of the work; a panic in it is an internal failure of this call alone.
    pub async fn run_harmless<Output: Send + 'static>(
        self,
        stop: &Cancellation,
        work: impl Fn(&Cancellation) -> Result<Output, Failure> + Send + 'static,
    ) -> Result<Output, Failure> {
        if let Some(most) = self.brief_bytes()
            && let Some(done) = briefly(stop, most, &work)
        {
            return done;
        }
        let stop = stop.clone();
        self.run(move || work(&stop)).await
    }
}

/// How many bytes work may be about to be begun where others might wait: more, as long as it is done in time.
struct Lenience {
    /// How many times more than what is certainly brief is not tried.
    spared: AtomicU32,
}

impl Lenience {
    fn most(&self) -> u64 {
        if self.spared.load(Ordering::Relaxed) == 0 { MOST_BRIEF_BYTES } else { BRIEF_BYTES }
    }

    /// Work was not done in time.
    fn end(&self) {
        self.spared.store(SPARED, Ordering::Relaxed);
    }

    /// Work was about too much to be tried.
    fn spare(&self) {
        let fewer = |spared: u32| spared.checked_sub(1);
        let _ = self.spared.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }
}

/// Does the work, unless it asks whether to go on when it has taken too long for those who wait. Whatever it answers then is not used.
fn briefly<Output>(
    stop: &Cancellation,
    most: u64,
    work: &impl Fn(&Cancellation) -> Result<Output, Failure>,
) -> Option<Result<Output, Failure>> {
    let (ran_out, is_long) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (outer, told, foretold) = (stop.clone(), Arc::clone(&ran_out), Arc::clone(&is_long));
    let until = Instant::now() + BRIEF;
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
        (true, _) => LENIENCE.spare(),
        (false, true) => LENIENCE.end(),
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
        for (blocking, is_here) in
            [(Blocking::Here, true), (Blocking::Briefly, true), (Blocking::Pool, false)]
        {
            assert_eq!(
                run(blocking.run_harmless(&Cancellation::never(), short(me))).unwrap(),
                is_here,
                "{blocking:?}"
            );
        }
        let counting = Counting::new();
        assert_eq!(run(Blocking::Briefly.run_harmless(&Cancellation::never(), counting.long())), Ok(42));
        assert_eq!(counting.told(), (2, vec![true, false]));
        // Nor is what is known to be long.
        let large = move |stop: &Cancellation| match stop.check_size(MOST_BRIEF_BYTES + 1) {
            Ok(()) => Ok(thread::current().id() == me),
            Err(_) => Ok(true),
        };
        assert!(!run(Blocking::Briefly.run_harmless(&Cancellation::never(), large)).unwrap());
        // While others wait, much less is long.
        let middling = move |stop: &Cancellation| match stop.check_size(BRIEF_BYTES_AMONG_OTHERS + 1) {
            Ok(()) => Ok(thread::current().id() == me),
            Err(_) => Ok(true),
        };
        let among_others = Blocking::Briefly.among_others();
        assert!(run(Blocking::Briefly.run_harmless(&Cancellation::never(), middling)).unwrap());
        assert!(!run(among_others.run_harmless(&Cancellation::never(), middling)).unwrap());
        assert!(run(among_others.run_harmless(&Cancellation::never(), short(me))).unwrap());
        // What has an effect is never begun here.
        assert!(!run(Blocking::Briefly.run(move || Ok(thread::current().id() == me))).unwrap());
    }

    #[test]
    fn what_may_not_be_brief_is_tried_again_after_a_while() {
        let lenience = Lenience { spared: AtomicU32::new(0) };
        assert_eq!(lenience.most(), MOST_BRIEF_BYTES);
        lenience.end();
        for _ in 0..SPARED {
            assert_eq!(lenience.most(), BRIEF_BYTES);
            lenience.spare();
        }
        assert_eq!(lenience.most(), MOST_BRIEF_BYTES);
        lenience.spare();
        assert_eq!(lenience.most(), MOST_BRIEF_BYTES);
    }

    #[test]
    fn the_end_of_the_call_ends_brief_work_and_it_is_not_begun_again() {
        for stop in [Cancellation::new(None, || true), Cancellation::new(Some(Instant::now()), || false)] {
            let counting = Counting::new();
            assert_eq!(run(Blocking::Briefly.run_harmless(&stop, counting.long())), Ok(0));
            assert_eq!(counting.told(), (1, vec![true]));
        }
    }

    #[test]
    fn a_panic_is_a_failure_of_the_call_alone() {
        for blocking in [Blocking::Pool, Blocking::Briefly, Blocking::AmongOthers] {
            let failure = run(blocking.run_harmless::<()>(&Cancellation::never(), |_| panic!("on purpose")))
                .unwrap_err();
            assert_eq!(failure.code, ErrorCode::Internal);
        }
    }
}
