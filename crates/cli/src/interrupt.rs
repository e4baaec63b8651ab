//! What happens at Ctrl-C: the call under way is told to end, and settles.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio_util::sync::CancellationToken;

use crate::exit::INTERRUPTED;

/// Whether somebody asked this process to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    cancelled: CancellationToken,
}

impl Interrupt {
    /// From here on SIGINT and SIGTERM ask the call to end. Who asks twice does not want to wait: the process ends at once, and the next start
    /// puts back what it left half-done. Where signals cannot be caught, they end the process as ever.
    pub(crate) fn listen() -> Self {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            let asked = || Arc::clone(&interrupt.asked);
            // The first of the two looks at the flag before the second sets it.
            let _ = signal_hook::flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), asked());
            let _ = signal_hook::flag::register(signal, asked());
        }
        if let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) {
            let cancelled = interrupt.cancelled.clone();
            // The call may be busy in a system call of its own: somebody else has to cancel it.
            std::thread::spawn(move || {
                if signals.forever().next().is_some() {
                    cancelled.cancel();
                }
            });
        }
        interrupt
    }

    /// Whether a signal has come; known as soon as the signal is handled.
    pub(crate) fn was_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Cancelled soon after a signal has come.
    pub(crate) fn token(&self) -> CancellationToken {
        self.cancelled.clone()
    }
}
