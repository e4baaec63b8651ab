//! Output to the operator and questions on the terminal.

use std::fs::File;
use std::future::Future;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, tcflush, tcgetattr, tcgetwinsize, tcsetattr,
};
use toolgate_gate::{
    ApprovalReply, ApprovalRequest, ApprovalUnavailable, Approver, ServerAnswer, ServerQuestion,
};
pub(crate) use toolgate_render::{escape_control_chars, escape_line, paint};
pub(crate) use toolgate_text::escape_json;

use crate::answer_row::read_line;
use crate::approval_prompt::prompt_approval;
use crate::approval_screen::{Requester, Screen, scroll_notice};
use crate::interrupt::Interrupt;
use crate::server_prompt::prompt_server_question;

/// The width of a terminal that does not report one.
const DEFAULT_COLUMNS: usize = 80;

static QUIET: AtomicBool = AtomicBool::new(false);
static VERBOSE: AtomicBool = AtomicBool::new(false);
static PLAIN: AtomicBool = AtomicBool::new(false);

/// Suppresses warnings.
pub(crate) fn set_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Plain output for screen readers: no frame, no colour, nothing is redrawn or folded.
pub(crate) fn set_plain() {
    PLAIN.store(true, Ordering::Relaxed);
}

/// Whether output is plain.
pub(crate) fn is_plain() -> bool {
    PLAIN.load(Ordering::Relaxed)
}

/// Enables debug messages.
pub(crate) fn set_verbose() {
    VERBOSE.store(true, Ordering::Relaxed);
}

/// Whether debug messages are enabled.
pub(crate) fn is_verbose() -> bool {
    VERBOSE.load(Ordering::Relaxed)
}

/// Prints a warning on standard error.
pub(crate) fn warn(message: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        print_note(message);
    }
}

/// Prints a debug message on standard error, if enabled.
pub(crate) fn debug(message: impl FnOnce() -> String) {
    if is_verbose() {
        print_note(&message());
    }
}

/// Writes a note elsewhere than to standard error; returns whether it did.
pub(crate) type NoteSink = Box<dyn Fn(&str) -> bool + Send + Sync>;

static NOTE_SINK: Mutex<Option<NoteSink>> = Mutex::new(None);

/// From here on notes go to this sink while standard error is a terminal: a note in the middle of rows that are redrawn would tear both apart.
pub(crate) fn route_notes(sink: Option<NoteSink>) {
    *NOTE_SINK.lock().unwrap_or_else(PoisonError::into_inner) = sink;
}

fn print_note(message: &str) {
    let sink = NOTE_SINK.try_lock().ok().filter(|_| io::stderr().is_terminal());
    let sink = sink.as_deref().and_then(Option::as_ref);
    if sink.is_some_and(|sink| sink(&format!("toolgate: {message}"))) {
        return;
    }
    // Continuation lines are indented: a line break in a name or a server's text cannot forge a line of the gate. An error is ignored, as there is
    // nowhere to report it.
    let _ = writeln!(io::stderr(), "toolgate: {}", escape_control_chars(message).replace('\n', "\n    "));
}

/// Whether to use colours on a stream: `NO_COLOR` and `TERM=dumb` disable them.
pub(crate) fn wants_colour(is_terminal: bool) -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    is_terminal
        && !is_plain()
        && !set("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether the terminal supports erasing.
pub(crate) fn can_erase(is_terminal: bool) -> bool {
    is_terminal
        && !is_plain()
        && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// A number of messages with its noun.
pub(crate) fn counted_messages(count: u64) -> String {
    match count {
        1 => "1 message".to_owned(),
        more => format!("{more} messages"),
    }
}

/// Asks on the controlling terminal (`/dev/tty`), whatever the standard streams are.
pub(crate) struct TerminalApprover {
    pub(crate) interrupt: Interrupt,
}

impl Approver for TerminalApprover {
    fn ask(&self, question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        Box::pin(async move {
            let Ok(terminal) = open_terminal() else {
                let remedy =
                    "run it in a terminal, or pass --trust autonomous if this call needs no question";
                return ApprovalReply::Unavailable(ApprovalUnavailable::for_operator(remedy));
            };
            let stop = || {
                if self.interrupt.is_requested() {
                    self.interrupt.token().cancel();
                }
                self.interrupt.is_requested()
            };
            match prompt_approval(&terminal, &question, Requester::Person, &stop) {
                Ok(Some(reply)) => reply,
                // The timeout expired or the call ended, which the gate reports itself: no answer is not the same as a refusal.
                Ok(None) => {
                    let _ = writeln!(&terminal);
                    std::future::pending().await
                }
                Err(error) => ApprovalReply::Unavailable(ApprovalUnavailable::for_operator(format!(
                    "the terminal failed: {error}"
                ))),
            }
        })
    }

    fn ask_for_server(
        &self,
        question: ServerQuestion,
    ) -> Pin<Box<dyn Future<Output = ServerAnswer> + Send + '_>> {
        Box::pin(async move {
            let (interrupt, token) = (self.interrupt.clone(), self.interrupt.token());
            // The call goes on while the person types, so its runtime must not be blocked.
            let asked = tokio::task::spawn_blocking(move || {
                let terminal = open_terminal().ok()?;
                let stop = || {
                    if interrupt.is_requested() {
                        token.cancel();
                    }
                    interrupt.is_requested()
                };
                Some(prompt_server_question(&terminal, &question, &stop))
            });
            match asked.await {
                Ok(Some(Ok(Some(answer)))) => answer,
                Ok(Some(Ok(None))) => ServerAnswer::Cancelled,
                Ok(Some(Err(_)) | None) | Err(_) => ServerAnswer::Unavailable,
            }
        })
    }

    /// This process makes one call, and a session grant would end with it.
    fn can_grant_session(&self) -> bool {
        false
    }
}

/// The sequence that gives a text to the terminal's clipboard.
pub(crate) fn osc52(text: &str) -> String {
    format!("\u{1b}]52;c;{}\u{7}", base64::engine::general_purpose::STANDARD.encode(text))
}

/// The timeout of a question about the user's own files.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(600);

/// Shows a text on the controlling terminal and asks for confirmation. Anything but a yes, and no answer, is a no; `None` if there is no terminal.
pub(crate) fn confirm(show: impl FnOnce(Screen) -> String, question: &str) -> Option<bool> {
    let terminal = open_terminal().ok()?;
    let screen = screen(&terminal);
    let shown = show(screen);
    let notice = scroll_notice(&shown, question, screen);
    (&terminal).write_all((shown + &notice).as_bytes()).ok()?;
    let _ = tcflush(&terminal, QueueSelector::IFlush);
    (&terminal).write_all(format!("{} [y/N] ", escape_line(question)).as_bytes()).ok()?;
    let answer = read_line(&terminal, Instant::now() + CONFIRM_TIMEOUT, &|| false).ok()?;
    Some(answer.is_some_and(|answer| matches!(answer.trim(), "y" | "Y" | "yes")))
}

#[expect(clippy::disallowed_methods, reason = "the person's own terminal is ambient by nature")]
pub(crate) fn open_terminal() -> io::Result<File> {
    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    if terminal.is_terminal() { Ok(terminal) } else { Err(io::Error::other("not a terminal")) }
}

/// Undoes what a line editor set: restores echo and canonical mode, and disables bracketed paste.
pub(crate) fn restore_terminal() {
    let Ok(terminal) = open_terminal() else { return };
    if let Ok(mut modes) = tcgetattr(&terminal) {
        modes.local_modes |= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        modes.input_modes |= InputModes::ICRNL | InputModes::IXON;
        let _ = tcsetattr(&terminal, OptionalActions::Now, &modes);
    }
    let _ = (&terminal).write_all(b"\x1b[?2004l\r\n");
}

/// The screen of anything that is no terminal.
pub(crate) const PLAIN_SCREEN: Screen = Screen { columns: 120, rows: None, unicode: true, colour: false };

/// The screen of the terminal.
pub(crate) fn screen(terminal: impl AsFd) -> Screen {
    let size = tcgetwinsize(terminal).ok();
    let rows = size.map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 0);
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    let columns = if columns == 0 { DEFAULT_COLUMNS } else { columns };
    Screen { columns, rows, unicode: is_utf8_locale(), colour: wants_colour(true) }
}

/// Whether the locale is UTF-8, by the precedence of `LC_ALL`, `LC_CTYPE`, `LANG`.
fn is_utf8_locale() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn json_shows_what_is_hidden_and_means_the_same() {
        let value = json!({"a\u{202e}": "x\u{200b}y\u{e0041}\u{7f}\u{9b}\nä"});
        let text = escape_json(&format!("{value}\n"));
        assert_eq!(text, "{\"a\\u202e\":\"x\\u200by\\udb40\\udc41\\u007f\\u009b\\nä\"}\n");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
