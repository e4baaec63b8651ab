//! A conversation at the terminal: what is typed, what is shown, and who decides.

mod prose;
mod window;
mod calls;
mod view;
mod command;
mod editor;
mod signals;
mod room;

pub(crate) use self::prose::cut;
pub(crate) use self::room::Room;
pub(crate) use self::signals::Signals;
pub(crate) use self::view::{Look, View};

/// What a terminal of 40 rows and 30 columns shows in the end.
#[cfg(test)]
fn seen(written: impl IntoIterator<Item = String>) -> String {
    let size = |count: u16| std::num::NonZero::new(count).unwrap();
    let mut terminal = vt100::Parser::new(size(40), size(30), 0);
    written.into_iter().for_each(|text| terminal.process(text.replace('\n', "\r\n").as_bytes()));
    let contents = terminal.screen().contents();
    contents.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
