//! Running one command: confine its mounts, start it, supervise it, scan what it left.

use std::sync::Arc;

use toolgate_confine::{ConfineRequest, ConfinedRun, Quarantined};
use toolgate_gate::{CallContext, ProgressUpdate};
use toolgate_sandbox::{CommandExit, CommandStdio, Job, Network, SandboxError};
use toolgate_types::{CallId, Deadline, Failure};
use toolgate_workspace::{DiskReserve, PathGrant, Workspace};

use crate::applied_limits::AppliedLimits;
use crate::background::{BackgroundStreams, WatchedMounts};
use crate::capture::Capture;
use crate::confinement::{ConfinementState, SandboxRuntime};
use crate::lent_directory::confine_lent;
use crate::network::{Proxy, denials, note_hosts, refused_hosts};
use crate::post_run::{PostRunLeftovers, quarantine_leftovers};
use crate::{BesideMounts, CommandOutcome, CommandRunner, CommandSpec, MAX_ATTEMPTS, restrict_to_grant};

/// Who receives the output of a command.
#[derive(Clone, Copy)]
enum OutputReceiver<'a> {
    /// The answer of its call.
    Call,
    /// Later calls: the command goes on after the one that starts it.
    Background(&'a BackgroundStreams<'a>),
}

impl CommandRunner {
    /// Runs a command to its end, and quarantines what it must not leave.
    ///
    /// # Errors
    /// It could not be started, or what it left could not be moved to quarantine.
    pub fn run(
        &self,
        command: &CommandSpec<'_>,
        context: &CallContext,
        stop: &Deadline,
    ) -> Result<CommandOutcome, Failure> {
        self.run_with(command, context, stop, OutputReceiver::Call)
    }

    /// The same for a command whose end its call does not wait for. `stop` applies until it is started.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_in_background(
        &self,
        command: &CommandSpec<'_>,
        context: &CallContext,
        streams: &BackgroundStreams<'_>,
    ) -> Result<CommandOutcome, Failure> {
        self.run_with(command, context, &context.stop, OutputReceiver::Background(streams))
    }

    fn run_with(
        &self,
        command: &CommandSpec<'_>,
        context: &CallContext,
        stop: &Deadline,
        receiver: OutputReceiver<'_>,
    ) -> Result<CommandOutcome, Failure> {
        self.check_disk()?;
        let mut attempts = 1..=MAX_ATTEMPTS;
        loop {
            let last = attempts.next().is_none_or(|attempt| attempt == MAX_ATTEMPTS);
            match self.attempt(command, context, stop, receiver)? {
                Ok(finished) => return Ok(finished),
                Err(SandboxError::Changed { .. }) if !last => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn attempt(
        &self,
        command: &CommandSpec<'_>,
        context: &CallContext,
        stop: &Deadline,
        receiver: OutputReceiver<'_>,
    ) -> Result<Result<CommandOutcome, SandboxError>, Failure> {
        let made = self.options.confinement.runtime()?;
        let mounts = restrict_to_grant(&command.mounts, context);
        let (run, recovered) =
            self.begin(made.state, &mounts, context.grant.as_deref(), stop, context.call)?;
        let lent = self.lent_workspace(&context.escalation)?;
        let beside = self.beside_mounts(command, context, (made, lent.as_ref()), stop)?;
        let proxy = made
            .sandbox
            .has_network_namespace()
            .then(|| Proxy::new(command.reach.rules.clone(), Arc::clone(&self.options.dialer)));
        let serve = |listener| match &proxy {
            Some(proxy) => proxy.serve(listener),
            None => Err(std::io::ErrorKind::Unsupported.into()),
        };
        let network = if proxy.is_some() { Network::Proxied(&serve) } else { Network::None };
        let disk_is_short = || self.options.reserve.as_ref().is_some_and(DiskReserve::is_short);
        let started = || receiver.started();
        let stdio = match receiver {
            OutputReceiver::Call => CommandStdio::Captured(command.captured_stdio()),
            OutputReceiver::Background(streams) => CommandStdio::Streamed(streams.stdio(&started)),
        };
        let job =
            self.job(command, (run.mounts(), &beside), (network, proxy.as_ref()), (stdio, &disk_is_short));
        let mut capture = Capture::with_limit(command.max_stream_bytes());
        let ready = context.await_intent().and_then(|()| (command.final_check)());
        if let Err(failure) = ready {
            drop(job);
            run.cancel();
            return Err(failure);
        }
        let ended = match receiver {
            OutputReceiver::Call => run_captured(made, &job, stop, (command, context), &mut capture),
            OutputReceiver::Background(streams) => {
                let watched = WatchedMounts {
                    workspace: self.workspace(),
                    requested: &mounts,
                    grant: context.grant.as_deref(),
                };
                run_watched(made, &job, streams, (&run, &watched))
            }
        };
        drop(job);
        if matches!(ended, Err(SandboxError::Changed { .. })) {
            run.cancel();
            return Ok(ended.map(|_| CommandOutcome::default()));
        }
        let PostRunLeftovers { mut quarantined, leftovers } =
            quarantine_leftovers(made.state, &run, context.call)?;
        quarantined.extend(recovered);
        Ok(ended.map(|ended| {
            let report = proxy.as_ref().map(Proxy::report);
            note_hosts(report.as_ref(), &context.touched);
            let mut denied = denials(command.reach, report.as_ref(), ended.wanted_network);
            let held = AppliedLimits::of(command, context, run.mounts());
            denied.extend(held.denials(&ended));
            CommandOutcome {
                captured: capture.finish(ended.truncated),
                denied,
                refused_hosts: refused_hosts(report.as_ref()),
                quarantined,
                leftovers,
                limits: held,
                exit: Some(ended),
                retry_asks: false,
            }
        }))
    }

    /// What a command is shown beside its mounts. One of a restricted grant is read-only, and so has no cache.
    fn beside_mounts<'l>(
        &self,
        command: &CommandSpec<'_>,
        context: &CallContext,
        (made, lent): (SandboxRuntime<'_>, Option<&'l Workspace>),
        stop: &Deadline,
    ) -> Result<BesideMounts<'l>, Failure> {
        let caches = self.options.package_caches.as_ref();
        let has_cache =
            command.has_package_cache && context.grant.is_none() && made.sandbox.has_mount_namespace();
        let cache = caches.filter(|_| has_cache).and_then(|caches| caches.lend(self.workspace(), context));
        let lent = lent.map(|lent| confine_lent(lent, made, stop)).transpose()?.unwrap_or_default();
        Ok(BesideMounts { cache, lent })
    }

    /// Confines the mounts of a command. Leftovers of earlier commands that were not fully scanned are quarantined first, and reported.
    pub(crate) fn begin<'r>(
        &'r self,
        keeping: &'r ConfinementState,
        mounts: &[ConfineRequest<'_>],
        grant: Option<&dyn PathGrant>,
        stop: &Deadline,
        call: CallId,
    ) -> Result<(ConfinedRun<'r>, Vec<Quarantined>), Failure> {
        let begin = || keeping.baselines.confine(self.workspace(), mounts, grant, stop);
        let run = begin()?;
        if !run.is_inherited() {
            return Ok((run, Vec::new()));
        }
        // What cannot be quarantined now is scanned for again after the command, and is a failure then.
        let recovered =
            quarantine_leftovers(keeping, &run, call).map(|left| left.quarantined).unwrap_or_default();
        drop(run);
        Ok((begin()?, recovered))
    }
}

impl OutputReceiver<'_> {
    fn started(self) {
        if let Self::Background(streams) = self {
            streams.started();
        }
    }
}

/// Captures the output, and passes it on as progress.
fn run_captured(
    made: SandboxRuntime<'_>,
    job: &Job<'_>,
    stop: &Deadline,
    (command, context): (&CommandSpec<'_>, &CallContext),
    capture: &mut Capture,
) -> Result<CommandExit, SandboxError> {
    let mut seen = 0_u64;
    made.sandbox.run(job, stop, &mut |stream, bytes| {
        let live = capture.push(stream, bytes);
        let is_shown = !live.text.is_empty() && seen < command.max_output;
        seen = seen.saturating_add(bytes.len() as u64);
        if let Some(progress) = context.progress.as_ref().filter(|_| is_shown) {
            progress(ProgressUpdate { coloured: live.coloured.as_deref(), ..live.text.as_str().into() });
        }
    })
}

/// Runs with a watcher beside it.
fn run_watched(
    made: SandboxRuntime<'_>,
    job: &Job<'_>,
    streams: &BackgroundStreams<'_>,
    (run, mounts): (&ConfinedRun<'_>, &WatchedMounts<'_>),
) -> Result<CommandExit, SandboxError> {
    std::thread::scope(|scope| {
        scope.spawn(|| streams.watch(made.state, run, mounts));
        let ended =
            made.sandbox.run(job, &Deadline::never(), &mut |stream, bytes| streams.push(stream, bytes));
        streams.finish();
        ended
    })
}
