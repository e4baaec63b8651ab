//! The public face of the library: build a gate, call tools, list them, shut down.

mod builder;
mod identity;
mod jwt;

use std::sync::Arc;

use serde_json::Value;
use tokio::task::JoinHandle;
use toolgate_assembly::gate_builder::AssembledGate;
use toolgate_gate::{CallOptions, Tool, UndoOptions};
use toolgate_tools::CallResponse;
use toolgate_types::{CallId, Caller, Failure, ToolCall};

pub use builder::GateBuilder;
pub use identity::CallerIdentity;
pub use jwt::{JwtError, JwtSettings};

/// A running gate.
///
/// It can be shared between tasks. Files of its configuration are watched, and a change counts within about a second.
pub struct Gate {
    assembled: AssembledGate,
    /// The caller that identities are derived from: session and trust level.
    template: Caller,
    /// Reloads the configuration, until the gate is shut down or dropped.
    reloading: JoinHandle<()>,
}

impl Gate {
    /// A gate from values, a configuration file, or both.
    #[must_use]
    pub fn builder() -> GateBuilder {
        GateBuilder::default()
    }

    /// Makes a call. Whatever happens there is an answer for the model, and one record.
    pub async fn call(&self, tool: &str, arguments: Value, identity: CallerIdentity) -> CallResponse {
        let credential = identity.into_credential(&self.template);
        self.assembled.gate.call(ToolCall::new(tool, arguments), credential, CallOptions::default()).await
    }

    /// The tools that a caller may use.
    ///
    /// # Errors
    /// When the identity is not accepted, such as for an expired token.
    pub async fn list_tools(&self, identity: CallerIdentity) -> Result<Vec<Arc<dyn Tool>>, Failure> {
        self.assembled.gate.gate().tools_for(identity.into_credential(&self.template)).await
    }

    /// Puts back what a call changed, and records that. Returns the paths. A file that was changed since is left as it is, and so is what the rules of
    /// the mounts forbid now. Which of its users may undo whose calls is up to the program.
    ///
    /// # Errors
    /// When the identity is not accepted, or the changes cannot be undone.
    pub async fn undo(&self, call: CallId, identity: CallerIdentity) -> Result<Vec<String>, Failure> {
        let gate = self.assembled.gate.gate();
        let caller = gate.identify(identity.into_credential(&self.template)).await?;
        let undone = gate.undo(call, Arc::unwrap_or_clone(caller), UndoOptions { force: false }).await;
        match undone {
            Ok(undone) => Ok(undone.paths),
            Err(error) => Err(Failure::new(error.code(), error.to_string())),
        }
    }

    /// Ends the MCP servers behind the gate and signs the last checkpoint of the record. Dropping the gate signs it too, and kills the servers.
    pub async fn shutdown(self) {
        if let Some(servers) = &self.assembled.servers {
            servers.close().await;
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.reloading.abort();
    }
}
