//! What a schema's `pattern` implies about matching text.
//!
//! A pattern that cannot be parsed here (lookaround, back references) is judged by its source text, and never as
//! safer than it is.

use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// Whether a pattern is anchored at both ends.
#[must_use]
pub fn is_anchored(pattern: &str) -> bool {
    match regex_syntax::parse(pattern) {
        Ok(hir) => {
            let properties = hir.properties();
            properties.look_set_prefix().contains(Look::Start)
                && properties.look_set_suffix().contains(Look::End)
        }
        Err(_) => pattern.starts_with('^') && pattern.ends_with('$') && !pattern.contains('|'),
    }
}

/// Whether a match can start with a character.
#[must_use]
pub fn may_begin_with(pattern: &str, character: char) -> bool {
    let refused = format!("^(?!{character})");
    let escaped = format!("^(?!\\{character})");
    if pattern.starts_with(&refused) || pattern.starts_with(&escaped) {
        return pattern.contains('|');
    }
    match regex_syntax::parse(pattern) {
        Ok(hir) if hir.properties().look_set_prefix().contains(Look::Start) => {
            begins(&hir, character).character
        }
        _ => true,
    }
}

/// How a match can start.
#[derive(Clone, Copy)]
struct Begins {
    /// With the character.
    character: bool,
    /// The match can be empty.
    empty: bool,
}

fn begins(hir: &Hir, character: char) -> Begins {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Begins { character: false, empty: true },
        HirKind::Literal(literal) => {
            let mut buffer = [0; 4];
            let encoded = character.encode_utf8(&mut buffer).as_bytes();
            Begins { character: literal.0.starts_with(encoded), empty: literal.0.is_empty() }
        }
        HirKind::Class(class) => Begins { character: holds(class, character), empty: false },
        HirKind::Capture(capture) => begins(&capture.sub, character),
        HirKind::Repetition(repetition) => {
            let inner = begins(&repetition.sub, character);
            Begins { empty: inner.empty || repetition.min == 0, ..inner }
        }
        HirKind::Alternation(ways) => either(ways.iter().map(|way| begins(way, character))),
        HirKind::Concat(parts) => one_after_another(parts, character),
    }
}

fn either(ways: impl Iterator<Item = Begins>) -> Begins {
    let none = Begins { character: false, empty: false };
    ways.fold(none, |all, way| Begins {
        character: all.character || way.character,
        empty: all.empty || way.empty,
    })
}

fn one_after_another(parts: &[Hir], character: char) -> Begins {
    let mut all = Begins { character: false, empty: true };
    for part in parts {
        if !all.empty {
            break;
        }
        let part = begins(part, character);
        all = Begins { character: all.character || part.character, empty: part.empty };
    }
    all
}

fn holds(class: &Class, character: char) -> bool {
    match class {
        Class::Unicode(class) => {
            class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&character))
        }
        Class::Bytes(class) => {
            let byte = u32::from(character);
            class
                .ranges()
                .iter()
                .any(|range| (u32::from(range.start())..=u32::from(range.end())).contains(&byte))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchored_at_both_ends_in_every_way() {
        for (pattern, expected) in [
            ("^[a-z]+$", true),
            ("^(a|b)$", true),
            ("^a$|^b$", true),
            ("^a|b$", false),
            ("[a-z]+", false),
            ("^[a-z]+", false),
            ("[a-z]+$", false),
            ("^(?!-)[a-z]+$", true),
            ("^(?!-)a|b$", false),
            ("(?m)^a$", false),
            ("\\^a\\$", false),
        ] {
            assert_eq!(is_anchored(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn a_dash_in_front_is_found_wherever_it_hides() {
        for (pattern, expected) in [
            ("^[a-z]+$", false),
            ("^[A-Za-z0-9_]", false),
            ("^[a-z0-9-]+$", true),
            ("^[\\w.-]+$", true),
            ("^[!-~]+$", true),
            ("^.+$", true),
            ("[a-z]+", true),
            ("^a?-$", true),
            ("^a*[^a-z]$", true),
            ("^a-b$", false),
            ("^(a|-)$", true),
            ("^(?:a|b)-$", false),
            ("^$", false),
            ("^(?!-).*$", false),
            ("^(?!\\-)[a-z-]+$", false),
            ("^(?!-)a|-b$", true),
            ("^(?=x)-$", true),
            ("^[^-]", false),
        ] {
            assert_eq!(may_begin_with(pattern, '-'), expected, "{pattern}");
        }
    }
}
