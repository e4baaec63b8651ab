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
