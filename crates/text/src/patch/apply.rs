//! Applies the hunks of one file to its text, exactly or not at all.

use std::borrow::Cow;

use super::{Conflict, FilePatch, Hunk, HunkError, PatchKind};
use crate::fuzzy_match::{Mismatch, NearestMatch, shown_line};
use crate::line_index::LineIndex;

/// How many hunks of one file may be searched for in the whole text: each search reads all of it.
pub(super) const MAX_SEARCHES: usize = 128;
/// Lines of a hunk and of the file that a conflict shows.
const MAX_SHOWN_LINES: usize = 12;
/// How many places are named when a hunk fits several.
const MAX_NAMED_MATCHES: usize = 10;

/// A text with its patch applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The text.
    pub text: String,
    /// The hunks that were not applied at the line of their header.
    pub moved: Vec<MovedHunk>,
}

/// A hunk that was applied elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedHunk {
    /// Which hunk of the file, counted from 1.
    pub hunk: usize,
    /// How many lines further down; negative is further up.
    pub offset: isize,
}

/// Applies the hunks of one file to its text; for a new file the text is empty.
///
/// Context must match exactly. A hunk that does not fit at its line, shifted by the offset of the hunk before it, is applied elsewhere if there is
/// exactly one place in the file where it fits.
///
/// # Errors
/// The first hunk that does not fit, with what it expects and what is there.
pub fn apply(patch: &FilePatch, original: &str) -> Result<Applied, HunkError> {
    if patch.kind == PatchKind::Create {
        return create(patch, original);
    }
    // A patch sent with CRLF throughout does not tell how the file ends its lines, so the file decides.
    let with_crlf = patch.sent_with_crlf && has_only_crlf(original);
    let mut work = PatchApplier::new(original);
    for hunk in &patch.hunks {
        work.apply(hunk, with_crlf)?;
    }
    let applied = work.finish()?;
    if patch.kind == PatchKind::Delete && !applied.text.is_empty() {
        return Err(HunkError::Remains { lines: LineIndex::new(&applied.text).count() });
    }
    Ok(applied)
}

/// A new file has nothing to match, so line numbers do not matter.
fn create(patch: &FilePatch, original: &str) -> Result<Applied, HunkError> {
    if !original.is_empty() {
        return Err(HunkError::NotEmpty);
    }
    Ok(Applied { text: patch.hunks.iter().flat_map(Hunk::new_lines).collect(), moved: Vec::new() })
}

fn has_only_crlf(text: &str) -> bool {
    text.contains('\n')
        && text.split_inclusive('\n').all(|line| line.ends_with("\r\n") || !line.ends_with('\n'))
}

struct PatchApplier<'a> {
    original: &'a str,
    lines: Vec<&'a str>,
    /// The current hunk, counted from 1.
    number: usize,
    /// How many lines of the original are done.
    done: usize,
    out: String,
    offset: isize,
    moved: Vec<MovedHunk>,
    searches: usize,
}

impl<'a> PatchApplier<'a> {
    fn new(original: &'a str) -> Self {
        let lines = original.split_inclusive('\n').collect();
        let out = String::with_capacity(original.len());
        Self { original, lines, number: 0, done: 0, out, offset: 0, moved: Vec::new(), searches: 0 }
    }

    fn apply(&mut self, hunk: &Hunk, with_crlf: bool) -> Result<(), HunkError> {
        self.number += 1;
        let old: Vec<Cow<'_, str>> = hunk.old_lines().map(|line| with_line_end(line, with_crlf)).collect();
        let place = self.find(hunk, &old)?;
        let unchanged = self.lines.get(self.done..place).ok_or(HunkError::Internal { hunk: self.number })?;
        for line in unchanged {
            push_line(&mut self.out, line, self.number)?;
        }
        for line in hunk.new_lines() {
            push_line(&mut self.out, &with_line_end(line, with_crlf), self.number)?;
        }
        self.done = place + old.len();
        Ok(())
    }

    fn finish(mut self) -> Result<Applied, HunkError> {
        for line in self.lines.get(self.done..).ok_or(HunkError::Internal { hunk: self.number })? {
            push_line(&mut self.out, line, self.number)?;
        }
        Ok(Applied { text: self.out, moved: self.moved })
    }

    /// The index of the line where the hunk is applied.
    fn find(&mut self, hunk: &Hunk, old: &[Cow<'_, str>]) -> Result<usize, HunkError> {
        let said = if old.is_empty() { hunk.old_start } else { hunk.old_start.saturating_sub(1) };
        let expected = said.saturating_add_signed(self.offset);
        if expected >= self.done && self.matches_at(expected, old) {
            self.note(said, expected);
            return Ok(expected);
        }
        // Without old lines a hunk would fit anywhere, so only its own line counts.
        let places = if old.is_empty() { Vec::new() } else { self.search(old)? };
        match places.as_slice() {
            [place] if *place >= self.done => {
                self.note(said, *place);
                Ok(*place)
            }
            [] | [_] => Err(self.conflict(hunk, expected, old)),
            several => {
                let lines = several.iter().take(MAX_NAMED_MATCHES).map(|place| place + 1).collect();
                Err(HunkError::Ambiguous { hunk: self.number, patch_line: hunk.line, lines })
            }
        }
    }

    fn matches_at(&self, place: usize, old: &[Cow<'_, str>]) -> bool {
        let there = place.checked_add(old.len()).and_then(|end| self.lines.get(place..end));
        there.is_some_and(|there| there.iter().zip(old).all(|(line, old)| line == old))
    }

    fn search(&mut self, old: &[Cow<'_, str>]) -> Result<Vec<usize>, HunkError> {
        self.searches += 1;
        if self.searches > MAX_SEARCHES {
            return Err(HunkError::TooManyMoved { hunk: self.number });
        }
        Ok(occurrences(&self.lines, old, MAX_NAMED_MATCHES + 1))
    }

    fn note(&mut self, said: usize, place: usize) {
        self.offset = place.cast_signed().saturating_sub(said.cast_signed());
        if self.offset != 0 {
            self.moved.push(MovedHunk { hunk: self.number, offset: self.offset });
        }
    }

    fn conflict(&self, hunk: &Hunk, expected: usize, old: &[Cow<'_, str>]) -> HunkError {
        let lines = LineIndex::new(self.original);
        let shown =
            |lines: &mut dyn Iterator<Item = &str>| lines.take(MAX_SHOWN_LINES).map(shown_line).collect();
        HunkError::Conflict(Box::new(Conflict {
            hunk: self.number,
            patch_line: hunk.line,
            line: expected.saturating_add(1),
            total_lines: lines.count(),
            expected: shown(&mut old.iter().map(AsRef::as_ref)),
            found: shown(&mut self.lines.iter().skip(expected).take(old.len()).copied()),
            mismatch: Mismatch::first(&lines, expected.saturating_add(1), old.iter().map(AsRef::as_ref)),
            nearest: NearestMatch::nearest(self.original, &old.concat()),
        }))
    }
}

fn with_line_end(line: &str, with_crlf: bool) -> Cow<'_, str> {
    match line.strip_suffix('\n') {
        Some(line) if with_crlf => Cow::Owned(format!("{line}\r\n")),
        _ => Cow::Borrowed(line),
    }
}

/// Appends a line. Nothing may follow a line without a line end, or two lines would become one.
fn push_line(out: &mut String, line: &str, hunk: usize) -> Result<(), HunkError> {
    if !out.is_empty() && !out.ends_with('\n') {
        return Err(HunkError::JoinsLines { hunk });
    }
    out.push_str(line);
    Ok(())
}

/// The positions of `wanted` in `lines`, at most `limit`, in linear time (Knuth–Morris–Pratt).
fn occurrences(lines: &[&str], wanted: &[Cow<'_, str>], limit: usize) -> Vec<usize> {
    let borders = borders(wanted);
    let mut places = Vec::new();
    let mut matched = 0;
    for (index, line) in lines.iter().enumerate() {
        matched = advance(wanted, &borders, matched, line);
        if matched == wanted.len() {
            places.push(index + 1 - matched);
            if places.len() == limit {
                break;
            }
        }
    }
    places
}

/// How many wanted lines match after one more line, when `matched` did before.
fn advance(wanted: &[Cow<'_, str>], borders: &[usize], mut matched: usize, line: &str) -> usize {
    loop {
        if wanted.get(matched).is_some_and(|wanted| wanted == line) {
            return matched + 1;
        }
        if matched == 0 {
            return 0;
        }
        matched = borders.get(matched - 1).copied().unwrap_or(0);
    }
}

/// For each prefix of `wanted`, the length of its longest proper prefix that is also a suffix.
fn borders(wanted: &[Cow<'_, str>]) -> Vec<usize> {
    let mut borders = Vec::with_capacity(wanted.len());
    let mut matched = 0;
    for (index, line) in wanted.iter().enumerate() {
        if index > 0 {
            matched = advance(wanted, &borders, matched, line);
        }
        borders.push(matched);
    }
    borders
}
