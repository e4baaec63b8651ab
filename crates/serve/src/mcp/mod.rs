//! The Model Context Protocol in front of the gate, whatever carries it.

mod who;
mod handler;
mod words;
mod listing;
mod changes;
mod call;
mod at_once;
mod places;
mod running;
mod progress;
mod approval;
mod answer;
mod outputs;
mod addresses;
mod resources;
mod connection;
mod outbox;

pub use handler::McpHandler;
pub use outputs::{OutputBounds, OutputStore};
pub use resources::ResourceSource;
pub use who::{Visitor, Who};

pub(crate) use answer::{Answered, ERROR, Ended, Told};
pub(crate) use approval::{ParkedCalls, Seals};
pub(crate) use at_once::{AtOnce, Workbench};
pub(crate) use connection::{Connection, Leaving, Tray};
pub(crate) use listing::ToolLists;
pub use listing::listed_tools;
pub(crate) use outbox::{Envelope, LONG, Outbox, Postage};
pub(crate) use places::{Places, Shares};
pub(crate) use who::{KnownAs, Proof};
pub(crate) use words::in_words;

/// 128 random bits, as hexadecimal digits; none where the system has no randomness.
pub(crate) fn unguessable() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
