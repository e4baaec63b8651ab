//! The log as a process uses it: append records, write intents, close.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use toolgate_types::{CallId, ChangeFate, StateKey};

use crate::checkpoint::CheckpointSigner;
use crate::directory::DirHandle;
use crate::dirty_files::DirtyFile;
use crate::entry::{AuditEntry, Intent};
use crate::gap_tracker::GapTracker;
use crate::group_commit::{self, FlushResult, GroupCommit, QueuedRecord};
use crate::intents::IntentLog;
use crate::line::to_json;
use crate::missed_calls::{MissedCalls, MissedFile};
use crate::record::RecordedIntent;
use crate::record_body::RecordBody;
use crate::recovery::{AuditRecovery, recover};
use crate::ticket::{Ticket, TicketKind};
use crate::write_group::{GroupedRecord, GroupedWrite, WriteGroups};
use crate::writer::{AppendResult, ChainPosition, LogWriter};
use crate::{AuditError, AuditWarning, DetailsKey, lock};

/// The clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
/// Receives problems that did not stop the operation.
pub type WarningSink = Arc<dyn Fn(AuditWarning) + Send + Sync>;

/// Looks up what became of the changes of a call that a dead process left.
pub type ChangeFateLookup = Arc<dyn Fn(CallId) -> ChangeFate + Send + Sync>;

/// The name of the checkpoint file in the audit directory.
const CHECKPOINTS_NAME: &str = "checkpoints.jsonl";
/// Default timeout for the directory lock. The lock is held while a day's last records are synced, which may take seconds on a slow disk.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the log is and how often it is signed.
#[derive(Clone)]
pub struct LogOptions {
    /// The directory of the day files, created if missing.
    pub directory: PathBuf,
    /// The checkpoint file; by default `checkpoints.jsonl` in the directory. Stored elsewhere, it protects against an attacker who can change the
    /// directory.
    pub checkpoints: Option<PathBuf>,
    /// The signing key, created when first needed; by default `keys/audit.key` beside the directory.
    pub key: Option<PathBuf>,
    /// The key that details are encrypted with, created when first needed; `None` records them in clear.
    pub details_key: Option<PathBuf>,
    /// Number of records between two checkpoints.
    pub checkpoint_every: u64,
    /// Timeout for the directory lock, which all processes sharing the directory take.
    pub lock_timeout: Duration,
    /// The clock.
    pub clock: Clock,
    /// Receives problems that did not stop the operation.
    pub warn: WarningSink,
    /// Called for each call that is recorded on behalf of a dead process.
    pub fate_of: ChangeFateLookup,
}

impl LogOptions {
    /// The defaults, for a log in this directory.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            checkpoints: None,
            key: None,
            details_key: None,
            checkpoint_every: 256,
            lock_timeout: LOCK_TIMEOUT,
            clock: Arc::new(Timestamp::now),
            warn: Arc::new(|_| ()),
            fate_of: Arc::new(|_| ChangeFate::NoEntry),
        }
    }

    /// The path of the checkpoint file.
    #[must_use]
    pub fn checkpoints_path(&self) -> PathBuf {
        self.checkpoints.clone().unwrap_or_else(|| default_checkpoints(&self.directory))
    }

    /// The path of the signing key.
    #[must_use]
    pub fn key_path(&self) -> PathBuf {
        self.key.clone().unwrap_or_else(|| default_key(&self.directory))
    }
}

impl fmt::Debug for LogOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LogOptions")
            .field("directory", &self.directory)
            .field("checkpoints", &self.checkpoints_path())
            .field("key", &self.key_path())
            .field("checkpoint_every", &self.checkpoint_every)
            .finish_non_exhaustive()
    }
}

/// The default path of a directory's checkpoint file.
pub(crate) fn default_checkpoints(directory: &Path) -> PathBuf {
    directory.join(CHECKPOINTS_NAME)
}

/// The default path of a directory's signing key.
fn default_key(directory: &Path) -> PathBuf {
    directory.parent().unwrap_or(Path::new("..")).join("keys/audit.key")
}

/// State shared by the log, its tickets and its worker.
pub(crate) struct LogInner {
    pub(crate) directory: DirHandle,
    pub(crate) writer: Mutex<LogWriter>,
    /// Group commit of records.
    pub(crate) record_commit: GroupCommit,
    /// Group commit of intents. Separate, so that waiting for an intent does not include syncing records that may have no waiter.
    intent_commit: GroupCommit,
    /// Records of calls that end together.
    write_groups: WriteGroups,
    intents: Mutex<IntentLog>,
    checkpoints: Mutex<CheckpointSigner>,
    /// Calls that could not be recorded.
    gap: GapTracker,
    checkpoint_every: u64,
    /// Keys the digests in records.
    digest_key: StateKey,
    /// Encrypts the details in records and intents, if the operator wants that.
    details_key: Option<DetailsKey>,
    clock: Clock,
    warn: WarningSink,
}

impl LogInner {
    fn open(options: &LogOptions, key: &StateKey) -> Result<Self, AuditError> {
        let folder = DirHandle::open_or_create(&options.directory)?;
        let mut writer = LogWriter::open(folder.clone(), (options.clock)(), options.lock_timeout)?;
        let checkpoints = CheckpointSigner::new(options.checkpoints_path(), options.key_path(), &folder);
        let details_key = options.details_key.as_deref().map(DetailsKey::read_or_create).transpose()?;
        writer.with_lock(|writer| {
            writer.refresh((options.clock)())?;
            checkpoints.verify_log(&folder, writer.last())
        })?;
        Ok(Self {
            intents: Mutex::new(IntentLog::new(folder.clone())),
            directory: folder,
            writer: Mutex::new(writer),
            record_commit: GroupCommit::default(),
            intent_commit: GroupCommit::default(),
            write_groups: WriteGroups::default(),
            checkpoints: Mutex::new(checkpoints),
            gap: GapTracker::default(),
            checkpoint_every: options.checkpoint_every.max(1),
            digest_key: key.clone(),
            details_key,
            clock: options.clock.clone(),
            warn: options.warn.clone(),
        })
    }

    /// The part of a record that is known before its position in the chain.
    fn encode(&self, entry: &AuditEntry<'_>) -> Result<Vec<u8>, AuditError> {
        RecordBody::new(entry, (&self.digest_key, self.details_key.as_ref()))?.encode()
    }

    /// Appends the record of a call and returns its commit number.
    pub(crate) fn append_body(self: &Arc<Self>, call: CallId, body: &[u8]) -> Result<u64, AuditError> {
        self.append_bodies(std::iter::once((call, body)))
    }

    /// Appends the records of calls that ended together.
    pub(crate) fn append_group(self: &Arc<Self>, records: &[GroupedRecord]) -> Result<(), AuditError> {
        let written = self.append_bodies(records.iter().map(|record| (record.call, record.body.as_slice())));
        written.map(drop).map_err(|error| self.count_missed(records.iter().map(|record| record.call), error))
    }

    /// A record of a group whose calls are gone could not be written.
    pub(crate) fn report_not_written(&self, error: AuditError) {
        (self.warn)(AuditWarning::NotWritten { records: 1, error });
    }

    fn append_bodies<'a>(
        self: &Arc<Self>,
        records: impl Iterator<Item = (CallId, &'a [u8])> + Clone,
    ) -> Result<u64, AuditError> {
        let FlushResult { dirty: unsynced, due_checkpoints: due, .. } =
            self.write_calls(records.clone().map(|(_, body)| body))?;
        let number = self.record_commit.issue(unsynced.into_iter().flatten());
        {
            let mut intents = lock(&self.intents);
            records.for_each(|(call, _)| intents.call_recorded(call, number));
        }
        for mark in due {
            self.ensure_worker(TicketKind::Record);
            self.record_commit.schedule_checkpoint(number, mark);
        }
        Ok(number)
    }

    /// Writes call records, preceded by the gap record if a gap is open.
    fn write_calls<'a>(&self, bodies: impl IntoIterator<Item = &'a [u8]>) -> Result<FlushResult, AuditError> {
        self.gap.end(|gap| {
            self.write_records(gap.into_iter().chain(bodies.into_iter().map(|body| body as &[u8])))
        })
    }

    /// Counts calls whose record could not be written, except those with an intent. Returns the error for their callers.
    fn count_missed(&self, calls: impl Iterator<Item = CallId>, error: AuditError) -> AuditError {
        let calls = {
            let intents = lock(&self.intents);
            calls.filter(|call| !intents.is_open(*call)).count()
        };
        if calls == 0 {
            return error;
        }
        let begin = || {
            let day = lock(&self.writer).day().map(|day| day.to_string());
            MissedCalls::new((self.clock)(), day, &error)
        };
        match self.gap.add(calls as u64, begin, || self.make_missed_file()) {
            Ok(()) => error,
            Err(uncounted) => AuditError::Untraced { error: error.into(), uncounted: uncounted.into() },
        }
    }

    fn make_missed_file(&self) -> Result<MissedFile, AuditError> {
        lock(&self.writer).with_lock(|_| MissedFile::create(&self.directory))
    }

    /// Writes the gap record, if a gap is open.
    fn close_gap(&self) -> Result<(), AuditError> {
        if !self.gap.is_open() {
            return Ok(());
        }
        let FlushResult { dirty: unsynced, .. } = self.write_calls([])?;
        self.record_commit.issue(unsynced.into_iter().flatten());
        Ok(())
    }

    /// Writes the gap record of a dead process.
    pub(crate) fn write_gap(&self, missed: &MissedCalls) -> Result<(), AuditError> {
        let FlushResult { dirty: unsynced, .. } = self.write_records([&*missed.encode()?])?;
        self.record_commit.issue(unsynced.into_iter().flatten());
        Ok(())
    }

    /// Writes lines, and returns what must be synced and which checkpoints are due.
    fn write_records<'a>(
        &self,
        bodies: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<FlushResult, AuditError> {
        let (result, unfinished) = {
            let mut writer = lock(&self.writer);
            (writer.append(bodies, &*self.clock), writer.take_truncated())
        };
        if let Some((day, bytes)) = unfinished {
            (self.warn)(AuditWarning::UnfinishedLine {
                path: self.directory.path_of(&day.file_name()),
                bytes,
            });
        }
        let AppendResult { first, last, file, opened, rotated } = result?;
        let is_due = (first - 1) / self.checkpoint_every != last.seq / self.checkpoint_every;
        // Usually empty, and an empty `Vec` does not allocate.
        let mut due = Vec::new();
        due.extend(rotated);
        due.extend(is_due.then_some(last));
        let folder = opened.then(|| DirtyFile::Directory(self.directory.handle().clone()));
        Ok(FlushResult { dirty: [Some(DirtyFile::File(file)), folder], due_checkpoints: due, rejected: None })
    }

    /// The group commit for this kind of ticket.
    pub(crate) fn commit_for(&self, kind: TicketKind) -> &GroupCommit {
        match kind {
            TicketKind::Record | TicketKind::Queued => &self.record_commit,
            TicketKind::Intent => &self.intent_commit,
        }
    }

    pub(crate) fn ensure_worker(self: &Arc<Self>, kind: TicketKind) {
        self.commit_for(kind).ensure_worker(&**self, || {
            let shared = Arc::clone(self);
            let builder = std::thread::Builder::new().name("audit-sync".to_owned());
            builder.spawn(move || shared.commit_for(kind).run_worker(&*shared))
        });
    }

    fn sign(&self, mark: ChainPosition) -> Result<(), AuditError> {
        // If the directory was deleted, a checkpoint written by path into a new one would contradict the log that the next start begins there.
        self.directory.check_in_place()?;
        lock(&self.checkpoints).sign_checkpoint(mark, (self.clock)(), &self.writer)
    }

    fn close(self: &Arc<Self>) -> Result<(), AuditError> {
        let grouped = self.write_groups.close(self);
        self.intent_commit.close();
        self.record_commit.close();
        let gap = self.close_gap();
        let counted = self.gap.close();
        let own_last = lock(&self.writer).own_last();
        let signed = own_last.map_or(Ok(()), |mark| self.sign(mark));
        // Without holding the intents' lock: a sync round may need it.
        let last_outcome = lock(&self.intents).last_outcome();
        let synced = self.record_commit.wait(last_outcome, &**self);
        let tidied = lock(&self.intents).close(&self.intent_commit, |_| synced.is_ok());
        grouped.and(gap).and(counted).and(signed).and(synced).and(tidied)
    }
}

impl group_commit::CommitBackend for LogInner {
    fn flush(&self, queue: &[QueuedRecord]) -> FlushResult {
        match self.write_calls(queue.iter().map(|queued| queued.body.as_slice())) {
            Ok(flushed) => {
                let mut intents = lock(&self.intents);
                queue.iter().for_each(|queued| intents.call_recorded(queued.call, queued.number));
                flushed
            }
            Err(error) => {
                let error = self.count_missed(queue.iter().map(|queued| queued.call), error);
                (self.warn)(AuditWarning::NotWritten { records: queue.len(), error: error.clone() });
                FlushResult { rejected: Some(error), ..FlushResult::default() }
            }
        }
    }

    fn sign_checkpoint(&self, mark: ChainPosition) {
        if let Err(error) = self.sign(mark) {
            (self.warn)(AuditWarning::Checkpoint(error));
        }
    }

    fn report_not_durable(&self, error: &AuditError) {
        (self.warn)(AuditWarning::NotDurable(error.clone()));
    }
}

/// The append-only log of all calls.
///
/// Any number of threads and processes may open a log in the same directory.
pub struct AuditLog {
    shared: Arc<LogInner>,
    closed: bool,
}

impl AuditLog {
    /// Opens the log and writes the records of calls that a dead process left. The digests in records are keyed with `key`: 32 random bytes, stored
    /// where only this user can read them.
    ///
    /// # Errors
    /// When the directory cannot be created or written, or ends in a line that is not a record.
    pub fn open(options: LogOptions, key: &StateKey) -> Result<(Self, AuditRecovery), AuditError> {
        let shared = Arc::new(LogInner::open(&options, key)?);
        let unfinished = lock(&shared.writer).take_truncated();
        let mut recovered = recover(&shared, &*options.fate_of)?;
        recovered.truncated_bytes = unfinished.map_or(0, |(_, bytes)| bytes);
        // A disk too full for this file may have room for records; it is retried when a call is missed.
        let _ = shared.gap.prepare(|| shared.make_missed_file());
        Ok((Self { shared, closed: false }, recovered))
    }

    /// Appends the record of a call. When this returns, the line is written and survives a crash of this process; when the ticket is settled, it
    /// survives a power failure.
    ///
    /// # Errors
    /// When the line could not be written; then no part of it is left, and the call is counted as one without a record. [`AuditError::Untraced`] if
    /// it could not be counted either.
    pub fn append(&self, entry: &AuditEntry<'_>) -> Result<Ticket, AuditError> {
        let body = self.shared.encode(entry);
        let written = body.and_then(|body| self.shared.append_body(entry.call, &body));
        // A record of counted refusals represents all of them.
        let calls = usize::try_from(entry.denial.map_or(1, |denial| denial.count)).unwrap_or(usize::MAX);
        let calls = std::iter::repeat_n(entry.call, calls);
        let number = written.map_err(|error| self.shared.count_missed(calls, error))?;
        Ok(Ticket::new(Arc::clone(&self.shared), TicketKind::Record, number))
    }

    /// Appends the record of a call together with those of other calls on this thread that end with it: when the result is awaited, it is as durable
    /// as with [`AuditLog::append`]. Several times cheaper for each of many calls, and dearer for one alone.
    ///
    /// # Errors
    /// When the record cannot be encoded as JSON. A write error is the result of the future.
    pub fn append_grouped(&self, entry: &AuditEntry<'_>) -> Result<GroupedWrite, AuditError> {
        let body = self
            .shared
            .encode(entry)
            .map_err(|error| self.shared.count_missed([entry.call].into_iter(), error))?;
        let group = self.shared.write_groups.join(GroupedRecord { call: entry.call, body });
        Ok(GroupedWrite::new(Arc::clone(&self.shared), group))
    }

    /// Queues the record of a call: the next group-commit round writes and syncs all queued records together. For callers that wait for the disk
    /// anyway, this is several times cheaper than [`AuditLog::append`]. Until the ticket is settled, the record may be lost with the process. A write
    /// error is reported by the ticket.
    ///
    /// # Errors
    /// When the record cannot be encoded as JSON.
    pub fn submit(&self, entry: &AuditEntry<'_>) -> Result<Ticket, AuditError> {
        let body = self
            .shared
            .encode(entry)
            .map_err(|error| self.shared.count_missed([entry.call].into_iter(), error))?;
        let (number, has_worker) = self.shared.record_commit.enqueue(entry.call, body);
        if !has_worker {
            self.shared.ensure_worker(TicketKind::Record);
        }
        Ok(Ticket::new(Arc::clone(&self.shared), TicketKind::Queued, number))
    }

    /// Writes the intent of a call that is going to change something. The effect must not start before the ticket is settled. The call's record,
    /// added with [`AuditLog::append`], completes the intent.
    ///
    /// # Errors
    /// When the intent could not be written.
    pub fn intent(&self, intent: &Intent<'_>) -> Result<Ticket, AuditError> {
        let shared = &self.shared;
        let now = (shared.clock)();
        // A call whose record could not be written must not start.
        shared.record_commit.failure().map_or(Ok(()), Err)?;
        let since = lock(&shared.writer).check(now)?.map(|day| day.to_string());
        let keys = (&shared.digest_key, shared.details_key.as_ref());
        let mut line = to_json(&RecordedIntent::new(intent, now, since, keys)?)?;
        line.push(b'\n');
        let (records, announcements) = (&shared.record_commit, &shared.intent_commit);
        let number = lock(&shared.intents).add(intent.call, &line, &shared.writer, records, announcements)?;
        Ok(Ticket::new(Arc::clone(shared), TicketKind::Intent, number))
    }

    /// Signs a last checkpoint over what this log appended, and removes its intents if all their calls have ended. Dropping the log does the same,
    /// and reports errors to the `warn` hook.
    ///
    /// # Errors
    /// When the checkpoint could not be signed or the intents could not be removed; every record is kept.
    pub fn close(mut self) -> Result<(), AuditError> {
        self.closed = true;
        self.shared.close()
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        if !self.closed
            && let Err(error) = self.shared.close()
        {
            (self.shared.warn)(AuditWarning::Closing(error));
        }
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AuditLog")
            .field("directory", &self.shared.directory.path_of(""))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use toolgate_types::{Caller, Sha256, ToolClass};

    use super::*;

    fn alice() -> Caller {
        let (subject, session) = ("alice".to_owned(), "s1".parse().unwrap());
        let trust = toolgate_types::Trust::Guided;
        Caller { subject, permissions: [].into(), agent: None, session, run: None, trust }
    }

    #[test]
    fn nothing_is_announced_once_records_do_not_last() {
        let folder = tempfile::tempdir().unwrap();
        let (log, _) =
            AuditLog::open(LogOptions::new(folder.path().join("audit")), &StateKey::new([7; 32])).unwrap();
        let caller = alice();
        let announced = || {
            let (call, args_hash) = (CallId::fresh(), Sha256::of(b"{}"));
            let (tool, class) = ("write_file", ToolClass::Write);
            let (client_call_id, version) = (None, None);
            log.intent(&Intent {
                call,
                client_call_id,
                caller: &caller,
                tool,
                class,
                version,
                args_hash,
                grant: None,
                details: None,
            })
        };
        announced().unwrap().wait().unwrap();
        // `fdatasync` fails on a pipe.
        let (reader, _) = std::io::pipe().unwrap();
        let number =
            log.shared.record_commit.issue([DirtyFile::File(Arc::new(OwnedFd::from(reader).into()))]);
        assert!(log.shared.record_commit.wait(number, &*log.shared).is_err());
        assert!(matches!(announced(), Err(AuditError::NotDurable { .. })));
    }

    #[test]
    fn a_disk_that_does_not_confirm_is_told_of_although_nobody_waits() {
        let folder = tempfile::tempdir().unwrap();
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&told);
        let warn: WarningSink = Arc::new(move |warning| lock(&heard).push(warning.to_string()));
        let options =
            LogOptions { checkpoint_every: 2, warn, ..LogOptions::new(folder.path().join("audit")) };
        let (log, _) = AuditLog::open(options, &StateKey::new([7; 32])).unwrap();
        let (reader, _) = std::io::pipe().unwrap();
        log.shared.record_commit.issue([DirtyFile::File(Arc::new(OwnedFd::from(reader).into()))]);
        let caller = alice();
        for _ in 0..6 {
            let entry = AuditEntry {
                call: CallId::fresh(),
                client_call_id: None,
                caller: &caller,
                tool: "read_file",
                class: Some(ToolClass::Read),
                version: None,
                args_hash: Sha256::of(b"{}"),
                changed_from: None,
                escalation: &[],
                repairs: &[],
                grant: None,
                denial: None,
                response: None,
                details: None,
                flow: None,
                duration: Duration::ZERO,
                waited: Duration::ZERO,
            };
            // As `on_failure: warn` does.
            drop(log.append(&entry).unwrap());
        }
        // Closing the log waits for the worker.
        let _ = log.close();
        let told = lock(&told);
        let not_durable = told.iter().filter(|words| words.starts_with("what was recorded last may be lost"));
        assert_eq!(not_durable.count(), 1, "{told:?}");
    }
}
