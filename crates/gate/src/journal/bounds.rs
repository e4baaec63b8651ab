//! Size bounds of the journal.

use std::time::Duration;

use toolgate_types::RetentionBounds;

/// Bounds of what is stored for undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalBounds {
    /// Disk space of the stored contents and their entries.
    pub max_bytes: u64,
    /// Number of calls whose changes are stored.
    pub max_entries: u64,
    /// Changes older than this can no longer be undone.
    pub max_age: Duration,
}

impl Default for JournalBounds {
    fn default() -> Self {
        Self { max_bytes: 1 << 30, max_entries: 10_000, max_age: Duration::from_secs(30 * 24 * 60 * 60) }
    }
}

impl From<RetentionBounds> for JournalBounds {
    fn from(declared: RetentionBounds) -> Self {
        let standard = Self::default();
        Self {
            max_bytes: declared.max_bytes.unwrap_or(standard.max_bytes),
            max_entries: declared.max_entries.unwrap_or(standard.max_entries),
            max_age: declared.max_age.unwrap_or(standard.max_age),
        }
    }
}

/// The journal is swept whenever another 1/32 of a bound was added.
const SWEEP_STEPS: u64 = 32;

impl JournalBounds {
    /// One call may use at most a quarter of the space. Content that the gate did not write is not dropped for a day, so a single call that used
    /// nearly all of it would make every other change fail until then.
    pub(super) fn max_call_bytes(&self) -> u64 {
        (self.max_bytes / 4).max(1)
    }

    /// Bytes added between two sweeps.
    pub(super) fn sweep_step_bytes(&self) -> u64 {
        (self.max_bytes / SWEEP_STEPS).max(1)
    }

    /// Entries added between two sweeps.
    pub(super) fn sweep_step_entries(&self) -> u64 {
        (self.max_entries / SWEEP_STEPS).max(1)
    }

    /// For this long, an entry with content from elsewhere stands in for later versions of the same file, which are dropped first. The first version
    /// after that is protected in turn: so for every state of a file, something at most this much older is kept for a day.
    pub(super) fn stand_in(&self) -> Duration {
        const STAND_IN: Duration = Duration::from_secs(6 * 60 * 60);
        STAND_IN.min(self.max_age / 2)
    }

    /// What a sweep leaves. Two steps may be added before a call waits for the next sweep, and two more while it runs: with these four the journal is
    /// still within its bounds.
    pub(super) fn sweep_target(&self) -> (u64, u64) {
        let bytes = self.max_bytes.saturating_sub(4 * self.sweep_step_bytes());
        let entries = self.max_entries.saturating_sub(4 * self.sweep_step_entries());
        (bytes, entries)
    }
}
