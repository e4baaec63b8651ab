//! Checks that the log is whole: every line as it was written, none added, removed or moved, and every
//! checkpoint in agreement.
//!
//! A check reads and never writes. It may run while processes add records. It needs the directory, the
//! checkpoints and, to be worth more than a checksum, a public key that came from elsewhere.

mod calls;
mod cursor;
mod report;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::io::Errno;
use toolgate_types::{CallId, Sha256};

use crate::folder::Folder;
use crate::line::{LineProblem, check, genesis, glance};
use crate::lines::{Lines, Step};
use crate::log::default_checkpoints;
use crate::missed::{self, Missed};
use crate::record::{Link, RecordedGap};
use crate::recovery::{self, Announced};
use crate::signed::{Signed, SignedFile};
use crate::{AuditError, Day, PublicKey};
use calls::{Calls, Suspects};
use cursor::Cursor;
pub use report::{Gap, Note, Problem, ProblemKind, Report};

/// Where a whole log may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// With the first record ever.
    #[default]
    Genesis,
    /// Also with a record right after one that a checkpoint vouches for, because older days were archived.
    /// There is always such a checkpoint at the end of a day.
    Checkpoint,
}

/// How to check.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// The file of checkpoints; by default `checkpoints.jsonl` in the directory.
    pub checkpoints: Option<PathBuf>,
    /// The keys that checkpoints may be signed with. Empty means any, which a report notes.
    pub trusted: Vec<PublicKey>,
    /// Where the log may begin.
    pub start: Start,
    /// The signing key's path: beside it is noted what was signed last, which each start compares the log with. `None` leaves that out, as for a copy.
    pub key: Option<PathBuf>,
}

/// Checks the log in this directory.
///
/// # Errors
/// When a file cannot be read. What is wrong with the log is not an error but [`Report::problem`].
pub fn verify(directory: &Path, options: &VerifyOptions) -> Result<Report, AuditError> {
    let folder = Folder::open(directory)?;
    // Before the records: what a running process counts here may be recorded by then, and is told apart by its id.
    let counted = missed::all(&folder)?;
    let announced = recovery::announced(&folder)?;
    let (signed, is_unreadable) = noted(&folder, options)?;
    let path = options.checkpoints.clone().unwrap_or_else(|| default_checkpoints(directory));
    let cursor = Cursor::open(&path, &options.trusted)?;
    let days = folder.days()?;
    let bytes = days.iter().try_fold(0, |sum, day| {
        Ok::<u64, AuditError>(sum + folder.state(&day.file_name())?.map_or(0, |state| state.length))
    })?;
    let mut checking = Check {
        folder: &folder,
        days: &days,
        start: options.start,
        cursor,
        calls: Calls::new(bytes),
        announced: unarchived(announced, options.start, days.first()),
        last: None,
        vouched: 0,
        signed,
        report: Report::default(),
    };
    checking.report.notes.extend(is_unreadable.then_some(Note::SignedNotCompared));
    let problem = match checking.run() {
        Ok(()) => None,
        Err(Stop::Problem(problem)) => Some(problem),
        Err(Stop::Failed(error)) => return Err(error),
    };
    counted.into_iter().for_each(|missed| checking.counted(missed));
    checking.into_report(problem, options)
}

/// What is noted beside the key as signed last, and whether this user may not read it.
fn noted(folder: &Folder, options: &VerifyOptions) -> Result<(Option<(Signed, PathBuf)>, bool), AuditError> {
    let Some(key) = &options.key else { return Ok((None, false)) };
    let file = SignedFile::beside(key, folder);
    match file.read() {
        Ok(signed) => Ok((signed.map(|signed| (signed, file.path)), false)),
        // Who checks need not be who signs.
        Err(AuditError::Io { cause: Errno::ACCESS, .. }) => Ok((None, true)),
        Err(error) => Err(error),
    }
}

/// Why a check ended early.
enum Stop {
    Problem(Problem),
    Failed(AuditError),
}

impl From<AuditError> for Stop {
    fn from(error: AuditError) -> Self {
        Self::Failed(error)
    }
}

fn at(file: &Path, line: u64, kind: ProblemKind) -> Stop {
    Stop::Problem(Problem { file: file.to_owned(), line, kind })
}

/// A line of a day's file.
#[derive(Clone, Copy)]
struct Place {
    day: Day,
    line: u64,
}

/// The last good record.
#[derive(Clone, Copy)]
struct Good {
    seq: u64,
    hash: Sha256,
    place: Place,
}

struct Check<'a> {
    folder: &'a Folder,
    days: &'a [Day],
    start: Start,
    cursor: Cursor,
    calls: Calls,
    /// Calls that were announced and of which no record was read yet, and whether their process lives.
    announced: HashMap<CallId, bool>,
    last: Option<Good>,
    /// The last record that a checkpoint vouched for.
    vouched: u64,
    /// What was signed last, and the file that says so.
    signed: Option<(Signed, PathBuf)>,
    report: Report,
}

impl Check<'_> {
    fn run(&mut self) -> Result<(), Stop> {
        for day in self.days {
            self.day(*day)?;
        }
        self.end()
    }

    fn day(&mut self, day: Day) -> Result<(), Stop> {
        let Some(mut lines) = Lines::open(self.folder, &day.file_name())? else { return Ok(()) };
        loop {
            let step = lines.step()?;
            let place = Place { day, line: lines.number() };
            match step {
                Step::End => return Ok(()),
                Step::Unfinished => return self.unfinished(place),
                Step::TooLong => return Err(self.problem(place, unparsable("it is too long"))),
                Step::Whole => match self.record(lines.bytes(), place) {
                    Err(Stop::Problem(problem)) => return Err(self.explain(problem, &mut lines)?),
                    other => other?,
                },
            }
        }
    }

    fn record(&mut self, line: &[u8], place: Place) -> Result<(), Stop> {
        let (link, hash) = check(line).map_err(|problem| {
            let kind = match problem {
                LineProblem::Unparsable(detail) => unparsable(&detail),
                LineProblem::Changed => ProblemKind::Changed,
            };
            self.problem(place, kind)
        })?;
        self.follows(&link, place)?;
        if Day::of(link.timestamp) > place.day {
            return Err(self.problem(place, ProblemKind::WrongDay));
        }
        self.compare_checkpoints(link.seq, hash, place)?;
        if let Some((signed, _)) = &self.signed
            && signed.seq == link.seq
            && signed.hash != hash
        {
            return Err(self.contradiction(Some(place), link.seq));
        }
        self.accept(&link, Good { seq: link.seq, hash, place });
        Ok(())
    }

    fn accept(&mut self, link: &Link, good: Good) {
        if self.last.is_none_or(|last| last.place.day != good.place.day) {
            self.report.days += 1;
        }
        self.calls.add(link.trace_id);
        self.announced.remove(&link.trace_id);
        self.last = Some(good);
        self.report.records += 1;
        if let Some(gap) = link.gap {
            self.gap(gap, link.timestamp);
        }
        self.report.first_time.get_or_insert(link.timestamp);
        self.report.last_time = Some(link.timestamp);
    }

    /// Takes down a gap, or the end of one.
    fn gap(&mut self, RecordedGap { id, since, calls }: RecordedGap, at: Timestamp) {
        let until = calls.map(|_| at);
        let gaps = &mut self.report.gaps;
        // Few processes have a gap at the same time: the beginning is among the last.
        match gaps.iter_mut().rev().find(|gap| gap.id == id) {
            Some(gap) => (gap.until, gap.calls) = (until, calls),
            None => gaps.push(Gap { id, since, until, calls }),
        }
    }

    /// Takes down calls without a record that the record itself does not speak of yet.
    fn counted(&mut self, Missed { id, since, calls, .. }: Missed) {
        let gaps = &mut self.report.gaps;
        match gaps.iter_mut().find(|gap| gap.id == id) {
            Some(gap) if gap.until.is_some() => {}
            Some(gap) => gap.calls = gap.calls.max(Some(calls)),
            None => gaps.push(Gap { id, since, until: None, calls: Some(calls) }),
        }
    }

    /// Whether a record comes right after the last good one.
    fn follows(&mut self, link: &Link, place: Place) -> Result<(), Stop> {
        let (expected, prev) = match self.last {
            Some(last) => (last.seq.saturating_add(1), last.hash),
            None => self.beginning(link)?,
        };
        let found = link.seq;
        let kind = match found.cmp(&expected) {
            Ordering::Equal if link.prev == prev => return Ok(()),
            Ordering::Equal => ProblemKind::Unlinked,
            Ordering::Less => ProblemKind::Repeated { expected, found },
            Ordering::Greater => ProblemKind::Missing { expected, found },
        };
        Err(self.problem(place, kind))
    }

    /// What the first record must be, and what it must name as its predecessor.
    fn beginning(&mut self, link: &Link) -> Result<(u64, Sha256), Stop> {
        let before = link.seq.saturating_sub(1);
        while self.start == Start::Checkpoint
            && let Some((checkpoint, _)) = self.cursor.peek()?
            && checkpoint.seq <= before
        {
            self.cursor.advance();
            if checkpoint.seq == before {
                self.report.notes.push(Note::BeginsAtCheckpoint { seq: link.seq });
                return Ok((link.seq, checkpoint.hash));
            }
        }
        Ok((1, genesis()))
    }

    /// Compares what checkpoints say about this record, if any do.
    fn compare_checkpoints(&mut self, seq: u64, hash: Sha256, place: Place) -> Result<(), Stop> {
        while let Some((checkpoint, number)) = self.cursor.peek()?
            && checkpoint.seq <= seq
        {
            if checkpoint.hash != hash || checkpoint.day != place.day {
                return Err(self.problem(place, ProblemKind::Rewritten { checkpoint: number }));
            }
            self.cursor.advance();
            self.vouched = checkpoint.seq;
            self.report.checkpoints += 1;
        }
        Ok(())
    }

    /// An unfinished line at the very end is one that was being written. Anywhere else somebody broke it off.
    fn unfinished(&mut self, place: Place) -> Result<(), Stop> {
        for later in self.days.iter().filter(|day| **day > place.day) {
            if self.folder.state(&later.file_name())?.is_some_and(|state| state.length > 0) {
                return Err(self.problem(place, ProblemKind::Unfinished));
            }
        }
        let file = self.folder.path_of(&place.day.file_name());
        self.report.notes.push(Note::UnfinishedLine { file, line: place.line });
        Ok(())
    }

    /// Looks at what surrounds missing records, to say more exactly what happened and where.
    fn explain(&mut self, problem: Problem, lines: &mut Lines) -> Result<Stop, Stop> {
        let ProblemKind::Missing { expected, found } = problem.kind else {
            return Ok(Stop::Problem(problem));
        };
        if lines.step()? == Step::Whole && glance(lines.bytes()).is_some_and(|(link, _)| link.seq == expected)
        {
            return Ok(Stop::Problem(Problem { kind: ProblemKind::Swapped, ..problem }));
        }
        if problem.line == 1
            && let Some((checkpoint, _)) = self.cursor.peek()?
            && checkpoint.seq < found
        {
            return Ok(self.gone(checkpoint.day, problem.kind));
        }
        Ok(Stop::Problem(problem))
    }

    /// After the last record: checkpoints that are left vouch for records that are not there.
    fn end(&mut self) -> Result<(), Stop> {
        let last = self.last.map_or(0, |last| last.seq);
        match self.cursor.peek()? {
            None => match &self.signed {
                Some((signed, _)) if signed.seq > last => {
                    Err(self.contradiction(self.place_after_last(), last))
                }
                _ => Ok(()),
            },
            Some((checkpoint, _)) => {
                Err(self.gone(checkpoint.day, ProblemKind::Cut { last, vouched: checkpoint.seq }))
            }
        }
    }

    /// Where the next record would be, if there is a file for it.
    fn place_after_last(&self) -> Option<Place> {
        let begun = || self.days.last().map(|newest| Place { day: *newest, line: 1 });
        self.last.map(|last| Place { line: last.place.line + 1, ..last.place }).or_else(begun)
    }

    fn contradiction(&self, place: Option<Place>, last: u64) -> Stop {
        let (signed, note) =
            self.signed.as_ref().map_or((0, PathBuf::new()), |(signed, note)| (signed.seq, note.clone()));
        let kind = ProblemKind::ContradictsSigned { last, signed, note };
        match place {
            Some(place) => self.problem(place, kind),
            None => at(self.folder.path(), 0, kind),
        }
    }

    /// The place where a vanished record of this day should be.
    fn gone(&self, day: Day, kind: ProblemKind) -> Stop {
        let kind = if self.days.contains(&day) { kind } else { ProblemKind::DayMissing };
        let line = self.last.filter(|last| last.place.day == day).map_or(1, |last| last.place.line + 1);
        self.problem(Place { day, line }, kind)
    }

    fn problem(&self, place: Place, kind: ProblemKind) -> Stop {
        at(&self.folder.path_of(&place.day.file_name()), place.line, kind)
    }

    fn into_report(self, problem: Option<Problem>, options: &VerifyOptions) -> Result<Report, AuditError> {
        let mut report = self.report;
        report.last_seq = self.last.map(|last| last.seq);
        report.last_hash = self.last.map(|last| last.hash);
        report.records_after_checkpoint =
            report.last_seq.map_or(0, |last| report.records.min(last.saturating_sub(self.vouched)));
        // After a problem there may be records that were not read.
        if problem.is_none() {
            report.announced_without_record = self.announced.len() as u64;
            report.announced_by_ended_gates =
                self.announced.values().filter(|is_running| !**is_running).count() as u64;
        }
        report.keys = self.cursor.keys;
        if report.keys.is_empty() && problem.is_none() {
            report.notes.push(Note::NoCheckpoints);
        } else if options.trusted.is_empty() {
            report.notes.push(Note::KeyNotPinned);
        }
        let repeated = match self.calls.suspects() {
            Some(suspects) => second_record(self.folder, self.days, report.records, suspects)?,
            None => None,
        };
        report.problem = repeated.or(problem);
        Ok(report)
    }
}

/// Without the calls whose record may be in a day that was archived.
fn unarchived(announced: Vec<Announced>, start: Start, first: Option<&Day>) -> HashMap<CallId, bool> {
    let is_here = |announced: &Announced| {
        let since = announced.intent.since.as_ref().and_then(|day| day.parse::<Day>().ok());
        start == Start::Genesis || since.as_ref() >= first
    };
    let here = announced.into_iter().filter(is_here);
    here.map(|announced| (announced.intent.call, announced.is_running)).collect()
}

fn unparsable(detail: &str) -> ProblemKind {
    ProblemKind::Unparsable { detail: detail.to_owned() }
}

/// The first of the good records whose call has one already.
fn second_record(
    folder: &Folder,
    days: &[Day],
    records: u64,
    mut suspects: Suspects,
) -> Result<Option<Problem>, AuditError> {
    let mut left = records;
    for day in days {
        let name = day.file_name();
        let Some(mut lines) = Lines::open(folder, &name)? else { continue };
        while left > 0 && lines.step()? == Step::Whole {
            left -= 1;
            let Ok(link) = serde_json::from_slice::<Link>(lines.bytes()) else { continue };
            let line = lines.number();
            if let Some((first_day, first_line)) = suspects.seen_before(link.trace_id, *day, line) {
                let kind =
                    ProblemKind::SecondRecord { call: link.trace_id, day: first_day, line: first_line };
                return Ok(Some(Problem { file: folder.path_of(&name), line, kind }));
            }
        }
    }
    Ok(None)
}
