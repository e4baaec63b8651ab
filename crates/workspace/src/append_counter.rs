//! How much was added to a directory since it was last swept, counted by all processes that share it.
//!
//! The count is the length of a file that each of them appends to. `O_APPEND` makes concurrent appends add up without a lock, and a process that is
//! killed loses nothing. What the file holds means nothing.

use std::fs::File;
use std::io::{self, Write as _};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};

/// As many units as are added between two sweeps of a directory.
pub const COUNTER_STEP: u64 = 4096;

/// The count of one directory.
#[derive(Debug)]
pub struct AppendCounter(File);

impl AppendCounter {
    /// Opens the count of a directory, making the file if it is missing.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(directory: &Dir, name: &str) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        Ok(Self(directory.open_with(name, &options)?.into_std()))
    }

    /// Adds at least one and at most [`COUNTER_STEP`] units. On a full disk it adds none: the next sweep finds what is there all the same.
    pub fn add(&self, units: u64) {
        const UNITS: [u8; COUNTER_STEP as usize] = [b'.'; COUNTER_STEP as usize];
        let units = usize::try_from(units.clamp(1, COUNTER_STEP)).unwrap_or(UNITS.len());
        let _ = (&self.0).write(UNITS.get(..units).unwrap_or(&UNITS));
    }

    /// Units that were added since the last reset. A file that cannot be looked at is taken for one that says that it is time to sweep.
    #[must_use]
    pub fn get(&self) -> u64 {
        rustix::fs::fstat(&self.0).map_or(COUNTER_STEP, |stat| u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// Takes off what a sweep has looked at. What others add in this moment is lost from the count; the next sweep finds it.
    pub fn subtract(&self, units: u64) {
        let _ = self.0.set_len(self.get().saturating_sub(units));
    }

    /// Begins to count anew, after a sweep. What others add in this moment is lost from the count; the next sweep finds it.
    pub fn reset(&self) {
        let _ = self.0.set_len(0);
    }
}

/// The weight in a [`AppendCounter`] of one entry of so many bytes, where a directory is swept every `step_entries` entries or `step_bytes` bytes.
#[must_use]
pub fn counter_units(bytes: u64, step_entries: u64, step_bytes: u64) -> u64 {
    let by_count = COUNTER_STEP.div_ceil(step_entries.max(1));
    let by_size = u128::from(bytes) * u128::from(COUNTER_STEP) / u128::from(step_bytes.max(1));
    by_count.saturating_add(u64::try_from(by_size).unwrap_or(u64::MAX))
}
