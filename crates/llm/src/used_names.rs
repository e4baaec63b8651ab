//! Unique names that every wire accepts: `^[a-zA-Z0-9_-]{1,64}$`.

use std::collections::{HashMap, HashSet};

/// The longest name that wires accept.
pub(crate) const MAX_WIRE_NAME_BYTES: usize = 64;

/// The part of a name that leaves room for any number.
const MAX_STEM_BYTES: usize = MAX_WIRE_NAME_BYTES - "_18446744073709551615".len();

/// The names in use.
#[derive(Debug, Default)]
pub(crate) struct UsedNames {
    names: HashSet<String>,
    /// The next number per stem, so that a thousand similar names do not take quadratic time.
    next: HashMap<String, u64>,
}

impl UsedNames {
    /// Reserves a name that is already valid.
    pub(crate) fn reserve(&mut self, name: &str) {
        if !self.names.contains(name) {
            self.names.insert(name.to_owned());
        }
    }

    /// A valid unused name similar to this one; similar to `instead` if it is empty.
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

/// Whether every wire accepts the name.
pub(crate) fn is_valid_name(name: &str) -> bool {
    (1..=MAX_WIRE_NAME_BYTES).contains(&name.len()) && name.chars().all(is_allowed)
}

/// The name with other characters replaced, and truncated.
pub(crate) fn sanitize_name(name: &str) -> String {
    name.chars()
        .take(MAX_WIRE_NAME_BYTES)
        .map(|letter| if is_allowed(letter) { letter } else { '_' })
        .collect()
}

/// Whether wires accept this character in a name.
fn is_allowed(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '-'
}

/// The first characters of a sanitised name, which is ASCII.
fn cut(plain: &str, letters: usize) -> &str {
    plain.get(..letters).unwrap_or(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_begin_alike_are_counted_once() {
        // Quadratic time would be ten thousand million comparisons.
        let mut taken = UsedNames::default();
        let names: HashSet<String> = (0..100_000).map(|_| taken.claim("ä", "_")).collect();
        assert!(names.len() == 100_000 && names.contains("_") && names.contains("__100000"));
        // The same for long names that differ where the number goes.
        let long = |number: u32| format!("{}{number:05}", "x".repeat(MAX_WIRE_NAME_BYTES - 5));
        for number in 0..50_000 {
            taken.reserve(&long(number));
        }
        let names: HashSet<String> = (0..50_000).map(|number| taken.claim(&long(number), "_")).collect();
        assert!(names.len() == 50_000 && names.iter().all(|name| is_valid_name(name)));
    }
}
