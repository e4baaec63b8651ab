//! Finds lines that are similar to the wanted text, and measures the similarity.

use std::collections::HashMap;

use super::MatchDifference;
use crate::line_index::LineIndex;

/// How many wanted lines are compared.
const MAX_WANTED_LINES: usize = 200;
/// Below this percentage, two texts are unrelated.
const MIN_SIMILARITY: usize = 50;
/// How many positions a wanted line may vote for; a line like `}` is too short to vote.
const MAX_VOTES_PER_LINE: usize = 4;

/// The window of lines that is most similar to the wanted lines.
pub(super) fn similar_lines(
    lines: &LineIndex<'_>,
    text: &str,
    wanted: &str,
) -> Option<(usize, usize, MatchDifference)> {
    let wanted_lines: Vec<&str> = wanted.split_inclusive('\n').take(MAX_WANTED_LINES).collect();
    let height = wanted_lines.len();
    let mut pairs = ByteBigrams::of(wanted_lines.concat().trim());
    [most_votes(text, &wanted_lines), like_longest_line(text, &wanted_lines)]
        .into_iter()
        .flatten()
        .filter_map(|first| {
            let last = (first + height - 1).min(lines.count());
            let percent = pairs.similarity(lines.slice(first, last).ok()?.trim());
            (percent >= MIN_SIMILARITY).then_some((first, last, MatchDifference::Similar { percent }))
        })
        .max_by_key(|(first, _, difference)| match difference {
            MatchDifference::Similar { percent } => (*percent, usize::MAX - first),
            _ => (0, 0),
        })
}

/// The first line of the window in which most lines equal wanted ones, at the right distance.
fn most_votes(text: &str, wanted: &[&str]) -> Option<usize> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in wanted.iter().enumerate().filter(|(_, line)| line.trim().len() >= 3) {
        let indexes = places.entry(line.trim()).or_default();
        if indexes.len() < MAX_VOTES_PER_LINE {
            indexes.push(index);
        }
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (number, line) in (1usize..).zip(text.split_inclusive('\n')) {
        for index in places.get(line.trim()).into_iter().flatten() {
            *votes.entry(number.saturating_sub(*index).max(1)).or_default() += 1;
        }
    }
    votes.into_iter().max_by_key(|(first, votes)| (*votes, usize::MAX - first)).map(|(first, _)| first)
}

/// Where the window would begin if the line most similar to the longest wanted line were that line.
fn like_longest_line(text: &str, wanted: &[&str]) -> Option<usize> {
    let (index, longest) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let mut pairs = ByteBigrams::of(longest.trim());
    let (number, percent) = (1usize..)
        .zip(text.split_inclusive('\n'))
        .map(|(number, line)| (number, pairs.similarity(line.trim())))
        .max_by_key(|(number, percent)| (*percent, usize::MAX - number))?;
    (percent > 0).then(|| number.saturating_sub(index).max(1))
}

/// How often each pair of neighbouring bytes occurs in a text.
struct ByteBigrams {
    counts: HashMap<[u8; 2], u32>,
    total: usize,
}

impl ByteBigrams {
    fn of(text: &str) -> Self {
        let mut counts = HashMap::new();
        for pair in bigrams(text) {
            *counts.entry(pair).or_default() += 1;
        }
        Self { counts, total: text.len().saturating_sub(1) }
    }

    /// The Sørensen–Dice coefficient in percent: twice the shared pairs divided by all pairs.
    fn similarity(&mut self, other: &str) -> usize {
        let mut taken = Vec::new();
        for pair in bigrams(other) {
            if let Some(count) = self.counts.get_mut(&pair).filter(|count| **count > 0) {
                *count -= 1;
                taken.push(pair);
            }
        }
        for pair in &taken {
            self.counts.entry(*pair).and_modify(|count| *count += 1);
        }
        let all = self.total + other.len().saturating_sub(1);
        (taken.len() * 200).checked_div(all).unwrap_or(0)
    }
}

fn bigrams(text: &str) -> impl Iterator<Item = [u8; 2]> {
    text.bytes().zip(text.bytes().skip(1)).map(|(first, second)| [first, second])
}
