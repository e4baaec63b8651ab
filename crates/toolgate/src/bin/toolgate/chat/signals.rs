//! Signals in a chat: Ctrl-C cancels the model's turn, and not the program.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe::register;
use tokio_util::sync::CancellationToken;

use crate::exit::{CliError, INTERRUPTED};

/// This many presses during one turn end the process immediately; the next start rolls back unfinished changes.
const FORCE_EXIT_PRESSES: u32 = 3;

/// The current reaction to signals.
#[derive(Clone)]
pub(crate) struct ChatSignals {
    turn: Arc<Mutex<TurnSignals>>,
    /// Cancelled on SIGTERM.
    ended: CancellationToken,
}

struct TurnSignals {
    /// The turn that Ctrl-C cancels; `None` between turns.
    running: Option<CancellationToken>,
    pressed: u32,
    /// Notified of Ctrl-C between turns, when the line editor does not see it itself.
    idle: Arc<tokio::sync::Notify>,
}

impl ChatSignals {
    /// From here on SIGINT cancels the turn, and SIGTERM the turn and the chat.
    pub(crate) fn install() -> Result<Self, CliError> {
        let unable =
            |error: std::io::Error| CliError::error(format!("signals cannot be watched for: {error}"));
        let turn = TurnSignals { running: None, pressed: 0, idle: Arc::default() };
        let signals = Self { turn: Arc::new(Mutex::new(turn)), ended: CancellationToken::new() };
        for (signal, notice) in [(SIGINT, Self::interrupt as fn(&Self)), (SIGTERM, Self::terminate)] {
            let (mut here, there) = UnixStream::pair().map_err(unable)?;
            register(signal, there).map_err(unable)?;
            let noticing = signals.clone();
            let work = move || {
                while here.read(&mut [0; 1]).is_ok_and(|count| count > 0) {
                    notice(&noticing);
                }
            };
            std::thread::Builder::new().name("signals".to_owned()).spawn(work).map_err(unable)?;
        }
        Ok(signals)
    }

    /// Starts a turn; the token is cancelled by Ctrl-C.
    pub(crate) fn begin_turn(&self) -> CancellationToken {
        let token = self.ended.child_token();
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        (turn.running, turn.pressed) = (Some(token.clone()), 0);
        token
    }

    /// Ends the turn.
    pub(crate) fn end_turn(&self) {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner).running = None;
    }

    /// Cancelled on SIGTERM.
    pub(crate) fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// Waits for Ctrl-C between turns.
    pub(crate) async fn wait_interrupt(&self) {
        let idle = Arc::clone(&self.turn.lock().unwrap_or_else(PoisonError::into_inner).idle);
        idle.notified().await;
    }

    fn interrupt(&self) {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        match &turn.running {
            Some(running) => running.cancel(),
            // `notify_one` stores a permit for the next waiter, since there may be none now.
            None => return turn.idle.notify_one(),
        }
        turn.pressed += 1;
        if turn.pressed >= FORCE_EXIT_PRESSES {
            std::process::exit(i32::from(INTERRUPTED));
        }
    }

    fn terminate(&self) {
        self.ended.cancel();
    }
}
