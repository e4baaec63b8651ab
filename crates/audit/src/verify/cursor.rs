//! Walks through the checkpoints in step with the records, so that neither is held in memory.

use std::path::{Path, PathBuf};

use super::{Stop, at};
use crate::checkpoint::Checkpoint;
use crate::folder::Folder;
use crate::key::place_of;
use crate::lines::{Lines, Step};
use crate::verify::report::ProblemKind;
use crate::{AuditError, PublicKey};

/// More keys than this are not listed in a report.
const LISTED_KEYS: usize = 64;

/// The checkpoints that have not been compared yet.
pub(super) struct Cursor {
    path: PathBuf,
    lines: Option<Lines>,
    trusted: Vec<PublicKey>,
    next: Option<(Checkpoint, u64)>,
    newest: u64,
    pub(super) read: u64,
    pub(super) keys: Vec<PublicKey>,
}

impl Cursor {
    /// The checkpoints as they are now. What is signed later is left out: its record may be younger than the
    /// check.
    pub(super) fn open(path: &Path, trusted: &[PublicKey]) -> Result<Self, AuditError> {
        let (folder, name) = place_of(path, Folder::open)?;
        let length = folder.state(&name)?.map_or(0, |state| state.length);
        let lines = Lines::open_until(&folder, &name, length)?;
        let path = path.to_owned();
        Ok(Self { path, lines, trusted: trusted.to_vec(), next: None, newest: 0, read: 0, keys: Vec::new() })
    }

    /// The next checkpoint and its line, found good in itself.
    pub(super) fn peek(&mut self) -> Result<Option<(Checkpoint, u64)>, Stop> {
        if self.next.is_none() {
            self.next = self.read_next()?;
        }
        Ok(self.next)
    }

    /// Goes on to the one after.
    pub(super) fn advance(&mut self) {
        self.next = None;
    }

    fn read_next(&mut self) -> Result<Option<(Checkpoint, u64)>, Stop> {
        let Some(lines) = &mut self.lines else { return Ok(None) };
        let parsed = match lines.step()? {
            // An unfinished checkpoint is one that was being written; the record it is about stands for
            // itself.
            Step::End | Step::Unfinished => return Ok(None),
            Step::Whole => Checkpoint::parse(lines.bytes()),
            Step::TooLong => None,
        };
        let number = lines.number();
        let problem = |kind| at(&self.path, number, kind);
        let checkpoint = parsed.ok_or_else(|| problem(ProblemKind::CheckpointUnparsable))?;
        if let Some(kind) = self.fault_of(&checkpoint) {
            return Err(problem(kind));
        }
        self.newest = checkpoint.seq;
        self.read += 1;
        if !self.keys.contains(&checkpoint.public_key) && self.keys.len() < LISTED_KEYS {
            self.keys.push(checkpoint.public_key);
        }
        Ok(Some((checkpoint, number)))
    }

    fn fault_of(&self, checkpoint: &Checkpoint) -> Option<ProblemKind> {
        if !checkpoint.is_signed() {
            Some(ProblemKind::CheckpointForged)
        } else if !self.trusted.is_empty() && !self.trusted.contains(&checkpoint.public_key) {
            Some(ProblemKind::CheckpointUntrusted { key: checkpoint.public_key })
        } else if checkpoint.seq <= self.newest {
            Some(ProblemKind::CheckpointDisorder)
        } else {
            None
        }
    }
}
