//! Names as wires take them, `^[a-zA-Z0-9_-]{1,64}$`, and none given twice.

use std::collections::{HashMap, HashSet};

/// The longest name that wires take.
pub(crate) const MAX_WIRE_NAME_BYTES: usize = 64;

/// As much of a name as every number leaves room for.
const MAX_STEM_BYTES: usize = MAX_WIRE_NAME_BYTES - "_18446744073709551615".len();

/// The names that somebody has.
#[derive(Debug, Default)]
pub(crate) struct UsedNames {
    names: HashSet<String>,
    /// The next number for names that begin alike, so that a thousand of them are not counted through a thousand times.
    next: HashMap<String, u64>,
}

impl UsedNames {
    /// Takes a name that is fine as it is.
    pub(crate) fn reserve(&mut self, name: &str) {
        if !self.names.contains(name) {
            self.names.insert(name.to_owned());
        }
    }

    /// A name like this one that wires take and nobody has; like `instead` where it is empty.
    pub(crate) fn claim(&mut self, name: &str, instead: &str) -> String {
        let plain = sanitize_name(if name.is_empty() { instead } else { name });
        let free = if self.names.contains(&plain) { self.numbered(&plain) } else { plain };
        self.names.insert(free.clone());
        free
    }

    fn numbered(&mut self, plain: &str) -> String {
        let next = self.next.entry(cut(plain, MAX_STEM_BYTES).to_owned()).or_insert(2);
        loop {
            let ending = format!("_{next}");
            *next += 1;
            let name = cut(plain, MAX_WIRE_NAME_BYTES - ending.len()).to_owned() + &ending;
            if !self.names.contains(&name) {
                return name;
            }
        }
    }
}

/// Whether every wire takes a name as it is.
pub(crate) fn is_valid_name(name: &str) -> bool {
    (1..=MAX_WIRE_NAME_BYTES).contains(&name.len()) && name.chars().all(is_allowed)
}

/// A name in letters that wires take, and no longer than they take.
pub(crate) fn sanitize_name(name: &str) -> String {
    name.chars()
        .take(MAX_WIRE_NAME_BYTES)
        .map(|letter| if is_allowed(letter) { letter } else { '_' })
        .collect()
}

/// Whether wires take this in a name.
fn is_allowed(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '-'
}

/// The front of a name that is plain, so that every letter is one byte.
fn cut(plain: &str, letters: usize) -> &str {
    plain.get(..letters).unwrap_or(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_begin_alike_are_counted_once() {
        // What would have to be looked at ten thousand million times is looked at once.
        let mut taken = UsedNames::default();
        let names: HashSet<String> = (0..100_000).map(|_| taken.claim("ä", "_")).collect();
        assert!(names.len() == 100_000 && names.contains("_") && names.contains("__100000"));
        // So are long ones that differ where the number goes.
        let long = |number: u32| format!("{}{number:05}", "x".repeat(MAX_WIRE_NAME_BYTES - 5));
        for number in 0..50_000 {
            taken.reserve(&long(number));
        }
        let names: HashSet<String> = (0..50_000).map(|number| taken.claim(&long(number), "_")).collect();
        assert!(names.len() == 50_000 && names.iter().all(|name| is_valid_name(name)));
    }
}
