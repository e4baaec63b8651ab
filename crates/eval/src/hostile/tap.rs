//! A hole that a test puts between the model and the gate, to show that it is found.

use std::path::Path;

use serde_json::Value;

use super::sequence::HostileCall;

/// Answers some calls in place of the gate.
pub trait Tap: std::fmt::Debug + Send + Sync {
    /// The message of the answer, if this call does not reach the gate of this workspace.
    fn instead(&self, call: &HostileCall, workspace: &Path) -> Option<Value>;
}
