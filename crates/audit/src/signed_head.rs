//! The last signed record, stored beside the key, and the check of the log against it.
//!
//! A gate that signed whatever it finds would certify a log that was truncated or rewritten while it was not running. So each start compares the log
//! with the newest checkpoint and with this file, which an attacker with write access to the audit directory alone cannot change.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use toolgate_types::Sha256;

use crate::AuditError;
use crate::checkpoint::Checkpoint;
use crate::checkpoint_key::{create_atomically, split_path};
use crate::directory::{DirHandle, fstat_state, read_at, write_at};
use crate::line::{peek_link, to_json};
use crate::query::open_reversed;
use crate::reverse_lines::ReverseLines;
use crate::writer::ChainPosition;

const VERSION: u32 = 1;
/// Fixed size, so that it is replaced by one `pwrite`.
const FILE_BYTES: usize = 128;
/// Digits of the digest of the audit directory's path, to distinguish several logs signed with one key.
const NAME_DIGITS: usize = 16;

/// A signed record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignedHead {
    v: u32,
    pub(crate) seq: u64,
    pub(crate) hash: Sha256,
}

/// The file with the last signed record.
#[derive(Clone, Debug)]
pub(crate) struct SignedHeadFile {
    pub(crate) path: PathBuf,
}

impl SignedHeadFile {
    /// Beside this key, for the log in this directory, by its resolved path.
    pub(crate) fn next_to_key(key: &Path, folder: &DirHandle) -> Self {
        let digest = Sha256::of(folder.location().as_os_str().as_encoded_bytes()).to_string();
        let (digits, _) = digest.split_at_checked(NAME_DIGITS).unwrap_or((&digest, ""));
        Self { path: key.with_extension(format!("{digits}.signed")) }
    }

    /// Stores the last signed record. Beside a key mounted read-only there is no such file; the checkpoints are still compared.
    pub(crate) fn write(&self, mark: ChainPosition) -> Result<(), AuditError> {
        let mut line = to_json(&SignedHead { v: VERSION, seq: mark.seq, hash: mark.hash })?;
        line.resize(FILE_BYTES.saturating_sub(1), b' ');
        line.push(b'\n');
        let (folder, name) = split_path(&self.path, DirHandle::open_or_create)?;
        let written = match folder.open_existing(&name) {
            Ok(Some(file)) => write_at(&file, &line, 0).map_err(|cause| folder.error("write", &name, cause)),
            // Created atomically: no gate would start beside an empty file, so it must not exist without its content, not even after a power failure.
            Ok(None) => create_atomically(&folder, &name, &line),
            Err(error) => Err(error),
        };
        match written {
            Err(AuditError::Io { cause: Errno::ROFS | Errno::ACCESS | Errno::PERM, .. }) => Ok(()),
            written => written,
        }
    }

    pub(crate) fn read(&self) -> Result<Option<SignedHead>, AuditError> {
        let (folder, name) = match split_path(&self.path, DirHandle::open) {
            Err(AuditError::Io { cause: Errno::NOENT, .. }) => return Ok(None),
            place => place?,
        };
        let Some(file) = folder.read(&name)? else { return Ok(None) };
        let bytes = read_at(&file, FILE_BYTES * 2, 0).map_err(|cause| folder.error("read", &name, cause))?;
        let signed: SignedHead = serde_json::from_slice(&bytes)
            .map_err(|error| folder.damaged(&name, format!("it does not say what was signed: {error}")))?;
        if signed.v != VERSION {
            return Err(folder.damaged(&name, format!("its version {} is not known here", signed.v)));
        }
        Ok(Some(signed))
    }
}

/// Fails if the log contradicts what was signed. Call it while no process appends; `last` is the last record.
pub(crate) fn verify_log(
    folder: &DirHandle,
    last: Option<ChainPosition>,
    signed_file: &SignedHeadFile,
    checkpoints: &Path,
) -> Result<(), AuditError> {
    let noted = signed_file.read()?.map(|signed| (signed.seq, signed.hash, signed_file.path.as_path()));
    let newest = newest_checkpoint(checkpoints)?.map(|newest| (newest.seq, newest.hash, checkpoints));
    // Usually both name the same record.
    let newest =
        newest.filter(|(seq, hash, _)| noted.is_none_or(|noted| (noted.0, noted.1) != (*seq, *hash)));
    for (seq, hash, file) in noted.into_iter().chain(newest) {
        if let Some(problem) = find_contradiction(folder, last, seq, hash)? {
            let (path, signed) = (folder.path_of(""), file.to_owned());
            return Err(AuditError::Contradiction { path, signed, problem });
        }
    }
    Ok(())
}

fn newest_checkpoint(path: &Path) -> Result<Option<Checkpoint>, AuditError> {
    let (folder, name) = match split_path(path, DirHandle::open) {
        Err(AuditError::Io { cause: Errno::NOENT, .. }) => return Ok(None),
        place => place?,
    };
    let Some(file) = folder.read(&name)? else { return Ok(None) };
    let failed = |cause| folder.error("read", &name, cause);
    let mut lines = ReverseLines::new(file.clone(), fstat_state(&file).map_err(failed)?.length);
    lines.skip_partial_line().map_err(failed)?;
    let Some(line) = lines.next_line().map_err(failed)? else { return Ok(None) };
    let newest = Checkpoint::parse(&line);
    newest.map(Some).ok_or_else(|| folder.damaged(&name, "its last line is not a checkpoint"))
}

fn find_contradiction(
    folder: &DirHandle,
    last: Option<ChainPosition>,
    seq: u64,
    hash: Sha256,
) -> Result<Option<String>, AuditError> {
    let rewritten = || Some(format!("record {seq} is another one"));
    match last {
        Some(last) if last.seq == seq => Ok(if last.hash == hash { None } else { rewritten() }),
        Some(last) if last.seq > seq => {
            let found = recorded_hash(folder, seq)?;
            Ok(if found == Some(hash) { None } else { rewritten() })
        }
        _ => {
            let end = last.map_or(0, |last| last.seq);
            Ok(Some(format!("record {seq} was signed, and the log ends after record {end}")))
        }
    }
}

/// The hash stored in the record with this number. Checkpoints are frequent, so it is near the end.
fn recorded_hash(folder: &DirHandle, seq: u64) -> Result<Option<Sha256>, AuditError> {
    for day in folder.days()?.into_iter().rev() {
        let Some((mut lines, _)) = open_reversed(folder, day)? else { continue };
        let name = day.file_name();
        while let Some(line) = lines.next_line().map_err(|cause| folder.error("read", &name, cause))? {
            match peek_link(&line) {
                Some((link, hash)) if link.seq == seq => return Ok(Some(hash)),
                Some((link, _)) if link.seq < seq => return Ok(None),
                _ => {}
            }
        }
    }
    Ok(None)
}
