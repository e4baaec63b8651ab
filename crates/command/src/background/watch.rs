//! The watcher of one background command: scans on request, and ends the command when it must not go on.

use std::path::Path;
use std::sync::PoisonError;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use cap_std::fs::Dir;
use toolgate_confine::{ConfineRequest, ConfinedMount, ConfinedRun, confine};
use toolgate_types::{CallId, Failure, MountOverlay};
use toolgate_workspace::{PathGrant, Workspace};

use super::background_command::{BackgroundStop, BackgroundStreams};
use crate::confinement::ConfinementState;
use crate::long_running::scan_deadline;
use crate::post_run::quarantine_while_running;

/// How often it is checked whether the command may go on.
const TICK: Duration = Duration::from_millis(500);

/// How often its mounts are searched for files that it must not read, and for what it planted under protected names.
const MIN_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Searching takes at most this part of the time: a large workspace is searched less often.
const MAX_CHECK_SHARE: u32 = 20;

/// A command whose mounts could not be searched this many times in a row is ended.
const MAX_FAILED_CHECKS: u32 = 3;

/// A command that nothing asks about for this long is ended: some sessions never end.
const MAX_UNATTENDED: Duration = Duration::from_secs(12 * 60 * 60);

/// An order for the watcher.
pub(super) enum WatchOrder {
    /// Quarantine what the command has left so far.
    Scan { call: CallId, answer: mpsc::Sender<Result<(), Failure>> },
    /// The command has ended.
    Finish,
}

/// The mounts of a running command, as they were requested.
pub(crate) struct WatchedMounts<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) requested: &'a [ConfineRequest<'a>],
    pub(crate) grant: Option<&'a dyn PathGrant>,
}

impl BackgroundStreams<'_> {
    /// Watches until the command has ended.
    pub(crate) fn watch(
        &self,
        keeping: &ConfinementState,
        run: &ConfinedRun<'_>,
        mounts: &WatchedMounts<'_>,
    ) {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut checked, mut interval, mut failed) = (Instant::now(), MIN_CHECK_INTERVAL, 0);
        loop {
            match orders.recv_timeout(TICK) {
                Ok(WatchOrder::Finish) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(WatchOrder::Scan { call, answer }) => {
                    let _ = answer.send(self.quarantine(keeping, run, call));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if checked.elapsed() >= interval {
                let begun = Instant::now();
                let reason = mounts.unmasked(run.mounts());
                failed = match self.quarantine(keeping, run, self.command.call) {
                    Ok(()) => 0,
                    Err(_) => failed + 1,
                };
                let failed = (failed >= MAX_FAILED_CHECKS).then_some(BackgroundStop::ScanFailed);
                if let Some(reason) = reason.or(failed) {
                    self.command.stop(reason);
                }
                checked = Instant::now();
                interval = MIN_CHECK_INTERVAL.max(begun.elapsed() * MAX_CHECK_SHARE);
            }
            if let Some(reason) = self.must_end() {
                self.command.stop(reason);
            }
        }
    }

    /// Takes away what it planted so far: a process of the user could run it before anything asks about the command.
    fn quarantine(
        &self,
        keeping: &ConfinementState,
        run: &ConfinedRun<'_>,
        call: CallId,
    ) -> Result<(), Failure> {
        let found = quarantine_while_running(keeping, run, call);
        found.map(|left| self.command.add_quarantined(left.quarantined))
    }

    fn must_end(&self) -> Option<BackgroundStop> {
        let command = self.command;
        if command.is_session_over() {
            return Some(BackgroundStop::SessionEnded);
        }
        if command.timeout.is_some_and(|timeout| command.started.elapsed() >= timeout) {
            return Some(BackgroundStop::TimedOut);
        }
        (command.unattended() >= MAX_UNATTENDED).then_some(BackgroundStop::Unattended)
    }
}

impl WatchedMounts<'_> {
    /// Whether something must be masked that was not when the command was started. What cannot be scanned counts as such.
    fn unmasked(&self, confined: &[ConfinedMount<'_>]) -> Option<BackgroundStop> {
        let Ok(now) = confine(self.workspace, self.requested, self.grant, &scan_deadline()) else {
            return Some(BackgroundStop::ScanFailed);
        };
        let is_new = |(now, before): (&ConfinedMount<'_>, &ConfinedMount<'_>)| {
            let is_masked = |path: &Path| masked(before).any(|known| path.starts_with(known));
            masked(now).any(|path| !is_masked(path) && !is_special(now, path))
        };
        now.iter().zip(confined).any(is_new).then_some(BackgroundStop::DeniedFileAppeared)
    }
}

fn masked<'m>(mount: &'m ConfinedMount<'_>) -> impl Iterator<Item = &'m Path> {
    mount.overlays().iter().filter_map(|overlay| match overlay {
        MountOverlay::Mask { path, .. } => Some(path.as_path()),
        _ => None,
    })
}

/// Whether this is a socket or a FIFO. They are masked too, and servers create their own. What cannot be examined is not.
fn is_special(mount: &ConfinedMount<'_>, path: &Path) -> bool {
    let kind = Dir::reopen_dir(&mount.handle()).and_then(|directory| directory.symlink_metadata(path));
    kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir() && !kind.is_symlink())
}
