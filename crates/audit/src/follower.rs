//! Follows a log as it grows, across day files.

use std::path::Path;

use crate::directory::{DirHandle, SharedFile, fstat_state, read_at};
use crate::query::{RecordIter, open_reversed};
use crate::{AuditError, Day, Record};

/// Returns records as they are added. It has no notification: the caller polls.
#[derive(Debug)]
pub struct Follower {
    directory: DirHandle,
    /// The file being read and the offset reached. `None` until the log has its first file.
    current: Option<FollowedFile>,
}

#[derive(Debug)]
struct FollowedFile {
    day: Day,
    file: SharedFile,
    offset: u64,
}

impl Follower {
    /// Starts at the end of the log and returns the newest records up to there, oldest first. No record is lost or repeated between these and the
    /// first poll.
    ///
    /// # Errors
    /// When the directory or one of these records cannot be read.
    pub fn start(directory: &Path, count: usize) -> Result<(Vec<Record>, Self), AuditError> {
        let folder = DirHandle::open(directory)?;
        let mut days = folder.days()?;
        let Some(day) = days.pop() else {
            return Ok((Vec::new(), Self { directory: folder, current: None }));
        };
        let Some((lines, offset)) = open_reversed(&folder, day)? else {
            return Ok((Vec::new(), Self { directory: folder, current: None }));
        };
        let newest = RecordIter::resume(folder.clone(), days, day, lines, count);
        let mut records = newest.collect::<Result<Vec<_>, _>>()?;
        records.reverse();
        let reading = folder.read(&day.file_name())?.map(|file| FollowedFile { day, file, offset });
        Ok((records, Self { directory: folder, current: reading }))
    }

    /// The records added since the last poll, oldest first. A partial line is left for the next poll.
    ///
    /// # Errors
    /// When a file cannot be read, or the next line is not a record; the next poll continues after that line.
    pub fn poll(&mut self) -> Result<Vec<Record>, AuditError> {
        let mut records = Vec::new();
        loop {
            // Look for the next file before reading to the end of this one: once the next has a line, this one is complete.
            let next = self.next_day()?;
            let reached_end = match &mut self.current {
                Some(reading) => reading.read_new_lines(&self.directory, &mut records)?,
                None => true,
            };
            let Some(day) = next.filter(|_| reached_end) else { return Ok(records) };
            self.current =
                self.directory.read(&day.file_name())?.map(|file| FollowedFile { day, file, offset: 0 });
        }
    }

    /// The oldest day after the current one with a non-empty file.
    fn next_day(&self) -> Result<Option<Day>, AuditError> {
        let current = self.current.as_ref().map(|reading| reading.day);
        for day in self.directory.days()?.into_iter().filter(|day| Some(*day) > current) {
            if self.directory.state(&day.file_name())?.is_some_and(|state| state.length > 0) {
                return Ok(Some(day));
            }
        }
        Ok(None)
    }
}

impl FollowedFile {
    /// Reads complete lines and returns whether it reached the end. An invalid line is an error only if it is the first, so that the records before
    /// it are returned.
    fn read_new_lines(&mut self, folder: &DirHandle, records: &mut Vec<Record>) -> Result<bool, AuditError> {
        let name = self.day.file_name();
        let failed = |cause| folder.error("read", &name, cause);
        let length = fstat_state(&self.file).map_err(failed)?.length;
        let new = usize::try_from(length.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let bytes = read_at(&self.file, new, self.offset).map_err(failed)?;
        for line in bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n")) {
            let record = serde_json::from_slice(line);
            if record.is_err() && !records.is_empty() {
                return Ok(false);
            }
            self.offset += line.len() as u64 + 1;
            let record =
                record.map_err(|error| folder.damaged(&name, format!("a line is not a record: {error}")))?;
            records.push(record);
        }
        Ok(true)
    }
}
