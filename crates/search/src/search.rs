//! Searches the text of files.

use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use rustix::io::Errno;
use toolgate_types::{CancellationReason, Deadline};

use crate::directory::{open_file, regular_size};
use crate::file_reader::{LineLimitReader, OffsetReader};
use crate::glob::FileGlob;
use crate::match_sink::{Hit, Match, MatchLimits, MatchSink};
use crate::path_buffer::into_path;
use crate::pattern::LinePattern;
use crate::top_k::{Cutoff, ResultSize, TopK};
use crate::walk::{FileVisitor, WalkOutcome, walk};
use crate::walk_filter::{Hidden, WalkFilter};
use crate::{Error, Skipped, VisibilityFilter, WalkRoot};

/// A file of up to this size is read completely and searched as a whole; of a larger one, this much is examined first.
const MAX_WHOLE_READ_BYTES: usize = 64 * 1024;

/// Memory per thread for the current lines with their context.
const MAX_LINE_BUFFER_BYTES: usize = 32 * 1024 * 1024;

/// The maximum of context lines on either side of a match.
pub const MAX_CONTEXT_LINES: usize = 100;

/// The cost of opening a file, in bytes, for the decision whether to start more threads.
const FILE_OPEN_COST: u64 = 4 * 1024;

/// Where to search.
#[derive(Clone, Copy, Debug)]
pub enum SearchTarget<'a> {
    /// Everything beneath a directory.
    Tree(WalkRoot<'a>),
    /// One file, which the caller has opened and checked.
    File {
        /// The file. Its position does not move.
        file: BorrowedFd<'a>,
        /// Its path, relative to the root of the mount.
        path: &'a Path,
    },
}

/// What to search for, and how much to return.
#[derive(Clone, Copy, Debug)]
pub struct SearchOptions<'a> {
    /// Text to look for within a line, or a regular expression.
    pub pattern: &'a str,
    /// Whether the pattern is a regular expression, without look-around and back-references.
    pub regex: bool,
    /// Whether `a` and `A` differ.
    pub case_sensitive: bool,
    /// Only files that match; see [`FindOptions::glob`](crate::FindOptions::glob).
    pub glob: Option<&'a str>,
    /// How many lines before each match to return; never more than [`MAX_CONTEXT_LINES`].
    pub before: usize,
    /// How many lines after each match to return; never more than [`MAX_CONTEXT_LINES`].
    pub after: usize,
    /// How many matches to return at most: the first in path order, then by line.
    pub max_matches: usize,
    /// How many bytes of text to return at most, context included; at least one match is returned.
    pub max_bytes: usize,
    /// Longer lines are truncated.
    pub max_line_bytes: usize,
    /// Which names that begin with a dot are searched.
    pub hidden: Hidden,
    /// Whether ignore files are respected.
    pub respect_gitignore: bool,
    /// Directories of these names are not entered.
    pub skip_directories: &'a [&'a str],
}

impl<'a> SearchOptions<'a> {
    /// This text, with the default options.
    #[must_use]
    pub fn new(pattern: &'a str) -> Self {
        Self {
            pattern,
            regex: false,
            case_sensitive: true,
            glob: None,
            before: 0,
            after: 0,
            max_matches: 100,
            max_bytes: 1024 * 1024,
            max_line_bytes: 2000,
            hidden: Hidden::None,
            respect_gitignore: true,
            skip_directories: &[],
        }
    }
}

/// Statistics of a search. They depend on timing when the result is truncated or stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchStats {
    /// Files that were opened and examined.
    pub files_searched: u64,
    /// Bytes read from them.
    pub bytes_searched: u64,
    /// Files with at least one match.
    pub files_with_matches: u64,
    /// Matching lines, returned or not.
    pub matches_seen: u64,
}

impl SearchStats {
    fn add(&mut self, other: Self) {
        self.files_searched += other.files_searched;
        self.bytes_searched += other.bytes_searched;
        self.files_with_matches += other.files_with_matches;
        self.matches_seen += other.matches_seen;
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchResults {
    /// The matching lines, in path order (by component, not by byte), then by line.
    pub matches: Vec<Match>,
    /// Whether there are more than the limits allow.
    pub truncated: bool,
    /// Statistics.
    pub stats: SearchStats,
    /// What was not searched.
    pub skipped: Skipped,
    /// Why the search stopped early; the matches are then incomplete.
    pub stopped: Option<CancellationReason>,
}

/// Searches text files line by line, as ripgrep does.
///
/// A file with a NUL byte in its first 64 KiB is not text and is skipped; further on, a NUL byte ends its search.
/// UTF-16 with a byte order mark is read as such.
///
/// # Errors
/// [`Error::InvalidPattern`], [`Error::InvalidGlob`], [`Error::NotADirectory`], [`Error::NotAFile`] or
/// [`Error::Unreadable`].
pub fn search(
    target: SearchTarget<'_>,
    visible: &dyn VisibilityFilter,
    options: &SearchOptions<'_>,
    stop: &Deadline,
) -> Result<SearchResults, Error> {
    let pattern = LinePattern::new(options.pattern, options.regex, options.case_sensitive)?;
    let glob = options.glob.map(FileGlob::new).transpose()?;
    let horizon = Cutoff::default();
    let reader = || FileSearcher::new(&pattern, options, &horizon, stop);
    let mut all = reader();
    let mut stopped = None;
    match target {
        SearchTarget::Tree(start) => {
            let scope = WalkFilter {
                hidden: options.hidden,
                respect_gitignore: options.respect_gitignore,
                skip_directories: options.skip_directories,
                ..WalkFilter::new(visible, start, glob)
            };
            let walked: WalkOutcome<_> = walk(start, &scope, stop, reader)?;
            all.skipped.add(walked.skipped);
            walked.visitors.into_iter().for_each(|other| all.merge(other));
            stopped = walked.stopped;
        }
        SearchTarget::File { file, path } => {
            let size = regular_size(file)?.ok_or(Error::NotAFile)?;
            match all.search_file(file, size, path.as_os_str().as_bytes()) {
                Ok(_) => {}
                Err(SearchAbort::Failed(errno)) => return Err(errno.into()),
                Err(SearchAbort::Stopped(reason)) => stopped = Some(reason),
            }
        }
    }
    Ok(all.into_results(options, stopped))
}

/// Why the search of a file stopped before its end.
enum SearchAbort {
    Failed(Errno),
    Stopped(CancellationReason),
}

impl From<Errno> for SearchAbort {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

/// The state of one thread of a search.
struct FileSearcher<'a> {
    pattern: LinePattern,
    searcher: Searcher,
    limits: MatchLimits,
    stop: &'a Deadline,
    buffer: Vec<u8>,
    top: TopK<'a, Vec<Hit>>,
    stats: SearchStats,
    skipped: Skipped,
}

impl<'a> FileSearcher<'a> {
    fn new(
        pattern: &LinePattern,
        options: &SearchOptions<'_>,
        horizon: &'a Cutoff,
        stop: &'a Deadline,
    ) -> Self {
        let limit = ResultSize { count: options.max_matches, bytes: options.max_bytes };
        let before = options.before.min(MAX_CONTEXT_LINES);
        let after = options.after.min(MAX_CONTEXT_LINES);
        let searcher = SearcherBuilder::new()
            .line_terminator(pattern.line_terminator)
            .line_number(true)
            .before_context(before)
            .after_context(after)
            .binary_detection(BinaryDetection::quit(0))
            .memory_map(MmapChoice::never())
            .heap_limit(Some(MAX_LINE_BUFFER_BYTES))
            .build();
        Self {
            pattern: pattern.clone(),
            searcher,
            limits: MatchLimits { before, after, max_line_bytes: options.max_line_bytes, limit },
            stop,
            buffer: vec![0; MAX_WHOLE_READ_BYTES],
            top: TopK::new(limit, horizon),
            stats: SearchStats::default(),
            skipped: Skipped::default(),
        }
    }

    fn merge(&mut self, other: Self) {
        self.top.merge(other.top);
        self.stats.add(other.stats);
        self.skipped.add(other.skipped);
    }
}

impl FileSearcher<'_> {
    /// Searches one file and keeps its matches. Returns how many bytes were read.
    fn search_file(&mut self, file: BorrowedFd<'_>, size: u64, place: &[u8]) -> Result<u64, SearchAbort> {
        let mut contents = OffsetReader::new(file);
        let (length, is_all) = contents.fill(&mut self.buffer, size)?;
        let beginning = self.buffer.get(..length).unwrap_or_default();
        self.stats.files_searched += 1;
        let at_once = is_all && self.pattern.limits.step >= MAX_WHOLE_READ_BYTES;
        if at_once && self.pattern.cannot_match(beginning) {
            self.stats.bytes_searched += contents.offset();
            return Ok(contents.offset());
        }
        if !is_utf16(beginning) && memchr::memchr(0, beginning).is_some() {
            self.skipped.binary += 1;
            return Ok(contents.offset());
        }
        let mut collector = MatchSink::new(&self.pattern.matcher, self.stop, self.limits);
        let mut stopped = None;
        if at_once {
            self.searcher.search_slice(&self.pattern.matcher, beginning, &mut collector).map_err(failed)?;
        } else {
            let rest = beginning.chain(&mut contents);
            let mut portions = LineLimitReader::new(rest, self.stop, self.pattern.limits);
            self.searcher
                .search_reader(&self.pattern.matcher, &mut portions, &mut collector)
                .map_err(failed)?;
            stopped = portions.stopped;
            self.skipped.long_lines += u64::from(portions.truncated);
        }
        self.stats.bytes_searched += contents.offset();
        let stopped = stopped.or(collector.stopped);
        self.skipped.binary += u64::from(collector.is_binary);
        self.stats.matches_seen += collector.seen;
        self.keep(place, collector.into_hits());
        stopped.map_or(Ok(contents.offset()), |reason| Err(SearchAbort::Stopped(reason)))
    }

    fn keep(&mut self, place: &[u8], hits: Vec<Hit>) {
        if !hits.is_empty() {
            self.stats.files_with_matches += 1;
            let weight = hits.iter().fold(ResultSize::default(), |sum, hit| sum.plus(hit.size()));
            self.top.insert(place, hits, weight);
        }
    }

    /// The first of the kept matches that fit into the limit.
    fn into_results(self, options: &SearchOptions<'_>, stopped: Option<CancellationReason>) -> SearchResults {
        let limit = ResultSize { count: options.max_matches, bytes: options.max_bytes };
        let mut matches = Vec::new();
        let mut total = ResultSize::default();
        let mut truncated = false;
        'files: for (path, (hits, _)) in self.top.into_sorted() {
            let path: PathBuf = into_path(path.0);
            for hit in hits {
                total = total.plus(hit.size());
                truncated = total.exceeds(limit);
                if truncated {
                    break 'files;
                }
                matches.push(hit.at(path.clone()));
            }
        }
        SearchResults { matches, truncated, stats: self.stats, skipped: self.skipped, stopped }
    }
}

impl FileVisitor for FileSearcher<'_> {
    fn visit_file(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &CStr,
        place: &[u8],
    ) -> Result<u64, CancellationReason> {
        let searched = open_file(folder, name).map_err(SearchAbort::Failed).and_then(|opened| match opened {
            Some((file, size)) => self.search_file(file.as_fd(), size, place),
            None => Ok(0),
        });
        match searched {
            Ok(bytes) => Ok(bytes + FILE_OPEN_COST),
            Err(SearchAbort::Stopped(reason)) => Err(reason),
            Err(SearchAbort::Failed(errno)) => {
                self.skipped.failed(errno);
                Ok(FILE_OPEN_COST)
            }
        }
    }

    fn is_past_cutoff(&mut self, place: &[u8]) -> bool {
        self.top.is_past_cutoff(place)
    }
}

/// Whether a byte order mark says so. UTF-16 text is full of NUL bytes, and is text nevertheless.
fn is_utf16(text: &[u8]) -> bool {
    text.starts_with(b"\xFF\xFE") || text.starts_with(b"\xFE\xFF")
}

fn failed(cause: io::Error) -> SearchAbort {
    SearchAbort::Failed(Errno::from_io_error(&cause).unwrap_or(Errno::IO))
}
