//! Shows a text that does not fit on the screen: in the person's pager, else a screen at a time.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::answer_row::{KeyMode, read_key};
use crate::approval_screen::Screen;
use crate::terminal::open_terminal;

/// After this time without a key the pager ends.
const PAGER_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Shows a text, and returns when the person has seen enough. Its only control sequences are the colours of the gate.
pub(crate) fn page(text: &str, screen: Screen, stop: &dyn Fn() -> bool) -> io::Result<()> {
    let is_pager = |pager: &String| !matches!(pager.split_whitespace().next(), None | Some("cat"));
    match std::env::var("PAGER").ok().filter(is_pager) {
        Some(pager) if run_pager(&pager, &without_colours(text)).is_ok() => Ok(()),
        _ => page_here(text, screen, stop),
    }
}

/// Runs `PAGER` by a shell, with the text on standard input. `less` leaves at the end of a short text, does not clear the screen, and neither
/// runs commands nor opens other files (`LESSSECURE`). Without `-R` it shows control characters instead of passing them on.
#[expect(clippy::disallowed_methods, reason = "the person's own pager runs as the person")]
fn run_pager(pager: &str, text: &str) -> io::Result<()> {
    let mut child = Command::new("sh")
        .args(["-c", pager])
        .env("LESS", "FX")
        .env("LESSSECURE", "1")
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A pager that was left early does not read the rest (`EPIPE`).
        let _ = input.write_all(text.as_bytes());
    }
    match child.wait()?.code() {
        // What a shell answers if there is no such program.
        Some(126 | 127) => Err(io::ErrorKind::NotFound.into()),
        _ => Ok(()),
    }
}

fn page_here(text: &str, screen: Screen, stop: &dyn Fn() -> bool) -> io::Result<()> {
    let mut terminal = open_terminal()?;
    let keys = terminal.try_clone()?;
    let _mode = KeyMode::enter(&keys)?;
    let rows: Vec<&str> = text.split_inclusive('\n').collect();
    let height = screen.rows.unwrap_or(rows.len()).saturating_sub(1).max(1);
    let (deadline, mut shown) = (Instant::now() + PAGER_TIMEOUT, 0);
    for page in rows.chunks(height) {
        terminal.write_all(page.concat().as_bytes())?;
        shown += page.len();
        if shown == rows.len() {
            break;
        }
        let row = format!("-- more: {shown} of {} rows; Enter goes on, q ends --", rows.len());
        let row: String = row.chars().take(screen.columns.saturating_sub(2)).collect();
        terminal.write_all(row.as_bytes())?;
        let key = read_key(&terminal, deadline, stop)?;
        terminal.write_all(b"\r\x1b[K")?;
        if key.is_none_or(|key| matches!(key, b'q' | b'Q' | 0x04 | 0x1b)) {
            break;
        }
    }
    Ok(())
}

/// A text of the gate without its colours, and without anything else that a terminal interprets.
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        let end = after.strip_prefix('[').and_then(|sequence| {
            sequence.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').strip_prefix('m')
        });
        rest = end.unwrap_or(after);
    }
    plain.push_str(rest);
    plain.retain(|character| !character.is_control() || matches!(character, '\n' | '\t'));
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pager_gets_neither_colours_nor_anything_else_that_a_terminal_interprets() {
        for (text, plain) in [
            ("a \u{1b}[1;33mb\u{1b}[0m c\n", "a b c\n"),
            ("\u{1b}]52;c;eA==\u{7}x", "]52;c;eA==x"),
            ("\u{1b}[2J\u{9b}2Jx\ty", "[2J2Jx\ty"),
            ("\u{1b}\u{1b}[mx\u{1b}", "x"),
        ] {
            assert_eq!(without_colours(text), plain, "{text:?}");
        }
    }
}
