//! Binds an approval to the changes that were shown.
//!
//! Before a person is asked, the tool predicts which files it would change and the digests before and after. After the approval, the recorder that
//! every change passes through compares these with the actual changes and refuses any other before it becomes visible (TOCTOU).

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use toolgate_types::digest::Sha256Hasher;
use toolgate_types::{Deadline, ErrorCode, Failure};
use toolgate_workspace::{
    ChangeKind, ContentDigest, JournalError, PlannedChange, Recorder, TransactionOutcome,
};

/// One file that a call would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedChange {
    /// The mount's alias.
    pub alias: String,
    /// The file, relative to the mount.
    pub location: PathBuf,
    /// The kind of change.
    pub kind: ChangeKind,
    /// Digest of the current content.
    pub before: Option<ContentDigest>,
    /// Digest of the new content.
    pub after: Option<ContentDigest>,
}

impl ExpectedChange {
    /// Hashes the file of a planned change. It is read from its start and rewound.
    ///
    /// # Errors
    /// The file cannot be read, or the call was cancelled.
    pub fn observe(planned: &PlannedChange<'_>, stop: &Deadline) -> io::Result<Self> {
        Ok(Self {
            alias: planned.alias.to_owned(),
            location: planned.location.to_path_buf(),
            kind: planned.kind.clone(),
            before: planned.before.map(|file| digest_content(file, stop)).transpose()?,
            after: planned.after,
        })
    }
}

/// Digest and size of a file's content. It is read from its start and rewound.
pub(crate) fn digest_content(mut file: &File, stop: &Deadline) -> io::Result<ContentDigest> {
    const CHUNK_BYTES: usize = 64 * 1024;
    file.rewind()?;
    let (mut hasher, mut bytes) = (Sha256Hasher::new(), 0);
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        stop.check().map_err(|_| io::Error::other("the call must end"))?;
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                hasher.update(buffer.get(..count).ok_or(io::ErrorKind::InvalidData)?);
                bytes += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    file.rewind()?;
    Ok(ContentDigest { sha256: hasher.finish(), bytes })
}

/// A recorder that lets only the approved changes pass.
pub(crate) struct ApprovedChangesGuard {
    recorder: Arc<dyn Recorder + Send + Sync>,
    expected: Vec<ExpectedChange>,
    violated: AtomicBool,
}

impl ApprovedChangesGuard {
    pub(crate) fn new(recorder: Arc<dyn Recorder + Send + Sync>, expected: Vec<ExpectedChange>) -> Self {
        Self { recorder, expected, violated: AtomicBool::new(false) }
    }

    fn is_expected(&self, changes: &[PlannedChange<'_>], stop: &Deadline) -> io::Result<bool> {
        let observed: Vec<ExpectedChange> = changes
            .iter()
            .map(|planned| ExpectedChange::observe(planned, stop))
            .collect::<io::Result<_>>()?;
        Ok(observed == self.expected)
    }

    /// Replaces a tool's failure if this guard caused it: the actual reason is that the files differ from what was approved.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        if !self.violated.load(Ordering::Acquire) {
            return failure;
        }
        Failure::new(
            ErrorCode::PreconditionFailed,
            "the files changed while the question was open, so nothing was changed",
        )
        .help("read the files again, then ask again")
    }
}

impl Recorder for ApprovedChangesGuard {
    fn record(&self, changes: &[PlannedChange<'_>], stop: &Deadline) -> Result<(), JournalError> {
        if self.is_expected(changes, stop).map_err(|error| error.to_string())? {
            return self.recorder.record(changes, stop);
        }
        self.violated.store(true, Ordering::Release);
        Err(JournalError::Failed("a person agreed to something else".to_owned()))
    }

    fn begin(&self) -> Result<(), JournalError> {
        self.recorder.begin()
    }

    fn await_intent(&self) -> Result<(), String> {
        self.recorder.await_intent()
    }

    fn settle(&self, settled: TransactionOutcome) {
        self.recorder.settle(settled);
    }
}
