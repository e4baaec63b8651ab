//! A scripted model behind the real wires.
//!
//! A script in YAML defines what the model says, thinks and calls and how it fails, also depending on the results of its calls. It is served over
//! loopback HTTP on each of the four wires, so that the adapters for real models talk to it. Requests are validated as the vendors do: what a real
//! server would reject is rejected here, with its error message.
//!
//! An answer depends only on the conversation in the request, so one server handles any number of concurrent conversations. Only faults with a
//! limited number of occurrences are counted.
//!
//! This crate does not know the adapters. It shares no code with them, or a misreading of the specification would agree with itself.

// The script.
mod script;
pub use script::{Script, ScriptProblem, ScriptProblems};

// The answer to a conversation.
mod conversation;
mod step_selection;
mod reply;
mod signature;

// Wires.
mod request_rejection;
mod playback;
mod exchange;
mod wires;
pub use wires::Wire;

// Server.
mod server;
pub use server::{LoggedRequest, ScriptServer, ServerError, ServerOptions};

/// A script that shows a newcomer a conversation with tools, in any directory.
pub const DEMO: &str = include_str!("demo.yaml");
