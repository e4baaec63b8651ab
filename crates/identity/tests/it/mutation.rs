//! A token with any change is rejected.

use proptest::prelude::*;
use toolgate_identity::Algorithm;

use crate::fixture::*;

const KINDS: [Algorithm; 5] =
    [Algorithm::Hs256, Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256, Algorithm::EdDsa];

#[test]
fn no_beginning_and_no_end_of_a_token_is_a_token() {
    let verifier = verifier();
    for algorithm in KINDS {
        let token = good(algorithm);
        assert_eq!(outcome(&verifier, &token), "ok");
        for cut in 1..token.len() {
            assert_ne!(outcome(&verifier, &token[..cut]), "ok", "{algorithm} cut to {cut}");
            assert_ne!(outcome(&verifier, &token[cut..]), "ok", "{algorithm} without the first {cut}");
        }
    }
}

#[test]
fn the_last_letter_of_a_part_has_one_spelling() {
    let verifier = verifier();
    let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=. ";
    for algorithm in KINDS {
        let token = good(algorithm);
        let ends: Vec<usize> =
            token.match_indices('.').map(|(dot, _)| dot - 1).chain([token.len() - 1]).collect();
        for end in ends {
            for letter in letters.chars().filter(|letter| !token[end..].starts_with(*letter)) {
                let changed = format!("{}{letter}{}", &token[..end], &token[end + 1..]);
                assert_ne!(outcome(&verifier, &changed), "ok", "{algorithm} with {letter:?} at {end}");
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn any_change_of_one_letter_is_refused(
        kind in 0..KINDS.len(), place in any::<prop::sample::Index>(), letter in "[A-Za-z0-9_.=+/ \\-]|\\PC",
    ) {
        let token = good(KINDS[kind]);
        let at = place.index(token.len());
        let replaced = format!("{}{letter}{}", &token[..at], &token[at + 1..]);
        let inserted = format!("{}{letter}{}", &token[..at], &token[at..]);
        let removed = format!("{}{}", &token[..at], &token[at + 1..]);
        let verifier = verifier();
        prop_assert!(replaced == token || outcome(&verifier, &replaced) != "ok");
        prop_assert_ne!(outcome(&verifier, &inserted), "ok");
        prop_assert_ne!(outcome(&verifier, &removed), "ok");
    }

    #[test]
    fn anything_at_all_is_refused_without_a_panic(
        text in "\\PC{0,200}|[A-Za-z0-9_-]{1,40}\\.[A-Za-z0-9_-]{1,80}\\.[A-Za-z0-9_-]{0,40}",
    ) {
        prop_assert_ne!(outcome(&verifier(), &text), "ok");
    }
}
