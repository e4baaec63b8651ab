//! A hole that a test puts between the model and the gate, to show that it is found.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::sequence::HostileCall;
use crate::process::{finish, host_shell};

/// How long a line may take in the host's shell.
const LINE_TIMEOUT: Duration = Duration::from_secs(20);

/// Answers some calls in place of the gate.
pub trait Tap: std::fmt::Debug + Send + Sync {
    /// The message of the answer, if this call does not reach the gate of this workspace.
    fn instead(&self, call: &HostileCall, workspace: &Path) -> Option<Value>;
}

/// Runs commands with the host's shell, as an agent without a sandbox does.
#[derive(Debug)]
pub(crate) struct UnconfinedCommands;

impl Tap for UnconfinedCommands {
    fn instead(&self, call: &HostileCall, workspace: &Path) -> Option<Value> {
        let line = call.arguments.get("command").and_then(Value::as_str)?;
        let finished = finish(host_shell(line, workspace), LINE_TIMEOUT).ok()?;
        Some(
            json!({"jsonrpc": "2.0", "id": 0, "result": {"content": [{"type": "text", "text": finished.stdout}]}}),
        )
    }
}
