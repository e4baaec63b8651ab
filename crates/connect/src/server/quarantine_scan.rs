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

use super::reporter::ServerReporter;
use crate::launch::RunningProcess;

/// At most this part of the time goes into looking while nothing is called.
const SCAN_TIME_DIVISOR: u32 = 10;

/// A process whose traces are looked for.
pub(crate) struct ScannedProcess {
    process: Arc<dyn RunningProcess>,
    reporter: Arc<ServerReporter>,
    scan_interval: Duration,
    /// How many looks were begun.
    scans_started: AtomicU64,
    last_scan: Mutex<QuarantineScan>,
}

/// What came of the last look.
struct QuarantineScan {
    number: u64,
    quarantined: Result<Vec<String>, Failure>,
}

impl ScannedProcess {
    pub(super) fn new(
        process: Arc<dyn RunningProcess>,
        voice: Arc<ServerReporter>,
        between: Duration,
    ) -> Arc<Self> {
        let last = Mutex::new(QuarantineScan { number: 0, quarantined: Ok(Vec::new()) });
        Arc::new(Self {
            process,
            reporter: voice,
            scan_interval: between,
            scans_started: AtomicU64::new(0),
            last_scan: last,
        })
    }

    /// How it ended, if it has.
    pub(super) fn exit_status(&self) -> Option<String> {
        self.process.exit_status()
    }

    /// The end of what it wrote to standard error.
    pub(super) fn stderr_tail(&self) -> String {
        self.process.stderr_tail()
    }

    /// Takes away what it has left by now. Those who ask while somebody looks share the look that comes next.
    pub(super) async fn scan(self: &Arc<Self>) -> Result<Vec<String>, Failure> {
        if !self.process.can_write() {
            return Ok(Vec::new());
        }
        let asked = self.scans_started.load(Ordering::SeqCst);
        let mut last = self.last_scan.lock().await;
        if last.number > asked {
            return last.quarantined.clone();
        }
        let number = self.scans_started.fetch_add(1, Ordering::SeqCst) + 1;
        let watched = Arc::clone(self);
        // Whoever asked may be gone before it is done, and the operator is told all the same.
        let taken = tokio::task::spawn_blocking(move || watched.quarantine()).await;
        let taken =
            taken.unwrap_or_else(|_| Err(Failure::new(ErrorCode::Internal, "looking ended unexpectedly")));
        *last = QuarantineScan { number, quarantined: taken.clone() };
        taken
    }

    fn quarantine(&self) -> Result<Vec<String>, Failure> {
        let taken = self.process.quarantine();
        self.reporter.report_quarantined(&taken, self.process.quarantine_location().as_deref());
        taken
    }

    /// Looks every few seconds, for as long as it is waited for.
    pub(super) async fn scan_periodically(self: &Arc<Self>) -> Infallible {
        if !self.process.can_write() {
            return std::future::pending().await;
        }
        let mut pause = self.scan_interval;
        loop {
            tokio::time::sleep(pause).await;
            let begun = Instant::now();
            // What comes of it is told where it is found.
            let _ = self.scan().await;
            pause = self.scan_interval.max(begun.elapsed().saturating_mul(SCAN_TIME_DIVISOR));
        }
    }

    /// Ends the process with all it started, and looks at what it left. Says what it last said.
    pub(super) async fn terminate(self: Arc<Self>) -> String {
        let ending = tokio::task::spawn_blocking(move || {
            self.process.terminate();
            if self.process.can_write() {
                // There is no call left to report it to.
                let _ = self.quarantine();
            }
            self.process.stderr_tail()
        });
        ending.await.unwrap_or_default()
    }
}
