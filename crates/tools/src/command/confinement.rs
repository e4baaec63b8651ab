//! What confines commands, made ready when the first one is to run: most calls run none.

use std::sync::{Arc, OnceLock};

use cap_std::fs::Dir;
use toolgate_sandbox::Backend;
use toolgate_types::Failure;

/// The sandbox, and where what commands leave under protected names goes.
pub struct Confinement {
    made: OnceLock<Made>,
    make: Box<Make>,
}

type Make = dyn Fn() -> Result<Made, Failure> + Send + Sync;

pub(super) struct Made {
    pub(super) sandbox: Arc<dyn Backend>,
    pub(super) quarantine: Dir,
}

impl Confinement {
    /// One that is made by the first command. When that fails, no command is run, and the next one tries again.
    pub fn later<System: Backend + 'static>(
        make: impl Fn() -> Result<(Arc<System>, Dir), Failure> + Send + Sync + 'static,
    ) -> Self {
        let make = move || make().map(|(sandbox, quarantine)| Made { sandbox, quarantine });
        Self { made: OnceLock::new(), make: Box::new(make) }
    }

    pub(super) fn made(&self) -> Result<&Made, Failure> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let made = (self.make)()?;
        Ok(self.made.get_or_init(|| made))
    }
}
