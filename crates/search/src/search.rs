//! Searching the text of files.

use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use rustix::io::Errno;
use toolgate_types::{Cancellation, CancellationReason};

use crate::contents::{Contents, Portions};
use crate::folder::{open_file, regular_size};
use crate::glob::FileGlob;
use crate::kept::{Horizon, Kept, Weight};
use crate::lines::{Collector, Hit, Match, Shape};
use crate::pattern::Pattern;
use crate::place::into_path;
use crate::scope::{Hidden, Scope};
use crate::walk::{Visitor, Walked, walk};
use crate::{Error, Skipped, Start, Visible};

/// A file of up to this size is read at once and looked at as a whole; of a larger one, so much is looked at first.
const AT_ONCE: usize = 64 * 1024;

/// How much memory a thread may take for the lines at hand, with their neighbours.
const LINE_MEMORY: usize = 32 * 1024 * 1024;

/// No match is answered with more neighbours than this on either side.
pub const MAX_NEIGHBOURS: usize = 100;

/// What opening a file counts for, beside its bytes, when the walk reckons whether to share its work.
const FILE_WORK: u64 = 4 * 1024;

/// Where to search.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// Everything beneath a directory.
    Tree(Start<'a>),
    /// One file, which the caller has opened according to its own rules.
    File {
        /// The file. Its position is left alone.
        file: BorrowedFd<'a>,
        /// Where it lies, relative to the root of the mount.
        path: &'a Path,
    },
}

/// What to search for, and how much to answer.
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
    /// How many lines before each match to answer with; never more than [`MAX_NEIGHBOURS`].
    pub before: usize,
    /// How many lines after each match to answer with; never more than [`MAX_NEIGHBOURS`].
    pub after: usize,
    /// How many matches to answer with at most: the first in path order, then by line.
    pub max_matches: usize,
    /// How many bytes of text to answer with at most, neighbours included; at least one match is answered.
    pub max_bytes: usize,
    /// Longer lines are cut.
    pub max_line_bytes: usize,
    /// Which names that begin with a dot are searched.
    pub hidden: Hidden,
    /// Whether ignore files are respected.
    pub respect_gitignore: bool,
    /// Directories of these names are not entered.
    pub skip_directories: &'a [&'a str],
}

impl<'a> SearchOptions<'a> {
    /// This text, with the usual choices.
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

/// How much was done for an answer. Depends on timing when the answer is truncated or stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Files that were opened and looked at.
    pub files_searched: u64,
    /// Bytes of them.
    pub bytes_searched: u64,
    /// Files with at least one match.
    pub files_with_matches: u64,
    /// Matching lines, answered or not.
    pub matches_seen: u64,
}

impl Effort {
    fn add(&mut self, other: Self) {
        self.files_searched += other.files_searched;
        self.bytes_searched += other.bytes_searched;
        self.files_with_matches += other.files_with_matches;
        self.matches_seen += other.matches_seen;
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    /// The matching lines, in path order (by component, not by byte), then by line.
    pub matches: Vec<Match>,
    /// Whether there are more than the limits allow.
    pub truncated: bool,
    /// How much was done for it.
    pub effort: Effort,
    /// What was not searched.
    pub skipped: Skipped,
    /// Why the search ended before all was seen; the matches are then only some of them.
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
    target: Target<'_>,
    visible: &dyn Visible,
    options: &SearchOptions<'_>,
    stop: &Cancellation,
) -> Result<Searched, Error> {
    let pattern = Pattern::new(options.pattern, options.regex, options.case_sensitive)?;
    let glob = options.glob.map(FileGlob::new).transpose()?;
    let horizon = Horizon::default();
    let reader = || FileSearcher::new(&pattern, options, &horizon, stop);
    let mut all = reader();
    let mut stopped = None;
    match target {
        Target::Tree(start) => {
            let scope = Scope {
                hidden: options.hidden,
                respect_gitignore: options.respect_gitignore,
                skip_directories: options.skip_directories,
                ..Scope::new(visible, start, glob)
            };
            let walked: Walked<_> = walk(start, &scope, stop, reader)?;
            all.skipped.add(walked.skipped);
            walked.visitors.into_iter().for_each(|other| all.merge(other));
            stopped = walked.stopped;
        }
        Target::File { file, path } => {
            let size = regular_size(file)?.ok_or(Error::NotAFile)?;
            match all.search_file(file, size, path.as_os_str().as_bytes()) {
                Ok(_) => {}
                Err(Ended::Failed(errno)) => return Err(errno.into()),
                Err(Ended::Stopped(reason)) => stopped = Some(reason),
            }
        }
    }
    Ok(all.answer(options, stopped))
}

/// Why the search of a file ended before its end.
enum Ended {
    Failed(Errno),
    Stopped(CancellationReason),
}

impl From<Errno> for Ended {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

/// What one thread searches with, and what it has found.
struct FileSearcher<'a> {
    pattern: Pattern,
    searcher: Searcher,
    shape: Shape,
    stop: &'a Cancellation,
    buffer: Vec<u8>,
    kept: Kept<'a, Vec<Hit>>,
    effort: Effort,
    skipped: Skipped,
}

impl<'a> FileSearcher<'a> {
    fn new(
        pattern: &Pattern,
        options: &SearchOptions<'_>,
        horizon: &'a Horizon,
        stop: &'a Cancellation,
    ) -> Self {
        let limit = Weight { count: options.max_matches, bytes: options.max_bytes };
        let before = options.before.min(MAX_NEIGHBOURS);
        let after = options.after.min(MAX_NEIGHBOURS);
        let searcher = SearcherBuilder::new()
            .line_terminator(pattern.line_terminator)
            .line_number(true)
            .before_context(before)
            .after_context(after)
            .binary_detection(BinaryDetection::quit(0))
            .memory_map(MmapChoice::never())
            .heap_limit(Some(LINE_MEMORY))
            .build();
        Self {
            pattern: pattern.clone(),
            searcher,
            shape: Shape { before, after, max_line_bytes: options.max_line_bytes, limit },
            stop,
            buffer: vec![0; AT_ONCE],
            kept: Kept::new(limit, horizon),
            effort: Effort::default(),
            skipped: Skipped::default(),
        }
    }

    fn merge(&mut self, other: Self) {
        self.kept.merge(other.kept);
        self.effort.add(other.effort);
        self.skipped.add(other.skipped);
    }
}

impl FileSearcher<'_> {
    /// Searches one file and keeps what it finds. The answer is how many bytes were read.
    fn search_file(&mut self, file: BorrowedFd<'_>, size: u64, place: &[u8]) -> Result<u64, Ended> {
        let mut contents = Contents::new(file);
        let (length, is_all) = contents.fill(&mut self.buffer, size)?;
        let beginning = self.buffer.get(..length).unwrap_or_default();
        self.effort.files_searched += 1;
        let at_once = is_all && self.pattern.portion.step >= AT_ONCE;
        if at_once && self.pattern.cannot_match(beginning) {
            self.effort.bytes_searched += contents.offset();
            return Ok(contents.offset());
        }
        if !is_utf16(beginning) && memchr::memchr(0, beginning).is_some() {
            self.skipped.binary += 1;
            return Ok(contents.offset());
        }
        let mut collector = Collector::new(&self.pattern.matcher, self.stop, self.shape);
        let mut stopped = None;
        if at_once {
            self.searcher.search_slice(&self.pattern.matcher, beginning, &mut collector).map_err(failed)?;
        } else {
            let rest = beginning.chain(&mut contents);
            let mut portions = Portions::new(rest, self.stop, self.pattern.portion);
            self.searcher
                .search_reader(&self.pattern.matcher, &mut portions, &mut collector)
                .map_err(failed)?;
            stopped = portions.stopped;
            self.skipped.long_lines += u64::from(portions.left_something_out);
        }
        self.effort.bytes_searched += contents.offset();
        let stopped = stopped.or(collector.stopped);
        self.skipped.binary += u64::from(collector.is_binary);
        self.effort.matches_seen += collector.seen;
        self.keep(place, collector.into_hits());
        stopped.map_or(Ok(contents.offset()), |reason| Err(Ended::Stopped(reason)))
    }

    fn keep(&mut self, place: &[u8], hits: Vec<Hit>) {
        if !hits.is_empty() {
            self.effort.files_with_matches += 1;
            let weight = hits.iter().fold(Weight::default(), |sum, hit| sum.plus(hit.weight()));
            self.kept.keep(place, hits, weight);
        }
    }

    /// The first matches that fit, of all that were kept.
    fn answer(self, options: &SearchOptions<'_>, stopped: Option<CancellationReason>) -> Searched {
        let limit = Weight { count: options.max_matches, bytes: options.max_bytes };
        let mut matches = Vec::new();
        let mut total = Weight::default();
        let mut truncated = false;
        'files: for (path, (hits, _)) in self.kept.into_sorted() {
            let path: PathBuf = into_path(path.0);
            for hit in hits {
                total = total.plus(hit.weight());
                truncated = total.exceeds(limit);
                if truncated {
                    break 'files;
                }
                matches.push(hit.at(path.clone()));
            }
        }
        Searched { matches, truncated, effort: self.effort, skipped: self.skipped, stopped }
    }
}

impl Visitor for FileSearcher<'_> {
    fn file(&mut self, folder: BorrowedFd<'_>, name: &CStr, place: &[u8]) -> Result<u64, CancellationReason> {
        let searched = open_file(folder, name).map_err(Ended::Failed).and_then(|opened| match opened {
            Some((file, size)) => self.search_file(file.as_fd(), size, place),
            None => Ok(0),
        });
        match searched {
            Ok(bytes) => Ok(bytes + FILE_WORK),
            Err(Ended::Stopped(reason)) => Err(reason),
            Err(Ended::Failed(errno)) => {
                self.skipped.failed(errno);
                Ok(FILE_WORK)
            }
        }
    }

    fn is_beyond(&mut self, place: &[u8]) -> bool {
        self.kept.is_beyond(place)
    }
}

/// Whether a byte order mark says so. Such text is full of NUL bytes, and is text.
fn is_utf16(text: &[u8]) -> bool {
    text.starts_with(b"\xFF\xFE") || text.starts_with(b"\xFE\xFF")
}

fn failed(cause: io::Error) -> Ended {
    Ended::Failed(Errno::from_io_error(&cause).unwrap_or(Errno::IO))
}
