//! A fast pre-filter: names that no rule of the built-in deny list can match.
//!
//! A rule denies a place only where the rule's last name is one of the names on the way. So a name at which no rule ends, which is nearly every name,
//! needs no rule to be evaluated. The filter errs only towards "may match"; everything that it does not rule out is judged by the rules themselves.

use crate::deny_list::{DEFAULT_DENY, may_end_rule};
use crate::name_fold::{BACKUP_ENDINGS, folds_by_case_alone, may_be_backup};

/// Whether no rule denies a location for any of its names, nor as a backup copy of a denied place.
pub(crate) fn no_name_can_match(location: &[u8]) -> bool {
    location.split(|byte| *byte == b'/').all(cannot_match)
}

/// Whether no rule ends at a name at any depth, nor at a name that it may be a backup copy of.
#[must_use]
pub fn cannot_match(name: &[u8]) -> bool {
    folds_by_case_alone(name) && (!may_match(name) || (!may_end_rule(name) && !may_be_backup(name)))
}

/// Whether a name begins or ends as the last name of a rule does.
fn may_match(name: &[u8]) -> bool {
    let begins = name.first().is_some_and(|first| FIRST_BYTES.get(usize::from(*first)) == Some(&true));
    // Compares with all of them instead of stopping at the first match: a match is rare, and the loop without a branch is faster.
    let ends = name.last_chunk().is_some_and(|last| {
        let last = in_lower_case(*last);
        LAST_FOUR_BYTES.iter().fold(false, |found, ending| found | (*ending == last))
    });
    begins || ends || name.ends_with(COPY_MARK)
}

/// Four letters as an integer, with ASCII case removed. Characters that are not letters may collide.
const fn in_lower_case(four: [u8; 4]) -> u32 {
    u32::from_le_bytes(four) | 0x2020_2020
}

/// First bytes of the last names of rules, in either case, and of backup names that begin differently from the original.
#[expect(clippy::indexing_slicing, reason = "a mistake here does not compile")]
const FIRST_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    table[b'#' as usize] = true;
    table[b'.' as usize] = true;
    let mut rules = DEFAULT_DENY;
    while let [rule, rest @ ..] = rules {
        if let [first, ..] = last_name(rule) {
            table[first.to_ascii_lowercase() as usize] = true;
            table[first.to_ascii_uppercase() as usize] = true;
        }
        rules = rest;
    }
    table
};

/// The ending of backup names that is shorter than four bytes, compared by itself.
const COPY_MARK: &[u8] = b"~";

/// The last four bytes of the rules that are suffixes, and of the backup endings.
#[expect(clippy::indexing_slicing, reason = "a mistake here does not compile")]
const LAST_FOUR_BYTES: [u32; 16] = {
    // Unused elements repeat one ending.
    let mut endings = [in_lower_case(*b".bak"); 16];
    let mut count = 0;
    let mut rules = DEFAULT_DENY;
    while let [rule, rest @ ..] = rules {
        if let [b'*', ending @ ..] = last_name(rule) {
            endings[count] = last_four(ending);
            count += 1;
        }
        rules = rest;
    }
    let mut copies: &[&str] = &BACKUP_ENDINGS;
    while let [copy, rest @ ..] = copies {
        if !matches!(copy.as_bytes(), COPY_MARK) {
            endings[count] = last_four(copy.as_bytes());
            count += 1;
        }
        copies = rest;
    }
    endings
};

#[expect(clippy::panic, reason = "this is run by the compiler alone")]
const fn last_four(ending: &[u8]) -> u32 {
    match ending.last_chunk() {
        Some(last) => in_lower_case(*last),
        None => panic!("an ending of fewer than four letters is not found at a glance"),
    }
}

/// What follows the last slash.
const fn last_name(rule: &str) -> &[u8] {
    let mut rest = rule.as_bytes();
    let mut name = rest;
    while let [byte, after @ ..] = rest {
        if *byte == b'/' {
            name = after;
        }
        rest = after;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_names_are_harmless_and_no_name_that_is_looked_for_is() {
        for location in
            ["", "a", "src/main.rs", "read/k_0.txt", "Cargo.toml", "docs/index.md", "config.rs", "store"]
        {
            assert!(no_name_can_match(location.as_bytes()), "{location}");
        }
        for name in [
            "x.PEM",
            ".env",
            "ID_RSA",
            "a.toolgate",
            "x.bak",
            "x.Orig",
            "client_secret1.json",
            "config",
            "x~",
            "#x#",
            ".#x",
            "x.",
        ] {
            assert!(!cannot_match(name.as_bytes()), "{name}");
            assert!(!no_name_can_match(format!("a/{name}/b").as_bytes()), "{name}");
        }
    }

    #[test]
    fn most_names_are_done_with_by_their_first_and_last_letters() {
        for name in ["main.rs", "README.md", "entry_0001.txt", "lib.py", "a.go"] {
            assert!(!may_match(name.as_bytes()), "{name}");
        }
    }
}
