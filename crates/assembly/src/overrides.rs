//! What a command line or a program decides before the configuration does.

use std::path::PathBuf;

use toolgate_types::{AgentName, RunId, Trust};

/// Values that win over those of the configuration; all absent by default.
#[derive(Clone, Debug, Default)]
pub struct SettingsOverrides {
    /// The configuration file. Absent: the nearest `toolgate.yaml` upward, once the user has agreed to it.
    pub config: Option<PathBuf>,
    /// Use no configuration file at all.
    pub no_config: bool,
    /// The name of the profile.
    pub profile: Option<String>,
    /// The directory that is mounted as `@project`.
    pub workspace: Option<PathBuf>,
    /// More mounts, as `@name=DIR` or `@name=DIR:ro`.
    pub mounts: Vec<String>,
    /// The directory of record, undo journal, keys, runs and quarantine.
    pub state_dir: Option<PathBuf>,
    /// The run that calls belong to.
    pub run: Option<RunId>,
    /// The declared agent that calls are made for.
    pub agent: Option<AgentName>,
    /// The trust level.
    pub trust: Option<Trust>,
    /// The JWT that calls come with.
    pub token: Option<String>,
}
