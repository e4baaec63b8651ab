//! Patterns of field paths.

/// Maximum number of segments in a pattern.
const MAX_SEGMENTS: usize = 64;

/// One segment of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// This name.
    Name(String),
    /// An array item.
    Item,
    /// Any one name or item.
    One,
    /// Any number of names and items, including none.
    Any,
}

/// How specific a pattern is, in increasing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Specificity {
    /// Only stars.
    Everything,
    /// Stars and names.
    Named,
    /// No star.
    Exact,
}

/// One pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldPattern {
    pub(super) segments: Vec<Segment>,
    pub(super) specificity: Specificity,
    /// Whether it also matches a scalar result: `*` does.
    pub(super) plain_answer: bool,
}

/// Why output rules are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutputPolicyError {
    /// Two dots in a row, or one at an end.
    #[error("`{0}` has an empty name in it")]
    EmptyName(String),
    /// A star next to other characters.
    #[error("`{0}` has a `*` beside other characters; a star stands for whole names, and `\\*` for itself")]
    PartialStar(String),
    /// A bracket that is not `[]` after a name.
    #[error("`{0}` has a bracket that is not `[]` at the end of a name; `\\[` stands for itself")]
    StrayBracket(String),
    /// A backslash before a character that needs no escape.
    #[error("`{0}` has a backslash before a character that needs none")]
    StrayBackslash(String),
    /// More names than a result may be nested.
    #[error("`{0}` has more than 64 names")]
    TooLong(String),
    /// Too many patterns overlap.
    #[error("the patterns overlap in too many ways; use fewer stars")]
    TooMany,
}

impl FieldPattern {
    pub(super) fn parse(text: &str) -> Result<Self, OutputPolicyError> {
        let mut segments = Vec::new();
        if !text.is_empty() {
            for word in split(text) {
                parse_word(word, text, &mut segments)?;
            }
        }
        if segments.len() > MAX_SEGMENTS {
            return Err(OutputPolicyError::TooLong(text.chars().take(100).collect()));
        }
        let plain_answer = matches!(segments.as_slice(), [Segment::One | Segment::Any]);
        Ok(Self { specificity: specificity(&segments), segments: at_any_depth(segments), plain_answer })
    }

    /// The literal names in it.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Name(name) => Some(name.as_str()),
            Segment::Item | Segment::One | Segment::Any => None,
        })
    }
}

fn specificity(segments: &[Segment]) -> Specificity {
    let is_star = |segment: &Segment| matches!(segment, Segment::One | Segment::Any);
    if !segments.iter().any(is_star) {
        Specificity::Exact
    } else if segments.iter().all(is_star) {
        Specificity::Everything
    } else {
        Specificity::Named
    }
}

/// Makes a star at the start or the end stand for any depth.
fn at_any_depth(mut segments: Vec<Segment>) -> Vec<Segment> {
    if let [Segment::One | Segment::Any] = segments.as_slice() {
        return vec![Segment::One, Segment::Any];
    }
    if segments.last() == Some(&Segment::One) {
        segments.push(Segment::Any);
    }
    if let Some(first @ Segment::One) = segments.first_mut() {
        *first = Segment::Any;
    }
    segments
}

/// The parts between dots that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|letter| {
        let divides = letter == '.' && !escaped;
        escaped = letter == '\\' && !escaped;
        divides
    })
    .collect()
}

fn parse_word(word: &str, text: &str, segments: &mut Vec<Segment>) -> Result<(), OutputPolicyError> {
    match word {
        "" => return Err(OutputPolicyError::EmptyName(text.to_owned())),
        "*" => segments.push(Segment::One),
        "**" => segments.push(Segment::Any),
        _ => {
            let mut name = word;
            let mut items = 0;
            while let Some(shorter) = name.strip_suffix("[]") {
                name = shorter;
                items += 1;
            }
            match name {
                "" => {}
                "*" => segments.push(Segment::One),
                "**" => segments.push(Segment::Any),
                _ => segments.push(Segment::Name(unescape(name, text)?)),
            }
            segments.extend(std::iter::repeat_n(Segment::Item, items));
        }
    }
    Ok(())
}

fn unescape(name: &str, text: &str) -> Result<String, OutputPolicyError> {
    let mut plain = String::with_capacity(name.len());
    let mut letters = name.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(escaped @ ('.' | '*' | '[' | ']' | '\\')) => plain.push(escaped),
                _ => return Err(OutputPolicyError::StrayBackslash(text.to_owned())),
            },
            '*' => return Err(OutputPolicyError::PartialStar(text.to_owned())),
            '[' | ']' => return Err(OutputPolicyError::StrayBracket(text.to_owned())),
            letter => plain.push(letter),
        }
    }
    Ok(plain)
}

/// A path as [`super::Filtered`] lists it, with `?` for each unknown name. For a truncated path, its last name must be known as
/// truncated.
pub(super) fn with_known_names(path: &str, is_known: &dyn Fn(&str) -> bool) -> String {
    let known = |word: &&str| *word == "*" || unescape(word, path).is_ok_and(|name| is_known(&name));
    let words: Vec<&str> =
        split(path).into_iter().map(|word| if known(&word) { word } else { "?" }).collect();
    words.join(".")
}

/// Escapes a name for use in a pattern.
pub(super) fn escape(name: &str, to: &mut String) {
    for letter in name.chars() {
        if matches!(letter, '.' | '*' | '[' | ']' | '\\') {
            to.push('\\');
        }
        to.push(letter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Segment::{Any, Item, One};

    fn name(text: &str) -> Segment {
        Segment::Name(text.to_owned())
    }

    #[test]
    fn patterns_mean_what_the_table_says() {
        for (text, segments, closeness) in [
            ("", vec![], Specificity::Exact),
            ("a", vec![name("a")], Specificity::Exact),
            ("a.b", vec![name("a"), name("b")], Specificity::Exact),
            ("a[].b", vec![name("a"), Item, name("b")], Specificity::Exact),
            ("[].b", vec![Item, name("b")], Specificity::Exact),
            ("a[][]", vec![name("a"), Item, Item], Specificity::Exact),
            ("a.[]", vec![name("a"), Item], Specificity::Exact),
            ("a.*.b", vec![name("a"), One, name("b")], Specificity::Named),
            ("a.*", vec![name("a"), One, Any], Specificity::Named),
            ("*.a", vec![Any, name("a")], Specificity::Named),
            ("**.a", vec![Any, name("a")], Specificity::Named),
            ("a.**.b", vec![name("a"), Any, name("b")], Specificity::Named),
            ("*", vec![One, Any], Specificity::Everything),
            ("**", vec![One, Any], Specificity::Everything),
            ("*.*", vec![Any, One, Any], Specificity::Everything),
            (r"a\.b.\*.\[\]", vec![name("a.b"), name("*"), name("[]")], Specificity::Exact),
            (r"a\\.b", vec![name("a\\"), name("b")], Specificity::Exact),
            ("é.日本", vec![name("é"), name("日本")], Specificity::Exact),
        ] {
            let pattern = FieldPattern::parse(text).unwrap();
            assert_eq!((pattern.segments, pattern.specificity), (segments, closeness), "{text:?}");
        }
    }

    #[test]
    fn patterns_that_mean_nothing_are_refused() {
        for text in [".", "a.", ".a", "a..b", "a*", "*a", "***", "a[", "a]", "[0]", "a[].b[1]", r"a\", r"a\b"]
        {
            assert!(FieldPattern::parse(text).is_err(), "{text:?} was accepted");
        }
        assert!(FieldPattern::parse(&vec!["a"; 65].join(".")).is_err());
    }
}
