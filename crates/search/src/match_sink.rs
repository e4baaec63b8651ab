//! Matching lines as they are returned: truncated, as text, with their context lines.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};
use toolgate_types::{CancellationReason, Deadline};

use crate::top_k::ResultSize;

/// A line without its terminator, as text. Invalid UTF-8 is replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatchLine {
    /// The text.
    pub text: String,
    /// Whether there is more of the line before it.
    pub cut_before: bool,
    /// Whether there is more of the line after it.
    pub cut_after: bool,
}

/// A matching line. Context lines are included with every match, even if they match themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The file, relative to the root of the mount.
    pub path: PathBuf,
    /// The number of the line, from 1.
    pub number: u64,
    /// Where in the line the first match begins, in characters from 1.
    pub column: u64,
    /// The line; if it is truncated, the part that contains the match.
    pub line: MatchLine,
    /// The lines before it.
    pub before: Vec<MatchLine>,
    /// The lines after it.
    pub after: Vec<MatchLine>,
}

/// A match whose path is stored elsewhere.
pub(crate) struct Hit {
    number: u64,
    column: u64,
    line: MatchLine,
    before: Vec<MatchLine>,
    after: Vec<MatchLine>,
}

impl Hit {
    pub(crate) fn at(self, path: PathBuf) -> Match {
        let Self { number, column, line, before, after } = self;
        Match { path, number, column, line, before, after }
    }

    pub(crate) fn size(&self) -> ResultSize {
        let neighbours = self.before.iter().chain(&self.after).map(|line| line.text.len()).sum::<usize>();
        ResultSize { count: 1, bytes: self.line.text.len() + neighbours }
    }
}

/// Limits on matches.
#[derive(Clone, Copy)]
pub(crate) struct MatchLimits {
    pub(crate) before: usize,
    pub(crate) after: usize,
    pub(crate) max_line_bytes: usize,
    /// The limit on the result, for one file as for all.
    pub(crate) limit: ResultSize,
}

/// Collects the matches of one file.
pub(crate) struct MatchSink<'a> {
    matcher: &'a RegexMatcher,
    stop: &'a Deadline,
    limits: MatchLimits,
    hits: Vec<Hit>,
    size: ResultSize,
    recent: VecDeque<(u64, MatchLine)>,
    /// The index of the first hit that may still lack lines after it.
    incomplete: usize,
    pub(crate) seen: u64,
    pub(crate) is_binary: bool,
    pub(crate) stopped: Option<CancellationReason>,
}

impl<'a> MatchSink<'a> {
    pub(crate) fn new(matcher: &'a RegexMatcher, stop: &'a Deadline, limits: MatchLimits) -> Self {
        Self {
            matcher,
            stop,
            limits,
            hits: Vec::new(),
            size: ResultSize::default(),
            recent: VecDeque::new(),
            incomplete: 0,
            seen: 0,
            is_binary: false,
            stopped: None,
        }
    }

    pub(crate) fn into_hits(self) -> Vec<Hit> {
        self.hits
    }

    fn is_full(&self) -> bool {
        self.size.exceeds(self.limits.limit)
    }

    /// Whether to continue: not after a cancellation, nor when the limit is reached and every hit has its context lines.
    fn should_continue(&mut self) -> bool {
        self.stopped = self.stopped.or_else(|| self.stop.reason());
        while self.hits.get(self.incomplete).is_some_and(|hit| hit.after.len() >= self.limits.after) {
            self.incomplete += 1;
        }
        self.stopped.is_none() && !(self.is_full() && self.incomplete >= self.hits.len())
    }

    /// Appends a line to the preceding hits that still lack context. The searcher delivers all of those lines without a gap.
    fn follow(&mut self, line: &MatchLine) {
        for hit in self.hits.iter_mut().skip(self.incomplete) {
            hit.after.push(line.clone());
            self.size.bytes += line.text.len();
        }
    }

    fn remember(&mut self, number: u64, line: MatchLine) {
        if self.limits.before > 0 {
            if self.recent.len() == self.limits.before {
                self.recent.pop_front();
            }
            self.recent.push_back((number, line));
        }
    }

    fn hit(&mut self, number: u64, in_front: &[u8], line: &MatchLine) {
        let column = String::from_utf8_lossy(in_front).chars().count() as u64 + 1;
        let nearest = number.saturating_sub(self.limits.before as u64);
        let near = self.recent.iter().filter(|(other, _)| *other >= nearest);
        let before = near.map(|(_, line)| line.clone()).collect();
        let hit = Hit { number, column, line: line.clone(), before, after: Vec::new() };
        self.size = self.size.plus(hit.size());
        self.hits.push(hit);
    }

    fn first_match(&self, bytes: &[u8]) -> Range<usize> {
        self.matcher.find(bytes).ok().flatten().map_or(0..0, |found| found.start()..found.end())
    }
}

impl Sink for MatchSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.seen += 1;
        let number = found.line_number().unwrap_or(0);
        let bytes = without_end(found.bytes());
        let at = self.first_match(bytes);
        let in_front = bytes.get(..at.start).unwrap_or_default();
        let line = cut(bytes, at, self.limits.max_line_bytes);
        self.follow(&line);
        if !self.is_full() {
            self.hit(number, in_front, &line);
        }
        self.remember(number, line);
        Ok(self.should_continue())
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        let number = context.line_number().unwrap_or(0);
        let line = cut(without_end(context.bytes()), 0..0, self.limits.max_line_bytes);
        self.follow(&line);
        self.remember(number, line);
        Ok(self.should_continue())
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        self.is_binary |= finish.binary_byte_offset().is_some();
        Ok(())
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// At most `limit` bytes of a line, cut at character boundaries, containing the beginning of `focus`.
fn cut(line: &[u8], focus: Range<usize>, limit: usize) -> MatchLine {
    if line.len() <= limit {
        return trimmed(line, limit, false, false);
    }
    let start = if focus.end <= limit { 0 } else { char_start(line, focus.start.saturating_sub(limit / 4)) };
    let end = char_start(line, start.saturating_add(limit).min(line.len()));
    trimmed(line.get(start..end).unwrap_or_default(), limit, start > 0, end < line.len())
}

/// Bytes as text, which may have grown by replacement characters.
fn trimmed(bytes: &[u8], limit: usize, cut_before: bool, cut_after: bool) -> MatchLine {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    let fitting = text.floor_char_boundary(limit);
    let cut_after = cut_after || fitting < text.len();
    text.truncate(fitting);
    MatchLine { text, cut_before, cut_after }
}

/// The start of the character that this byte belongs to, if it looks like UTF-8.
fn char_start(line: &[u8], at: usize) -> usize {
    let is_inside = |index: usize| line.get(index).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    (at.saturating_sub(3)..=at).rev().find(|index| !is_inside(*index)).unwrap_or(at)
}
