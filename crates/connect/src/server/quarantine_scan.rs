//! Scans for files that a process leaves under protected names.
//!
//! A process that can write may leave such files at any time, whatever the class of the called tool: during startup, after a response, at its end. So
//! its mounts are scanned after every call, periodically, and at the end, and everything that is quarantined is reported to the operator.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use toolgate_types::{ErrorCode, Failure};

use super::reporter::ServerReporter;
use crate::launch::RunningProcess;

/// Periodic scans take at most a tenth of the time.
const SCAN_TIME_DIVISOR: u32 = 10;

/// A process whose mounts are scanned.
pub(crate) struct ScannedProcess {
    process: Arc<dyn RunningProcess>,
    reporter: Arc<ServerReporter>,
    scan_interval: Duration,
    /// The number of scans started.
    scans_started: AtomicU64,
    last_scan: Mutex<QuarantineScan>,
}

/// The result of the last scan.
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

    /// Its exit status, once it has exited.
    pub(super) fn exit_status(&self) -> Option<String> {
        self.process.exit_status()
    }

    /// The last bytes of its standard error.
    pub(super) fn stderr_tail(&self) -> String {
        self.process.stderr_tail()
    }

    /// Quarantines what it has left by now. Concurrent callers share the next scan (single flight): one that was already running when they asked does
    /// not count.
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
        // The task is not cancelled with its caller, so that the operator gets the report in any case.
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

    /// Scans periodically until dropped.
    pub(super) async fn scan_periodically(self: &Arc<Self>) -> Infallible {
        if !self.process.can_write() {
            return std::future::pending().await;
        }
        let mut pause = self.scan_interval;
        loop {
            tokio::time::sleep(pause).await;
            let begun = Instant::now();
            // `quarantine` reports the result.
            let _ = self.scan().await;
            pause = self.scan_interval.max(begun.elapsed().saturating_mul(SCAN_TIME_DIVISOR));
        }
    }

    /// Terminates the process with its descendants, and scans once more. Returns the last bytes of its standard error.
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
