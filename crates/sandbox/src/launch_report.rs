//! How a launch failed or a command ended, from what process 1 reports.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use crate::cgroup::CommandCgroup;
use crate::error::SandboxError;
use crate::job::{Exit, LimitHit, TerminationReason};
use crate::setup_step::SetupStep;
use crate::sys::child::{LaunchPhase, LaunchProgress};

impl LaunchProgress {
    /// The step that failed, if any.
    pub(crate) fn failed_step<'s>(&self, steps: &'s [SetupStep]) -> Option<&'s SetupStep> {
        let is_step = self.phase.load(Ordering::Acquire) == LaunchPhase::Step as i32;
        let step = usize::try_from(self.step.load(Ordering::Relaxed)).ok().filter(|_| is_step)?;
        steps.get(step)
    }

    /// The error of a launch that failed before the command started, if any.
    pub(crate) fn failure(&self, steps: &[SetupStep]) -> Option<SandboxError> {
        let part = self.phase.load(Ordering::Acquire);
        let part = LaunchPhase::ALL.into_iter().find(|known| *known as i32 == part)?;
        let error = Errno::from_raw_os_error(self.error.load(Ordering::Relaxed));
        let path = |text: &CString| PathBuf::from(OsStr::from_bytes(text.to_bytes()));
        Some(match (self.failed_step(steps), error) {
            (Some(SetupStep::WorkIn { path: text }), _) => SandboxError::NoDirectory { path: path(text) },
            (
                Some(SetupStep::Cover { path: text, .. } | SetupStep::CoverWithItself { path: text, .. }),
                Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::XDEV,
            ) => SandboxError::Changed { path: path(text) },
            (Some(step), error) => SandboxError::Setup { step: step.to_string(), source: error.into() },
            (None, error) => {
                SandboxError::Setup { step: format!("{part:?}").to_lowercase(), source: error.into() }
            }
        })
    }
}

/// How the command ended, as reported by process 1. Without a report, process 1 itself was killed.
pub(crate) fn exit(report: &[u8], program: &OsStr) -> Result<Exit, SandboxError> {
    let number = |at: usize| {
        let bytes = report.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        bytes.map(i32::from_le_bytes)
    };
    match (number(0), number(4)) {
        (Some(1), Some(error)) => Err(match Errno::from_raw_os_error(error) {
            Errno::NOENT => SandboxError::NotFound { program: program.to_owned() },
            error => SandboxError::NotRunnable { program: program.to_owned(), source: error.into() },
        }),
        (Some(_), Some(status)) if status & 0x7f == 0 => Ok(Exit::Code((status >> 8) & 0xff)),
        (Some(_), Some(status)) => Ok(Exit::Signal(status & 0x7f)),
        _ => Ok(Exit::Signal(libc::SIGKILL)),
    }
}

/// Whether a missing network may be why a command failed: not if its caller ended it.
pub(crate) fn explains_failure(exit: Exit, stopped: Option<TerminationReason>) -> bool {
    exit != Exit::Code(0) && stopped != Some(TerminationReason::Cancelled)
}

pub(crate) fn limit_hit(exit: Exit, group: Option<&CommandCgroup<'_>>) -> Option<LimitHit> {
    match exit {
        _ if group.is_some_and(CommandCgroup::was_oom_killed) => Some(LimitHit::Memory),
        Exit::Signal(libc::SIGXCPU) => Some(LimitHit::CpuTime),
        Exit::Signal(libc::SIGXFSZ) => Some(LimitHit::FileSize),
        _ => None,
    }
}
