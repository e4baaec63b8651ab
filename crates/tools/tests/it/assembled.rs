//! Gates of the composition root over a temporary directory.

use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use toolgate_assembly::ambient::HostEnvironment;
use toolgate_assembly::gate_builder::{GateBuildOptions, build_gate};
use toolgate_assembly::load::TokenVerification;
use toolgate_assembly::overrides::SettingsOverrides;
use toolgate_assembly::settings::{Settings, resolve_settings};
use toolgate_assembly::trust::TrustPrompt;
use toolgate_gate::{BlockingStrategy, NoApprover};
use toolgate_manifest::OnAuditFailure;
use toolgate_tools::{Profile, ProfiledGate};
use toolgate_types::{Sha256, StateKey, Trust};

/// A temporary directory with a workspace, `work`.
pub(crate) fn scratch() -> TempDir {
    let scratch = TempDir::new().unwrap();
    std::fs::create_dir(scratch.path().join("work")).unwrap();
    scratch
}

/// The settings of a gate over `work`, with its state in `state` beside it. The variables are those of its environment.
pub(crate) fn settings(
    profile: Profile,
    scratch: &Path,
    config: &str,
    variables: &[(&str, &str)],
) -> Settings {
    let overrides = SettingsOverrides {
        config_text: Some(config.into()),
        profile: Some(profile.name().to_owned()),
        workspace: Some(scratch.join("work")),
        state_dir: Some(scratch.join("state")),
        ..SettingsOverrides::default()
    };
    let mut environment = HostEnvironment::bare(scratch.to_path_buf());
    environment.variables =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut settings = resolve_settings(&overrides, Trust::Guided, environment, TrustPrompt::Never).unwrap();
    settings.on_audit_failure = OnAuditFailure::Deny;
    settings
}

/// The gate of these settings. A warning is a failure.
pub(crate) fn assemble(settings: &Settings, blocking: BlockingStrategy) -> ProfiledGate {
    let approver = Arc::new(NoApprover { remedy: String::new() });
    let options = GateBuildOptions {
        blocking,
        warn: Arc::new(|words| panic!("{words}")),
        ..GateBuildOptions::without_servers(approver, TokenVerification::Disabled)
    };
    build_gate(settings, options).unwrap().gate
}

/// The key that the gate made at its first start.
pub(crate) fn state_key(scratch: &Path) -> StateKey {
    let digits = std::fs::read_to_string(scratch.join("state/keys/state.key")).unwrap();
    StateKey::new(*digits.trim().parse::<Sha256>().unwrap().as_bytes())
}

/// Background commands, eight in a session.
pub(crate) fn background() -> toolgate_tools::BackgroundAccess {
    let definition = Sha256::of(b"configuration");
    toolgate_tools::BackgroundAccess { commands: Arc::default(), max_running: 8, definition }
}
