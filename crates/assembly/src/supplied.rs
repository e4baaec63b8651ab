//! What a program supplies beside the configuration.

use std::fmt;
use std::sync::Arc;

use toolgate_command::BackgroundCommands;
use toolgate_egress::{Dial, Resolve};
use toolgate_gate::Tool;
use toolgate_identity::Verifier;
use toolgate_sandbox::{Sandbox, SandboxError, SandboxOptions};

use crate::config_files::SourceFile;

/// Prepares the sandbox that commands share, from the options of the configuration.
pub type PrepareSandbox = dyn Fn(SandboxOptions) -> Result<Sandbox, SandboxError> + Send + Sync;

/// Parts of a gate that are values of the program that builds it. They stay when the configuration is reloaded.
#[derive(Clone, Default)]
pub struct SuppliedParts {
    /// Tool manifests, beside those that the configuration names.
    pub manifests: Vec<SourceFile>,
    /// Cedar policies, beside those that the configuration names.
    pub policies: Vec<SourceFile>,
    /// Tools that are Rust code.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Verifies the tokens of callers, in place of what the configuration declares.
    pub verifier: Option<Arc<Verifier>>,
    /// Connects to the hosts of `sandbox.network`, in place of the system's resolver and sockets.
    pub dialer: Option<Arc<dyn Dial>>,
    /// Resolves the host of `web_search`, in place of the system's resolver.
    pub resolver: Option<Arc<dyn Resolve>>,
    /// The background commands of the gate, which outlast its configurations.
    pub background: Arc<BackgroundCommands>,
    /// In place of [`Sandbox::prepare`].
    pub prepare_sandbox: Option<Arc<PrepareSandbox>>,
}

impl fmt::Debug for SuppliedParts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |files: &[SourceFile]| files.iter().map(|file| file.name.clone()).collect::<Vec<_>>();
        formatter
            .debug_struct("SuppliedParts")
            .field("manifests", &names(&self.manifests))
            .field("policies", &names(&self.policies))
            .field("tools", &self.tools.iter().map(|tool| tool.spec().name.to_string()).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
