//! What a process leaves under protected names.
//!
//! A process that can write can leave something at any time, whatever the class of the tool that it was called for: while it gets ready, after it has
//! answered, when it ends. So it is looked at after every call, every few seconds, and at the end, and the operator is told of all that is taken.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use toolgate_types::{ErrorCode, Failure};

use super::voice::Voice;
use crate::launch::Running;

/// At most this part of the time goes into looking while nothing is called.
const SHARE: u32 = 10;

/// A process whose traces are looked for.
pub(crate) struct Watched {
    process: Arc<dyn Running>,
    voice: Arc<Voice>,
    between: Duration,
    /// How many looks were begun.
    begun: AtomicU64,
    last: Mutex<Look>,
}

/// What came of the last look.
struct Look {
    number: u64,
    taken: Result<Vec<String>, Failure>,
}

impl Watched {
    pub(super) fn new(process: Arc<dyn Running>, voice: Arc<Voice>, between: Duration) -> Arc<Self> {
        let last = Mutex::new(Look { number: 0, taken: Ok(Vec::new()) });
        Arc::new(Self { process, voice, between, begun: AtomicU64::new(0), last })
    }

    /// How it ended, if it has.
    pub(super) fn ended(&self) -> Option<String> {
        self.process.ended()
    }

    /// The end of what it wrote to standard error.
    pub(super) fn errors(&self) -> String {
        self.process.errors()
    }

    /// Takes away what it has left by now. Those who ask while somebody looks share the look that comes next.
    pub(super) async fn look(self: &Arc<Self>) -> Result<Vec<String>, Failure> {
        if !self.process.can_write() {
            return Ok(Vec::new());
        }
        let asked = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if last.number > asked {
            return last.taken.clone();
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let watched = Arc::clone(self);
        // Whoever asked may be gone before it is done, and the operator is told all the same.
        let taken = tokio::task::spawn_blocking(move || watched.take()).await;
        let taken =
            taken.unwrap_or_else(|_| Err(Failure::new(ErrorCode::Internal, "looking ended unexpectedly")));
        *last = Look { number, taken: taken.clone() };
        taken
    }

    fn take(&self) -> Result<Vec<String>, Failure> {
        let taken = self.process.quarantine();
        self.voice.tell_taken(&taken, self.process.kept_in().as_deref());
        taken
    }

    /// Looks every few seconds, for as long as it is waited for.
    pub(super) async fn keep_looking(self: &Arc<Self>) -> Infallible {
        if !self.process.can_write() {
            return std::future::pending().await;
        }
        let mut pause = self.between;
        loop {
            tokio::time::sleep(pause).await;
            let begun = Instant::now();
            // What comes of it is told where it is found.
            let _ = self.look().await;
            pause = self.between.max(begun.elapsed().saturating_mul(SHARE));
        }
    }

    /// Ends the process with all it started, and looks at what it left. Says what it last said.
    pub(super) async fn end(self: Arc<Self>) -> String {
        let ending = tokio::task::spawn_blocking(move || {
            self.process.end();
            if self.process.can_write() {
                // There is no call left to report it to.
                let _ = self.take();
            }
            self.process.errors()
        });
        ending.await.unwrap_or_default()
    }
}
