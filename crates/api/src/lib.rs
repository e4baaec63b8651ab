//! The HTTP API: conversations, calls, approvals, changes and the record, for the page and for programs.
//!
//! [`router`] has the routes below `/api/v1` and the WebSocket at `/ws`. The HTTP server has authenticated each request before, limited it and read its
//! body; here it becomes an operation of [`Conversations`](toolgate_conversation::Conversations) or of the gate. Each caller sees what belongs to it: an
//! id of another caller's is answered like one that does not exist.
//!
//! What this crate refuses to know: sockets, tokens, cookies, and how any call is decided.

mod state;
mod failure;
mod client;
mod input;
mod idempotency;
mod dto;
mod routes;
mod websocket;
mod event_stream;
mod openapi;

pub use openapi::{document, event_schemas, schema_of_event};
pub use routes::router;
pub use state::ApiParts;
