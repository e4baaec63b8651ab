//! Limits of the state that the gate keeps on disk.

use std::time::Duration;

/// Limits of one kind of state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionBounds {
    /// `max_bytes`: disk space.
    pub max_bytes: Option<u64>,
    /// `max_entries`: number of entries.
    pub max_entries: Option<u64>,
    /// `max_age`: age of an entry.
    pub max_age: Option<Duration>,
}
