//! Queries records, newest first.

use std::collections::VecDeque;
use std::path::Path;

use jiff::Timestamp;
use toolgate_types::{CallId, Decision};

use crate::directory::{DirHandle, fstat_state};
use crate::reverse_lines::ReverseLines;
use crate::{AuditError, Day, Record};

/// Which records to return; `None` matches all.
#[derive(Clone, Debug, Default)]
pub struct RecordFilter {
    /// The tool's name as requested.
    pub tool: Option<String>,
    /// The caller's subject.
    pub caller: Option<String>,
    /// The decision.
    pub decision: Option<Decision>,
    /// The session.
    pub session: Option<String>,
    /// The call.
    pub call: Option<CallId>,
    /// Not before this time.
    pub since: Option<Timestamp>,
    /// Not after this time.
    pub until: Option<Timestamp>,
    /// At most this many, the newest.
    pub limit: Option<usize>,
}

impl RecordFilter {
    /// Whether a record matches; the limit is applied elsewhere.
    #[must_use]
    pub fn matches(&self, record: &Record) -> bool {
        matches_field(&self.tool, &record.tool.name)
            && matches_field(&self.caller, &record.caller.sub)
            && matches_field(&self.decision, &record.decision)
            && matches_field(&self.session, &record.caller.session)
            && matches_field(&self.call, &record.trace_id)
            && self.since.is_none_or(|since| record.timestamp >= since)
            && self.until.is_none_or(|until| record.timestamp <= until)
    }

    /// Whether a day's file can hold matching records. A record is never later than its file's day. It is earlier only if the clock stepped back; up
    /// to a day of that is allowed for.
    fn overlaps_day(&self, day: Day) -> bool {
        self.since.is_none_or(|since| day >= Day::of(since))
            && self.until.is_none_or(|until| day <= Day::of(until).next())
    }
}

fn matches_field<T: PartialEq>(wanted: &Option<T>, actual: &T) -> bool {
    wanted.as_ref().is_none_or(|wanted| wanted == actual)
}

/// The matching records of a directory, newest first. Reads files lazily and writes nothing.
///
/// # Errors
/// When the directory cannot be read.
pub fn query_records(directory: &Path, filter: RecordFilter) -> Result<RecordIter, AuditError> {
    let folder = DirHandle::open(directory)?;
    let mut days = folder.days()?;
    days.retain(|day| filter.overlaps_day(*day));
    Ok(RecordIter {
        remaining: filter.limit.unwrap_or(usize::MAX),
        directory: folder,
        filter,
        days,
        reading: None,
    })
}

/// The newest records, oldest first.
///
/// # Errors
/// When the directory or a line cannot be read.
pub fn tail(directory: &Path, count: usize) -> Result<Vec<Record>, AuditError> {
    let newest = query_records(directory, RecordFilter { limit: Some(count), ..RecordFilter::default() })?;
    Ok(newest.collect::<Result<VecDeque<_>, _>>()?.into_iter().rev().collect())
}

/// Records, newest first. A line that cannot be parsed yields an error in its place; older records follow.
#[derive(Debug)]
pub struct RecordIter {
    directory: DirHandle,
    filter: RecordFilter,
    /// Days to read, the next one last.
    days: Vec<Day>,
    reading: Option<(Day, ReverseLines)>,
    remaining: usize,
}

impl RecordIter {
    /// Continues with a file that ended at `length`.
    pub(crate) fn resume(
        directory: DirHandle,
        older: Vec<Day>,
        day: Day,
        lines: ReverseLines,
        limit: usize,
    ) -> Self {
        Self {
            directory,
            filter: RecordFilter::default(),
            days: older,
            reading: Some((day, lines)),
            remaining: limit,
        }
    }

    fn next_line(&mut self) -> Result<Option<(Day, Vec<u8>)>, AuditError> {
        loop {
            if let Some((day, lines)) = &mut self.reading {
                let line = lines
                    .next_line()
                    .map_err(|cause| self.directory.error("read", &day.file_name(), cause))?;
                if let Some(line) = line {
                    return Ok(Some((*day, line)));
                }
            }
            let Some(day) = self.days.pop() else { return Ok(None) };
            self.reading = open_reversed(&self.directory, day)?.map(|(lines, _)| (day, lines));
        }
    }

    fn next_match(&mut self) -> Result<Option<Record>, AuditError> {
        while let Some((day, line)) = self.next_line()? {
            let record: Record = serde_json::from_slice(&line).map_err(|error| {
                self.directory.damaged(&day.file_name(), format!("a line is not a record: {error}"))
            })?;
            if self.filter.matches(&record) {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

impl Iterator for RecordIter {
    type Item = Result<Record, AuditError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.remaining = self.remaining.checked_sub(1)?;
        let next = self.next_match().transpose();
        if matches!(next, Some(Err(AuditError::Io { .. }))) {
            // Stop: an I/O error would repeat forever.
            self.remaining = 0;
        }
        next
    }
}

/// A day's complete lines in reverse, and their total length.
pub(crate) fn open_reversed(folder: &DirHandle, day: Day) -> Result<Option<(ReverseLines, u64)>, AuditError> {
    let name = day.file_name();
    let Some(file) = folder.read(&name)? else { return Ok(None) };
    let failed = |cause| folder.error("read", &name, cause);
    let length = fstat_state(&file).map_err(failed)?.length;
    let mut lines = ReverseLines::new(file, length);
    let complete = lines.skip_partial_line().map_err(failed)?;
    Ok(Some((lines, complete)))
}
