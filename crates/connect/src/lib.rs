//! Tools that live elsewhere: other MCP servers, behind the gate.
//!
//! A [`Bridge`] keeps the servers that an operator declared running and connected, and makes a [`Tool`](toolgate_gate::Tool) of each of theirs, so
//! that its calls obey the same permissions, questions, output policy and record as any other. A server is a stranger: it may flood, hang, die, lie
//! about its tools or answer with garbage, and then its own calls fail, with a reason, and nothing else does. It is never given anything but
//! calls: it cannot ask the person or the model, and sees no caller's token. What it says about its tools is [pinned](Pins).
//!
//! This crate decides nothing about calls, starts no process by itself (see [`ServerLauncher`]), and reads no file but its pins.

mod error;
mod settings;
mod launch;
mod definition;
mod advice;
mod untrusted_schema;
mod pins;
mod wire;
mod server;
mod tool_result;
mod tool;
mod bridge;

pub use advice::Finding;
pub use bridge::{Bridge, BridgeOptions};
pub use definition::Definition;
pub use error::ConnectError;
pub use launch::{LaunchedServer, RunningProcess, ServerLauncher};
pub use pins::{PinFile, PinState, PinnedTool, Pins};
pub use server::{Backoff, HealthState, ServerHealth, ServerTimeouts};
pub use settings::{
    DEFAULT_MAX_CALLS, HttpSettings, OAuthSettings, PinPolicy, ProcessSettings, SecretString, ServerName,
    ServerSettings, ToolSettings, TransportSettings,
};
