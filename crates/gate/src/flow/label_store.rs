//! The labels of every session: in memory, and in a file that only grows.
//!
//! A line is a session and a label. It is on disk before the answer leaves that brought the label, so that no restart and no other process forgets it. What
//! others appended is read when the file is longer than it was. A line begins with a line feed, so that one that was torn by a crash spoils no other; the
//! answer that it was written for had not left.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, PoisonError};

use cap_std::fs::Dir;
use rustix::fs::{Mode, OFlags, fdatasync, fstat, openat};
use toolgate_types::{FlowLabels, SessionId};

/// The file.
const FILE: &str = "labels";

/// A longer file is not appended to: labels are never dropped, so nothing more is answered that would bring one.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The labels of sessions.
#[derive(Debug, Default)]
pub struct FlowLabelStore(Mutex<StoredLabels>);

#[derive(Debug, Default)]
struct StoredLabels {
    seen: HashMap<SessionId, FlowLabels>,
    /// What is on disk.
    written: HashMap<SessionId, FlowLabels>,
    file: Option<File>,
    /// How much of the file was read: whole lines.
    read: u64,
}

impl FlowLabelStore {
    /// Labels that are kept as long as this value.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Labels that are kept in a file of this directory.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub fn open(directory: &Dir) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = openat(directory, FILE, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
        // Opened again: on a descriptor opened with `O_PATH`, `fsync` fails with `EBADF`.
        let readable = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::fsync(openat(directory, ".", readable, Mode::empty())?)?;
        let mut stored = StoredLabels { file: Some(File::from(file)), ..StoredLabels::default() };
        stored.catch_up()?;
        Ok(Self(Mutex::new(stored)))
    }

    /// The labels of a session, as far as this process has seen them: enough where nothing follows from them but a line of the record. No system call.
    #[must_use]
    pub fn known(&self, session: &SessionId) -> FlowLabels {
        let stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stored.seen.get(session).copied().unwrap_or_default()
    }

    /// The labels of a session, those that other processes have seen included.
    ///
    /// # Errors
    /// What other processes appended cannot be read.
    pub fn labels(&self, session: &SessionId) -> io::Result<FlowLabels> {
        // A poisoned lock: every single insertion is complete.
        let mut stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stored.catch_up()?;
        Ok(stored.seen.get(session).copied().unwrap_or_default())
    }

    /// Adds labels to a session, and returns all that it has. They are on disk when this returns.
    ///
    /// # Errors
    /// They could not be stored. They count in this process all the same.
    pub fn raise(&self, session: &SessionId, labels: FlowLabels) -> io::Result<FlowLabels> {
        let mut stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = stored.seen.get(session).copied().unwrap_or_default().union(labels);
        if !stored.written.get(session).copied().unwrap_or_default().contains(labels) {
            stored.seen.insert(session.clone(), seen);
            stored.append(session, labels)?;
            stored.note_written(session.clone(), labels);
        }
        Ok(seen)
    }
}

impl StoredLabels {
    fn note_written(&mut self, session: SessionId, labels: FlowLabels) {
        let written = self.written.entry(session).or_default();
        *written = written.union(labels);
    }

    fn append(&mut self, session: &SessionId, labels: FlowLabels) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let lines: String = labels.words().map(|word| format!("\n{session} {word}\n")).collect();
        if file_size(file)? + lines.len() as u64 > MAX_FILE_BYTES {
            return Err(io::Error::other(format!("the file `{FILE}` of labels is full")));
        }
        file.write_all(lines.as_bytes())?;
        Ok(fdatasync(file)?)
    }

    /// Reads what was appended since, by this process or another.
    fn catch_up(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let size = file_size(file)?;
        if size <= self.read {
            return Ok(());
        }
        if size > MAX_FILE_BYTES * 2 {
            return Err(io::Error::other(format!("the file `{FILE}` of labels is too long")));
        }
        let mut bytes = vec![0; usize::try_from(size - self.read).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, self.read)?;
        // The rest is a line that is being written.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        bytes.truncate(whole);
        self.read += whole as u64;
        for line in String::from_utf8_lossy(&bytes).lines() {
            let Some((session, word)) = line.split_once(' ') else { continue };
            let (Ok(session), Some(label)) = (session.parse::<SessionId>(), FlowLabels::from_word(word))
            else {
                continue;
            };
            let seen = self.seen.entry(session.clone()).or_default();
            *seen = seen.union(label);
            self.note_written(session, label);
        }
        Ok(())
    }
}

fn file_size(file: &File) -> io::Result<u64> {
    u64::try_from(fstat(file)?.st_size).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;
    use proptest::prelude::*;

    use super::*;

    fn session(number: usize) -> SessionId {
        format!("s{number}").parse().unwrap()
    }

    fn directory() -> (tempfile::TempDir, Dir) {
        let place = tempfile::tempdir().unwrap();
        let directory = Dir::open_ambient_dir(place.path(), ambient_authority()).unwrap();
        (place, directory)
    }

    #[test]
    fn labels_are_kept_for_every_process() {
        let (_place, directory) = directory();
        let (one, other) =
            (FlowLabelStore::open(&directory).unwrap(), FlowLabelStore::open(&directory).unwrap());
        one.raise(&session(1), FlowLabels::SECRET).unwrap();
        assert_eq!(other.labels(&session(1)).unwrap(), FlowLabels::SECRET, "of a process that was running");
        other.raise(&session(1), FlowLabels::UNTRUSTED).unwrap();
        let later = FlowLabelStore::open(&directory).unwrap();
        for store in [one, other, later] {
            assert_eq!(store.labels(&session(1)).unwrap(), FlowLabels::ALL);
            assert_eq!(store.labels(&session(2)).unwrap(), FlowLabels::NONE);
        }
    }

    #[test]
    fn what_is_known_without_a_look_at_the_file_is_what_was_seen_here() {
        let (_place, directory) = directory();
        let (one, other) =
            (FlowLabelStore::open(&directory).unwrap(), FlowLabelStore::open(&directory).unwrap());
        one.raise(&session(1), FlowLabels::SECRET).unwrap();
        assert_eq!(one.known(&session(1)), FlowLabels::SECRET);
        assert_eq!(other.known(&session(1)), FlowLabels::NONE);
        other.labels(&session(1)).unwrap();
        assert_eq!(other.known(&session(1)), FlowLabels::SECRET);
    }

    #[test]
    fn a_torn_line_spoils_no_other() {
        let (_place, directory) = directory();
        for torn in ["\ns1 untru", "\ns1", "\ns1 secret", "\n\u{fffd}"] {
            let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
            let file = openat(&directory, FILE, flags, Mode::RUSR | Mode::WUSR).unwrap();
            File::from(file).write_all(torn.as_bytes()).unwrap();
            let store = FlowLabelStore::open(&directory).unwrap();
            store.raise(&session(2), FlowLabels::SECRET).unwrap();
            let again = FlowLabelStore::open(&directory).unwrap();
            assert_eq!(again.labels(&session(2)).unwrap(), FlowLabels::SECRET);
        }
    }

    #[test]
    fn a_label_that_cannot_be_stored_is_an_error_and_counts_all_the_same() {
        let (_place, directory) = directory();
        let store = FlowLabelStore::open(&directory).unwrap();
        store.0.lock().unwrap().file.as_ref().unwrap().set_len(MAX_FILE_BYTES).unwrap();
        for _ in 0..2 {
            store.raise(&session(1), FlowLabels::SECRET).unwrap_err();
            assert_eq!(store.labels(&session(1)).unwrap(), FlowLabels::SECRET);
        }
    }

    proptest! {
        /// Two processes that raise labels in any order, and one that starts anew each time, agree with a plain map.
        #[test]
        fn no_order_loses_a_label(raised in proptest::collection::vec((0usize..2, 0usize..3, 0usize..3), 0..12)) {
            let (_place, directory) = directory();
            let stores = [FlowLabelStore::open(&directory).unwrap(), FlowLabelStore::open(&directory).unwrap()];
            let mut model: HashMap<usize, FlowLabels> = HashMap::new();
            for (store, number, label) in raised {
                let label = [FlowLabels::UNTRUSTED, FlowLabels::SECRET, FlowLabels::NONE][label];
                stores[store].raise(&session(number), label).unwrap();
                let known = model.entry(number).or_default();
                *known = known.union(label);
                for store in [&stores[0], &stores[1], &FlowLabelStore::open(&directory).unwrap()] {
                    prop_assert_eq!(store.labels(&session(number)).unwrap(), *known);
                }
            }
        }
    }
}
