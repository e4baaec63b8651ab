//! How a server is spoken to: over the pipes of a process, or over HTTP, and through a guard that both pass.

mod line_buffer;
mod large_messages;
mod close_reason;
mod pipe_transport;
mod guard;
mod http;

pub(crate) use close_reason::CloseReason;
pub(crate) use guard::{GuardedTransport, ProgressRoute};
pub(crate) use http::{is_expired, transport as http_transport};
pub(crate) use pipe_transport::PipeTransport;

/// The longest message that a server may send.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 << 20;
