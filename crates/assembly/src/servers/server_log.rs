//! The standard error of servers, appended to a file that the operator can read with `toolgate mcp logs`.
#![expect(clippy::disallowed_methods, reason = "the gate's own state, in a folder that no mount shows")]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use toolgate_command::ErrorLog;

/// A longer file is moved aside, and an older one that was moved aside is dropped.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// Appends to the log of a server. A log that cannot be written costs only the log.
pub(super) fn appender(path: &Path) -> ErrorLog {
    let log = Mutex::new(Log { path: path.to_path_buf(), file: None, written: 0 });
    ErrorLog(Arc::new(move |bytes: &[u8]| {
        let _ = log.lock().unwrap_or_else(PoisonError::into_inner).append(bytes);
    }))
}

struct Log {
    path: PathBuf,
    file: Option<File>,
    written: u64,
}

impl Log {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.written > MAX_LOG_BYTES {
            fs::rename(&self.path, self.path.with_extension("log.old"))?;
            self.file = None;
        }
        if self.file.is_none() {
            self.file = Some(self.open()?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(bytes)?;
        self.written += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// Opens it with a line that says when the server was started. `O_NOFOLLOW`: no symlinks.
    fn open(&mut self) -> io::Result<File> {
        if let Some(directory) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let mut options = OpenOptions::new();
        let mut file = options.create(true).append(true).mode(0o600).custom_flags(flags).open(&self.path)?;
        self.written = file.metadata()?.len();
        writeln!(file, "--- {} ---", Timestamp::now())?;
        Ok(file)
    }
}

/// The last lines of a log, since the last start; empty where there is none.
#[must_use]
pub fn last_lines(path: &Path, most: usize) -> String {
    let Ok(bytes) = crate::ambient::read_regular_file(path) else { return String::new() };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().rposition(|line| line.starts_with("--- ")).map_or(0, |at| at + 1);
    let since = lines.get(start..).unwrap_or_default();
    since.get(since.len().saturating_sub(most)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_appended_to_and_never_grows_beyond_its_bound() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("logs/a.log");
        appender(&path).0(b"one\n");
        appender(&path).0(b"two\n");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("one\n---") && text.ends_with("two\n"), "{text}");
        let ErrorLog(append) = appender(&path);
        for _ in 0..40 {
            append(&vec![b'x'; 100_000]);
        }
        let size = |path: &Path| fs::metadata(path).unwrap().len();
        assert!(size(&path) < 2 * MAX_LOG_BYTES, "{}", size(&path));
        assert!(size(&path.with_extension("log.old")) < 2 * MAX_LOG_BYTES);
    }
}
