//! How much was added to a directory since its last sweep, counted by all processes that share it.
//!
//! The count is the length of a file that each of them appends to. `O_APPEND` makes concurrent appends add up without a lock, and a killed process
//! loses nothing. The content of the file is meaningless.

use std::fs::File;
use std::io::{self, Write as _};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};

/// Units added between two sweeps of a directory.
pub const COUNTER_STEP: u64 = 4096;

/// The counter of one directory.
#[derive(Debug)]
pub struct AppendCounter(File);

impl AppendCounter {
    /// Opens the counter of a directory, creating the file if it is missing.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(directory: &Dir, name: &str) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        Ok(Self(directory.open_with(name, &options)?.into_std()))
    }

    /// Adds at least one and at most [`COUNTER_STEP`] units. On a full disk it adds none: the next sweep still finds every entry.
    pub fn add(&self, units: u64) {
        const UNITS: [u8; COUNTER_STEP as usize] = [b'.'; COUNTER_STEP as usize];
        let units = usize::try_from(units.clamp(1, COUNTER_STEP)).unwrap_or(UNITS.len());
        let _ = (&self.0).write(UNITS.get(..units).unwrap_or(&UNITS));
    }

    /// Units added since the last reset. If `fstat` fails, returns a value that triggers a sweep.
    #[must_use]
    pub fn get(&self) -> u64 {
        rustix::fs::fstat(&self.0).map_or(COUNTER_STEP, |stat| u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// Subtracts what a sweep has processed. What other processes add concurrently is lost from the count; the next sweep finds it.
    pub fn subtract(&self, units: u64) {
        let _ = self.0.set_len(self.get().saturating_sub(units));
    }

    /// Restarts at zero after a sweep. What other processes add concurrently is lost from the count; the next sweep finds it.
    pub fn reset(&self) {
        let _ = self.0.set_len(0);
    }
}

/// The weight in an [`AppendCounter`] of one entry of this size, where a directory is swept every `step_entries` entries or `step_bytes` bytes.
#[must_use]
pub fn counter_units(bytes: u64, step_entries: u64, step_bytes: u64) -> u64 {
    let by_count = COUNTER_STEP.div_ceil(step_entries.max(1));
    let by_size = u128::from(bytes) * u128::from(COUNTER_STEP) / u128::from(step_bytes.max(1));
    by_count.saturating_add(u64::try_from(by_size).unwrap_or(u64::MAX))
}
