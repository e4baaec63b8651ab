//! The Model Context Protocol in front of the gate, independent of the transport.

pub(crate) mod object_json;
pub(crate) mod message;
pub(crate) mod request;
pub(crate) mod client_sink;
mod client_identity;
pub(crate) mod handler;
mod error_messages;
mod tool_lists;
mod tool_list_watcher;
mod call;
mod admission;
mod running_call;
mod progress;
mod log_messages;
mod subscriptions;
mod approval;
mod tool_response;
mod outputs;
mod resource_uris;
mod resources;
mod upstream;
mod connection;

pub use handler::ServedSurfaces;
pub use outputs::{OutputBounds, OutputStore};
pub use resources::ResourceSource;
pub use upstream::{HeldResource, UpstreamResource, UpstreamResources};

pub(crate) use approval::{ParkedCalls, StateSealer};
pub(crate) use client_identity::{AuthMethod, ClientIdentity, IdentityDigests};
pub(crate) use connection::McpConnection;
pub(crate) use handler::{AnsweredRequest, McpHandler, RequestResult};
pub(crate) use tool_lists::ToolLists;
pub use tool_lists::listed_tools;
pub(crate) use tool_response::{ERROR_META_KEY, ResponseOutcome, StructuredContent, ToolResponse};

/// 128 random bits in hexadecimal; `None` if the system provides no randomness.
pub(crate) fn random_id() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
