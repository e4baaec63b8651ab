//! Settings that a command line or an embedding program overrides.

use std::path::PathBuf;
use std::sync::Arc;

use toolgate_types::{AgentName, RunId, Trust};

/// Values that take precedence over those of the configuration; all absent by default.
#[derive(Clone, Debug, Default)]
pub struct SettingsOverrides {
    /// The configuration file. If absent: the nearest `toolgate.yaml` upward, once the user has agreed to it.
    pub config: Option<PathBuf>,
    /// The text of a configuration, in place of any file; its relative paths start at the current directory.
    pub config_text: Option<Arc<str>>,
    /// Use no configuration file at all.
    pub no_config: bool,
    /// The name of the profile.
    pub profile: Option<String>,
    /// The directory mounted as `@project`.
    pub workspace: Option<PathBuf>,
    /// Further mounts, as `@name=DIR` or `@name=DIR:ro`.
    pub mounts: Vec<String>,
    /// The directory of audit log, undo journal, keys, runs and quarantine.
    pub state_dir: Option<PathBuf>,
    /// The directory of the audit log.
    pub audit_dir: Option<PathBuf>,
    /// The run that calls belong to.
    pub run: Option<RunId>,
    /// The declared agent on whose behalf calls are made.
    pub agent: Option<AgentName>,
    /// The trust level.
    pub trust: Option<Trust>,
    /// The JWT that calls carry.
    pub token: Option<String>,
}
