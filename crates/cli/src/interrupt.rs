//! What happens at Ctrl-C: the call under way is told to end, and settles.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};
use signal_hook::low_level::pipe::register as register_pipe;
use tokio_util::sync::CancellationToken;

use crate::exit::{CliError, INTERRUPTED};

/// Keeps `SIGXFSZ` from ending this process: a write beyond `RLIMIT_FSIZE` fails with `EFBIG`, and costs its own call alone. A handler, and not `SIG_IGN`:
/// `execve` sets it back to the default, so that a command ends of the signal as everywhere.
pub(crate) fn survive_file_size_limit() {
    let _ = register(Signal::XFSZ.as_raw(), Arc::new(AtomicBool::new(false)));
}

/// Somebody who notices signals.
pub(crate) struct SignalTask(tokio::task::JoinHandle<()>);

impl Drop for SignalTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether somebody asked this process to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    requested: Arc<AtomicBool>,
    cancelled: CancellationToken,
}

impl Interrupt {
    /// From here on SIGINT and SIGTERM ask the call to end. Who asks twice does not want to wait: the process ends at once, and the next start
    /// puts back what it left half-done. Where signals cannot be caught, they end the process as ever.
    pub(crate) fn install() -> Self {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // The first of the two looks at the flag before the second sets it.
            let _ = register_conditional_shutdown(signal, i32::from(INTERRUPTED), interrupt.flag());
            let _ = register(signal, interrupt.flag());
        }
        interrupt
    }

    /// Notices signals for whoever waits for the token, as long as what it answers with is kept. Called within a runtime.
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
        // It may have come before anybody watched.
        if self.is_requested() {
            token.cancel();
        }
        Ok(SignalTask(tokio::spawn(async move {
            if here.readable().await.is_ok() {
                token.cancel();
            }
        })))
    }

    /// Whether a signal has come.
    pub(crate) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::SeqCst)
    }

    /// True once a signal has come; asked by whatever works.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.requested)
    }

    /// For whoever waits: cancelled by the one who notices that a signal has come.
    pub(crate) fn token(&self) -> CancellationToken {
        self.cancelled.clone()
    }
}
