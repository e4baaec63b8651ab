//! Parses the text of a patch into its files.

use std::collections::HashMap;

use super::header::{self, FileHeader};
use super::{FilePatch, Hunk, PatchError, PatchKind, Sign, hunk};
use crate::line_index::truncate_at_char_boundary;

/// Bytes of an offending line that an error repeats.
const MAX_SHOWN_BYTES: usize = 60;

/// Parses a unified diff over one or several files.
///
/// Accepts `---`/`+++` headers with or without `diff --git` before them, and new, deleted and renamed files. Text before the first file, such as a
/// commit message, is skipped.
///
/// # Errors
/// The first invalid line, and what would be correct.
pub fn parse(patch: &str) -> Result<Vec<FilePatch>, PatchError> {
    let mut reader = PatchReader::new(patch);
    let mut files = Vec::new();
    while skip_to_file(&mut reader, files.is_empty())? {
        files.push(read_file(&mut reader)?);
    }
    if files.is_empty() {
        return Err(PatchError::Empty);
    }
    reject_duplicate_files(&files)?;
    Ok(files)
}

/// The lines of a patch, without their line feeds.
pub(super) struct PatchReader<'a> {
    lines: Vec<&'a str>,
    next: usize,
}

impl<'a> PatchReader<'a> {
    pub(super) fn new(patch: &'a str) -> Self {
        let lines = patch.split_inclusive('\n').map(|line| line.strip_suffix('\n').unwrap_or(line)).collect();
        Self { lines, next: 0 }
    }

    /// The number of the next line, counted from 1.
    pub(super) fn number(&self) -> usize {
        self.next + 1
    }

    /// The line at this distance after the next one.
    pub(super) fn ahead(&self, distance: usize) -> Option<&'a str> {
        self.lines.get(self.next + distance).copied()
    }

    pub(super) fn peek(&self) -> Option<&'a str> {
        self.ahead(0)
    }

    pub(super) fn skip(&mut self) {
        self.next += 1;
    }

    /// Whether the next lines are the `---` and `+++` of a file.
    pub(super) fn at_names(&self) -> bool {
        self.names_ahead(0)
    }

    pub(super) fn names_ahead(&self, distance: usize) -> bool {
        let begins = |distance, sign| self.ahead(distance).is_some_and(|line: &str| line.starts_with(sign));
        begins(distance, "--- ") && begins(distance + 1, "+++ ")
    }

    /// Whether the line at this distance ends a mailed patch: `-- ` and a version number.
    pub(super) fn signature_ahead(&self, distance: usize) -> bool {
        let dashes = self.ahead(distance).is_some_and(|line| line.trim_end() == "--");
        dashes
            && self
                .ahead(distance + 1)
                .is_some_and(|line| line.starts_with(|first: char| first.is_ascii_digit()))
    }

    /// The error that the next line is invalid here.
    pub(super) fn unexpected(&self) -> PatchError {
        PatchError::UnexpectedLine { line: self.number(), text: shown(self.peek().unwrap_or_default()) }
    }
}

/// The beginning of a line, for an error.
pub(super) fn shown(line: &str) -> String {
    let mut out = String::new();
    for character in truncate_at_char_boundary(line.trim_end(), MAX_SHOWN_BYTES).chars() {
        match character {
            control if control.is_control() => out.extend(control.escape_default()),
            other => out.push(other),
        }
    }
    out
}

/// Skips what may stand before a file. `anything` is true before the first one, where prose is allowed. After a file only known lines are skipped,
/// since an unknown one may be the rest of a hunk with wrong counts.
fn skip_to_file(reader: &mut PatchReader<'_>, mut anything: bool) -> Result<bool, PatchError> {
    while let Some(line) = reader.peek() {
        if line.starts_with("diff --git ") || reader.at_names() {
            return Ok(true);
        }
        reject_other_formats(reader, line)?;
        anything = anything || reader.signature_ahead(0) || ends_patch(line);
        if !anything && !may_stand_between_files(line) {
            return Err(reader.unexpected());
        }
        reader.skip();
    }
    Ok(false)
}

fn reject_other_formats(reader: &PatchReader<'_>, line: &str) -> Result<(), PatchError> {
    let number = reader.number();
    let next = reader.ahead(1).unwrap_or_default();
    if line.starts_with("*** Begin Patch") {
        return Err(PatchError::OtherFormat { line: number, format: "a `*** Begin Patch` block" });
    }
    if line.starts_with("*** ") && next.starts_with("--- ") {
        return Err(PatchError::OtherFormat { line: number, format: "a context diff" });
    }
    if line.starts_with("@@@ ") || line.starts_with("diff --cc ") || line.starts_with("diff --combined ") {
        return Err(PatchError::OtherFormat { line: number, format: "the combined diff of a merge" });
    }
    if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
        return Err(PatchError::Binary { line: number });
    }
    if line.starts_with("@@ ") {
        let problem = "a hunk stands before any file is named".to_owned();
        return Err(PatchError::Header { line: number, problem, remedy: header::NAME_THE_FILE });
    }
    if line.starts_with("--- ") {
        let problem = "a `---` line without a `+++` line after it".to_owned();
        return Err(PatchError::Header { line: number, problem, remedy: header::NAME_THE_FILE });
    }
    Ok(())
}

/// The next mail or the end of a code block: prose may follow.
fn ends_patch(line: &str) -> bool {
    line.starts_with("From ") || line.starts_with("```")
}

fn may_stand_between_files(line: &str) -> bool {
    line.trim().is_empty() || starts_another_part(line)
}

/// What programs write above the names of a file.
fn starts_another_part(line: &str) -> bool {
    ["diff ", "Index: ", "=====", "Only in "].iter().any(|start| line.starts_with(start))
}

/// Whether this line ends an open hunk early, rather than being an invalid line of it.
pub(super) fn cuts_hunk_off(line: &str) -> bool {
    line.starts_with("@@") || ends_patch(line) || starts_another_part(line)
}

fn read_file(reader: &mut PatchReader<'_>) -> Result<FilePatch, PatchError> {
    let names = header::read(reader)?;
    let mut hunks: Vec<Hunk> = Vec::new();
    while reader.peek().is_some_and(|line| line.starts_with("@@")) {
        let next = hunk::read(reader, names.sent_with_crlf)?;
        if let Some(last) = hunks.last() {
            reject_unordered_hunks(last, &next)?;
        }
        hunks.push(next);
    }
    reject_unfitting_hunks(&names, &hunks)?;
    let FileHeader { kind, old_path, new_path, line, sent_with_crlf, .. } = names;
    Ok(FilePatch { kind, old_path, new_path, hunks, line, sent_with_crlf })
}

fn reject_unordered_hunks(last: &Hunk, next: &Hunk) -> Result<(), PatchError> {
    let end = last_old_line(last);
    // A hunk without old lines is inserted after its line, so it may name the last line of the hunk before.
    let inserts = next.old_lines().next().is_none();
    if next.old_start > end || (inserts && next.old_start == end) {
        return Ok(());
    }
    Err(PatchError::Order { line: next.line, start: next.old_start, end })
}

fn last_old_line(hunk: &Hunk) -> usize {
    match hunk.old_lines().count() {
        0 => hunk.old_start,
        count => hunk.old_start.saturating_add(count - 1),
    }
}

fn reject_unfitting_hunks(names: &FileHeader, hunks: &[Hunk]) -> Result<(), PatchError> {
    let only = |sign| hunks.iter().flat_map(|hunk| &hunk.lines).all(|line| line.sign == sign);
    let (problem, remedy) = match names.kind {
        PatchKind::Create if hunks.len() > 1 || !only(Sign::Add) => (
            "a new file has one hunk with nothing but `+` lines",
            "send the whole content of the new file as `+` lines",
        ),
        PatchKind::Delete if hunks.len() > 1 || !only(Sign::Remove) => (
            "a deleted file has one hunk with nothing but `-` lines",
            "send the whole content of the deleted file as `-` lines",
        ),
        _ if hunks.is_empty() && !names.complete_without_hunks => {
            ("no hunk follows", "write at least one hunk that begins with `@@ -1,3 +1,4 @@`")
        }
        _ => return Ok(()),
    };
    Err(PatchError::Header { line: names.line, problem: problem.to_owned(), remedy })
}

fn reject_duplicate_files(files: &[FilePatch]) -> Result<(), PatchError> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for file in files {
        let new_path = file.new_path.as_deref().filter(|path| file.old_path.as_deref() != Some(path));
        for path in file.old_path.as_deref().into_iter().chain(new_path) {
            if let Some(first) = seen.insert(path, file.line) {
                return Err(PatchError::Twice { line: file.line, first, path: path.to_owned() });
            }
        }
    }
    Ok(())
}
