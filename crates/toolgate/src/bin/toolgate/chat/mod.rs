//! The interactive chat: input, display and approvals.

mod activity;
mod tail_pane;
mod plan_list;
mod call_history;
mod view;
mod usage;
mod slash_command;
mod attachments;
mod line_editor;
mod signals;
mod repl;
mod commands;

pub(crate) use self::activity::Ticker;
pub(crate) use self::repl::Repl;
pub(crate) use self::signals::ChatSignals;
pub(crate) use self::view::{ChatView, ViewOptions};

/// The final content of a terminal with this many columns, row by row: a line that the terminal itself wrapped takes two rows.
#[cfg(test)]
fn seen(columns: u16, written: impl IntoIterator<Item = String>) -> String {
    let size = |count: u16| std::num::NonZero::new(count).unwrap();
    let mut terminal = vt100::Parser::new(size(400), size(columns), 0);
    written.into_iter().for_each(|text| terminal.process(text.replace('\n', "\r\n").as_bytes()));
    let rows: Vec<String> = terminal.screen().rows(0, columns).map(|row| row.trim_end().to_owned()).collect();
    rows.join("\n").trim_end_matches('\n').to_owned()
}
