//! Counts what the journal dropped, for the operator.

use std::io;

use cap_std::fs::Dir;
use serde::{Deserialize, Serialize};
use toolgate_types::CallId;

use super::write_atomically;

const NAME: &str = "dropped.json";
const VERSION: u32 = 1;

/// How much the journal dropped since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedEntries {
    version: u32,
    /// Calls whose changes can no longer be undone.
    pub entries: u64,
    /// Disk space that was freed.
    pub bytes: u64,
    /// The newest of these calls. An older call without an entry may be one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<CallId>,
}

impl DroppedEntries {
    /// Reads the file from the journal's directory; zero if it is missing or unreadable.
    pub(super) fn read(directory: &Dir) -> Self {
        let bytes = directory.read(NAME).unwrap_or_default();
        serde_json::from_slice::<Self>(&bytes).ok().filter(|read| read.version == VERSION).unwrap_or_default()
    }

    pub(super) fn add(self, call: CallId, bytes: u64) -> Self {
        Self {
            entries: self.entries.saturating_add(1),
            bytes: self.bytes.saturating_add(bytes),
            newest: self.newest.max(Some(call)),
            ..self
        }
    }

    pub(super) fn write(mut self, directory: &Dir) -> io::Result<()> {
        self.version = VERSION;
        write_atomically(directory, NAME, &serde_json::to_vec(&self)?)
    }
}
