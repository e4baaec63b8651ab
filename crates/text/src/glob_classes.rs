//! Character classes of a glob that are easily misunderstood.
//!
//! Globs are parsed here as `globset` parses them. For an invalid glob the classes before the error count; the error itself is reported where the
//! glob is compiled.

use std::iter::Peekable;
use std::str::Chars;

/// One class: `[a-z]`, or `[!a-z]`, which matches everything else.
struct CharClass {
    is_negated: bool,
    ranges: Vec<(char, char)>,
}

/// Whether a class names characters beyond ASCII. Globs are matched byte by byte, so such a class matches none of them.
#[must_use]
pub fn has_class_beyond_ascii(glob: &str) -> bool {
    let is_beyond = |(first, last): &(char, char)| !first.is_ascii() || !last.is_ascii();
    classes(glob).iter().any(|class| class.ranges.iter().any(is_beyond))
}

/// A letter that a class excludes in one case only, as `[!p]` does. Where names are compared without regard to case, it is ambiguous whether `P` is
/// meant.
#[must_use]
pub fn letter_left_out_in_one_case(glob: &str) -> Option<char> {
    let classes = classes(glob);
    let mut negated = classes.iter().filter(|class| class.is_negated);
    negated.find_map(|class| {
        let mut letters = ('a'..='z').chain('A'..='Z').filter(|letter| class.names(*letter));
        letters.find(|letter| !class.names(other_case(*letter)))
    })
}

/// The same ASCII letter in the other case.
#[must_use]
pub fn other_case(letter: char) -> char {
    if letter.is_ascii_lowercase() { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() }
}

impl CharClass {
    fn names(&self, letter: char) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&letter))
    }
}

fn classes(glob: &str) -> Vec<CharClass> {
    let mut rest = glob.chars().peekable();
    let mut classes = Vec::new();
    while let Some(character) = rest.next() {
        match character {
            '\\' => drop(rest.next()),
            '[' => classes.push(class(&mut rest)),
            _ => {}
        }
    }
    classes
}

/// Parses a class after its opening bracket, up to the closing one.
fn class(rest: &mut Peekable<Chars<'_>>) -> CharClass {
    let is_negated = rest.next_if(|sign| matches!(sign, '!' | '^')).is_some();
    let mut ranges: Vec<(char, char)> = Vec::new();
    let mut is_in_range = false;
    for character in rest.by_ref() {
        match (character, ranges.last_mut()) {
            (']', Some(_)) => break,
            ('-', Some(_)) if !is_in_range => is_in_range = true,
            (last, Some(range)) if is_in_range => (range.1, is_in_range) = (last, false),
            (single, _) => ranges.push((single, single)),
        }
    }
    CharClass { is_negated, ranges }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_are_left_out_in_one_case_are_found() {
        for (glob, letter) in [
            ("[!p]*", Some('p')),
            ("[^p]*", Some('p')),
            ("a/{x,[!a-zA-Y]}", Some('z')),
            ("[!]a]", Some('a')),
            ("[!-Q]", Some('Q')),
            ("[!0-z]", None),
            ("[!Z-a]", Some('a')),
            ("[!pP]*", None),
            ("[!a-zA-Z0-9_]", None),
            ("[!0-9._-]", None),
            ("[p]*", None),
            ("\\[!p]*", None),
            ("\\\\[!p]*", Some('p')),
            ("[[!p]", None),
            ("[]!p]", None),
            ("x", None),
            ("[", None),
        ] {
            assert_eq!(letter_left_out_in_one_case(glob), letter, "{glob}");
        }
    }

    #[test]
    fn classes_beyond_ascii_are_found() {
        for (glob, expected) in [
            ("[é]t*", true),
            ("[!é]t*", true),
            ("a/[a-é]", true),
            ("{é,è}t*", false),
            ("é[t]", false),
            ("\\[é]", false),
        ] {
            assert_eq!(has_class_beyond_ascii(glob), expected, "{glob}");
        }
    }
}
