//! How a server is spoken to: over the pipes of a process, or over HTTP, and through a guard that both pass.

mod lines;
mod long;
mod ending;
mod pipe;
mod guard;
mod http;

pub(crate) use ending::Ending;
pub(crate) use guard::{Guarded, Told};
pub(crate) use http::{is_expired, transport as http_transport};
pub(crate) use pipe::Pipe;

/// The longest message that a server may send.
pub(crate) const LONGEST_MESSAGE: usize = 16 << 20;
