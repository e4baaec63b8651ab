//! Limits of one call: how much it may read, write, list and find, and how long it may take.

use std::time::Duration;

/// The limits of one call. Profiles set them; configuration and agents may change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of file content in one answer.
    pub max_read_bytes: u64,
    /// Bytes of a file that is read whole as a resource. A profile sets no such limit; a configured read limit is one, whatever its value.
    pub max_resource_bytes: u64,
    /// Bytes of a file after one write, append, edit or patch.
    pub max_write_bytes: u64,
    /// Entries in one listing.
    pub max_entries: usize,
    /// Matches in one search when the call sets no limit.
    pub max_matches: usize,
    /// Bytes of any answer.
    pub max_output_bytes: u64,
    /// Time for one call.
    pub timeout: Duration,
}
