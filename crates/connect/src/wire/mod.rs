//! Transports to a server: the pipes of a process, or HTTP, both behind the same filter.

mod large_messages;
mod close_reason;
mod pipe_transport;
mod log_messages;
mod guard;
mod http;

pub(crate) use close_reason::CloseReason;
pub(crate) use guard::{GuardedTransport, ProgressRoute, ServerEvents, answers_request};
pub(crate) use http::{is_expired, login_need, transport as http_transport};
pub(crate) use log_messages::{set_level_request, want_log_messages};
pub(crate) use pipe_transport::PipeTransport;

/// Maximum size of a message from a server.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 << 20;
