//! Speaking with the person at the terminal.

use std::fs::File;
use std::future::Future;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};
use toolgate_gate::{Approver, Preview, Question, Reply};

static QUIET: AtomicBool = AtomicBool::new(false);

/// Makes complaints silent.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Says something to the operator, beside the results.
pub(crate) fn complain(message: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        // Nobody can be told that standard error is gone.
        let _ = writeln!(io::stderr(), "toolgate: {message}");
    }
}

/// Whether colours are wanted on a stream.
pub(crate) fn wants_colour(is_terminal: bool) -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    is_terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Wraps text in a colour where that is wanted.
pub(crate) fn paint(text: &str, code: &str, colour: bool) -> String {
    if colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Text of a model, made safe to look at: control characters and bidirectional tricks are shown, not obeyed.
pub(crate) fn reveal(text: &str) -> String {
    let hidden = |character: char| {
        (character.is_control() && !matches!(character, '\n' | '\t'))
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match hidden(character) {
            true => shown.extend(character.escape_unicode()),
            false => shown.push(character),
        }
    }
    shown
}

/// Asks on the controlling terminal, whatever the standard streams are.
pub(crate) struct Terminal;

impl Approver for Terminal {
    fn ask(&self, question: Question) -> Pin<Box<dyn Future<Output = Reply> + Send + '_>> {
        Box::pin(async move {
            let Ok(terminal) = open_terminal() else {
                let remedy =
                    "run it in a terminal, or pass --trust autonomous if this call needs no question";
                return Reply::Nobody(remedy.to_owned());
            };
            match ask_on(&terminal, &question) {
                Ok(Some(reply)) => reply,
                // The time is up, and saying so is the gate's: silence is not the same as a no.
                Ok(None) => std::future::pending().await,
                Err(error) => Reply::Nobody(format!("the terminal failed: {error}")),
            }
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "the person's own terminal is ambient by nature")]
fn open_terminal() -> io::Result<File> {
    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    if terminal.is_terminal() { Ok(terminal) } else { Err(io::Error::other("not a terminal")) }
}

/// The answer, or nothing when the time is up.
fn ask_on(mut terminal: &File, question: &Question) -> io::Result<Option<Reply>> {
    let colour = wants_colour(true);
    let bold = |text: &str| paint(text, "1", colour);
    let asks = match &question.caller.agent {
        Some(agent) => format!("agent {agent} asks"),
        None => "you ask".to_owned(),
    };
    writeln!(terminal, "{asks} to call {} ({})", bold(&reveal(&question.tool)), question.class.as_str())?;
    match &question.preview {
        Preview::Text(text) => writeln!(terminal, "{}", reveal(text))?,
        Preview::Diff(diff) => terminal.write_all(coloured_diff(diff, colour).as_bytes())?,
    }
    let grant =
        format!("every later call of {} in session {}", reveal(&question.tool), question.caller.session);
    write!(
        terminal,
        "[y] once  [s] for this session ({grant})  [n] no  — {}s: ",
        question.patience.as_secs()
    )?;
    // What was typed before the question was seen is not an answer to it.
    let _ = tcflush(terminal, QueueSelector::IFlush);
    let Some(answer) = read_line(terminal, question.patience)? else {
        writeln!(terminal)?;
        return Ok(None);
    };
    Ok(Some(match answer.trim() {
        "y" | "Y" | "yes" => Reply::Once,
        "s" | "S" => Reply::ForSession,
        text if text.len() > 2 && text.starts_with("n ") => {
            Reply::No(Some(text.trim_start_matches("n ").to_owned()))
        }
        _ => Reply::No(None),
    }))
}

/// A line from the terminal, or nothing when the time is up. Never blocks longer than that.
fn read_line(mut terminal: &File, patience: Duration) -> io::Result<Option<String>> {
    let deadline = Instant::now() + patience;
    let mut line = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 30, tv_nsec: 0 });
        let mut polled = [PollFd::new(&terminal, PollFlags::IN)];
        if poll(&mut polled, Some(&timeout))? == 0 {
            return Ok(None);
        }
        let mut buffer = [0; 256];
        let count = terminal.read(&mut buffer)?;
        line.extend_from_slice(buffer.get(..count).unwrap_or_default());
        if count == 0 || line.ends_with(b"\n") || line.len() > 4096 {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
    }
}

/// A diff with the usual colours.
pub(crate) fn coloured_diff(diff: &str, colour: bool) -> String {
    let mut shown = String::new();
    for line in diff.lines() {
        let code = match line.as_bytes().first() {
            Some(b'+') => "32",
            Some(b'-') => "31",
            Some(b'@') => "36",
            _ => "0",
        };
        shown.push_str(&paint(&reveal(line), code, colour && code != "0"));
        shown.push('\n');
    }
    shown
}
