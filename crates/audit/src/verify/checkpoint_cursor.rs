//! Reads the checkpoints in step with the records, so that neither is held in memory.

use std::path::{Path, PathBuf};

use super::{VerifyAbort, at};
use crate::checkpoint::Checkpoint;
use crate::checkpoint_key::split_path;
use crate::directory::DirHandle;
use crate::line_reader::{LineReader, LineStatus};
use crate::verify::report::IntegrityProblemKind;
use crate::{AuditError, PublicKey};

/// Maximum number of keys listed in a report.
const MAX_LISTED_KEYS: usize = 64;

/// The checkpoints that have not been compared yet.
pub(super) struct CheckpointCursor {
    path: PathBuf,
    lines: Option<LineReader>,
    trusted: Vec<PublicKey>,
    next: Option<(Checkpoint, u64)>,
    newest: u64,
    pub(super) read: u64,
    pub(super) keys: Vec<PublicKey>,
}

impl CheckpointCursor {
    /// The checkpoints up to the file's current length. Later ones are ignored: their records may be newer than this check.
    pub(super) fn open(path: &Path, trusted: &[PublicKey]) -> Result<Self, AuditError> {
        let (folder, name) = split_path(path, DirHandle::open)?;
        let length = folder.state(&name)?.map_or(0, |state| state.length);
        let lines = LineReader::open_until(&folder, &name, length)?;
        let path = path.to_owned();
        Ok(Self { path, lines, trusted: trusted.to_vec(), next: None, newest: 0, read: 0, keys: Vec::new() })
    }

    /// The next checkpoint and its line number; its signature is valid.
    pub(super) fn peek(&mut self) -> Result<Option<(Checkpoint, u64)>, VerifyAbort> {
        if self.next.is_none() {
            self.next = self.read_next()?;
        }
        Ok(self.next)
    }

    /// Skips to the next one.
    pub(super) fn advance(&mut self) {
        self.next = None;
    }

    fn read_next(&mut self) -> Result<Option<(Checkpoint, u64)>, VerifyAbort> {
        let Some(lines) = &mut self.lines else { return Ok(None) };
        let parsed = match lines.read_line()? {
            // A partial checkpoint is still being written; its record is verified by the chain itself.
            LineStatus::End | LineStatus::Partial => return Ok(None),
            LineStatus::Complete => Checkpoint::parse(lines.line()),
            LineStatus::TooLong => None,
        };
        let number = lines.number();
        let problem = |kind| at(&self.path, number, kind);
        let checkpoint = parsed.ok_or_else(|| problem(IntegrityProblemKind::CheckpointUnparsable))?;
        if let Some(kind) = self.problem_of(&checkpoint) {
            return Err(problem(kind));
        }
        self.newest = checkpoint.seq;
        self.read += 1;
        if !self.keys.contains(&checkpoint.public_key) && self.keys.len() < MAX_LISTED_KEYS {
            self.keys.push(checkpoint.public_key);
        }
        Ok(Some((checkpoint, number)))
    }

    fn problem_of(&self, checkpoint: &Checkpoint) -> Option<IntegrityProblemKind> {
        if !checkpoint.is_signed() {
            Some(IntegrityProblemKind::CheckpointForged)
        } else if !self.trusted.is_empty() && !self.trusted.contains(&checkpoint.public_key) {
            Some(IntegrityProblemKind::CheckpointUntrusted { key: checkpoint.public_key })
        } else if checkpoint.seq <= self.newest {
            Some(IntegrityProblemKind::CheckpointDisorder)
        } else {
            None
        }
    }
}
