//! What a server takes on concurrently: four limits, each a type, and one error for what is above one of them.
//!
//! | limit | bounds | above it |
//! |---|---|---|
//! | [`ConnectionLimit`] | the calls of one connection whose responses are in memory, and its unanswered requests | waits; [`Overload`] |
//! | [`CallerLimit`] | the calls of one caller, running and queued, over all its connections | waits; [`Overload`] |
//! | [`ResponseBytesLimit`] | the memory of long responses that are not read yet, per caller and together | waits; [`Overload`] |
//! | [`RateLimit`] | events of one key per period: requests of a caller, bad tokens of an address | 429 with `Retry-After` |
//!
//! A stdio connection has its client to itself, so only the first applies to it. What bounds sockets and bodies before there is a request stays with
//! the HTTP server: connection slots, body memory, streams. How often a caller may call a tool is a rule of the gate (`rates`).

mod per_connection;
mod per_caller;
mod response_bytes;
mod rate;
mod overload;

pub(crate) use overload::Overload;
pub(crate) use per_caller::{CallPermit, CallerLimit, KeyedSemaphore};
pub(crate) use per_connection::{CallWeight, ConcurrencyPermit, ConnectionLimit, MAX_UNANSWERED};
pub(crate) use rate::RateLimit;
pub(crate) use response_bytes::{MIN_BUDGETED_BYTES, ResponseBytesLimit, ResponseBytesPermit};
