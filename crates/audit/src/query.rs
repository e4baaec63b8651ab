//! Reads records back, newest first.

use std::collections::VecDeque;
use std::path::Path;

use jiff::Timestamp;
use toolgate_types::{CallId, Decision};

use crate::backwards::BackwardLines;
use crate::folder::{Folder, state_of_open};
use crate::{AuditError, Day, Record};

/// Which records are wanted; what is `None` does not matter.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The tool's name as it was asked for.
    pub tool: Option<String>,
    /// The caller's subject.
    pub caller: Option<String>,
    /// What became of the call.
    pub decision: Option<Decision>,
    /// The session.
    pub session: Option<String>,
    /// The call.
    pub call: Option<CallId>,
    /// Not before this moment.
    pub since: Option<Timestamp>,
    /// Not after this moment.
    pub until: Option<Timestamp>,
    /// At most so many, the newest.
    pub limit: Option<usize>,
}

impl Filter {
    /// Whether a record is wanted; the limit is for who counts.
    #[must_use]
    pub fn matches(&self, record: &Record) -> bool {
        is(&self.tool, &record.tool.name)
            && is(&self.caller, &record.caller.sub)
            && is(&self.decision, &record.decision)
            && is(&self.session, &record.caller.session)
            && is(&self.call, &record.trace_id)
            && self.since.is_none_or(|since| record.timestamp >= since)
            && self.until.is_none_or(|until| record.timestamp <= until)
    }

    /// Whether a day's file can hold wanted records. A record is never younger than its file's day. It is
    /// older only where the clock stepped back; up to a day of that is allowed for.
    fn may_be_in(&self, day: Day) -> bool {
        self.since.is_none_or(|since| day >= Day::of(since))
            && self.until.is_none_or(|until| day <= Day::of(until).next())
    }
}

fn is<T: PartialEq>(wanted: &Option<T>, actual: &T) -> bool {
    wanted.as_ref().is_none_or(|wanted| wanted == actual)
}

/// The wanted records of a directory, newest first. Reads files as they are needed; never changes anything.
///
/// # Errors
/// When the directory cannot be read.
pub fn show(directory: &Path, filter: Filter) -> Result<Show, AuditError> {
    let folder = Folder::open(directory)?;
    let mut days = folder.days()?;
    days.retain(|day| filter.may_be_in(*day));
    Ok(Show { left: filter.limit.unwrap_or(usize::MAX), folder, filter, days, reading: None })
}

/// The newest records, oldest of them first.
///
/// # Errors
/// When the directory or a line cannot be read.
pub fn tail(directory: &Path, count: usize) -> Result<Vec<Record>, AuditError> {
    let newest = show(directory, Filter { limit: Some(count), ..Filter::default() })?;
    Ok(newest.collect::<Result<VecDeque<_>, _>>()?.into_iter().rev().collect())
}

/// Records, newest first. A line that cannot be read is an error in its place; what is older follows.
#[derive(Debug)]
pub struct Show {
    folder: Folder,
    filter: Filter,
    /// Days to read, the next one last.
    days: Vec<Day>,
    reading: Option<(Day, BackwardLines)>,
    left: usize,
}

impl Show {
    /// Goes on with a file that was found to end at `length`.
    pub(crate) fn of_part(
        folder: Folder,
        older: Vec<Day>,
        day: Day,
        lines: BackwardLines,
        limit: usize,
    ) -> Self {
        Self { folder, filter: Filter::default(), days: older, reading: Some((day, lines)), left: limit }
    }

    fn next_line(&mut self) -> Result<Option<(Day, Vec<u8>)>, AuditError> {
        loop {
            if let Some((day, lines)) = &mut self.reading {
                let line =
                    lines.next_line().map_err(|cause| self.folder.error("read", &day.file_name(), cause))?;
                if let Some(line) = line {
                    return Ok(Some((*day, line)));
                }
            }
            let Some(day) = self.days.pop() else { return Ok(None) };
            self.reading = open_backwards(&self.folder, day)?.map(|(lines, _)| (day, lines));
        }
    }

    fn next_match(&mut self) -> Result<Option<Record>, AuditError> {
        while let Some((day, line)) = self.next_line()? {
            let record: Record = serde_json::from_slice(&line).map_err(|error| {
                self.folder.damaged(&day.file_name(), format!("a line is not a record: {error}"))
            })?;
            if self.filter.matches(&record) {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

impl Iterator for Show {
    type Item = Result<Record, AuditError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let next = self.next_match().transpose();
        if matches!(next, Some(Err(AuditError::Io { .. }))) {
            // What cannot be read now would be tried again for ever.
            self.left = 0;
        }
        next
    }
}

/// A day's complete lines from the end, and how long they are together.
pub(crate) fn open_backwards(folder: &Folder, day: Day) -> Result<Option<(BackwardLines, u64)>, AuditError> {
    let name = day.file_name();
    let Some(file) = folder.read(&name)? else { return Ok(None) };
    let failed = |cause| folder.error("read", &name, cause);
    let length = state_of_open(&file).map_err(failed)?.length;
    let mut lines = BackwardLines::new(file, length);
    let complete = lines.skip_unfinished().map_err(failed)?;
    Ok(Some((lines, complete)))
}
