//! The row in which a question is answered: how much time is left, and what is typed.
//!
//! The row is redrawn every second, which would tear what is typed apart if the terminal echoed it. So while a question is open, echo and line editing
//! of the terminal are off, and this row does both. A terminal that cannot erase keeps its own line editing and shows the time once.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use unicode_width::UnicodeWidthChar as _;

use crate::terminal::screen;

/// The longest time that a signal goes unnoticed if it arrives just before `poll`.
const SIGNAL_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The columns of the frame before the row.
const EDGE_COLUMNS: usize = 3;

/// A longer answer is taken as it is then.
const MAX_ANSWER_BYTES: usize = 4096;

/// The time left, as in `9:58`.
pub(crate) fn countdown(left: Duration) -> String {
    // Rounded up: a question with `0:00` is over.
    let seconds = left.as_millis().div_ceil(1000);
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// A timeout in words, as in `30 s` or `10 min`.
pub(crate) fn timeout_in_words(timeout: Duration) -> String {
    match timeout.as_secs() {
        0 => format!("{} ms", timeout.as_millis()),
        seconds if seconds % 60 == 0 => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

/// Turns the terminal's echo and line editing off; restores them on drop.
pub(crate) struct KeyMode<'t> {
    terminal: &'t File,
    before: Termios,
}

impl<'t> KeyMode<'t> {
    pub(crate) fn enter(terminal: &'t File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mode = Self { terminal, before };
        mode.assert()?;
        Ok(mode)
    }

    /// Sets the modes again: a shell restores its own when the process is stopped (Ctrl-Z) and continued.
    fn assert(&self) -> io::Result<()> {
        let off = LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN;
        let mut modes = tcgetattr(self.terminal)?;
        if modes.local_modes.intersects(off) {
            modes.local_modes -= off;
            tcsetattr(self.terminal, OptionalActions::Now, &modes)?;
        }
        Ok(())
    }
}

impl Drop for KeyMode<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

/// A line that is being typed.
#[derive(Debug, Default)]
pub(crate) struct TypedLine {
    text: String,
    /// The beginning of a character that is not complete.
    partial: Vec<u8>,
    escape: EscapeSequence,
}

/// A key such as an arrow sends `ESC [ … letter` or `ESC O letter`, which is skipped.
#[derive(Debug, Default, PartialEq, Eq)]
enum EscapeSequence {
    #[default]
    None,
    Escape,
    Parameters,
    Final,
}

impl TypedLine {
    /// Takes the next byte; returns the line once it is complete.
    pub(crate) fn push(&mut self, byte: u8) -> Option<String> {
        let escape = std::mem::take(&mut self.escape);
        match (escape, byte) {
            (EscapeSequence::Escape, b'[') => self.escape = EscapeSequence::Parameters,
            (EscapeSequence::Escape, b'O') => self.escape = EscapeSequence::Final,
            (EscapeSequence::Parameters, 0x20..=0x3f) => self.escape = EscapeSequence::Parameters,
            (EscapeSequence::Parameters | EscapeSequence::Final, 0x20..=0x7e) => {}
            (_, 0x1b) => self.escape = EscapeSequence::Escape,
            // Ctrl-D ends the line as Enter does.
            (_, b'\n' | b'\r' | 0x04) => return Some(std::mem::take(&mut self.text)),
            (_, 0x08 | 0x7f) => drop(self.text.pop()),
            (_, 0x15) => self.text.clear(),
            (_, 0x17) => {
                let before = self.text.trim_end();
                let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
                let end = before.len() - word.len();
                self.text.truncate(end);
            }
            (_, 0x00..=0x1f) => {}
            (_, byte) => return self.push_text(byte),
        }
        None
    }

    fn push_text(&mut self, byte: u8) -> Option<String> {
        self.partial.push(byte);
        match std::str::from_utf8(&self.partial) {
            Ok(character) => {
                self.text.push_str(character);
                self.partial.clear();
            }
            Err(error) if error.error_len().is_some() => self.partial.clear(),
            Err(_) => {}
        }
        (self.text.len() > MAX_ANSWER_BYTES).then(|| std::mem::take(&mut self.text))
    }

    /// The end of the line that fits into this many columns.
    fn visible(&self, columns: usize) -> String {
        let mut used = 0;
        let fits = |character: &char| {
            used += character.width().unwrap_or(0);
            used <= columns
        };
        let shown: Vec<char> =
            self.text.chars().filter(|c| !toolgate_text::is_invisible(*c)).rev().take_while(fits).collect();
        shown.into_iter().rev().collect()
    }
}

/// How the row begins.
pub(crate) struct AnswerRow<'a> {
    /// The frame, painted; empty or of [`EDGE_COLUMNS`] columns.
    pub(crate) edge: &'a str,
    /// What is typed here.
    pub(crate) label: &'a str,
    pub(crate) columns: usize,
}

impl AnswerRow<'_> {
    fn draw(&self, left: Duration, typed: &TypedLine) -> String {
        let label = format!("{} left, {}: ", countdown(left), self.label);
        format!("\r\u{1b}[K{}{label}{}", self.edge, typed.visible(self.room(&label)))
    }

    fn draw_answered(&self, answer: &str) -> String {
        let typed = TypedLine { text: answer.to_owned(), ..TypedLine::default() };
        let label = format!("{}: ", self.label);
        format!("\r\u{1b}[K{}{label}{}\n", self.edge, typed.visible(self.room(&label)))
    }

    fn room(&self, label: &str) -> usize {
        self.columns.saturating_sub(EDGE_COLUMNS + label.chars().count() + 1)
    }

    /// Reads the answer, which goes on from what was typed. Where it ends without one, the cursor is still in the row.
    pub(crate) fn read(
        &self,
        mut terminal: &File,
        mode: &KeyMode<'_>,
        deadline: Instant,
        stop: &dyn Fn() -> bool,
        mut typed: TypedLine,
    ) -> io::Result<RowInput> {
        let (mut drawn, mut columns) = (String::new(), self.columns);
        loop {
            let row = self.draw(deadline.saturating_duration_since(Instant::now()), &typed);
            if row != drawn {
                terminal.write_all(row.as_bytes())?;
                drawn = row;
            }
            mode.assert()?;
            let bytes = match next_input(terminal, deadline, stop)? {
                Input::Ended => return Ok(RowInput::Ended),
                Input::Nothing => {
                    let now = screen(terminal).columns;
                    // While an edge of the window is dragged, every look sees another width.
                    if now == columns && now != self.columns {
                        return Ok(RowInput::Resized(typed));
                    }
                    columns = now;
                    continue;
                }
                Input::Bytes(bytes) if bytes.is_empty() => return Ok(RowInput::Line(typed.text)),
                Input::Bytes(bytes) => bytes,
            };
            if let Some(answer) = bytes.into_iter().find_map(|byte| typed.push(byte)) {
                terminal.write_all(self.draw_answered(&answer).as_bytes())?;
                return Ok(RowInput::Line(answer));
            }
        }
    }
}

/// What ended the reading of a row.
pub(crate) enum RowInput {
    Line(String),
    /// The terminal has another width: what it wraps by itself is no longer what was shown.
    Resized(TypedLine),
    /// The deadline has passed, or the question was withdrawn.
    Ended,
}

/// What a terminal delivered.
enum Input {
    /// Some bytes; none at the end of the input.
    Bytes(Vec<u8>),
    /// Nothing yet.
    Nothing,
    /// The deadline has passed, or the question was withdrawn.
    Ended,
}

fn next_input(mut terminal: &File, deadline: Instant, stop: &dyn Fn() -> bool) -> io::Result<Input> {
    if stop() {
        return Ok(Input::Ended);
    }
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout =
        Timespec::try_from(left.min(SIGNAL_POLL_INTERVAL)).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
    let mut polled = [PollFd::new(&terminal, PollFlags::IN)];
    match poll(&mut polled, Some(&timeout)) {
        Ok(0) if left.is_zero() => return Ok(Input::Ended),
        Ok(0) | Err(Errno::INTR) => return Ok(Input::Nothing),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut buffer = [0; 256];
    let count = terminal.read(&mut buffer)?;
    Ok(Input::Bytes(buffer.get(..count).unwrap_or_default().to_vec()))
}

/// The first byte of the next key in [`KeyMode`], or `None` at the end of the input, after the deadline or when `stop` returns true.
pub(crate) fn read_key(
    terminal: &File,
    deadline: Instant,
    stop: &dyn Fn() -> bool,
) -> io::Result<Option<u8>> {
    loop {
        match next_input(terminal, deadline, stop)? {
            Input::Ended => return Ok(None),
            Input::Nothing => {}
            Input::Bytes(bytes) => return Ok(bytes.first().copied()),
        }
    }
}

/// A line from a terminal that edits it itself, or `None` after the deadline or when `stop` returns true.
pub(crate) fn read_line(
    terminal: &File,
    deadline: Instant,
    stop: &dyn Fn() -> bool,
) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    loop {
        let bytes = match next_input(terminal, deadline, stop)? {
            Input::Ended => return Ok(None),
            Input::Nothing => continue,
            Input::Bytes(bytes) => bytes,
        };
        line.extend_from_slice(&bytes);
        if bytes.is_empty() || line.ends_with(b"\n") || line.len() > MAX_ANSWER_BYTES {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn typed(keys: &str) -> Option<String> {
        let mut line = TypedLine::default();
        keys.bytes().find_map(|byte| line.push(byte))
    }

    #[test]
    fn a_line_is_edited_as_terminals_do_it() {
        for (keys, expected) in [
            ("y\r", "y"),
            ("n use the öther\n", "n use the öther"),
            ("nö\u{7f}\u{8}y\n", "y"),
            ("\u{7f}y\n", "y"),
            ("all of it\u{15}n\n", "n"),
            ("n two words\u{17}more\n", "n two more"),
            // A space of two bytes.
            ("n two\u{a0}words \u{17}more\n", "n two\u{a0}more"),
            ("words\u{17}\u{17}y\n", "y"),
            // Arrows, Home, a mouse report and a lone Escape.
            ("\u{1b}[Ay\u{1b}[1;5C\u{1b}OH\u{1b}[<0;1;1M\n", "y"),
            ("\u{1b}y\n", "y"),
            ("y\u{4}", "y"),
            ("\u{4}", ""),
            ("y\u{0}\u{7}\n", "y"),
        ] {
            assert_eq!(typed(keys).as_deref(), Some(expected), "{keys:?}");
        }
        assert_eq!(typed("y"), None);
    }

    #[test]
    fn times_are_shown_as_people_read_them() {
        for (millis, shown) in
            [(600_000, "10:00"), (599_001, "10:00"), (9_000, "0:09"), (1, "0:01"), (0, "0:00")]
        {
            assert_eq!(countdown(Duration::from_millis(millis)), shown);
        }
        for (millis, words) in [(500, "500 ms"), (30_000, "30 s"), (600_000, "10 min"), (90_000, "90 s")] {
            assert_eq!(timeout_in_words(Duration::from_millis(millis)), words);
        }
    }

    proptest! {
        /// Whatever is typed, the row is one row, and no key commands the terminal.
        #[test]
        fn the_row_stays_one_row(keys in proptest::collection::vec(any::<u8>(), 0..200), columns in 0usize..100) {
            let mut line = TypedLine::default();
            let _ = keys.iter().find_map(|byte| line.push(*byte));
            let row = AnswerRow { edge: "", label: "answer", columns }.draw(Duration::from_secs(600), &line);
            let row = row.strip_prefix("\r\u{1b}[K").unwrap();
            let used: usize = row.chars().map(|c| c.width().unwrap_or(1)).sum();
            prop_assert!(used < columns.max(22), "{row:?}");
            prop_assert!(!row.contains(|c: char| c.is_control()), "{row:?}");
        }
    }
}
