//! Checkpoints: signed statements of the chain's hash at a record.
//!
//! The owner of the file could rewrite a hash chain from any point on. A checkpoint, in a separate file that may be stored elsewhere, makes a
//! rewritten or truncated log detectable.

use std::path::PathBuf;
use std::sync::Mutex;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use toolgate_types::{Sha256, time};

use crate::checkpoint_key::{CheckpointKey, PublicKey, from_hex, split_path, to_hex};
use crate::directory::{DirHandle, SharedFile, fstat_state, write_all};
use crate::reverse_lines::ReverseLines;
use crate::signed_head::{self, SignedHeadFile};
use crate::writer::{ChainPosition, LogWriter};
use crate::{AuditError, Day};

/// Domain separation from all other signatures.
const CHECKPOINT_DOMAIN: &[u8] = b"toolgate.audit.checkpoint.v1\0";

/// One line of the checkpoint file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The sequence number of the record it covers.
    pub seq: u64,
    /// That record's hash.
    pub hash: Sha256,
    /// The day whose file holds that record.
    pub day: Day,
    /// When it was signed.
    pub timestamp: Timestamp,
    /// The key that signed it.
    pub public_key: PublicKey,
    /// The signature.
    pub signature: [u8; 64],
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CheckpointLine {
    seq: u64,
    hash: Sha256,
    day: String,
    timestamp: String,
    public_key: String,
    signature: String,
}

impl Checkpoint {
    fn sign(mark: ChainPosition, now: Timestamp, signing: &CheckpointKey) -> Self {
        let unsigned = Self {
            seq: mark.seq,
            hash: mark.hash,
            day: mark.day,
            timestamp: Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now),
            public_key: signing.public(),
            signature: [0; 64],
        };
        Self { signature: signing.sign(&unsigned.message()), ..unsigned }
    }

    /// The signed message: every field has a fixed length, so no two checkpoints share a message.
    fn message(&self) -> Vec<u8> {
        let mut message = CHECKPOINT_DOMAIN.to_vec();
        message.extend_from_slice(&self.seq.to_be_bytes());
        message.extend_from_slice(self.hash.as_bytes());
        message.extend_from_slice(self.day.to_string().as_bytes());
        message.extend_from_slice(&self.timestamp.as_millisecond().to_be_bytes());
        message.extend_from_slice(self.public_key.as_bytes());
        message
    }

    /// Whether its signature is valid for the key it names.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.public_key.verifies(&self.message(), &self.signature)
    }

    /// Parses a line without its newline; accepts only the exact encoding that a gate writes.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let fields: CheckpointLine = serde_json::from_slice(line).ok()?;
        let checkpoint = Self {
            seq: fields.seq,
            hash: fields.hash,
            day: fields.day.parse().ok()?,
            timestamp: fields.timestamp.parse().ok()?,
            public_key: fields.public_key.parse().ok()?,
            signature: from_hex(&fields.signature)?,
        };
        (checkpoint.to_line().ok()?.as_slice() == line).then_some(checkpoint)
    }

    fn to_line(self) -> Result<Vec<u8>, AuditError> {
        crate::line::to_json(&CheckpointLine {
            seq: self.seq,
            hash: self.hash,
            day: self.day.to_string(),
            timestamp: time::rfc3339_millis(self.timestamp),
            public_key: self.public_key.to_string(),
            signature: to_hex(&self.signature),
        })
    }
}

/// Signs checkpoints. The key is loaded, or created, when the first one is due.
pub(crate) struct CheckpointSigner {
    path: PathBuf,
    key_path: PathBuf,
    signed_head: SignedHeadFile,
    key: Option<CheckpointKey>,
    newest: u64,
}

impl CheckpointSigner {
    pub(crate) fn new(path: PathBuf, key_path: PathBuf, folder: &DirHandle) -> Self {
        let signed_head = SignedHeadFile::next_to_key(&key_path, folder);
        Self { path, key_path, signed_head, key: None, newest: 0 }
    }

    /// Fails if the log contradicts what was signed last. Call it while no process appends.
    pub(crate) fn verify_log(
        &self,
        folder: &DirHandle,
        last: Option<ChainPosition>,
    ) -> Result<(), AuditError> {
        signed_head::verify_log(folder, last, &self.signed_head, &self.path)
    }

    /// Signs and appends a checkpoint, unless one for this or a later record exists: the file stays ordered even if several processes sign. It is not
    /// synced: a power failure may lose the latest checkpoints, and the next one covers their records too.
    pub(crate) fn sign_checkpoint(
        &mut self,
        mark: ChainPosition,
        now: Timestamp,
        writer: &Mutex<LogWriter>,
    ) -> Result<(), AuditError> {
        if mark.seq <= self.newest {
            return Ok(());
        }
        let signing = match self.key.take() {
            Some(signing) => signing,
            None => CheckpointKey::load_or_create(&self.key_path)?,
        };
        let mut line = Checkpoint::sign(mark, now, &signing).to_line()?;
        self.key = Some(signing);
        line.push(b'\n');
        let (folder, name) = split_path(&self.path, DirHandle::open_or_create)?;
        let file = folder.append_to(&name)?;
        crate::lock(writer).with_lock(|_| {
            match append_if_newer(&folder, &name, &file, mark.seq, &line)? {
                true => self.signed_head.write(mark),
                false => Ok(()),
            }
        })?;
        self.newest = mark.seq;
        Ok(())
    }
}

/// Returns whether it was appended.
fn append_if_newer(
    folder: &DirHandle,
    name: &str,
    file: &SharedFile,
    seq: u64,
    line: &[u8],
) -> Result<bool, AuditError> {
    let failed = |cause| folder.error("read", name, cause);
    let length = fstat_state(file).map_err(failed)?.length;
    let mut lines = ReverseLines::new(file.clone(), length);
    let complete = lines.skip_partial_line().map_err(failed)?;
    let newest = lines.next_line().map_err(failed)?.and_then(|line| Checkpoint::parse(&line));
    if newest.is_some_and(|newest| newest.seq >= seq) {
        return Ok(false);
    }
    if complete < length {
        rustix::fs::ftruncate(file, complete).map_err(|cause| folder.error("repair", name, cause))?;
    }
    write_all(file, line).map_err(|cause| {
        let _ = rustix::fs::ftruncate(file, complete);
        folder.error("write", name, cause)
    })?;
    Ok(true)
}
