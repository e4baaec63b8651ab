//! What a program supplies beside the configuration.

use std::fmt;
use std::sync::Arc;

use toolgate_gate::Tool;
use toolgate_identity::Verifier;

use crate::config_files::SourceFile;

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
