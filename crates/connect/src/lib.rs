//! Tools of other MCP servers behind the gate.
//!
//! A [`Bridge`] keeps the configured servers running and connected, and makes a [`Tool`](toolgate_gate::Tool) of each of theirs, so that its calls
//! are subject to the same permissions, approvals, output policy and audit as any other. A server is untrusted: it may flood, hang, crash, lie
//! about its tools or answer with garbage, and then only its own calls fail, with a reason. It receives nothing but calls: it cannot ask the
//! model, asks the person only where the operator lets it, and sees no caller's token. Its tool definitions are [pinned](Pins).
//!
//! This crate makes no decision about calls, starts no process itself (see [`ServerLauncher`]), and reads no file but its pins.

mod error;
mod settings;
mod launch;
mod icon;
mod definition;
mod surface;
mod server_question;
mod advice;
mod untrusted_schema;
mod pins;
mod wire;
mod server;
mod tool_result;
mod tool;
mod bridge;

pub use advice::Finding;
pub use bridge::{Bridge, BridgeOptions, HeldSubscription, RESTART_BACKOFF};
pub use definition::{Definition, confusable_key};
pub use error::ConnectError;
pub use icon::DefinitionIcon;
pub use launch::{LaunchedServer, RunningProcess, ServerLauncher};
pub use pins::{KnownLifecycle, PinFile, PinKey, PinOrigin, PinState, PinnedTool, Pins};
pub use server::{HealthState, ServerHealth, ServerTimeouts};
pub use settings::{
    DEFAULT_MAX_CALLS, HomeSettings, HttpSettings, LoginSettings, OAuthSettings, PackageSettings, PinPolicy,
    ProcessSettings, SecretString, ServerName, ServerSettings, ToolSettings, TransportSettings,
};
pub use surface::BridgedResource;
