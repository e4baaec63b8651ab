//! The compiled pattern of a search, and how much text it may be applied to in one step.
//!
//! ripgrep's engine never backtracks, so its time is linear in the text. But it is linear in the size of the pattern too, and the engine cannot be
//! cancelled while it runs. So the larger the compiled pattern, the less text it gets per step, and the shorter the part of a line that it sees.

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};

use crate::Error;

/// Parsing takes memory before any limit on the compiled size can apply.
const MAX_PATTERN_BYTES: usize = 4096;

/// The size of the engine's lazy DFA cache, per thread.
const MAX_DFA_CACHE_BYTES: usize = 10 * 1024 * 1024;

/// How much text the engine gets between two checks for cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkLimits {
    /// Bytes per read.
    pub(crate) step: usize,
    /// Bytes of a line that are searched; never fewer than `step`.
    pub(crate) line: usize,
}

/// Plain text up to this length is found by a substring search, which no text makes slow.
const MAX_LITERAL_BYTES: usize = 100;
const LITERAL_LIMITS: ChunkLimits = ChunkLimits { step: 64 * 1024, line: 4 * 1024 * 1024 };

/// Limits by compiled size in bytes. The worst pattern of each size takes a few seconds for one line of that length; ordinary patterns of the same
/// size take microseconds, but they cannot be distinguished.
const LIMITS_BY_REGEX_SIZE: [(usize, ChunkLimits); 4] = [
    (8 * 1024, ChunkLimits { step: 64 * 1024, line: 1024 * 1024 }),
    (128 * 1024, ChunkLimits { step: 64 * 1024, line: 256 * 1024 }),
    (2 * 1024 * 1024, ChunkLimits { step: 4 * 1024, line: 16 * 1024 }),
    (10 * 1024 * 1024, ChunkLimits { step: 1024, line: 4 * 1024 }),
];

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct LinePattern {
    pub(crate) matcher: RegexMatcher,
    pub(crate) limits: ChunkLimits,
    pub(crate) line_terminator: LineTerminator,
}

impl LinePattern {
    pub(crate) fn new(text: &str, is_regex: bool, case_sensitive: bool) -> Result<Self, Error> {
        reject_unmatchable(text)?;
        if is_regex { Self::regex(text, case_sensitive) } else { Self::literal(text, case_sensitive) }
    }

    /// Lines end at `\n`; a carriage return before it is ordinary text.
    fn literal(text: &str, case_sensitive: bool) -> Result<Self, Error> {
        let mut builder = RegexMatcherBuilder::new();
        builder.fixed_strings(true).line_terminator(Some(b'\n')).case_insensitive(!case_sensitive);
        let terminator = LineTerminator::byte(b'\n');
        if case_sensitive && text.len() <= MAX_LITERAL_BYTES {
            let matcher = builder.build(text).map_err(|cause| refusal(text, &cause))?;
            return Ok(Self::from(matcher, LITERAL_LIMITS, terminator));
        }
        Self::sized(&mut builder, text, terminator)
    }

    /// `^` and `$` match at lines, also those that end with a carriage return.
    fn regex(text: &str, case_sensitive: bool) -> Result<Self, Error> {
        let mut builder = RegexMatcherBuilder::new();
        builder.multi_line(true).crlf(true).case_insensitive(!case_sensitive);
        Self::sized(&mut builder, text, LineTerminator::crlf())
    }

    /// Determines the compiled size by trying the limits in order.
    fn sized(
        builder: &mut RegexMatcherBuilder,
        text: &str,
        terminator: LineTerminator,
    ) -> Result<Self, Error> {
        builder.dfa_size_limit(MAX_DFA_CACHE_BYTES);
        for (size, portion) in LIMITS_BY_REGEX_SIZE {
            match builder.size_limit(size).build(text) {
                Ok(matcher) => return Ok(Self::from(matcher, portion, terminator)),
                Err(cause) if is_too_large(&cause) => {}
                Err(cause) => return Err(refusal(text, &cause)),
            }
        }
        let help = "use smaller repetition counts or fewer alternatives";
        Err(Error::pattern(text, "it is too large when compiled", help))
    }

    fn from(matcher: RegexMatcher, limits: ChunkLimits, line_terminator: LineTerminator) -> Self {
        Self { matcher, limits, line_terminator }
    }

    /// Whether certainly no line of this text matches, determined without splitting it into lines.
    ///
    /// Never certain when the pattern is anchored to the whole text, which here means every line, nor when the text begins with a byte order mark,
    /// which is not part of its first line.
    pub(crate) fn cannot_match(&self, text: &[u8]) -> bool {
        self.matcher.line_terminator().is_some()
            && !has_byte_order_mark(text)
            && matches!(self.matcher.find_candidate_line(text), Ok(None))
    }
}

fn has_byte_order_mark(text: &[u8]) -> bool {
    [b"\xFF\xFE".as_slice(), b"\xFE\xFF", b"\xEF\xBB\xBF"].iter().any(|mark| text.starts_with(mark))
}

const ONE_LINE: &str = "a search looks at one line at a time; search for one of the lines";
const NOT_A_REGEX: &str =
    "correct it, or search for it as plain text; look-around and back-references do not exist here";

fn reject_unmatchable(text: &str) -> Result<(), Error> {
    if text.is_empty() {
        return Err(Error::pattern(text, "it is empty", "give the text to look for"));
    }
    if text.len() > MAX_PATTERN_BYTES {
        let reason = format!("it is longer than `{MAX_PATTERN_BYTES}` bytes");
        return Err(Error::pattern(text, reason, "look for a shorter part of it"));
    }
    if text.contains('\n') {
        return Err(Error::pattern(text, "it contains a line break", ONE_LINE));
    }
    if text.contains('\0') {
        return Err(Error::pattern(
            text,
            "it contains NUL",
            "files with NUL are not text and are not searched",
        ));
    }
    Ok(())
}

fn is_too_large(cause: &grep_regex::Error) -> bool {
    matches!(cause.kind(), ErrorKind::Regex(message) if message.contains("exceeds size limit"))
}

fn refusal(text: &str, cause: &grep_regex::Error) -> Error {
    match cause.kind() {
        ErrorKind::NotAllowed(_) => Error::pattern(text, "it contains a line break", ONE_LINE),
        ErrorKind::Regex(message) => Error::pattern(text, reason_in(message), NOT_A_REGEX),
        other => Error::pattern(text, format!("{other:?}"), NOT_A_REGEX),
    }
}

/// The parser prints the pattern with a caret under the mistake and ends with `error: ` and the reason.
fn reason_in(message: &str) -> String {
    let last = message.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portion(text: &str, is_regex: bool, case_sensitive: bool) -> ChunkLimits {
        LinePattern::new(text, is_regex, case_sensitive).unwrap().limits
    }

    #[test]
    fn the_larger_the_pattern_the_smaller_the_portion() {
        assert_eq!(portion("needle", false, true), LITERAL_LIMITS);
        let sizes = ["needle", r"\w+", r"\w{30}", r"\w{100}"].map(|text| portion(text, true, true));
        assert_eq!(sizes, LIMITS_BY_REGEX_SIZE.map(|(_, portion)| portion));
        assert!(portion(&"aA".repeat(2000), false, true).line < LITERAL_LIMITS.line);
        assert!(portion("needle", false, false).line < LITERAL_LIMITS.line);
        assert!(
            LIMITS_BY_REGEX_SIZE
                .iter()
                .chain([&(0, LITERAL_LIMITS)])
                .all(|(_, portion)| portion.line >= portion.step)
        );
    }

    #[test]
    fn what_could_never_match_or_costs_too_much_is_refused_with_a_remedy() {
        let bad = [
            ("", false),
            ("a\nb", false),
            ("a\0b", false),
            (r"a\nb", true),
            ("(a", true),
            ("a{2,1}", true),
            (r"(?=look)", true),
            (r"(a)\1", true),
            (r"\w{1000}{1000}", true),
            (&"(".repeat(4000), true),
            (&"a".repeat(4097), false),
        ];
        let mut seen = String::new();
        for (text, is_regex) in bad {
            let error = LinePattern::new(text, is_regex, true)
                .err()
                .unwrap_or_else(|| panic!("{text:?} was accepted"));
            assert_eq!(error.code(), toolgate_types::ErrorCode::InvalidPattern);
            seen += &format!("{error}\n    {}\n", error.help().unwrap());
        }
        insta::assert_snapshot!(seen);
    }
}
