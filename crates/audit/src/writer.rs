//! The only place that appends lines to the day files.
//!
//! Every append holds the directory lock, which all processes sharing the directory take. Under the lock, this process's view of the end of the log
//! is revalidated each time: the `lock` file names the newest day, and the length of that day's file shows whether another process appended.

use std::ffi::CString;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustix::io::Errno;
use toolgate_fs::{FileLock, NotLocked};
use toolgate_types::Sha256;

use crate::day::DAY_FILE_SUFFIX as DAY_SUFFIX;
use crate::directory::{DirHandle, FileState, SharedFile, fstat_state, read_into, write_all};
use crate::line::{append_chained, genesis, peek_link};
use crate::preallocation::{Preallocation, ReserveOutcome, preallocate_next, start_from_next};
use crate::reverse_lines::ReverseLines;
use crate::{AuditError, Day};

const LOCK_NAME: &str = "lock";
const DAY_NAME_BYTES: usize = 10;
/// The newest day, and the end of its file's allocated blocks as 16 hexadecimal digits, each with a newline.
const NOTE_BYTES: usize = DAY_NAME_BYTES + 1 + 16 + 1;

/// A record's position in the chain, which a checkpoint covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainPosition {
    pub(crate) seq: u64,
    pub(crate) hash: Sha256,
    pub(crate) day: Day,
}

/// The result of an append.
pub(crate) struct AppendResult {
    /// The sequence number of the first record, and the last record.
    pub(crate) first: u64,
    pub(crate) last: ChainPosition,
    /// The file they are in.
    pub(crate) file: SharedFile,
    /// Whether this process opened the file just now, so that its directory entry may not be on disk yet.
    pub(crate) opened: bool,
    /// The last record of the previous day, if this is the first of a new day.
    pub(crate) rotated: Option<ChainPosition>,
}

/// The file that lines are appended to.
struct CurrentDayFile {
    day: Day,
    /// Until this time no newer day's file is needed.
    day_end: Timestamp,
    /// NUL-terminated for `statx`, which is called for every record.
    name: CString,
    file: SharedFile,
    state: FileState,
    reserve: Preallocation,
}

/// Appends lines.
pub(crate) struct LogWriter {
    directory: DirHandle,
    lock: Arc<File>,
    lock_timeout: Duration,
    /// Whether the last attempt to lock timed out. Until the lock is free again, it is only tried once and not waited for: otherwise every call would
    /// wait in turn.
    is_held_by_other: bool,
    current: Option<CurrentDayFile>,
    /// The last record of the log, as far as this process knows.
    last: Option<ChainPosition>,
    /// The last record that this process appended.
    own_last: Option<ChainPosition>,
    opened: bool,
    truncated: Option<(Day, u64)>,
    /// The end of a day file's allocated blocks, as noted by the process that allocated them.
    noted: Option<(Day, u64)>,
    /// Reused buffer.
    lines: Vec<u8>,
}

impl LogWriter {
    /// Opens the log for appending; changes nothing except to remove a partial last line.
    pub(crate) fn open(
        folder: DirHandle,
        now: Timestamp,
        lock_timeout: Duration,
    ) -> Result<Self, AuditError> {
        let lock = Arc::new(folder.open_or_create_file(LOCK_NAME)?);
        let (current, last, own_last, opened, unfinished, noted) = (None, None, None, false, None, None);
        let lines = Vec::with_capacity(2048);
        let is_held_by_other = false;
        let mut writer = Self {
            directory: folder,
            lock,
            lock_timeout,
            is_held_by_other,
            current,
            last,
            own_last,
            opened,
            truncated: unfinished,
            noted,
            lines,
        };
        writer.with_lock(|writer| writer.refresh(now))?;
        Ok(writer)
    }

    /// Appends records, all in one write or none.
    pub(crate) fn append<'a>(
        &mut self,
        bodies: impl IntoIterator<Item = &'a [u8]>,
        clock: impl Fn() -> Timestamp,
    ) -> Result<AppendResult, AuditError> {
        self.with_lock(|writer| {
            let now = clock();
            writer.refresh(now)?;
            let rotated = writer.start_day(now)?;
            writer.write_lines(now, bodies, rotated)
        })
    }

    /// Runs `work` with the directory lock held.
    pub(crate) fn with_lock<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, AuditError>,
    ) -> Result<T, AuditError> {
        let locked = self.acquire()?;
        let result = work(self);
        // Released explicitly: the file stays open, so an error on release would otherwise leave other processes waiting while this one lives.
        locked.release().map_err(|error| self.lock_failed(&error))?;
        result
    }

    fn acquire(&mut self) -> Result<FileLock<Arc<File>>, AuditError> {
        let timeout = if self.is_held_by_other { Duration::ZERO } else { self.lock_timeout };
        let locked = FileLock::within(Arc::clone(&self.lock), timeout, || false);
        self.is_held_by_other = matches!(locked, Err(NotLocked::Held(_)));
        locked.map_err(|error| match error {
            NotLocked::Held(holder) => AuditError::Busy { path: self.directory.path_of(LOCK_NAME), holder },
            NotLocked::Failed(error) => self.lock_failed(&error),
        })
    }

    fn lock_failed(&self, error: &std::io::Error) -> AuditError {
        self.directory.error("lock", LOCK_NAME, Errno::from_io_error(error).unwrap_or(Errno::IO))
    }

    /// Fails if the next record's file was removed or replaced. Returns the current day.
    pub(crate) fn check(&mut self, now: Timestamp) -> Result<Option<Day>, AuditError> {
        self.with_lock(|writer| {
            writer.refresh(now)?;
            Ok(writer.day())
        })
    }

    /// The newest day whose file this process has seen. It never goes back.
    pub(crate) fn day(&self) -> Option<Day> {
        self.current.as_ref().map(|current| current.day)
    }

    /// The last record of the log, as far as this process knows.
    pub(crate) fn last(&self) -> Option<ChainPosition> {
        self.last
    }

    /// The last record that this process appended.
    pub(crate) fn own_last(&self) -> Option<ChainPosition> {
        self.own_last
    }

    /// The partial line removed since the last call, if any.
    pub(crate) fn take_truncated(&mut self) -> Option<(Day, u64)> {
        self.truncated.take()
    }

    /// Syncs every record so far.
    pub(crate) fn sync(&self) -> Result<(), AuditError> {
        if let Some(current) = &self.current {
            rustix::fs::fdatasync(&current.file).map_err(|cause| AuditError::NotDurable { cause })?;
        }
        self.directory.sync()
    }

    /// Updates this process's view from the directory.
    pub(crate) fn refresh(&mut self, now: Timestamp) -> Result<(), AuditError> {
        let mut note = [0; NOTE_BYTES];
        let length = read_into(&*self.lock, &mut note, 0)
            .map_err(|cause| self.directory.error("read", LOCK_NAME, cause))?;
        let (note, end) = note.get(..length).unwrap_or_default().split_at(length.min(DAY_NAME_BYTES));
        if let Some(current) = &self.current
            && current.name.to_bytes().strip_suffix(DAY_SUFFIX.as_bytes()) == Some(note)
            && self.directory.state(current.name.as_c_str())? == Some(current.state)
        {
            return Ok(());
        }
        let noted = std::str::from_utf8(note).ok().and_then(|text| text.parse().ok());
        self.noted = noted.zip(reserved_end(end));
        match self.newest_day(noted, Day::of(now))? {
            Some(day) => self.open_day(day),
            None => {
                self.current = None;
                Ok(())
            }
        }
    }

    /// The newest day that has a file. The note in the lock file avoids listing the directory, but only while it names today or later.
    fn newest_day(&self, noted: Option<Day>, today: Day) -> Result<Option<Day>, AuditError> {
        if let Some(day) = noted
            && day >= today
            && self.directory.state(&day.file_name())?.is_some()
        {
            return Ok(Some(day));
        }
        Ok(self.directory.days()?.pop())
    }

    /// Seeks to the end of this day's file and removes a partial line left by a dying process: with the lock held no process is writing it, and no
    /// caller was answered on the strength of it.
    fn open_day(&mut self, day: Day) -> Result<(), AuditError> {
        let name = day.file_name();
        let file = self.day_file(day, &name)?;
        let failed = |cause| self.directory.error("read", &name, cause);
        let mut state = fstat_state(&file).map_err(failed)?;
        let mut lines = ReverseLines::new(file.clone(), state.length);
        let complete = lines.skip_partial_line().map_err(failed)?;
        if complete < state.length {
            rustix::fs::ftruncate(&file, complete)
                .map_err(|cause| self.directory.error("repair", &name, cause))?;
            self.truncated = Some((day, state.length - complete));
            state.length = complete;
        }
        let found = self.last_position(&mut lines, day, &name)?;
        // A day contains no NUL byte.
        let name = CString::new(name).unwrap_or_default();
        self.opened |= self.current.as_ref().is_none_or(|current| current.state.inode != state.inode);
        let noted = self.noted.filter(|(noted, _)| *noted == day).map(|(_, end)| end);
        let reserve = Preallocation::of(&file, state.length, noted);
        self.current = Some(CurrentDayFile { day, day_end: day.end(), name, file, state, reserve });
        // If the directory has less than this process wrote, records were removed. Continuing from what was written leaves a gap that `verify` will
        // find.
        self.last = self.own_last.into_iter().chain(found).max_by_key(|mark| mark.seq);
        Ok(())
    }

    /// The day's file: the one already open, unless it was replaced.
    fn day_file(&self, day: Day, name: &str) -> Result<SharedFile, AuditError> {
        if let Some(current) = &self.current
            && current.day == day
            && self.directory.state(name)?.is_some_and(|state| state.inode == current.state.inode)
        {
            return Ok(current.file.clone());
        }
        self.directory.append_to(name)
    }

    /// The last record of a file, or of the newest earlier file that has one.
    fn last_position(
        &self,
        lines: &mut ReverseLines,
        day: Day,
        name: &str,
    ) -> Result<Option<ChainPosition>, AuditError> {
        if let Some(mark) = self.read_position(lines, day, name)? {
            return Ok(Some(mark));
        }
        for earlier in self.directory.days()?.into_iter().rev().filter(|earlier| *earlier < day) {
            let name = earlier.file_name();
            let Some(file) = self.directory.read(&name)? else { continue };
            let failed = |cause| self.directory.error("read", &name, cause);
            let mut lines = ReverseLines::new(file.clone(), fstat_state(&file).map_err(failed)?.length);
            lines.skip_partial_line().map_err(failed)?;
            if let Some(mark) = self.read_position(&mut lines, earlier, &name)? {
                return Ok(Some(mark));
            }
        }
        Ok(None)
    }

    fn read_position(
        &self,
        lines: &mut ReverseLines,
        day: Day,
        name: &str,
    ) -> Result<Option<ChainPosition>, AuditError> {
        let Some(line) = lines.next_line().map_err(|cause| self.directory.error("read", name, cause))? else {
            return Ok(None);
        };
        let (link, hash) = peek_link(&line).ok_or_else(|| {
            self.directory.damaged(name, "its last line is not a record, so none can follow it")
        })?;
        if !link.is_supported() {
            let problem = format!("its last line is of version {}, which this gate does not know", link.v);
            return Err(self.directory.damaged(name, problem));
        }
        Ok(Some(ChainPosition { seq: link.seq, hash, day }))
    }

    /// Starts today's file if the newest one is older. If the clock steps back, the newer file stays current, so that the order of files is the order
    /// of records.
    fn start_day(&mut self, now: Timestamp) -> Result<Option<ChainPosition>, AuditError> {
        if self.current.as_ref().is_some_and(|current| now < current.day_end) {
            return Ok(None);
        }
        let today = Day::of(now);
        if self.day().is_some_and(|day| day >= today) {
            return Ok(None);
        }
        let finished = self.current.as_ref().map(|current| (current.file.clone(), current.state.length));
        if let Some((file, _)) = &finished {
            // A record of the new day must not survive a power failure that loses one of the old day.
            rustix::fs::fdatasync(file).map_err(|cause| AuditError::NotDurable { cause })?;
        }
        let before = self.last;
        self.noted = start_from_next(&self.directory, &today.file_name()).map(|end| (today, end));
        self.open_day(today)?;
        // If there is no space, the write reports it.
        let _ = self.reserve_ahead(0);
        self.write_day_note()?;
        if let Some((file, length)) = finished {
            // The old file is complete: free the blocks beyond its end, after the new file has its own, because on a full disk another process would
            // take them.
            let _ = rustix::fs::ftruncate(&file, length);
        }
        Ok(before)
    }

    /// Preallocates for `more` bytes and what follows. If there is no space, the write reports it.
    fn reserve_ahead(&mut self, more: u64) -> Result<(), AuditError> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let extended = current
            .reserve
            .ensure(&current.file, current.state.length, more)
            .map_err(|cause| self.directory.error("write", &current.day.file_name(), cause))?;
        if extended != ReserveOutcome::No {
            // A process that does not find the note assumes that less is allocated than there is.
            let _ = self.write_day_note();
        }
        if extended == ReserveOutcome::Fully {
            let _ = preallocate_next(&self.directory);
        }
        Ok(())
    }

    fn write_lines<'a>(
        &mut self,
        now: Timestamp,
        bodies: impl IntoIterator<Item = &'a [u8]>,
        rotated: Option<ChainPosition>,
    ) -> Result<AppendResult, AuditError> {
        let (before, mut hash) = self.last.map_or_else(|| (0, genesis()), |mark| (mark.seq, mark.hash));
        let mut seq = before;
        self.lines.clear();
        for body in bodies {
            seq = seq.saturating_add(1);
            hash = append_chained(&mut self.lines, seq, hash, now, body);
        }
        self.reserve_ahead(self.lines.len() as u64)?;
        let Some(current) = &mut self.current else {
            return Err(self.directory.error("write", LOCK_NAME, Errno::NOENT));
        };
        if let Err(cause) = write_all(&current.file, &self.lines) {
            let error = self.directory.error("write", &current.day.file_name(), cause);
            // Remove a partial write. If even that fails, the next writer finds a partial line. If nothing was written, `ftruncate` would only free
            // the preallocated blocks.
            if fstat_state(&current.file) != Ok(current.state) {
                let _ = rustix::fs::ftruncate(&current.file, current.state.length);
                self.current = None;
            }
            return Err(error);
        }
        current.state.length += self.lines.len() as u64;
        let last = ChainPosition { seq, hash, day: current.day };
        let file = current.file.clone();
        self.last = Some(last);
        self.own_last = Some(last);
        Ok(AppendResult { first: before + 1, last, file, opened: std::mem::take(&mut self.opened), rotated })
    }

    fn write_day_note(&self) -> Result<(), AuditError> {
        let Some(current) = &self.current else { return Ok(()) };
        let note = format!(
            "{}
{:016x}
",
            current.day,
            current.reserve.end()
        );
        match rustix::io::retry_on_intr(|| rustix::io::pwrite(&*self.lock, note.as_bytes(), 0)) {
            Ok(written) if written == note.len() => Ok(()),
            Ok(_) => Err(self.directory.error("write", LOCK_NAME, Errno::NOSPC)),
            Err(cause) => Err(self.directory.error("write", LOCK_NAME, cause)),
        }
    }
}

/// The second line of the note.
fn reserved_end(line: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(line).ok()?.trim_ascii();
    u64::from_str_radix(digits, 16).ok()
}
