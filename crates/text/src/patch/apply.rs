//! Putting the hunks of one file into its text, exactly or not at all.

use std::borrow::Cow;

use serde_json::Value;
use thiserror::Error;
use toolgate_types::{ErrorCode, Failure};

use super::{FilePatch, Hunk, PatchKind};
use crate::place::{Difference, Mismatch, Place, shown_line};
use crate::window::Lines;

/// Hunks of one file that may be looked for in the whole text: each search reads all of it.
const MAX_SEARCHES: usize = 128;
/// Lines of a hunk and of the file that a conflict shows.
const SHOWN_LINES: usize = 12;
/// Places named when a hunk fits several.
const NAMED_PLACES: usize = 10;

/// A text with its patch applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The text.
    pub text: String,
    /// The hunks that did not stand where their header says.
    pub moved: Vec<Moved>,
}

/// A hunk that was applied elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Which hunk of the file, counted from 1.
    pub hunk: usize,
    /// How many lines further down; negative is further up.
    pub offset: isize,
}

/// Applies the hunks of one file to its text; for a new file the text is empty.
///
/// Context must match exactly. A hunk that does not fit at its line, moved as far as the hunk before it was moved, is
/// applied elsewhere if there is exactly one place in the file where it fits.
///
/// # Errors
/// The first hunk that does not fit, with what it expects and what is there.
pub fn apply(patch: &FilePatch, original: &str) -> Result<Applied, HunkError> {
    if patch.kind == PatchKind::Create {
        return create(patch, original);
    }
    // A patch sent with CRLF throughout says nothing about the file, so the file decides.
    let with_crlf = patch.sent_with_crlf && has_only_crlf(original);
    let mut work = Work::new(original);
    for hunk in &patch.hunks {
        work.apply(hunk, with_crlf)?;
    }
    let applied = work.finish()?;
    if patch.kind == PatchKind::Delete && !applied.text.is_empty() {
        return Err(HunkError::Remains { lines: Lines::new(&applied.text).count() });
    }
    Ok(applied)
}

/// There is nothing to find in a new file, so its line numbers do not matter.
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

struct Work<'a> {
    original: &'a str,
    lines: Vec<&'a str>,
    /// The hunk at work, counted from 1.
    number: usize,
    /// Lines of the original that are done with.
    done: usize,
    out: String,
    offset: isize,
    moved: Vec<Moved>,
    searches: usize,
}

impl<'a> Work<'a> {
    fn new(original: &'a str) -> Self {
        let lines = original.split_inclusive('\n').collect();
        let out = String::with_capacity(original.len());
        Self { original, lines, number: 0, done: 0, out, offset: 0, moved: Vec::new(), searches: 0 }
    }

    fn apply(&mut self, hunk: &Hunk, with_crlf: bool) -> Result<(), HunkError> {
        self.number += 1;
        let old: Vec<Cow<'_, str>> = hunk.old_lines().map(|line| with_line_end(line, with_crlf)).collect();
        let place = self.find(hunk, &old)?;
        for line in self.lines.get(self.done..place).unwrap_or_default() {
            push_line(&mut self.out, line, self.number)?;
        }
        for line in hunk.new_lines() {
            push_line(&mut self.out, &with_line_end(line, with_crlf), self.number)?;
        }
        self.done = place + old.len();
        Ok(())
    }

    fn finish(mut self) -> Result<Applied, HunkError> {
        for line in self.lines.get(self.done..).unwrap_or_default() {
            push_line(&mut self.out, line, self.number)?;
        }
        Ok(Applied { text: self.out, moved: self.moved })
    }

    /// The index of the line where the hunk goes.
    fn find(&mut self, hunk: &Hunk, old: &[Cow<'_, str>]) -> Result<usize, HunkError> {
        let said = if old.is_empty() { hunk.old_start } else { hunk.old_start.saturating_sub(1) };
        let expected = said.saturating_add_signed(self.offset);
        if expected >= self.done && self.stands_at(expected, old) {
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
                let lines = several.iter().take(NAMED_PLACES).map(|place| place + 1).collect();
                Err(HunkError::Ambiguous { hunk: self.number, patch_line: hunk.line, lines })
            }
        }
    }

    fn stands_at(&self, place: usize, old: &[Cow<'_, str>]) -> bool {
        let there = place.checked_add(old.len()).and_then(|end| self.lines.get(place..end));
        there.is_some_and(|there| there.iter().zip(old).all(|(line, old)| line == old))
    }

    fn search(&mut self, old: &[Cow<'_, str>]) -> Result<Vec<usize>, HunkError> {
        self.searches += 1;
        if self.searches > MAX_SEARCHES {
            return Err(HunkError::TooManyMoved { hunk: self.number });
        }
        Ok(occurrences(&self.lines, old, NAMED_PLACES + 1))
    }

    fn note(&mut self, said: usize, place: usize) {
        self.offset = place.cast_signed().saturating_sub(said.cast_signed());
        if self.offset != 0 {
            self.moved.push(Moved { hunk: self.number, offset: self.offset });
        }
    }

    fn conflict(&self, hunk: &Hunk, expected: usize, old: &[Cow<'_, str>]) -> HunkError {
        let lines = Lines::new(self.original);
        let shown = |lines: &mut dyn Iterator<Item = &str>| lines.take(SHOWN_LINES).map(shown_line).collect();
        HunkError::Conflict(Box::new(Conflict {
            hunk: self.number,
            patch_line: hunk.line,
            line: expected.saturating_add(1),
            total_lines: lines.count(),
            expected: shown(&mut old.iter().map(AsRef::as_ref)),
            found: shown(&mut self.lines.iter().skip(expected).take(old.len()).copied()),
            mismatch: Mismatch::first(&lines, expected.saturating_add(1), old.iter().map(AsRef::as_ref)),
            nearest: Place::nearest(self.original, &old.concat()),
        }))
    }
}

fn with_line_end(line: &str, with_crlf: bool) -> Cow<'_, str> {
    match line.strip_suffix('\n') {
        Some(line) if with_crlf => Cow::Owned(format!("{line}\r\n")),
        _ => Cow::Borrowed(line),
    }
}

/// Adds a line. Nothing may follow a line without line end, or two lines would become one.
fn push_line(out: &mut String, line: &str, hunk: usize) -> Result<(), HunkError> {
    if !out.is_empty() && !out.ends_with('\n') {
        return Err(HunkError::JoinsLines { hunk });
    }
    out.push_str(line);
    Ok(())
}

/// Where `wanted` stands in `lines`, at most `limit` places, in time that grows with their lengths only
/// (Knuth, Morris and Pratt).
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

/// For each beginning of `wanted`, the length of its longest proper beginning that is also its end.
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

/// Why a patch does not fit a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HunkError {
    /// The lines that a hunk expects are not there.
    #[error("{0}")]
    Conflict(Box<Conflict>),
    /// A hunk does not fit where it says, but in several other places.
    #[error("hunk {hunk} does not fit at its line, but at lines {}", join(.lines))]
    Ambiguous {
        /// Which hunk of the file, counted from 1.
        hunk: usize,
        /// The line of the patch with its header.
        patch_line: usize,
        /// Where it would fit.
        lines: Vec<usize>,
    },
    /// The file is to be created, and there is something in it.
    #[error("the patch creates the file, but it has content already")]
    NotEmpty,
    /// The file is to be deleted, and the patch does not name all of it.
    #[error("the patch deletes the file, but {lines} lines of it are not in the patch")]
    Remains {
        /// How many lines are left.
        lines: usize,
    },
    /// A line without line end would get a line behind it.
    #[error("hunk {hunk} puts a line behind one that has no line end")]
    JoinsLines {
        /// Which hunk of the file, counted from 1.
        hunk: usize,
    },
    /// So many hunks are out of place that looking for them costs too much.
    #[error("hunk {hunk} and more than {MAX_SEARCHES} before it are not at their lines")]
    TooManyMoved {
        /// Which hunk of the file, counted from 1.
        hunk: usize,
    },
}

/// A hunk against the lines that are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Which hunk of the file, counted from 1.
    pub hunk: usize,
    /// The line of the patch with its header.
    pub patch_line: usize,
    /// The line of the file where it should fit.
    pub line: usize,
    /// How many lines the file has.
    pub total_lines: usize,
    /// The lines that it expects, or the first of them.
    pub expected: Vec<String>,
    /// The lines that are there.
    pub found: Vec<String>,
    /// The first line that differs.
    pub mismatch: Option<Mismatch>,
    /// The place of the file that comes nearest.
    pub nearest: Option<Place>,
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "hunk {} does not fit at line {}", self.hunk, self.line)?;
        match &self.mismatch {
            // Everything else about a line is shown, so what cannot be seen is its end.
            Some(Mismatch { line, found: Some(found), wanted }) if found == wanted => {
                write!(formatter, ": line {line} and the line that the hunk expects differ in their line end")
            }
            Some(Mismatch { line, found: Some(found), wanted }) => {
                write!(formatter, ": line {line} is `{found}`, but the hunk expects `{wanted}`")
            }
            _ => write!(formatter, ": the file has only {} lines", self.total_lines),
        }
    }
}

fn join(lines: &[usize]) -> String {
    lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl HunkError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::PatchConflict
    }

    /// Which hunk of the file, counted from 1.
    #[must_use]
    pub fn hunk(&self) -> Option<usize> {
        match self {
            Self::Conflict(conflict) => Some(conflict.hunk),
            Self::Ambiguous { hunk, .. } | Self::JoinsLines { hunk } | Self::TooManyMoved { hunk } => {
                Some(*hunk)
            }
            Self::NotEmpty | Self::Remains { .. } => None,
        }
    }

    fn help(&self) -> String {
        match self {
            Self::Conflict(conflict) => match &conflict.nearest {
                Some(place) if place.difference == Difference::FinalNewline => {
                    "the file ends without a line end: put `\\ No newline at end of file` after its last line".to_owned()
                }
                Some(place) => format!("{}:\n{}", place.sentence(), place.text),
                None => "read the file again and make the patch from what it says now".to_owned(),
            },
            Self::Ambiguous { .. } => "add context lines until the hunk fits only one place, or correct its line".to_owned(),
            Self::NotEmpty => "make the patch from the file as it is, or delete the file first".to_owned(),
            Self::Remains { .. } => "name every line of the file with `-`, or delete it with the tool for that".to_owned(),
            Self::JoinsLines { .. } => {
                "the file ends without a line end: remove its last line and add it again, with `\\ No newline at end of file` after the old one".to_owned()
            }
            Self::TooManyMoved { .. } => "make the patch from the file as it is now".to_owned(),
        }
    }
}

impl From<HunkError> for Failure {
    fn from(error: HunkError) -> Self {
        let mut failure = Self::new(error.code(), error.to_string()).help(error.help());
        if let Some(hunk) = error.hunk() {
            failure = failure.detail("hunk", hunk);
        }
        match error {
            HunkError::Conflict(conflict) => conflict_details(failure, *conflict),
            HunkError::Ambiguous { patch_line, lines, .. } => {
                failure.detail("patch_line", patch_line).detail("lines", lines)
            }
            HunkError::Remains { lines } => failure.detail("remaining_lines", lines),
            HunkError::NotEmpty | HunkError::JoinsLines { .. } | HunkError::TooManyMoved { .. } => failure,
        }
    }
}

fn conflict_details(failure: Failure, conflict: Conflict) -> Failure {
    failure
        .detail("patch_line", conflict.patch_line)
        .detail("line", conflict.line)
        .detail("expected", conflict.expected)
        .detail("found", conflict.found)
        .detail("nearest", conflict.nearest.as_ref().map_or(Value::Null, Place::details))
}
