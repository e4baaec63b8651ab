//! Common prefix and suffix of two texts, compared at memory speed.

use std::ops::Range;

/// Bytes per comparison, up to the first difference.
const CHUNK_BYTES: usize = 64;

/// Length of the common prefix.
#[must_use]
pub fn common_prefix_len(one: &[u8], other: &[u8]) -> usize {
    let (chunks, other_chunks) = (one.as_chunks::<CHUNK_BYTES>().0, other.as_chunks::<CHUNK_BYTES>().0);
    let sure = CHUNK_BYTES * chunks.iter().zip(other_chunks).take_while(|(one, other)| one == other).count();
    let (one, other) = (one.iter().skip(sure), other.iter().skip(sure));
    sure + one.zip(other).take_while(|(one, other)| one == other).count()
}

/// Length of the common suffix.
#[must_use]
pub fn common_suffix_len(one: &[u8], other: &[u8]) -> usize {
    let (chunks, other_chunks) = (one.as_rchunks::<CHUNK_BYTES>().1, other.as_rchunks::<CHUNK_BYTES>().1);
    let chunks = chunks.iter().rev().zip(other_chunks.iter().rev());
    let sure = CHUNK_BYTES * chunks.take_while(|(one, other)| one == other).count();
    let (one, other) = (one.iter().rev().skip(sure), other.iter().rev().skip(sure));
    sure + one.zip(other).take_while(|(one, other)| one == other).count()
}

/// The parts of two texts that differ, as whole lines, with some common lines around them.
pub(crate) struct ChangedRegion<'t> {
    pub(crate) old: &'t str,
    pub(crate) new: &'t str,
    /// How many common lines come before these parts.
    pub(crate) lines_before: usize,
}

impl<'t> ChangedRegion<'t> {
    pub(crate) fn of(old: &'t str, new: &'t str, context: usize) -> Self {
        let start = line_start(old, common_prefix_len(old.as_bytes(), new.as_bytes()));
        let end = common_suffix_lines_len(tail(old, start), tail(new, start));
        // Back over the line ends of the context to the one before them, and forward over as many.
        let head = old.as_bytes().get(..start).unwrap_or_default();
        let start = memchr::memrchr_iter(b'\n', head).nth(context).map_or(0, |line_end| line_end + 1);
        let ending = tail(old, old.len() - end).as_bytes();
        let mut line_ends = memchr::memchr_iter(b'\n', ending);
        let kept = context.checked_sub(1).map_or(0, |last| line_ends.nth(last).map_or(end, |at| at + 1));
        let part = |text: &'t str| part(text, start..text.len() - (end - kept));
        let head = head.get(..start).unwrap_or_default();
        Self { old: part(old), new: part(new), lines_before: memchr::memchr_iter(b'\n', head).count() }
    }
}

/// The start of the line that contains this offset.
fn line_start(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    memchr::memrchr(b'\n', before).map_or(0, |line_end| line_end + 1)
}

/// Length of the common suffix in whole lines.
fn common_suffix_lines_len(old: &str, new: &str) -> usize {
    let same = common_suffix_len(old.as_bytes(), new.as_bytes());
    let begins_a_line = |text: &str| {
        let at = text.len() - same;
        line_start(text, at) == at
    };
    if begins_a_line(old) && begins_a_line(new) {
        return same;
    }
    let same = old.as_bytes().get(old.len() - same..).unwrap_or_default();
    memchr::memchr(b'\n', same).map_or(0, |line_end| same.len() - line_end - 1)
}

fn tail(text: &str, start: usize) -> &str {
    part(text, start..text.len())
}

fn part(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_texts_are_compared_to_their_first_and_last_difference() {
        for length in
            [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, 3 * CHUNK_BYTES + 5]
        {
            let text = vec![b'a'; length];
            for place in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES - 1]
                .into_iter()
                .filter(|at| *at < length)
            {
                let mut other = text.clone();
                other[place] = b'b';
                assert_eq!(common_prefix_len(&text, &other), place);
                assert_eq!(common_suffix_len(&text, &other), length - place - 1);
            }
            let longer = [text.as_slice(), b"more"].concat();
            assert_eq!(
                (common_prefix_len(&text, &text), common_prefix_len(&text, &longer)),
                (length, length)
            );
            let longer = [b"more", text.as_slice()].concat();
            assert_eq!(
                (common_suffix_len(&text, &text), common_suffix_len(&longer, &text)),
                (length, length)
            );
        }
    }

    fn lines(text: &str) -> Vec<&str> {
        text.split_inclusive('\n').collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]
        #[test]
        fn the_differing_parts_are_those_between_the_same_lines(
            old in "[ab\n\u{e9}]{0,12}", new in "[ab\n\u{e8}]{0,12}", context in 0usize..4,
        ) {
            prop_assume!(old != new);
            let (old_lines, new_lines) = (lines(&old), lines(&new));
            let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
            let before = old_lines.iter().zip(&new_lines).take_while(same).count();
            let (old_rest, new_rest) = (&old_lines[before..], &new_lines[before..]);
            let after = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(same).count();
            let (start, left_out) = (before.saturating_sub(context), after.saturating_sub(context));
            let found = ChangedRegion::of(&old, &new, context);
            prop_assert_eq!(found.lines_before, start);
            prop_assert_eq!(found.old, old_lines[start..old_lines.len() - left_out].concat());
            prop_assert_eq!(found.new, new_lines[start..new_lines.len() - left_out].concat());
        }
    }
}
