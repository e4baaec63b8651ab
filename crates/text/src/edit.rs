//! Exact replacement of text.
//!
//! No fuzzy matching: the text to replace must occur byte for byte, once, or the edit fails and reports the nearest match. Several edits are applied
//! in order, all or none.

use std::borrow::Cow;

use memchr::memmem;
use thiserror::Error;
use toolgate_types::{ErrorCode, Failure};

use crate::fuzzy_match::{MatchDifference, NearestMatch};
use crate::line_index::LineIndex;

/// More edits in one call are refused: each one reads the whole text.
pub const MAX_EDITS: usize = 1000;
/// The largest text that [`apply`] produces.
pub const MAX_EDITED_BYTES: usize = 64 << 20;
/// The work of all edits of one call together: one unit for each occurrence, and one for each [`BYTES_PER_WORK`] bytes read. An occurrence costs
/// about 5 ns twice, found and replaced, so this is less than a second. Without it, a thousand edits that each replace a million letters take nine.
const MAX_WORK: usize = 64 << 20;
/// Reading and copying this many bytes costs about as much as one occurrence.
const BYTES_PER_WORK: usize = 64;
/// How many lines are named when the text to replace occurs several times.
const MAX_NAMED_LINES: usize = 10;

/// One replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The exact text to replace.
    pub old_text: String,
    /// The replacement.
    pub new_text: String,
    /// Whether every occurrence is replaced; otherwise there must be exactly one.
    pub replace_all: bool,
}

/// A text after its edits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The text.
    pub text: String,
    /// How many occurrences each edit replaced.
    pub replacements: Vec<usize>,
}

/// Applies the edits in order, each to the result of the one before, all or none.
///
/// # Errors
/// When an edit does not match; nothing is applied then.
pub fn apply(original: &str, edits: &[Edit]) -> Result<Edited, EditError> {
    apply_within(original, edits, MAX_EDITED_BYTES)
}

/// Like [`apply`], but a result larger than `max_bytes` is refused before it is built.
///
/// # Errors
/// When an edit does not match, or its result would be too large.
pub fn apply_within(original: &str, edits: &[Edit], max_bytes: usize) -> Result<Edited, EditError> {
    apply_cancellable(original, edits, max_bytes, &|| true)
}

/// Like [`apply_within`], but calls `go_on` before each edit, since each one reads the whole text.
///
/// # Errors
/// When an edit does not match, its result would be too large, or `go_on` returns false.
pub fn apply_cancellable(
    original: &str,
    edits: &[Edit],
    max_bytes: usize,
    go_on: &dyn Fn() -> bool,
) -> Result<Edited, EditError> {
    apply_bounded(original, edits, max_bytes, MAX_WORK, go_on)
}

fn apply_bounded(
    original: &str,
    edits: &[Edit],
    max_bytes: usize,
    max_work: usize,
    go_on: &dyn Fn() -> bool,
) -> Result<Edited, EditError> {
    if edits.is_empty() {
        return Err(EditError::NoEdits);
    }
    if edits.len() > MAX_EDITS {
        return Err(EditError::TooManyEdits { count: edits.len() });
    }
    let mut text = Cow::Borrowed(original);
    let mut work = 0_usize;
    let mut replacements = Vec::with_capacity(edits.len());
    for (index, edit) in edits.iter().enumerate() {
        let step = EditIndex { number: index + 1, of: edits.len() };
        if !go_on() {
            return Err(EditError::Stopped { step });
        }
        work = work.saturating_add(text.len() / BYTES_PER_WORK);
        let (replaced, count) = replace(&text, edit, step, max_bytes, max_work.saturating_sub(work))?;
        work = work.saturating_add(count);
        text = Cow::Owned(replaced);
        replacements.push(count);
    }
    Ok(Edited { text: text.into_owned(), replacements })
}

fn replace(
    text: &str,
    edit: &Edit,
    step: EditIndex,
    max_bytes: usize,
    max_places: usize,
) -> Result<(String, usize), EditError> {
    if edit.old_text.is_empty() {
        return Err(EditError::Empty { step });
    }
    if edit.old_text == edit.new_text {
        return Err(EditError::Unchanged { step });
    }
    let finder = memmem::Finder::new(&edit.old_text);
    // Counted first and searched again: storing millions of positions costs more than finding them.
    let places = || finder.find_iter(text.as_bytes());
    let count = places().take(max_places.saturating_add(1)).count();
    if count > max_places {
        return Err(EditError::TooMuchWork { step });
    }
    if count == 0 {
        let nearest = NearestMatch::nearest(text, &edit.old_text).map(Box::new);
        return Err(EditError::NotFound { step, nearest });
    }
    if count > 1 && !edit.replace_all {
        return Err(EditError::Ambiguous { step, count, lines: first_lines(text, places()) });
    }
    let bytes =
        (text.len() - count * edit.old_text.len()).saturating_add(count.saturating_mul(edit.new_text.len()));
    if bytes > max_bytes {
        return Err(EditError::TooLarge { step, bytes, max_bytes });
    }
    let mut replaced = String::with_capacity(bytes);
    let (mut rest, mut done) = (text, 0);
    for place in places() {
        let taken = rest.split_at_checked(place - done).and_then(|(kept, found)| {
            replaced.push_str(kept);
            replaced.push_str(&edit.new_text);
            found.strip_prefix(edit.old_text.as_str())
        });
        rest = taken.ok_or(EditError::Internal { step })?;
        done = place + edit.old_text.len();
    }
    replaced.push_str(rest);
    Ok((replaced, count))
}

fn first_lines(text: &str, places: impl Iterator<Item = usize>) -> Vec<usize> {
    let lines = LineIndex::new(text);
    places.take(MAX_NAMED_LINES).map(|offset| lines.number_at(offset)).collect()
}

/// The position of an edit in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EditIndex {
    /// Counted from 1.
    pub number: usize,
    /// How many edits the call has.
    pub of: usize,
}

impl std::fmt::Display for EditIndex {
    /// Empty for the only edit of a call, so that its message reads naturally.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.of == 1 { Ok(()) } else { write!(formatter, "edit {} of {}: ", self.number, self.of) }
    }
}

/// Why edits were not applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EditError {
    /// The call has no edits.
    #[error("there are no edits")]
    NoEdits,
    /// The call has too many edits.
    #[error("{count} edits are too many for one call")]
    TooManyEdits {
        /// How many edits there are.
        count: usize,
    },
    /// An empty text occurs everywhere.
    #[error("{step}`old_text` is empty")]
    Empty {
        /// Which edit.
        step: EditIndex,
    },
    /// Old and new text are the same.
    #[error("{step}`old_text` and `new_text` are the same, so nothing would change")]
    Unchanged {
        /// Which edit.
        step: EditIndex,
    },
    /// The text to replace was not found.
    #[error("{step}`old_text` is not in the file{}", nearest_message(.nearest.as_deref()))]
    NotFound {
        /// Which edit.
        step: EditIndex,
        /// The nearest match.
        nearest: Option<Box<NearestMatch>>,
    },
    /// The text to replace occurs several times.
    #[error("{step}`old_text` is in the file {count} times, at {}", lines_message(.lines, *.count))]
    Ambiguous {
        /// Which edit.
        step: EditIndex,
        /// How many times.
        count: usize,
        /// The lines of the first occurrences.
        lines: Vec<usize>,
    },
    /// The call was cancelled or its deadline passed.
    #[error("{step}the call must end before this edit")]
    Stopped {
        /// The edit that was not begun.
        step: EditIndex,
    },
    /// The edits of the call replace too many occurrences, or read too much.
    #[error("{step}together with the edits before it, this one replaces more than one call may")]
    TooMuchWork {
        /// The edit that exceeded the limit.
        step: EditIndex,
    },
    /// The result would be too large.
    #[error("{step}the file would have {bytes} bytes, more than the {max_bytes} that may be written")]
    TooLarge {
        /// Which edit.
        step: EditIndex,
        /// How large the result would be.
        bytes: usize,
        /// The limit.
        max_bytes: usize,
    },
    /// A place that was found is not there when it is replaced.
    #[error("{step}the text could not be replaced where it was found")]
    Internal {
        /// Which edit.
        step: EditIndex,
    },
}

fn nearest_message(nearest: Option<&NearestMatch>) -> String {
    nearest.map(|place| format!("; {}", place.sentence())).unwrap_or_default()
}

fn lines_message(lines: &[usize], count: usize) -> String {
    let named: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let more = if count > lines.len() { " and more" } else { "" };
    format!("lines {}{more}", named.join(", "))
}

impl EditError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NoEdits | Self::TooManyEdits { .. } | Self::Empty { .. } | Self::Unchanged { .. } => {
                ErrorCode::InvalidArguments
            }
            Self::NotFound { .. } => ErrorCode::EditNotFound,
            Self::Ambiguous { .. } => ErrorCode::EditAmbiguous,
            Self::Stopped { .. } => ErrorCode::Timeout,
            Self::TooLarge { .. } | Self::TooMuchWork { .. } => ErrorCode::WriteLimit,
            Self::Internal { .. } => ErrorCode::Internal,
        }
    }

    fn step(&self) -> Option<EditIndex> {
        match self {
            Self::NoEdits | Self::TooManyEdits { .. } => None,
            Self::Empty { step }
            | Self::Unchanged { step }
            | Self::NotFound { step, .. }
            | Self::Ambiguous { step, .. }
            | Self::Stopped { step }
            | Self::TooMuchWork { step }
            | Self::Internal { step }
            | Self::TooLarge { step, .. } => Some(*step),
        }
    }

    fn help(&self) -> String {
        match self {
            Self::NoEdits => "give at least one pair of `old_text` and `new_text`".to_owned(),
            Self::TooManyEdits { .. } => {
                format!("send at most {MAX_EDITS} edits at once, or write the whole file")
            }
            Self::Empty { .. } => {
                "to add text, give a line that is there as `old_text`, and in `new_text` with the addition"
                    .to_owned()
            }
            Self::Unchanged { .. } => {
                "leave this edit out, or say in `new_text` what should stand there".to_owned()
            }
            Self::NotFound { step, nearest } => not_found_help(*step, nearest.as_deref()),
            Self::Ambiguous { .. } => {
                "add neighbouring lines to `old_text` until it stands only once, or set `replace_all`"
                    .to_owned()
            }
            Self::Stopped { .. } | Self::TooMuchWork { .. } => "send fewer edits at once".to_owned(),
            Self::TooLarge { .. } => "replace less, or put the text into several files".to_owned(),
            Self::Internal { .. } => "write the whole file instead".to_owned(),
        }
    }
}

fn not_found_help(step: EditIndex, nearest: Option<&NearestMatch>) -> String {
    let Some(place) = nearest else {
        let earlier =
            if step.number > 1 { "; edits before it have already changed the text that it sees" } else { "" };
        return format!("read the file again and copy the text to replace exactly{earlier}");
    };
    match place.difference {
        MatchDifference::TextHasCrlf => {
            return "end the lines of `old_text` and `new_text` with `\\r\\n`".to_owned();
        }
        MatchDifference::WantedHasCrlf => {
            return "end the lines of `old_text` and `new_text` with `\\n` alone".to_owned();
        }
        _ => {}
    }
    let mut help = String::new();
    if let (MatchDifference::Similar { .. }, Some(mismatch)) = (place.difference, &place.mismatch) {
        let found = mismatch.found.as_deref().map_or("nothing more".to_owned(), |line| format!("`{line}`"));
        help = format!("line {} has {found} where `old_text` has `{}`; ", mismatch.line, mismatch.wanted);
    }
    let cut = if place.cut { " (the beginning of it)" } else { "" };
    format!("{help}send `old_text` exactly as {} of the file{cut}:\n{}", place.name(), place.text)
}

impl From<EditError> for Failure {
    fn from(error: EditError) -> Self {
        let mut failure = Self::new(error.code(), error.to_string()).help(error.help());
        if let Some(step) = error.step().filter(|step| step.of > 1) {
            failure = failure.detail("edit", step.number);
        }
        match error {
            EditError::NotFound { nearest: Some(place), .. } => failure.detail("nearest", place.details()),
            EditError::Ambiguous { count, lines, .. } => {
                failure.detail("count", count).detail("lines", lines)
            }
            EditError::TooLarge { bytes, max_bytes, .. } => {
                failure.detail("bytes", bytes).detail("max_bytes", max_bytes)
            }
            _ => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(old_text: &str, new_text: &str) -> Edit {
        Edit { old_text: old_text.into(), new_text: new_text.into(), replace_all: false }
    }

    fn everywhere(old_text: &str, new_text: &str) -> Edit {
        Edit { replace_all: true, ..edit(old_text, new_text) }
    }

    #[test]
    fn replaces_exactly() {
        for (text, edits, wanted, counts) in [
            ("a b a", vec![edit("b", "c")], "a c a", vec![1]),
            ("a b a", vec![everywhere("a", "x")], "x b x", vec![2]),
            ("aaa", vec![everywhere("aa", "b")], "ba", vec![1]),
            ("a\r\nb\r\n", vec![edit("a\r\n", "")], "b\r\n", vec![1]),
            ("one", vec![edit("one", "two"), edit("two", "three")], "three", vec![1, 1]),
            ("a", vec![edit("a", "aa"), everywhere("a", "b")], "bb", vec![1, 2]),
        ] {
            let edited = apply(text, &edits).unwrap();
            assert_eq!((edited.text.as_str(), edited.replacements), (wanted, counts));
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let step = EditIndex { number: 1, of: 1 };
        assert_eq!(apply("a", &[]), Err(EditError::NoEdits));
        assert_eq!(apply("a", &[edit("", "x")]), Err(EditError::Empty { step }));
        assert_eq!(apply("a", &[edit("a", "a")]), Err(EditError::Unchanged { step }));
        assert_eq!(apply("a", &vec![edit("a", "b"); 1001]), Err(EditError::TooManyEdits { count: 1001 }));
        assert_eq!(
            apply("x\nx\n", &[edit("x", "y")]),
            Err(EditError::Ambiguous { step, count: 2, lines: vec![1, 2] })
        );
        assert!(matches!(apply("a\r\nb\r\n", &[edit("a\nb", "x")]), Err(EditError::NotFound { .. })));
    }

    #[test]
    fn never_builds_what_is_too_large() {
        let text = "a".repeat(1 << 20);
        let bomb = everywhere("a", &"b".repeat(1 << 20));
        assert!(matches!(apply(&text, &[bomb]), Err(EditError::TooLarge { bytes, .. }) if bytes == 1 << 40));
        assert!(apply_within("abc", &[edit("a", "xx")], 4).is_ok());
        assert!(apply_within("abc", &[edit("a", "xxx")], 4).is_err());
    }

    #[test]
    fn edits_that_replace_too_much_together_are_refused_before_they_take_long() {
        let text = "a".repeat(1 << 10);
        let edits: Vec<Edit> = (0..1000)
            .map(|number| if number % 2 == 0 { everywhere("a", "b") } else { everywhere("b", "a") })
            .collect();
        let asked = std::cell::Cell::new(0);
        let count = || {
            asked.set(asked.get() + 1);
            true
        };
        let refused = apply_bounded(&text, &edits, 1 << 20, 64 << 10, &count);
        let step = EditIndex { number: 64, of: 1000 };
        assert_eq!(refused, Err(EditError::TooMuchWork { step }), "{} edits were begun", asked.get());
        // Text that is only read has a cost too.
        let miss = [edit("a", "b"), everywhere("c", "d")];
        assert!(matches!(apply_bounded("a", &miss, 10, 1, &|| true), Err(EditError::NotFound { .. })));
        // As many edits with one occurrence each are legitimate.
        let text: String = (0..1000).map(|number| format!("<{number}>\n")).collect();
        let edits: Vec<Edit> =
            (0..1000).map(|number| edit(&format!("<{number}>"), &format!("[{number}]"))).collect();
        assert_eq!(apply(&text, &edits).unwrap().replacements, vec![1; 1000]);
    }

    #[test]
    fn asks_before_every_edit_whether_to_go_on() {
        let asked = std::cell::Cell::new(0);
        let twice = || {
            asked.set(asked.get() + 1);
            asked.get() <= 2
        };
        let edits = [edit("a", "b"), edit("b", "c"), edit("c", "d")];
        let stopped = apply_cancellable("a", &edits, 10, &twice);
        assert_eq!(stopped, Err(EditError::Stopped { step: EditIndex { number: 3, of: 3 } }));
    }

    fn told(text: &str, edits: &[Edit]) -> String {
        let failure = Failure::from(apply(text, edits).unwrap_err());
        let details = serde_json::Value::Object(failure.details.clone());
        format!("{}: {failure}\n{details}", failure.code.as_str())
    }

    #[test]
    fn tells_a_model_what_to_do() {
        let code = "fn main() {\n    let total = add(1, 2);\n    print(total);\n}\n";
        insta::assert_snapshot!(told(code, &[edit("\tlet total = add(1, 2);\n", "")]), @r#"
        edit_not_found: `old_text` is not in the file; line 2 comes nearest and differs only in tabs and spaces; send `old_text` exactly as line 2 of the file:
            let total = add(1, 2);

        {"nearest":{"start_line":2,"end_line":2,"text":"    let total = add(1, 2);\n","difference":"tabs_and_spaces"}}
        "#);
        insta::assert_snapshot!(told("a\r\nb\r\n", &[edit("a\nb\n", "c\n")]), @r#"
        edit_not_found: `old_text` is not in the file; lines 1-2 come nearest and differ only in line ends: the file has CRLF (`\r\n`) where LF (`\n`) was sent; end the lines of `old_text` and `new_text` with `\r\n`
        {"nearest":{"start_line":1,"end_line":2,"text":"a\r\nb\r\n","difference":"line_endings"}}
        "#);
        insta::assert_snapshot!(told(code, &[edit("print", "show"), edit("let total = add(1, 3);\n", "")]), @r#"
        edit_not_found: edit 2 of 2: `old_text` is not in the file; line 2 comes nearest and differs in words (90 % the same); line 2 has `    let total = add(1, 2);` where `old_text` has `let total = add(1, 3);`; send `old_text` exactly as line 2 of the file:
            let total = add(1, 2);

        {"edit":2,"nearest":{"start_line":2,"end_line":2,"text":"    let total = add(1, 2);\n","difference":"similar","similarity_percent":90}}
        "#);
        insta::assert_snapshot!(told(code, &[edit("class Foo:", "")]), @r"
        edit_not_found: `old_text` is not in the file; read the file again and copy the text to replace exactly
        {}
        ");
        insta::assert_snapshot!(told(code, &[edit("print", "show"), edit("class Foo:", "")]), @r#"
        edit_not_found: edit 2 of 2: `old_text` is not in the file; read the file again and copy the text to replace exactly; edits before it have already changed the text that it sees
        {"edit":2}
        "#);
        insta::assert_snapshot!(told(&"x\n".repeat(12), &[edit("x", "y")]), @r#"
        edit_ambiguous: `old_text` is in the file 12 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more; add neighbouring lines to `old_text` until it stands only once, or set `replace_all`
        {"count":12,"lines":[1,2,3,4,5,6,7,8,9,10]}
        "#);
        insta::assert_snapshot!(told("x", &[edit("x", "x")]), @r"
        invalid_arguments: `old_text` and `new_text` are the same, so nothing would change; leave this edit out, or say in `new_text` what should stand there
        {}
        ");
        insta::assert_snapshot!(told("x", &[edit("", "x")]), @r"
        invalid_arguments: `old_text` is empty; to add text, give a line that is there as `old_text`, and in `new_text` with the addition
        {}
        ");
        insta::assert_snapshot!(told("x", &[]), @r"
        invalid_arguments: there are no edits; give at least one pair of `old_text` and `new_text`
        {}
        ");
    }
}
