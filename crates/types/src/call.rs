//! A request to use a tool, exactly as received: nothing in it has been checked.

use serde_json::Value;

use crate::{CallId, Repair};

/// One request. The tool's name is plain text on purpose: looking it up is the gate's first stage.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// The gate's own id for this call.
    pub id: CallId,
    /// The id that the model or client gave it, if any; it is echoed and recorded, never trusted.
    pub client_id: Option<String>,
    /// The tool's name as requested.
    pub tool: String,
    /// The arguments as requested.
    pub arguments: Value,
    /// Repairs made to the arguments so that they parse; recorded in the audit log.
    pub repairs: Vec<Repair>,
}

impl ToolCall {
    /// A call with a fresh id.
    #[must_use]
    pub fn new(tool: impl Into<String>, arguments: Value) -> Self {
        Self { id: CallId::fresh(), client_id: None, tool: tool.into(), arguments, repairs: Vec::new() }
    }
}
