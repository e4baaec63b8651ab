//! Commands that go on after the call that started them.
//!
//! They are confined, watched and scanned afterwards exactly as other commands are: the same code runs them, on a thread of their own. Each belongs
//! to the caller and the session that started it and to no other, is listed, and ends at the latest with its session and with the gate. The number is
//! bounded. Its files are scanned whenever its caller asks about it, so that what it plants does not stay until its end.

mod background_command;
mod output_ring;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use toolgate_gate::{CallContext, SessionCaller};
use toolgate_types::{ErrorCode, Failure, SessionId, Sha256};

use crate::CommandOutcome;

use background_command::BackgroundCommand;
pub use background_command::{
    BackgroundReport, BackgroundRun, BackgroundStop, BackgroundStreams, BackgroundSummary,
};
pub(crate) use watch::WatchedMounts;

/// How many background commands of one gate may run.
const MAX_RUNNING: usize = 32;

/// How many of them one caller may have, over all its sessions: one caller must not take the share of every other.
const MAX_RUNNING_OF_CALLER: usize = MAX_RUNNING / 2;

/// How many commands of one gate are known, running or ended. Beyond that, those that ended first are forgotten.
const MAX_KNOWN: usize = 64;

/// How long a caller may wait for output in one call.
pub const MAX_WAIT: Duration = Duration::from_secs(60);

/// How long the end of a command that is stopped is waited for: until `SIGKILL`, and for the scan after it.
const STOP_TIMEOUT: Duration = Duration::from_secs(150);

/// A command to start in the background.
pub struct BackgroundRequest {
    /// Its shell line, for lists.
    pub line: String,
    /// How long it may run; until its session ends by default.
    pub timeout: Option<Duration>,
    /// How many its caller may have running in this session.
    pub max_running: usize,
    /// Digest of the configuration that confines it: it ends when a reload changes that.
    pub definition: Sha256,
    /// Runs it to its end.
    pub run: Box<BackgroundRun>,
}

/// The background commands of one gate, over all its configurations. Dropping it ends them.
#[derive(Default)]
pub struct BackgroundCommands {
    state: Mutex<KnownCommands>,
    warn: OnceLock<Arc<Warn>>,
}

#[derive(Default)]
struct KnownCommands {
    commands: Vec<Arc<BackgroundCommand>>,
    /// The configuration in force, once it was named. A call that was decided under an older one starts nothing.
    definition: Option<Sha256>,
}

impl BackgroundCommands {
    /// Receives what went wrong after a command ended, for the operator.
    pub fn warn_with(&self, warn: Arc<dyn Fn(&str) + Send + Sync>) {
        // The first one stays: a reload brings the same.
        let _ = self.warn.set(warn);
    }

    /// Starts a command and returns its id once its process runs.
    ///
    /// # Errors
    /// Too many run already, or it cannot be started.
    pub fn start(&self, request: BackgroundRequest, context: &CallContext) -> Result<String, Failure> {
        let BackgroundRequest { line, timeout, max_running, definition, run } = request;
        let warn = self.warn.get().cloned();
        let (command, worker) = BackgroundCommand::new(line, timeout, definition, context)?;
        self.admit(&command, max_running)?;
        let thread = std::thread::Builder::new().name("background".to_owned());
        let working = Arc::clone(&command);
        let spawned = thread.spawn(move || {
            worker.work(&working, run);
            if let (Some(warn), Some(notice)) = (warn, working.end_notice()) {
                warn(&notice);
            }
        });
        match spawned {
            Ok(thread) => command.keep_thread(thread),
            Err(error) => {
                self.forget(&command);
                return Err(Failure::new(ErrorCode::Internal, "the command could not be started")
                    .operator_note(error.to_string()));
            }
        }
        command.wait_until_started();
        match command.start_failure() {
            Some(failure) => {
                self.forget(&command);
                Err(failure)
            }
            None => Ok(command.id().to_owned()),
        }
    }

    /// Fails if one more would be too many, so that no person is asked about it.
    ///
    /// # Errors
    /// Too many run already.
    pub fn check_limit(&self, max_running: usize, context: &CallContext) -> Result<(), Failure> {
        check_limit(&self.lock().commands, &context.identity(), max_running)
    }

    /// What a command wrote after a position, by default after what was read last, and whether it runs. Waits for news if there is none. Scans what it
    /// has left so far.
    ///
    /// # Errors
    /// The caller has no such command, or what it left could not be scanned.
    pub fn check(
        &self,
        id: &str,
        (after, wait): (Option<u64>, Duration),
        context: &CallContext,
    ) -> Result<BackgroundReport, Failure> {
        let command = self.find(id, &context.identity())?;
        command.wait_for_news(after, wait.min(MAX_WAIT), &context.stop);
        command.scan(context.call)?;
        Ok(command.report(after, context))
    }

    /// Stops a command with `SIGTERM`, and with `SIGKILL` five seconds later, and waits for its end.
    ///
    /// # Errors
    /// The caller has no such command, or it did not end in time.
    pub fn stop(&self, id: &str, context: &CallContext) -> Result<BackgroundReport, Failure> {
        let command = self.find(id, &context.identity())?;
        command.stop(BackgroundStop::Requested);
        if !command.wait_for_end(STOP_TIMEOUT, &context.stop) {
            let message = format!("the background command `{id}` is being stopped and has not ended yet");
            return Err(Failure::new(ErrorCode::Timeout, message).help("ask for its state in a moment"));
        }
        Ok(command.report(None, context))
    }

    /// The commands that a caller started in this session, the oldest first.
    #[must_use]
    pub fn list(&self, context: &CallContext) -> Vec<BackgroundSummary> {
        let owner = context.identity();
        self.lock()
            .commands
            .iter()
            .filter(|command| *command.owner() == owner)
            .map(|command| command.summary())
            .collect()
    }

    /// Ends the commands that were started under another configuration; from now on none is started under one.
    pub fn keep_definition(&self, definition: Sha256) {
        let mut state = self.lock();
        state.definition = Some(definition);
        for command in state.commands.iter().filter(|command| command.definition() != definition) {
            command.stop(BackgroundStop::ConfigurationChanged);
        }
    }

    /// Ends the commands of a session that is deleted, of every caller.
    pub fn end_session(&self, session: &SessionId) {
        for command in self.lock().commands.iter().filter(|command| command.owner().session == *session) {
            command.stop(BackgroundStop::SessionEnded);
        }
    }

    /// Ends all commands, and waits until none of their processes is alive and what they left was scanned.
    pub fn close(&self) {
        let all = std::mem::take(&mut self.lock().commands);
        all.iter().for_each(|command| command.stop(BackgroundStop::GateEnded));
        all.iter().for_each(|command| command.join());
    }

    /// Registers a command, unless too many run or the configuration was replaced since its call was decided.
    fn admit(&self, command: &Arc<BackgroundCommand>, max_running: usize) -> Result<(), Failure> {
        let mut state = self.lock();
        if state.definition.is_some_and(|definition| definition != command.definition()) {
            return Err(Failure::new(ErrorCode::NotPermitted, "the configuration was changed meanwhile")
                .help("start the command again"));
        }
        let known = &mut state.commands;
        known.retain(|known| !(known.has_ended() && known.is_session_over()));
        while known.len() >= MAX_KNOWN
            && let Some(oldest) = known.iter().position(|known| known.has_ended())
        {
            known.remove(oldest);
        }
        check_limit(known, command.owner(), max_running)?;
        known.push(Arc::clone(command));
        Ok(())
    }

    fn forget(&self, command: &Arc<BackgroundCommand>) {
        self.lock().commands.retain(|known| !Arc::ptr_eq(known, command));
    }

    /// A command of this caller and session. That of another is answered exactly as one that does not exist.
    fn find(&self, id: &str, owner: &SessionCaller) -> Result<Arc<BackgroundCommand>, Failure> {
        let state = self.lock();
        let own = state.commands.iter().find(|command| command.owner() == owner && command.id() == id);
        own.cloned().ok_or_else(|| {
            Failure::new(ErrorCode::InvalidArguments, "there is no background command with this id")
                .help("leave `id` out of `check_command` to list those of this session")
        })
    }

    /// Every update is complete once the lock is released, so poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, KnownCommands> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether one more may run.
fn check_limit(
    known: &[Arc<BackgroundCommand>],
    owner: &SessionCaller,
    max_running: usize,
) -> Result<(), Failure> {
    let running = known.iter().filter(|known| !known.has_ended());
    let own = running.clone().filter(|known| known.owner() == owner).count();
    let SessionCaller { subject, agent, by_token, .. } = owner;
    let is_own_caller = |owner: &SessionCaller| owner.is_caller(subject, agent.as_ref(), *by_token);
    let of_caller = running.clone().filter(|known| is_own_caller(known.owner())).count();
    if own >= max_running || of_caller >= MAX_RUNNING_OF_CALLER || running.count() >= MAX_RUNNING {
        let message =
            format!("{own} background commands of this session run already, and {of_caller} of its caller");
        return Err(Failure::new(ErrorCode::ResourceLimit, message)
            .help("stop one that is no longer needed")
            .operator_note("`sandbox.background` is how many a session may have"));
    }
    Ok(())
}

impl Drop for BackgroundCommands {
    fn drop(&mut self) {
        self.close();
    }
}

/// Receives a warning for the operator.
type Warn = dyn Fn(&str) + Send + Sync;

/// The end of a background command: its outcome, or why it could not be started or scanned.
pub type BackgroundEnd = Result<CommandOutcome, Failure>;
