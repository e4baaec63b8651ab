//! Reading: one pass that hashes, counts lines, detects binary content, and keeps only the requested lines and bytes.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek as _};
use std::string::FromUtf8Error;

use toolgate_types::digest::Sha256Hasher;
use toolgate_types::{HashedText, Sha256};

use crate::error::WorkspaceError;
use crate::file_contents::{FileContents, count_newlines};
use crate::open::{OpenedFile, open_to_read};
use crate::view::WorkspaceView;

/// Which part of a file to return, and what to do when that exceeds the limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadRequest {
    /// First line, from 1.
    pub start_line: Option<u64>,
    /// Last line, inclusive.
    pub end_line: Option<u64>,
    /// Refuse a file over the limit instead of truncating it; a requested line range is truncated all the same.
    pub refuse_oversize: bool,
}

/// What a read found.
#[derive(Debug)]
pub struct FileRead {
    /// The path as answers show it.
    pub path: String,
    /// Size of the whole file.
    pub bytes: u64,
    /// Digest of the whole file.
    pub sha256: Sha256,
    /// The requested text, or that the file is binary.
    pub content: FileContent,
}

/// Text or not.
#[derive(Debug)]
pub enum FileContent {
    /// UTF-8 without NUL, throughout the file.
    Text(TextWindow),
    /// Anything else.
    Binary {
        /// The first bytes, enough to detect the file type.
        beginning: Vec<u8>,
    },
}

/// The part of a text that is returned.
#[derive(Debug)]
pub struct TextWindow {
    /// The bytes as they are in the file, cut at a character boundary.
    pub text: HashedText,
    /// Whether the limit cut it.
    pub truncated: bool,
    /// Lines in the whole file.
    pub total_lines: u64,
    /// Number of the first line kept.
    pub first_line: u64,
    /// Number of the last line kept, completely or in part; one less than the first when nothing was kept.
    pub last_line: u64,
}

/// The whole content of a file.
#[derive(Debug)]
pub struct EntireFile {
    /// The path as answers show it.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its digest.
    pub sha256: Sha256,
    /// The content.
    pub content: EntireContent,
}

/// Text or not.
#[derive(Debug)]
pub enum EntireContent {
    /// UTF-8 without NUL.
    Text(HashedText),
    /// Anything else.
    Bytes(Vec<u8>),
}

pub(crate) const CHUNK_BYTES: usize = 128 * 1024;

/// How much of a binary file is returned, to detect its type.
const BEGINNING: usize = 8 * 1024;

/// The smallest read buffer, for a file whose size is not known.
const MIN_READ_BYTES: usize = 4096;

/// The largest buffer allocated on the strength of `st_size` alone, before any data has arrived.
const MAX_PREALLOCATED_BYTES: usize = 16 << 20;

impl WorkspaceView<'_> {
    /// Reads a file, or a range of its lines.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn read(&self, path: &str, request: &ReadRequest) -> Result<FileRead, WorkspaceError> {
        let requested = self.request(path)?;
        let window = LineRange::of(request, &requested.shown)?;
        let opened = open_to_read(self, &requested)?;
        if opened.is_directory() {
            return Err(WorkspaceError::NotAFile { path: requested.shown.into_owned() });
        }
        self.stop.check_size(opened.size())?;
        let shown = self.show(self.mount(opened.mount(&requested))?, &opened.location);
        let is_oversize =
            request.refuse_oversize && window.is_whole() && opened.size() > self.limits.max_read_bytes;
        // A file whose first bytes are binary is answered with its type and size only, so the limit does not apply to it.
        if is_oversize && !is_binary(&first_bytes(&opened)) {
            let (bytes, limit) = (opened.size(), self.limits.max_read_bytes);
            return Err(WorkspaceError::ReadLimit { path: shown, bytes, limit });
        }
        let expected = usize::try_from(opened.size()).unwrap_or(usize::MAX);
        let limit = usize::try_from(self.limits.max_read_bytes).unwrap_or(usize::MAX);
        if window.is_whole() && expected <= limit.min(MAX_PREALLOCATED_BYTES) {
            return Ok(with_beginning(self.read_to_end(&opened, expected, shown)?, &opened));
        }
        let scan = FileScan::new(window, self.limits.max_read_bytes, expected);
        Ok(with_beginning(self.read_streaming(&opened, scan, expected, shown)?, &opened))
    }

    /// The whole file, text or binary, if it has at most this many bytes.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn read_entire(&self, path: &str, most: u64) -> Result<EntireFile, WorkspaceError> {
        let requested = self.request(path)?;
        let opened = open_to_read(self, &requested)?;
        let path = self.show(self.mount(opened.mount(&requested))?, &opened.location);
        let shown = requested.shown.into_owned();
        if opened.is_directory() {
            return Err(WorkspaceError::NotAFile { path: shown });
        }
        self.stop.check_size(opened.size())?;
        let too_long = |path, bytes| WorkspaceError::ReadLimit { path, bytes, limit: most };
        if opened.size() > most {
            return Err(too_long(shown, opened.size()));
        }
        let bytes =
            self.read_bytes(&opened.file, opened.size(), most, &shown).map_err(|error| match error {
                // It has grown since `fstat`.
                WorkspaceError::TooLargeToChange { path, bytes, .. } => too_long(path, bytes),
                other => other,
            })?;
        let length = bytes.len() as u64;
        let (content, sha256) = digested(bytes);
        let content = content.map_or_else(EntireContent::Bytes, EntireContent::Text);
        Ok(EntireFile { path, bytes: length, sha256, content })
    }

    /// A whole file whose size is expected to be within the limit.
    fn read_to_end(
        &self,
        opened: &OpenedFile,
        expected: usize,
        shown: String,
    ) -> Result<FileRead, WorkspaceError> {
        if let Some(whole) = self.read_contents(opened, expected, &shown)? {
            return Ok(into_file_read(whole, shown));
        }
        // It has grown since `fstat`, perhaps over the limit: read it again in chunks.
        let mut file = &opened.file;
        file.rewind().map_err(|error| WorkspaceError::io("reading", &shown, error))?;
        self.read_streaming(
            opened,
            FileScan::new(LineRange::WHOLE, self.limits.max_read_bytes, expected),
            expected,
            shown,
        )
    }

    /// Reads a file of any size in chunks.
    fn read_streaming(
        &self,
        opened: &OpenedFile,
        mut scan: FileScan,
        expected: usize,
        shown: String,
    ) -> Result<FileRead, WorkspaceError> {
        // One byte more than expected: a short read then proves the end of the file.
        let mut buffer = vec![0; expected.saturating_add(1).clamp(MIN_READ_BYTES, CHUNK_BYTES)];
        stream(&opened.file, &mut buffer, expected, self, &shown, |chunk| scan.feed(chunk))?;
        scan.finish(shown)
    }

    /// Digest of an open file, from its current position.
    pub(crate) fn hash(&self, file: &File, shown: &str) -> Result<Sha256, WorkspaceError> {
        let mut hasher = Sha256Hasher::new();
        let mut buffer = vec![0; CHUNK_BYTES];
        stream(file, &mut buffer, usize::MAX, self, shown, |chunk| hasher.update(chunk))?;
        Ok(hasher.finish())
    }

    /// The whole text of an open file, if it is text and within the limit.
    pub(crate) fn read_text(
        &self,
        opened: &OpenedFile,
        limit: u64,
        shown: &str,
    ) -> Result<String, WorkspaceError> {
        if opened.size() > limit {
            return Err(WorkspaceError::TooLargeToChange {
                path: shown.to_owned(),
                bytes: opened.size(),
                limit,
            });
        }
        let bytes = self.read_bytes(&opened.file, opened.size(), limit, shown)?;
        text_of(bytes).map_err(|_| WorkspaceError::Binary { path: shown.to_owned() })
    }
}

/// Adds the first bytes of a file that turned out to be binary. They are read a second time: nothing is decided by them, and most files are text.
fn with_beginning(mut read: FileRead, opened: &OpenedFile) -> FileRead {
    if let FileContent::Binary { beginning } = &mut read.content {
        *beginning = first_bytes(opened);
    }
    read
}

fn first_bytes(opened: &OpenedFile) -> Vec<u8> {
    let mut bytes = vec![0; BEGINNING];
    let count = rustix::io::pread(&opened.file, bytes.as_mut_slice(), 0).unwrap_or(0);
    bytes.truncate(count);
    bytes
}

/// Whether a file that begins like this is binary, whatever follows: it has a NUL or invalid UTF-8. A character cut off at the end is neither.
fn is_binary(beginning: &[u8]) -> bool {
    memchr::memchr(0, beginning).is_some()
        || std::str::from_utf8(beginning).is_err_and(|error| error.error_len().is_some())
}

/// The bytes as text, if they are UTF-8 without NUL.
fn text_of(bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    match memchr::memchr(0, &bytes) {
        Some(_) => Err(bytes),
        None => String::from_utf8(bytes).map_err(FromUtf8Error::into_bytes),
    }
}

/// The same with the digest of the bytes, which is that of the text.
pub(crate) fn digested(bytes: Vec<u8>) -> (Result<HashedText, Vec<u8>>, Sha256) {
    let content = text_of(bytes).map(HashedText::from);
    let sha256 = content.as_ref().map_or_else(|bytes| Sha256::of(bytes), HashedText::sha256);
    (content, sha256)
}

/// Feeds a file to a consumer chunk by chunk; stops when the call is cancelled. A short read after all expected bytes is the end of the file.
fn stream(
    mut file: impl Read,
    buffer: &mut [u8],
    expected: usize,
    view: &WorkspaceView<'_>,
    shown: &str,
    mut consume: impl FnMut(&[u8]),
) -> Result<(), WorkspaceError> {
    let mut read = 0_usize;
    loop {
        view.stop.check()?;
        match file.read(buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                consume(buffer.get(..count).ok_or_else(WorkspaceError::out_of_bounds)?);
                read = read.saturating_add(count);
                if count < buffer.len() && read >= expected {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(WorkspaceError::io("reading", shown, error)),
        }
    }
}

#[derive(Clone, Copy)]
struct LineRange {
    start: u64,
    end: u64,
}

impl LineRange {
    const WHOLE: Self = Self { start: 1, end: u64::MAX };

    fn of(request: &ReadRequest, shown: &str) -> Result<Self, WorkspaceError> {
        let start = request.start_line.unwrap_or(1);
        let end = request.end_line.unwrap_or(u64::MAX);
        if start == 0 || end < start {
            let help = "lines count from 1, and the last line is not before the first".to_owned();
            return Err(WorkspaceError::InvalidRange { path: shown.to_owned(), start, end, help });
        }
        Ok(Self { start, end })
    }

    fn is_whole(self) -> bool {
        self.start == 1 && self.end == u64::MAX
    }
}

/// The state of one pass over a file.
struct FileScan {
    window: LineRange,
    limit: usize,
    hasher: Sha256Hasher,
    utf8: Utf8Check,
    bytes: u64,
    newlines: u64,
    ends_with_newline: bool,
    kept: Vec<u8>,
    cut: bool,
}

impl FileScan {
    /// `size` is the expected size and may turn out wrong.
    fn new(window: LineRange, limit: u64, size: usize) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let room = if window.is_whole() { size.min(limit).min(MAX_PREALLOCATED_BYTES) } else { 0 };
        Self {
            window,
            limit,
            hasher: Sha256Hasher::new(),
            utf8: Utf8Check::default(),
            bytes: 0,
            newlines: 0,
            ends_with_newline: true,
            kept: Vec::with_capacity(room),
            cut: false,
        }
    }

    fn feed(&mut self, chunk: &[u8]) {
        self.hasher.update(chunk);
        self.look(chunk);
        if self.window.is_whole() {
            self.keep(chunk);
            self.count(chunk);
        } else {
            self.keep_window(chunk);
        }
    }

    fn look(&mut self, chunk: &[u8]) {
        self.utf8.feed(chunk);
        self.bytes += chunk.len() as u64;
        self.ends_with_newline = chunk.last() == Some(&b'\n');
    }

    fn count(&mut self, chunk: &[u8]) {
        self.newlines += count_newlines(chunk);
    }

    fn keep_window(&mut self, chunk: &[u8]) {
        let mut rest = chunk;
        while !rest.is_empty() {
            let line = self.newlines + 1;
            if line > self.window.end {
                self.newlines += count_newlines(rest);
                return;
            }
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |position| position + 1);
            let (part, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            if line >= self.window.start {
                self.keep(part);
            }
            self.newlines += u64::from(part.last() == Some(&b'\n'));
            rest = after;
        }
    }

    fn keep(&mut self, part: &[u8]) {
        let room = self.limit.saturating_sub(self.kept.len());
        self.cut |= part.len() > room;
        self.kept.extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
    }

    fn finish(self, path: String) -> Result<FileRead, WorkspaceError> {
        let total_lines = self.newlines + u64::from(!self.ends_with_newline);
        let LineRange { start, end } = self.window;
        if start > total_lines.max(1) {
            let help = format!("the file has {total_lines} lines");
            return Err(WorkspaceError::InvalidRange {
                path,
                start,
                end: end.min(total_lines.max(start)),
                help,
            });
        }
        let content = match self.utf8.is_text() {
            false => FileContent::Binary { beginning: Vec::new() },
            true => FileContent::Text(text_window(self.kept, self.cut, start, total_lines)),
        };
        Ok(FileRead { path, bytes: self.bytes, sha256: self.hasher.finish(), content })
    }
}

/// The result for a file that was read completely.
fn into_file_read(whole: FileContents, path: String) -> FileRead {
    let FileContents { text, bytes, newlines, sha256 } = whole;
    let content = text.map_or(FileContent::Binary { beginning: Vec::new() }, |text| {
        let ends_within_line = !text.is_empty() && !text.ends_with('\n');
        let total_lines = newlines + u64::from(ends_within_line);
        FileContent::Text(TextWindow {
            text,
            truncated: false,
            total_lines,
            first_line: 1,
            last_line: total_lines,
        })
    });
    FileRead { path, bytes, sha256, content }
}

fn text_window(kept: Vec<u8>, truncated: bool, first_line: u64, total_lines: u64) -> TextWindow {
    // Only the limit can have cut inside a character: the whole file was validated as UTF-8.
    let text = String::from_utf8(kept).unwrap_or_else(|error| {
        let whole = error.utf8_error().valid_up_to();
        let mut kept = error.into_bytes();
        kept.truncate(whole);
        String::from_utf8(kept).unwrap_or_default()
    });
    let newlines = count_newlines(text.as_bytes());
    let partial = u64::from(!text.is_empty() && !text.ends_with('\n'));
    let last_line = first_line + newlines + partial - 1;
    TextWindow { text: text.into(), truncated, total_lines, first_line, last_line }
}

/// Validates UTF-8 and the absence of NUL across chunk boundaries.
#[derive(Default)]
struct Utf8Check {
    broken: bool,
    carry: Vec<u8>,
}

impl Utf8Check {
    fn feed(&mut self, chunk: &[u8]) {
        if self.broken {
            return;
        }
        self.broken = memchr::memchr(0, chunk).is_some();
        let rest = self.finish_carry(chunk);
        if let Err(error) = std::str::from_utf8(rest) {
            match error.error_len() {
                Some(_) => self.broken = true,
                None => self.carry = rest.get(error.valid_up_to()..).unwrap_or_default().to_vec(),
            }
        }
    }

    /// Completes a character that the last chunk began; returns what follows it.
    fn finish_carry<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        let mut rest = chunk;
        while !self.carry.is_empty() && !self.broken {
            let Some((byte, after)) = rest.split_first() else { return rest };
            self.carry.push(*byte);
            rest = after;
            match std::str::from_utf8(&self.carry) {
                Ok(_) => self.carry.clear(),
                Err(error) => self.broken = error.error_len().is_some(),
            }
        }
        rest
    }

    fn is_text(&self) -> bool {
        !self.broken && self.carry.is_empty()
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests arrange files by hand and fail by panicking"
)]
mod tests {
    use toolgate_types::{Deadline, ErrorCode};

    use super::*;
    use crate::testing::{view, workspace};

    /// A reader that says it read more than there is room for.
    struct OverlongRead(usize);

    impl Read for OverlongRead {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = buffer.len() + 1;
            Ok(std::mem::take(&mut self.0) * count)
        }
    }

    #[test]
    fn a_chunk_that_cannot_be_taken_is_an_internal_error() {
        let scratch = tempfile::tempdir().unwrap();
        let (workspace, stop) = (workspace(scratch.path()), Deadline::never());
        let mut consumed: Vec<u8> = Vec::new();
        let read = stream(OverlongRead(1), &mut [0; 4], 4, &view(&workspace, &stop), "f", |chunk| {
            consumed.extend(chunk)
        });
        assert_eq!(read.map_err(|error| error.code()).unwrap_err(), ErrorCode::Internal);
        assert!(consumed.is_empty());
    }

    /// It may have grown or shrunk between being opened and being read.
    #[test]
    fn a_file_is_read_whole_however_long_it_was_expected_to_be() {
        let scratch = tempfile::tempdir().unwrap();
        let (workspace, stop) = (workspace(scratch.path()), Deadline::never());
        let view = view(&workspace, &stop);
        let text = "aé漢🦀 and more\n".repeat(60_000);
        let large = 5 * CHUNK_BYTES;
        let mut before = 0;
        for length in [0, 1, 5000, large + 100, large, text.len()] {
            let text = text.get(..text.floor_char_boundary(length)).unwrap();
            std::fs::write(scratch.path().join("f"), text).unwrap();
            // The last text is cached, and this may be a prefix of it.
            let expected = [before, text.len().saturating_sub(1), text.len(), text.len() + 1];
            let expected =
                expected.into_iter().chain([0, 10, large - CHUNK_BYTES, large, large + 1, 8 * CHUNK_BYTES]);
            before = text.len();
            for expected in expected.filter(|expected| *expected <= 8 * CHUNK_BYTES) {
                let opened = open_to_read(&view, &view.request("f").unwrap()).unwrap();
                let read = view.read_to_end(&opened, expected, "f".to_owned()).unwrap();
                let about = format!("{} bytes instead of {expected}", text.len());
                assert_eq!(
                    (read.bytes, read.sha256),
                    (text.len() as u64, Sha256::of(text.as_bytes())),
                    "{about}"
                );
                let FileContent::Text(window) = read.content else { panic!("{about}: binary") };
                let kept = text.get(..text.floor_char_boundary(1 << 20)).unwrap();
                assert!(window.text == kept && window.truncated == (kept.len() < text.len()), "{about}");
                assert_eq!(window.total_lines, text.split_inclusive('\n').count() as u64, "{about}");
            }
        }
    }

    #[test]
    fn utf8_is_checked_across_chunks() {
        let text = "aé漢🦀z".as_bytes();
        for size in 1..=text.len() {
            let mut check = Utf8Check::default();
            text.chunks(size).for_each(|chunk| check.feed(chunk));
            assert!(check.is_text(), "chunks of {size}");
        }
        for bad in [&b"\xff"[..], b"a\xc3", b"\xc3\x28", b"\xed\xa0\x80", b"a\0b", b"\xf0\x9f\xa6"] {
            for size in 1..=bad.len() {
                let mut check = Utf8Check::default();
                bad.chunks(size).for_each(|chunk| check.feed(chunk));
                assert!(!check.is_text(), "{bad:?} in chunks of {size}");
            }
        }
    }
}
