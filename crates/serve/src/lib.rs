//! The front ends of the gate: MCP over stdio and over HTTP.
//!
//! A front end handles its transport only: it passes each call, with the caller's identity, to the gate and sends back the response. It makes no
//! decision about a call and knows no tool by name. What it rejects itself, it rejects before the gate is involved. The session protocol
//! (`initialize`, up to 2025-11-25) and the stateless protocol (2026-07-28) end in the same calls.

mod service;
mod json_limits;
mod future_pool;
mod admission;
mod mcp;
mod response_writer;
mod stdio;
mod http;
mod metrics;
mod traffic;
mod state_usage;
mod error;

pub use error::ServeError;
pub use http::{
    ApiClient, ApiStream, Application, Auth, AuthRequirement, ClientKind, ClientOwner, HttpError, HttpLimits,
    HttpOptions, PageFile, PageSource, Problem, ReadyCheck, RejectedHosts, ServedClient, serve_http,
};
pub use json_limits::is_simple_json;
pub use mcp::{
    HeldResource, OutputBounds, OutputStore, ResourceSource, ServedSurfaces, UpstreamResource,
    UpstreamResources, listed_tools,
};
pub use service::{Service, ServiceCounters, ServiceOptions};
pub use state_usage::{MeasureState, StateUsage};
pub use stdio::{StdioOpening, refusals, resume_stdio, serve_stdio};
pub use traffic::{CallTotals, CallerName, CallerTraffic, ReasonTraffic, ToolTraffic, TrafficSnapshot};
