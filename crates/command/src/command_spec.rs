//! One command, as a tool requests it.

use std::ffi::OsString;
use std::path::PathBuf;

use toolgate_confine::ConfineRequest;
use toolgate_sandbox::{CapturedStdio, OnOutputLimit, ResourceLimits};
use toolgate_types::Failure;

use crate::network::Reach;

/// One command, as a tool requests it.
pub struct CommandSpec<'a> {
    /// The program: a name, or an absolute path.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The working directory, as the command sees it.
    pub directory: PathBuf,
    /// The mounts that it is given.
    pub mounts: Vec<ConfineRequest<'a>>,
    /// Additional environment variables.
    pub environment: &'a [(String, String)],
    /// What it reads from standard input.
    pub input: Option<Vec<u8>>,
    /// Whether its package managers have a cache of this workspace and caller.
    pub has_package_cache: bool,
    /// The hosts that it may reach.
    pub reach: &'a Reach,
    /// Its resource limits.
    pub limits: ResourceLimits,
    /// How many bytes of output are kept and shown as progress.
    pub max_output: u64,
    /// Up to how many bytes are kept in total, for the full output; those beyond `max_output` are not shown as progress.
    pub max_full_output: u64,
    /// What happens when it writes more.
    pub on_output_limit: OnOutputLimit,
    /// Called right before the process starts, after everything else: fails if the named files are no longer those that were checked (TOCTOU).
    pub final_check: &'a dyn Fn() -> Result<(), Failure>,
}

impl CommandSpec<'_> {
    /// The captured streams. A command that writes too much is treated the same however many bytes are kept.
    pub(crate) fn captured_stdio(&self) -> CapturedStdio {
        let most = self.max_output.max(self.max_full_output);
        let on_flood = match self.on_output_limit {
            OnOutputLimit::Drain(more) => {
                OnOutputLimit::Drain(self.max_output.saturating_add(more).saturating_sub(most))
            }
            OnOutputLimit::Stop => OnOutputLimit::Stop,
        };
        CapturedStdio { input: self.input.clone(), max_output: most, on_output_limit: on_flood }
    }

    /// How much of each separate stream is kept as text. If the full output is kept, it is only kept combined, and a separate stream is limited to an
    /// answer's length.
    pub(crate) fn max_stream_bytes(&self) -> usize {
        let most = if self.max_full_output > 0 { self.max_output } else { u64::MAX };
        usize::try_from(most).unwrap_or(usize::MAX)
    }
}
