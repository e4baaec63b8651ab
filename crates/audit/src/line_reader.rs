//! Reads a file line by line in bounded memory.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};

use rustix::io::Errno;

use crate::AuditError;
use crate::directory::DirHandle;
use crate::line::MAX_LINE_BYTES;

/// The result of reading a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineStatus {
    /// A complete line.
    Complete,
    /// Bytes after the last newline.
    Partial,
    /// A line longer than any that a gate writes.
    TooLong,
    /// End of file.
    End,
}

/// The lines of a file.
pub(crate) struct LineReader {
    reader: BufReader<std::io::Take<File>>,
    line: Vec<u8>,
    number: u64,
    directory: DirHandle,
    name: String,
}

impl LineReader {
    /// Opens a file; `None` if it does not exist.
    pub(crate) fn open(folder: &DirHandle, name: &str) -> Result<Option<Self>, AuditError> {
        Self::open_until(folder, name, u64::MAX)
    }

    /// The same, reading at most `length` bytes.
    pub(crate) fn open_until(
        folder: &DirHandle,
        name: &str,
        length: u64,
    ) -> Result<Option<Self>, AuditError> {
        let Some(file) = folder.read_owned(name)? else { return Ok(None) };
        let reader = BufReader::with_capacity(128 * 1024, file.take(length));
        Ok(Some(Self {
            reader,
            line: Vec::new(),
            number: 0,
            directory: folder.clone(),
            name: name.to_owned(),
        }))
    }

    /// The number of the last line read, starting at one.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The last line read, without its newline.
    pub(crate) fn line(&self) -> &[u8] {
        self.line.strip_suffix(b"\n").unwrap_or(&self.line)
    }

    /// Reads the next line.
    pub(crate) fn read_line(&mut self) -> Result<LineStatus, AuditError> {
        self.line.clear();
        let mut bounded = self.reader.by_ref().take(MAX_LINE_BYTES);
        bounded.read_until(b'\n', &mut self.line).map_err(|error| {
            self.directory.error("read", &self.name, Errno::from_io_error(&error).unwrap_or(Errno::IO))
        })?;
        if self.line.is_empty() {
            return Ok(LineStatus::End);
        }
        self.number += 1;
        Ok(match self.line.last() {
            Some(b'\n') => LineStatus::Complete,
            _ if self.line.len() as u64 >= MAX_LINE_BYTES => LineStatus::TooLong,
            _ => LineStatus::Partial,
        })
    }
}
