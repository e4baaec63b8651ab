//! The doors of the gate: MCP on stdio and over HTTP.
//!
//! A door speaks a wire and nothing else: it hands every call to the gate behind it, with who is calling, and tells the answer. It decides nothing about
//! a call, it knows no tool by name, and whatever it refuses by itself it refuses before anything was asked of the gate. Both eras of the protocol end
//! in the same calls: with `initialize` and a session, or with everything in each request.

mod service;
mod json_limits;
mod mcp;
mod stdio;
mod http;
mod metrics;
mod state_usage;
mod error;

pub use error::ServeError;
pub use http::{
    Auth, AuthRequirement, HttpError, HttpLimits, HttpOptions, ReadyCheck, RejectedHosts, serve_http,
};
pub use mcp::{
    CallerSource, ClientIdentity, McpHandler, OutputBounds, OutputStore, ResourceSource, listed_tools,
};
pub use service::{Service, ServiceOptions};
pub use state_usage::{MeasureState, StateUsage};
pub use stdio::{refusals, serve_stdio};
