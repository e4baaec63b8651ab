//! A model that reads from a script, behind the real wires.
//!
//! A script in YAML says what the model says, thinks, calls and how it fails, also depending on what its calls came back with. It is served over
//! loopback HTTP in each of the four wires, so that the adapters that talk to real models are what talks to it. Requests are checked as the vendors
//! check them: what a real server would refuse is refused here, in its words.
//!
//! What is answered depends on the conversation that is sent and on nothing else, so that one server does for any number of conversations at
//! once. Only faults that pass after a number of times are counted.
//!
//! What this crate refuses to know: how the adapters are written. It shares no code with them, or a misreading would agree with itself.

// What the model does.
mod script;
pub use script::{Script, ScriptProblem, ScriptProblems};

// What it answers to a conversation.
mod conversation;
mod step_selection;
mod reply;
mod signature;

// How that is said.
mod request_rejection;
mod playback;
mod wire;
mod anthropic;
mod responses;
mod chat;
mod ollama;
pub use wire::Wire;

// Where it is heard.
mod server;
pub use server::{LoggedRequest, ScriptServer, ServerError, ServerOptions};

/// A script that shows a newcomer what a conversation with tools is like, in any folder.
pub const DEMO: &str = include_str!("demo.yaml");
