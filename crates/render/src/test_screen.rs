//! A terminal for tests.

use std::num::NonZero;

/// The final content of a terminal with this many columns, row by row: a line that the terminal itself wrapped takes two rows.
pub(crate) fn seen(columns: u16, written: impl IntoIterator<Item = String>) -> String {
    seen_on(400, columns, written)
}

/// The same for a terminal with this many rows.
pub(crate) fn seen_on(rows: u16, columns: u16, written: impl IntoIterator<Item = String>) -> String {
    let size = |count: u16| NonZero::new(count).unwrap();
    let mut terminal = vt100::Parser::new(size(rows), size(columns), 0);
    written.into_iter().for_each(|text| terminal.process(text.replace('\n', "\r\n").as_bytes()));
    let rows: Vec<String> = terminal.screen().rows(0, columns).map(|row| row.trim_end().to_owned()).collect();
    rows.join("\n").trim_end_matches('\n').to_owned()
}
