//! The sandbox and its directories, initialised by the first command: most calls run none.

use std::sync::{Arc, OnceLock};

use cap_std::fs::Dir;
use toolgate_confine::{Baselines, QuarantineBounds};
use toolgate_sandbox::Backend;
use toolgate_types::{ErrorCode, Failure, RetentionBounds};

/// The sandbox, and the gate's directories for quarantined files and for baselines.
pub struct Confinement {
    sandbox: LazyInit<Arc<dyn Backend>>,
    state: LazyInit<ConfinementState>,
}

/// Directories of the gate that no tool can reach.
pub struct GateDirectories {
    /// Receives files that commands leave under protected names.
    pub quarantine: Dir,
    /// The state before commands ran; one directory for all gates of this user.
    pub baselines: Dir,
    /// How much of the quarantine is kept.
    pub retention: RetentionBounds,
}

pub(super) struct ConfinementState {
    pub(super) quarantine: Dir,
    pub(super) bounds: QuarantineBounds,
    pub(super) baselines: Baselines,
}

/// Everything that running a command needs.
#[derive(Clone, Copy)]
pub(super) struct SandboxRuntime<'c> {
    pub(super) sandbox: &'c Arc<dyn Backend>,
    pub(super) state: &'c ConfinementState,
}

impl Confinement {
    /// A confinement that the first command initialises. If that fails, no command runs, and the next one tries again.
    pub fn lazy<System: Backend + 'static>(
        sandbox: impl Fn() -> Result<Arc<System>, Failure> + Send + Sync + 'static,
        folders: impl Fn() -> Result<GateDirectories, Failure> + Send + Sync + 'static,
    ) -> Self {
        let keeping = move || {
            let GateDirectories { quarantine, baselines, retention } = folders()?;
            let baselines = Baselines::open(baselines).map_err(|error| {
                Failure::new(ErrorCode::Internal, "the command could not be started")
                    .operator_note(format!("the directory for baselines cannot be used: {error}"))
            })?;
            let standard = QuarantineBounds::default();
            let bounds = QuarantineBounds {
                max_bytes: retention.max_bytes.unwrap_or(standard.max_bytes),
                max_age: retention.max_age.unwrap_or(standard.max_age),
            };
            Ok(ConfinementState { quarantine, bounds, baselines })
        };
        let sandbox = move || sandbox().map(|sandbox| -> Arc<dyn Backend> { sandbox });
        Self { sandbox: LazyInit::new(sandbox), state: LazyInit::new(keeping) }
    }

    pub(super) fn runtime(&self) -> Result<SandboxRuntime<'_>, Failure> {
        Ok(SandboxRuntime { sandbox: self.sandbox.get()?, state: self.state()? })
    }

    /// The state for post-run scans, without a sandbox.
    pub(super) fn state(&self) -> Result<&ConfinementState, Failure> {
        self.state.get()
    }
}

/// A value that is initialised on first use.
struct LazyInit<T> {
    value: OnceLock<T>,
    init: Box<Make<T>>,
}

type Make<T> = dyn Fn() -> Result<T, Failure> + Send + Sync;

impl<T> LazyInit<T> {
    fn new(make: impl Fn() -> Result<T, Failure> + Send + Sync + 'static) -> Self {
        Self { value: OnceLock::new(), init: Box::new(make) }
    }

    fn get(&self) -> Result<&T, Failure> {
        if let Some(made) = self.value.get() {
            return Ok(made);
        }
        let made = (self.init)()?;
        Ok(self.value.get_or_init(|| made))
    }
}
