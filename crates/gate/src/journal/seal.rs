//! HMAC seals that authenticate journal entries.
//!
//! An entry is a line of JSON and a line with its seal, an HMAC under the user's state key. The seal covers the phase (pending or done) and the
//! journal's identity, so an entry that was planted, modified, renamed, moved between `pending/` and `done/`, or copied from another state directory
//! is rejected. Finishing a change appends the second seal and then renames the entry, so it costs one more `write`.

use std::io;
use std::os::fd::AsFd;

use toolgate_types::StateKey;

use super::change_set::ChangeSet;

const PURPOSE: &str = "toolgate journal entry 1";
const FILE_PURPOSE: &str = "toolgate journal file 1";
/// One for each phase.
const MAX_SEALS: usize = 2;

/// The phase that a seal certifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryPhase {
    /// Its changes are being made, or were when its process died.
    Pending,
    /// Its changes are committed.
    Done,
}

impl EntryPhase {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Done => "done",
        }
    }
}

/// Seals the entries of one journal.
#[derive(Debug)]
pub(super) struct JournalSealer {
    key: StateKey,
    /// `st_ino` of the journal's directory, which survives a rename and a reboot. A copy has another inode and counts as another journal.
    journal: u64,
}

impl JournalSealer {
    pub(super) fn new(key: StateKey, journal: impl AsFd) -> io::Result<Self> {
        Ok(Self { key, journal: rustix::fs::fstat(journal)?.st_ino })
    }

    /// The seal line of an entry in this phase.
    pub(super) fn seal_line(&self, phase: EntryPhase, entry: &[u8]) -> String {
        let inode = self.journal.to_le_bytes();
        format!("{}\n", self.key.seal(PURPOSE, &[phase.as_str().as_bytes(), &inode, entry]))
    }

    /// Prefixes the bytes of another journal file with their seal.
    pub(super) fn seal_file(&self, name: &str, bytes: &[u8]) -> Vec<u8> {
        let inode = self.journal.to_le_bytes();
        let seal = self.key.seal(FILE_PURPOSE, &[name.as_bytes(), &inode, bytes]);
        [format!("{seal}\n").as_bytes(), bytes].concat()
    }

    /// The bytes of such a file, if the seal is valid for this name and journal.
    pub(super) fn unseal_file<'b>(&self, name: &str, sealed: &'b [u8]) -> Option<&'b [u8]> {
        let end = sealed.iter().position(|byte| *byte == b'\n')?;
        let (seal, bytes) = (sealed.get(..end)?, sealed.get(end + 1..)?);
        let inode = self.journal.to_le_bytes();
        self.key.verifies(FILE_PURPOSE, &[name.as_bytes(), &inode, bytes], seal).then_some(bytes)
    }

    /// A sealed entry in this phase.
    pub(super) fn seal_entry(&self, phase: EntryPhase, set: &ChangeSet) -> io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(set)?;
        let line = self.seal_line(phase, &bytes);
        bytes.push(b'\n');
        bytes.extend_from_slice(line.as_bytes());
        Ok(bytes)
    }

    /// The content and phase of an entry, if it carries a valid seal for this journal. The done seal takes precedence over the pending one.
    pub(super) fn unseal_entry(&self, bytes: &[u8]) -> Option<(ChangeSet, EntryPhase)> {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let entry = lines.next()?;
        let seals: Vec<&[u8]> = lines.take(MAX_SEALS).collect();
        let inode = self.journal.to_le_bytes();
        let is_in = |phase: &EntryPhase| {
            let parts: [&[u8]; 3] = [phase.as_str().as_bytes(), &inode, entry];
            seals.iter().any(|seal| self.key.verifies(PURPOSE, &parts, seal))
        };
        let phase = [EntryPhase::Done, EntryPhase::Pending].into_iter().find(is_in)?;
        Some((serde_json::from_slice(entry).ok()?, phase))
    }
}
