//! What the turn waits for, on the last row: a sign of life with the seconds that it takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use toolgate_render::{char_columns, truncate_columns};

use super::view::ChatView;
use crate::approval_screen::Screen;
use crate::terminal::{escape_line, paint};

/// How often the row is redrawn.
const TICK_INTERVAL: Duration = Duration::from_millis(120);

/// The hint is left out on a narrower terminal.
const MIN_HINT_COLUMNS: usize = 40;

const UNICODE_FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const ASCII_FRAMES: [&str; 4] = ["|", "/", "-", "\\"];

/// What a turn is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The model has not begun its answer.
    Waiting,
    Thinking,
    Answering,
    /// The model writes the arguments of a call, so many bytes so far.
    WritingCall {
        tool: String,
        bytes: usize,
    },
    /// Calls are running; the text names them.
    Running(String),
    /// A request has failed, and is tried again.
    Retrying,
}

impl Phase {
    fn describe(&self) -> String {
        match self {
            Self::Waiting => "waiting for the model".to_owned(),
            Self::Thinking => "thinking".to_owned(),
            Self::Answering => "answering".to_owned(),
            Self::WritingCall { tool, bytes: 0..1024 } => format!("writing a call of {}", escape_line(tool)),
            Self::WritingCall { tool, bytes } => {
                format!("writing a call of {} ({} KiB)", escape_line(tool), bytes / 1024)
            }
            Self::Running(calls) => format!("running {}", escape_line(calls)),
            Self::Retrying => "waiting before the next attempt".to_owned(),
        }
    }

    /// Whether both are the same work, so that its seconds are counted on.
    fn continues(&self, before: &Self) -> bool {
        match (self, before) {
            (Self::WritingCall { tool, .. }, Self::WritingCall { tool: before, .. }) => tool == before,
            _ => self == before,
        }
    }
}

/// A phase, and since when.
#[derive(Debug)]
pub(crate) struct Activity {
    phase: Phase,
    since: Instant,
}

impl Activity {
    pub(crate) fn begin(phase: Phase) -> Self {
        Self { phase, since: Instant::now() }
    }

    /// The next phase.
    pub(crate) fn change(&mut self, phase: Phase) {
        match phase.continues(&self.phase) {
            true => self.phase = phase,
            false => *self = Self::begin(phase),
        }
    }

    /// Counts the seconds of the phase from now.
    pub(crate) fn restart(&mut self) {
        self.since = Instant::now();
    }

    /// The model has written more of a call.
    pub(crate) fn add_argument(&mut self, tool: &str, count: usize) {
        let before = match &self.phase {
            Phase::WritingCall { tool: before, bytes } if before == tool => *bytes,
            _ => 0,
        };
        self.change(Phase::WritingCall { tool: tool.to_owned(), bytes: before.saturating_add(count) });
    }

    /// The row, narrower than the terminal.
    pub(crate) fn row(&self, screen: Screen) -> String {
        status_row(&self.phase, self.since.elapsed(), screen)
    }
}

fn status_row(phase: &Phase, elapsed: Duration, screen: Screen) -> String {
    let frames: &[&str] = if screen.unicode { &UNICODE_FRAMES } else { &ASCII_FRAMES };
    let tick = elapsed.as_millis() / TICK_INTERVAL.as_millis();
    let frame = usize::try_from(tick).ok().and_then(|tick| frames.get(tick % frames.len()));
    let dot = if screen.unicode { "·" } else { "-" };
    let hint = match screen.columns >= MIN_HINT_COLUMNS {
        true => format!(" {dot} Ctrl-C stops"),
        false => String::new(),
    };
    let end = format!(" {dot} {}{hint}", human_seconds(elapsed.as_secs()));
    let columns = |text: &str| text.chars().map(char_columns).sum::<usize>();
    let room = screen.columns.saturating_sub(1 + 3 + columns(&end));
    let row = format!("{} {}{end}", frame.unwrap_or(&""), truncate_columns(&phase.describe(), room));
    paint(&truncate_columns(&row, screen.columns.saturating_sub(1)), "2", screen.colour)
}

/// A time in seconds and minutes.
pub(crate) fn human_seconds(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        _ => format!("{}m {:02}s", seconds / 60, seconds % 60),
    }
}

/// Redraws the status row until it is dropped.
pub(crate) struct Ticker(JoinHandle<()>);

impl Ticker {
    pub(crate) fn start(view: &Arc<ChatView>) -> Self {
        let view = Arc::clone(view);
        Self(tokio::spawn(async move {
            let mut interval = tokio::time::interval(TICK_INTERVAL);
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            loop {
                interval.tick().await;
                view.tick();
            }
        }))
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_names_the_work_and_fits_every_screen() {
        let screen = Screen { columns: 80, rows: None, unicode: true, colour: false };
        let row = |phase: Phase, seconds: u64| status_row(&phase, Duration::from_secs(seconds), screen);
        assert_eq!(row(Phase::Waiting, 3), "⠴ waiting for the model · 3s · Ctrl-C stops");
        let running = Phase::Running("cargo test\n\u{1b}[2J".to_owned());
        assert_eq!(row(running.clone(), 62), "⠦ running cargo test\\n\\u{1b}[2J · 1m 02s · Ctrl-C stops");
        let writing = Phase::WritingCall { tool: "edit_file".to_owned(), bytes: 4100 };
        assert_eq!(row(writing, 0), "⠋ writing a call of edit_file (4 KiB) · 0s · Ctrl-C stops");
        for columns in 0..100 {
            for unicode in [true, false] {
                let long = Phase::Running("x漢".repeat(100));
                let row = status_row(&long, Duration::from_secs(7), Screen { columns, unicode, ..screen });
                let used: usize = row.chars().map(char_columns).sum();
                assert!(used < columns.max(1), "{used} of {columns}: {row}");
            }
        }
    }

    #[test]
    fn seconds_are_counted_on_while_the_work_is_the_same() {
        let mut activity = Activity::begin(Phase::WritingCall { tool: "a".to_owned(), bytes: 1 });
        let since = activity.since;
        activity.change(Phase::WritingCall { tool: "a".to_owned(), bytes: 2 });
        assert_eq!(activity.since, since);
        activity.change(Phase::Waiting);
        assert!(activity.since >= since && activity.phase == Phase::Waiting);
    }
}
