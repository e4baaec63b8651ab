//! Ctrl-C cancels the call in flight, which then completes as cancelled.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};
use signal_hook::low_level::pipe::register as register_pipe;
use tokio_util::sync::CancellationToken;

use crate::exit::{CliError, INTERRUPTED};

/// Keeps `SIGXFSZ` from ending this process: a write beyond `RLIMIT_FSIZE` then fails with `EFBIG`, and only its own call fails. A handler and not
/// `SIG_IGN`: `execve` resets handlers to the default, so a command is still killed by the signal as usual.
pub(crate) fn survive_file_size_limit() {
    let _ = register(Signal::XFSZ.as_raw(), Arc::new(AtomicBool::new(false)));
}

/// A task that waits for signals; aborted on drop.
pub(crate) struct SignalTask(tokio::task::JoinHandle<()>);

impl Drop for SignalTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether SIGINT or SIGTERM was received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    requested: Arc<AtomicBool>,
    cancelled: CancellationToken,
}

impl Interrupt {
    /// From here on SIGINT and SIGTERM cancel the call. A second signal ends the process immediately, and the next start rolls back unfinished
    /// changes. If no handler can be installed, signals end the process as usual.
    pub(crate) fn install() -> Self {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // Handlers run in order: the first one checks the flag before the second one sets it.
            let _ = register_conditional_shutdown(signal, i32::from(INTERRUPTED), interrupt.flag());
            let _ = register(signal, interrupt.flag());
        }
        interrupt
    }

    /// Cancels the token on a signal, as long as the returned task is kept. Must be called within a runtime.
    pub(crate) fn watch(&self) -> Result<SignalTask, CliError> {
        let unable =
            |error: std::io::Error| CliError::error(format!("signals cannot be watched for: {error}"));
        let (here, there) = UnixStream::pair().map_err(unable)?;
        for signal in [SIGINT, SIGTERM] {
            register_pipe(signal, there.try_clone().map_err(unable)?).map_err(unable)?;
        }
        here.set_nonblocking(true).map_err(unable)?;
        let here = tokio::net::UnixStream::from_std(here).map_err(unable)?;
        let token = self.token();
        // A signal may have arrived before the pipe was registered.
        if self.is_requested() {
            token.cancel();
        }
        Ok(SignalTask(tokio::spawn(async move {
            if here.readable().await.is_ok() {
                token.cancel();
            }
        })))
    }

    /// Whether a signal was received.
    pub(crate) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::SeqCst)
    }

    /// Set by a signal; polled by running work.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.requested)
    }

    /// Cancelled by the task of [`watch`](Self::watch) when a signal arrives.
    pub(crate) fn token(&self) -> CancellationToken {
        self.cancelled.clone()
    }
}
