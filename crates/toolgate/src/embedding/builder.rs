//! From values and a configuration file to a gate.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Handle;
use toolgate_assembly::ambient::HostEnvironment;
use toolgate_assembly::config_files::SourceFile;
use toolgate_assembly::error::BuildError;
use toolgate_assembly::gate_builder::{GateBuildOptions, build_gate};
use toolgate_assembly::load::TokenVerification;
use toolgate_assembly::overrides::SettingsOverrides;
use toolgate_assembly::reload::{Reloader, fingerprints, watch_files};
use toolgate_assembly::servers::ServerSelection;
use toolgate_assembly::settings::{Settings, resolve_settings};
use toolgate_assembly::supplied::SuppliedParts;
use toolgate_assembly::trust::TrustPrompt;
use toolgate_gate::{Approver, BlockingStrategy, NoApprover, Tool};
use toolgate_tools::Profile;
use toolgate_types::{SessionId, Trust};

use super::{Gate, JwtSettings};

/// What a gate is built from. Without [`config_file`](Self::config_file) and [`config_text`](Self::config_text) nothing is read that the program did not name: a `toolgate.yaml` that lies in the
/// current directory is ignored.
#[derive(Default)]
pub struct GateBuilder {
    overrides: SettingsOverrides,
    environment: Option<HostEnvironment>,
    supplied: SuppliedParts,
    jwt: Option<JwtSettings>,
    approver: Option<Arc<dyn Approver>>,
    session: Option<SessionId>,
}

impl GateBuilder {
    /// A `toolgate.yaml`. What the other methods set wins over it.
    #[must_use]
    pub fn config_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.overrides.config = Some(path.into());
        self
    }

    /// The text of a `toolgate.yaml`, in place of a file; its relative paths start at the current directory.
    #[must_use]
    pub fn config_text(mut self, yaml: &str) -> Self {
        self.overrides.config_text = Some(yaml.into());
        self
    }

    /// The surroundings: where relative paths start, the home, and the variables that a configuration may refer to. Those of the process by default.
    #[must_use]
    pub fn environment(mut self, environment: HostEnvironment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// The directory that tools work in, mounted as `@project`; the current directory by default.
    #[must_use]
    pub fn workspace(mut self, path: impl Into<PathBuf>) -> Self {
        self.overrides.workspace = Some(path.into());
        self
    }

    /// The directory of record, undo journal, keys and quarantine; `$XDG_STATE_HOME/toolgate` by default.
    #[must_use]
    pub fn state_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.overrides.state_dir = Some(path.into());
        self
    }

    /// The directory of the audit record; `audit` in the state directory by default.
    #[must_use]
    pub fn audit_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.overrides.audit_dir = Some(path.into());
        self
    }

    /// Names, limits and wording of the tools; native by default.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.overrides.profile = Some(profile.name().to_owned());
        self
    }

    /// How much is asked; guided by default.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.overrides.trust = Some(trust);
        self
    }

    /// The session that approvals and changes belong to; `embedded` by default.
    #[must_use]
    pub fn session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// A tool manifest. Problems are reported with this file name.
    #[must_use]
    pub fn manifest(mut self, file_name: &str, yaml: &str) -> Self {
        self.supplied.manifests.push(source_file(file_name, yaml));
        self
    }

    /// A Cedar policy. Problems are reported with this file name.
    #[must_use]
    pub fn policy(mut self, file_name: &str, cedar: &str) -> Self {
        self.supplied.policies.push(source_file(file_name, cedar));
        self
    }

    /// A tool that is Rust code.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.supplied.tools.push(tool);
        self
    }

    /// Whose tokens are accepted, in place of `callers:` of the configuration.
    #[must_use]
    pub fn jwt(mut self, settings: JwtSettings) -> Self {
        self.jwt = Some(settings);
        self
    }

    /// Asked about calls that need an approval. Without one, such calls are refused.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Opens everything: recovers what an earlier process left, starts the MCP servers of the configuration and waits for those that are new.
    /// Must be called on a tokio runtime with time and I/O enabled.
    ///
    /// # Errors
    /// When the configuration or a value is wrong, or the machine refuses something; with the remedy.
    pub async fn build(self) -> Result<Gate, BuildError> {
        let approver = self.approver.clone().unwrap_or_else(|| Arc::new(no_approver()));
        let overrides =
            SettingsOverrides { no_config: self.overrides.config.is_none(), ..self.overrides.clone() };
        let settings = self.settings(&overrides)?;
        let seen = fingerprints(&settings);
        let options = GateBuildOptions {
            blocking: BlockingStrategy::ThreadPool,
            servers: Some((ServerSelection::All, Handle::current())),
            ..GateBuildOptions::without_servers(approver, TokenVerification::Enabled)
        };
        let assembled = build_gate(&settings, options)?;
        settings.warn_of_unknown_tools(&assembled.tools);
        let reloader = Reloader::new(&overrides, &settings, &assembled, seen);
        let mut pending = reloader.pending();
        let reloading = tokio::spawn(watch_files(reloader));
        // An error means that the reloader has ended, and nothing is left to wait for.
        let _ = pending.wait_for(Vec::is_empty).await;
        Ok(Gate { assembled, template: settings.caller, reloading })
    }

    fn settings(self, overrides: &SettingsOverrides) -> Result<Settings, BuildError> {
        let environment = match self.environment {
            Some(environment) => environment,
            None => HostEnvironment::detect()?,
        };
        let mut settings = resolve_settings(overrides, Trust::Guided, environment, TrustPrompt::Never)?;
        settings.supplied = self.supplied;
        settings.supplied.verifier = self.jwt.map(JwtSettings::verifier).transpose()?;
        settings.caller.session = match self.session {
            Some(session) => session,
            None => "embedded".parse().map_err(|error| BuildError::error(format!("{error}")))?,
        };
        Ok(settings)
    }
}

fn no_approver() -> NoApprover {
    NoApprover { remedy: "give the gate an approver, or a higher trust level".to_owned() }
}

fn source_file(name: &str, text: &str) -> SourceFile {
    SourceFile { name: name.to_owned(), path: name.into(), bytes: text.as_bytes().to_vec() }
}
