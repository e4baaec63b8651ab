//! Verifies the log: every line unchanged, none added, removed or moved, and every checkpoint consistent.
//!
//! Verification only reads, and may run while processes append. It needs the directory, the checkpoints and, to prove more than a checksum, a public
//! key obtained from elsewhere.

mod duplicate_calls;
mod checkpoint_cursor;
mod report;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::io::Errno;
use toolgate_types::{CallId, Sha256};

use crate::directory::DirHandle;
use crate::line::{LineProblem, genesis, peek_link, verify_line};
use crate::line_reader::{LineReader, LineStatus};
use crate::log::default_checkpoints;
use crate::missed_calls::{self, MissedCalls};
use crate::record::{ChainLink, RecordedGap};
use crate::recovery::{self, Announced};
use crate::signed_head::{SignedHead, SignedHeadFile};
use crate::{AuditError, Day, PublicKey};
use checkpoint_cursor::CheckpointCursor;
use duplicate_calls::{CallBloomFilter, SuspectCalls};
pub use report::{CallGap, IntegrityProblem, IntegrityProblemKind, VerifyNote, VerifyReport};

/// Where a complete log may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChainStart {
    /// Only at the first record ever.
    #[default]
    Genesis,
    /// Also right after a checkpointed record, because older days were archived. The end of a day always has a checkpoint.
    Checkpoint,
}

/// Options of a verification.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// The checkpoint file; by default `checkpoints.jsonl` in the directory.
    pub checkpoints: Option<PathBuf>,
    /// The keys that checkpoints may be signed with. If empty, any key is accepted and the report notes it.
    pub trusted: Vec<PublicKey>,
    /// Where the log may start.
    pub start: ChainStart,
    /// The path of the signing key; beside it is the last signed record, which each start compares with the log. `None` skips that, as for a copy of
    /// a log.
    pub key: Option<PathBuf>,
}

/// Verifies the log in this directory.
///
/// # Errors
/// When a file cannot be read. A problem in the log is not an error but [`VerifyReport::problem`].
pub fn verify(directory: &Path, options: &VerifyOptions) -> Result<VerifyReport, AuditError> {
    let folder = DirHandle::open(directory)?;
    // Read before the records: a running process may record its gap in between, and then the id identifies it.
    let counted = missed_calls::read_all(&folder)?;
    let announced = recovery::announced(&folder)?;
    let (signed, is_unreadable) = read_signed_head(&folder, options)?;
    let path = options.checkpoints.clone().unwrap_or_else(|| default_checkpoints(directory));
    let cursor = CheckpointCursor::open(&path, &options.trusted)?;
    let days = folder.days()?;
    let bytes = days.iter().try_fold(0, |sum, day| {
        Ok::<u64, AuditError>(sum + folder.state(&day.file_name())?.map_or(0, |state| state.length))
    })?;
    let mut checking = ChainVerifier {
        directory: &folder,
        days: &days,
        start: options.start,
        cursor,
        calls: CallBloomFilter::new(bytes),
        announced: unarchived(announced, options.start, days.first()),
        last: None,
        last_signed: 0,
        signed,
        report: VerifyReport::default(),
    };
    checking.report.notes.extend(is_unreadable.then_some(VerifyNote::SignedNotCompared));
    let problem = match checking.run() {
        Ok(()) => None,
        Err(VerifyAbort::Problem(problem)) => Some(problem),
        Err(VerifyAbort::Failed(error)) => return Err(error),
    };
    counted.into_iter().for_each(|missed| checking.note_missed(missed));
    checking.into_report(problem, options)
}

/// The last signed record from beside the key, and whether this user may not read it.
fn read_signed_head(
    folder: &DirHandle,
    options: &VerifyOptions,
) -> Result<(Option<(SignedHead, PathBuf)>, bool), AuditError> {
    let Some(key) = &options.key else { return Ok((None, false)) };
    let file = SignedHeadFile::next_to_key(key, folder);
    match file.read() {
        Ok(signed) => Ok((signed.map(|signed| (signed, file.path)), false)),
        // The verifier may be another user than the signer.
        Err(AuditError::Io { cause: Errno::ACCESS, .. }) => Ok((None, true)),
        Err(error) => Err(error),
    }
}

/// Why verification ended early.
enum VerifyAbort {
    Problem(IntegrityProblem),
    Failed(AuditError),
}

impl From<AuditError> for VerifyAbort {
    fn from(error: AuditError) -> Self {
        Self::Failed(error)
    }
}

fn at(file: &Path, line: u64, kind: IntegrityProblemKind) -> VerifyAbort {
    VerifyAbort::Problem(IntegrityProblem { file: file.to_owned(), line, kind })
}

/// A line of a day's file.
#[derive(Clone, Copy)]
struct RecordLocation {
    day: Day,
    line: u64,
}

/// The last valid record.
#[derive(Clone, Copy)]
struct VerifiedRecord {
    seq: u64,
    hash: Sha256,
    location: RecordLocation,
}

struct ChainVerifier<'a> {
    directory: &'a DirHandle,
    days: &'a [Day],
    start: ChainStart,
    cursor: CheckpointCursor,
    calls: CallBloomFilter,
    /// Calls with an intent and no record so far, and whether their process is alive.
    announced: HashMap<CallId, bool>,
    last: Option<VerifiedRecord>,
    /// The last record covered by a checkpoint.
    last_signed: u64,
    /// The last signed record, and the file it was read from.
    signed: Option<(SignedHead, PathBuf)>,
    report: VerifyReport,
}

impl ChainVerifier<'_> {
    fn run(&mut self) -> Result<(), VerifyAbort> {
        for day in self.days {
            self.check_day(*day)?;
        }
        self.check_end()
    }

    fn check_day(&mut self, day: Day) -> Result<(), VerifyAbort> {
        let Some(mut lines) = LineReader::open(self.directory, &day.file_name())? else { return Ok(()) };
        loop {
            let step = lines.read_line()?;
            let place = RecordLocation { day, line: lines.number() };
            match step {
                LineStatus::End => return Ok(()),
                LineStatus::Partial => return self.check_partial_line(place),
                LineStatus::TooLong => return Err(self.problem(place, unparsable("it is too long"))),
                LineStatus::Complete => match self.check_record(lines.line(), place) {
                    Err(VerifyAbort::Problem(problem)) => return Err(self.explain(problem, &mut lines)?),
                    other => other?,
                },
            }
        }
    }

    fn check_record(&mut self, line: &[u8], place: RecordLocation) -> Result<(), VerifyAbort> {
        let (link, hash) = verify_line(line).map_err(|problem| {
            let kind = match problem {
                LineProblem::Unparsable(detail) => unparsable(&detail),
                LineProblem::Changed => IntegrityProblemKind::Changed,
            };
            self.problem(place, kind)
        })?;
        self.check_link(&link, place)?;
        if Day::of(link.timestamp) > place.day {
            return Err(self.problem(place, IntegrityProblemKind::WrongDay));
        }
        self.compare_checkpoints(link.seq, hash, place)?;
        if let Some((signed, _)) = &self.signed
            && signed.seq == link.seq
            && signed.hash != hash
        {
            return Err(self.contradiction(Some(place), link.seq));
        }
        self.accept(&link, VerifiedRecord { seq: link.seq, hash, location: place });
        Ok(())
    }

    fn accept(&mut self, link: &ChainLink, good: VerifiedRecord) {
        if self.last.is_none_or(|last| last.location.day != good.location.day) {
            self.report.days += 1;
        }
        self.calls.insert(link.trace_id);
        self.announced.remove(&link.trace_id);
        self.last = Some(good);
        self.report.records += 1;
        if let Some(gap) = link.gap {
            self.note_gap(gap, link.timestamp);
        }
        self.report.first_time.get_or_insert(link.timestamp);
        self.report.last_time = Some(link.timestamp);
    }

    /// Adds a gap, or the end of one, to the report.
    fn note_gap(&mut self, RecordedGap { id, since, calls }: RecordedGap, at: Timestamp) {
        let until = calls.map(|_| at);
        let gaps = &mut self.report.gaps;
        // Few processes have a gap at the same time: its start is among the last.
        match gaps.iter_mut().rev().find(|gap| gap.id == id) {
            Some(gap) => (gap.until, gap.calls) = (until, calls),
            None => gaps.push(CallGap { id, since, until, calls }),
        }
    }

    /// Adds missed calls that no gap record reports yet.
    fn note_missed(&mut self, MissedCalls { id, since, calls, .. }: MissedCalls) {
        let gaps = &mut self.report.gaps;
        match gaps.iter_mut().find(|gap| gap.id == id) {
            Some(gap) if gap.until.is_some() => {}
            Some(gap) => gap.calls = gap.calls.max(Some(calls)),
            None => gaps.push(CallGap { id, since, until: None, calls: Some(calls) }),
        }
    }

    /// Checks that a record directly follows the last valid one.
    fn check_link(&mut self, link: &ChainLink, place: RecordLocation) -> Result<(), VerifyAbort> {
        let (expected, prev) = match self.last {
            Some(last) => (last.seq.saturating_add(1), last.hash),
            None => self.expected_start(link)?,
        };
        let found = link.seq;
        let kind = match found.cmp(&expected) {
            Ordering::Equal if link.prev == prev => return Ok(()),
            Ordering::Equal => IntegrityProblemKind::Unlinked,
            Ordering::Less => IntegrityProblemKind::Repeated { expected, found },
            Ordering::Greater => IntegrityProblemKind::Missing { expected, found },
        };
        Err(self.problem(place, kind))
    }

    /// The sequence number and `prev` hash expected of the first record.
    fn expected_start(&mut self, link: &ChainLink) -> Result<(u64, Sha256), VerifyAbort> {
        let before = link.seq.saturating_sub(1);
        while self.start == ChainStart::Checkpoint
            && let Some((checkpoint, _)) = self.cursor.peek()?
            && checkpoint.seq <= before
        {
            self.cursor.advance();
            if checkpoint.seq == before {
                self.report.notes.push(VerifyNote::BeginsAtCheckpoint { seq: link.seq });
                return Ok((link.seq, checkpoint.hash));
            }
        }
        Ok((1, genesis()))
    }

    /// Compares this record with the checkpoints that cover it.
    fn compare_checkpoints(
        &mut self,
        seq: u64,
        hash: Sha256,
        place: RecordLocation,
    ) -> Result<(), VerifyAbort> {
        while let Some((checkpoint, number)) = self.cursor.peek()?
            && checkpoint.seq <= seq
        {
            if checkpoint.hash != hash || checkpoint.day != place.day {
                return Err(self.problem(place, IntegrityProblemKind::Rewritten { checkpoint: number }));
            }
            self.cursor.advance();
            self.last_signed = checkpoint.seq;
            self.report.checkpoints += 1;
        }
        Ok(())
    }

    /// A partial line at the very end is still being written. Anywhere else it is damage.
    fn check_partial_line(&mut self, place: RecordLocation) -> Result<(), VerifyAbort> {
        for later in self.days.iter().filter(|day| **day > place.day) {
            if self.directory.state(&later.file_name())?.is_some_and(|state| state.length > 0) {
                return Err(self.problem(place, IntegrityProblemKind::Unfinished));
            }
        }
        let file = self.directory.path_of(&place.day.file_name());
        self.report.notes.push(VerifyNote::UnfinishedLine { file, line: place.line });
        Ok(())
    }

    /// Examines the lines around missing records, to report more precisely what happened and where.
    fn explain(
        &mut self,
        problem: IntegrityProblem,
        lines: &mut LineReader,
    ) -> Result<VerifyAbort, VerifyAbort> {
        let IntegrityProblemKind::Missing { expected, found } = problem.kind else {
            return Ok(VerifyAbort::Problem(problem));
        };
        if lines.read_line()? == LineStatus::Complete
            && peek_link(lines.line()).is_some_and(|(link, _)| link.seq == expected)
        {
            return Ok(VerifyAbort::Problem(IntegrityProblem {
                kind: IntegrityProblemKind::Swapped,
                ..problem
            }));
        }
        if problem.line == 1
            && let Some((checkpoint, _)) = self.cursor.peek()?
            && checkpoint.seq < found
        {
            return Ok(self.missing_record(checkpoint.day, problem.kind));
        }
        Ok(VerifyAbort::Problem(problem))
    }

    /// After the last record: remaining checkpoints cover records that are missing.
    fn check_end(&mut self) -> Result<(), VerifyAbort> {
        let last = self.last.map_or(0, |last| last.seq);
        match self.cursor.peek()? {
            None => match &self.signed {
                Some((signed, _)) if signed.seq > last => {
                    Err(self.contradiction(self.location_after_last(), last))
                }
                _ => Ok(()),
            },
            Some((checkpoint, _)) => Err(self
                .missing_record(checkpoint.day, IntegrityProblemKind::Cut { last, vouched: checkpoint.seq })),
        }
    }

    /// Where the next record would be, if there is a file for it.
    fn location_after_last(&self) -> Option<RecordLocation> {
        let begun = || self.days.last().map(|newest| RecordLocation { day: *newest, line: 1 });
        self.last.map(|last| RecordLocation { line: last.location.line + 1, ..last.location }).or_else(begun)
    }

    fn contradiction(&self, place: Option<RecordLocation>, last: u64) -> VerifyAbort {
        let (signed, note) =
            self.signed.as_ref().map_or((0, PathBuf::new()), |(signed, note)| (signed.seq, note.clone()));
        let kind = IntegrityProblemKind::ContradictsSigned { last, signed, note };
        match place {
            Some(place) => self.problem(place, kind),
            None => at(self.directory.path(), 0, kind),
        }
    }

    /// Where a missing record of this day should be.
    fn missing_record(&self, day: Day, kind: IntegrityProblemKind) -> VerifyAbort {
        let kind = if self.days.contains(&day) { kind } else { IntegrityProblemKind::DayMissing };
        let line = self.last.filter(|last| last.location.day == day).map_or(1, |last| last.location.line + 1);
        self.problem(RecordLocation { day, line }, kind)
    }

    fn problem(&self, place: RecordLocation, kind: IntegrityProblemKind) -> VerifyAbort {
        at(&self.directory.path_of(&place.day.file_name()), place.line, kind)
    }

    fn into_report(
        self,
        problem: Option<IntegrityProblem>,
        options: &VerifyOptions,
    ) -> Result<VerifyReport, AuditError> {
        let mut report = self.report;
        report.last_seq = self.last.map(|last| last.seq);
        report.last_hash = self.last.map(|last| last.hash);
        report.records_after_checkpoint =
            report.last_seq.map_or(0, |last| report.records.min(last.saturating_sub(self.last_signed)));
        // After a problem, some records were not read.
        if problem.is_none() {
            report.announced_without_record = self.announced.len() as u64;
            report.announced_by_ended_gates =
                self.announced.values().filter(|is_running| !**is_running).count() as u64;
        }
        report.keys = self.cursor.keys;
        if report.keys.is_empty() && problem.is_none() {
            report.notes.push(VerifyNote::NoCheckpoints);
        } else if options.trusted.is_empty() {
            report.notes.push(VerifyNote::KeyNotPinned);
        }
        let repeated = match self.calls.into_suspects() {
            Some(suspects) => find_duplicate(self.directory, self.days, report.records, suspects)?,
            None => None,
        };
        report.problem = repeated.or(problem);
        Ok(report)
    }
}

/// Omits calls whose record may be in an archived day.
fn unarchived(announced: Vec<Announced>, start: ChainStart, first: Option<&Day>) -> HashMap<CallId, bool> {
    let is_here = |announced: &Announced| {
        let since = announced.intent.since.as_ref().and_then(|day| day.parse::<Day>().ok());
        start == ChainStart::Genesis || since.as_ref() >= first
    };
    let here = announced.into_iter().filter(is_here);
    here.map(|announced| (announced.intent.call, announced.is_running)).collect()
}

fn unparsable(detail: &str) -> IntegrityProblemKind {
    IntegrityProblemKind::Unparsable { detail: detail.to_owned() }
}

/// The first valid record whose call already has one.
fn find_duplicate(
    folder: &DirHandle,
    days: &[Day],
    records: u64,
    mut suspects: SuspectCalls,
) -> Result<Option<IntegrityProblem>, AuditError> {
    let mut left = records;
    for day in days {
        let name = day.file_name();
        let Some(mut lines) = LineReader::open(folder, &name)? else { continue };
        while left > 0 && lines.read_line()? == LineStatus::Complete {
            left -= 1;
            let Ok(link) = serde_json::from_slice::<ChainLink>(lines.line()) else { continue };
            let line = lines.number();
            if let Some((first_day, first_line)) = suspects.seen_before(link.trace_id, *day, line) {
                let kind = IntegrityProblemKind::SecondRecord {
                    call: link.trace_id,
                    day: first_day,
                    line: first_line,
                };
                return Ok(Some(IntegrityProblem { file: folder.path_of(&name), line, kind }));
            }
        }
    }
    Ok(None)
}
