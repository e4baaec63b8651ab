//! The Model Context Protocol in front of the gate, whatever carries it.

mod who;
mod handler;
mod listing;
mod call;
mod answer;
mod outputs;
mod resources;
mod connection;

pub use handler::McpHandler;
pub use outputs::OutputStore;
pub use resources::ResourceSource;
pub use who::{Visitor, Who};

pub(crate) use connection::Connection;
pub(crate) use listing::ToolLists;
