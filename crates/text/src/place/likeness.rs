//! Lines that share much with what was wanted, and how much.

use std::collections::HashMap;

use super::Difference;
use crate::window::Lines;

/// Only so many lines of what was wanted are compared.
const WANTED_LINES: usize = 200;
/// Below this, two texts have nothing to do with each other.
const LEAST_SIMILARITY: usize = 50;
/// A line of what was wanted votes for so many places at most; `}` votes for none in particular.
const VOTES_PER_LINE: usize = 4;

/// The window of lines that shares most with the wanted lines.
pub(super) fn similar_lines(
    lines: &Lines<'_>,
    text: &str,
    wanted: &str,
) -> Option<(usize, usize, Difference)> {
    let wanted_lines: Vec<&str> = wanted.split_inclusive('\n').take(WANTED_LINES).collect();
    let height = wanted_lines.len();
    let mut pairs = Pairs::of(wanted_lines.concat().trim());
    [most_votes(text, &wanted_lines), like_longest_line(text, &wanted_lines)]
        .into_iter()
        .flatten()
        .filter_map(|first| {
            let last = (first + height - 1).min(lines.count());
            let percent = pairs.similarity(lines.pick(first, last).ok()?.trim());
            (percent >= LEAST_SIMILARITY).then_some((first, last, Difference::Similar { percent }))
        })
        .max_by_key(|(first, _, difference)| match difference {
            Difference::Similar { percent } => (*percent, usize::MAX - first),
            _ => (0, 0),
        })
}

/// The first line of the window in which most lines are exactly wanted ones, at the right distance.
fn most_votes(text: &str, wanted: &[&str]) -> Option<usize> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in wanted.iter().enumerate().filter(|(_, line)| line.trim().len() >= 3) {
        let indexes = places.entry(line.trim()).or_default();
        if indexes.len() < VOTES_PER_LINE {
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

/// Where the window would begin if the line most like the longest wanted line were that line.
fn like_longest_line(text: &str, wanted: &[&str]) -> Option<usize> {
    let (index, longest) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let mut pairs = Pairs::of(longest.trim());
    let (number, percent) = (1usize..)
        .zip(text.split_inclusive('\n'))
        .map(|(number, line)| (number, pairs.similarity(line.trim())))
        .max_by_key(|(number, percent)| (*percent, usize::MAX - number))?;
    (percent > 0).then(|| number.saturating_sub(index).max(1))
}

/// How often each pair of neighbouring bytes occurs in a text.
struct Pairs {
    counts: HashMap<[u8; 2], u32>,
    total: usize,
}

impl Pairs {
    fn of(text: &str) -> Self {
        let mut counts = HashMap::new();
        for pair in pairs(text) {
            *counts.entry(pair).or_default() += 1;
        }
        Self { counts, total: text.len().saturating_sub(1) }
    }

    /// Twice the shared pairs in hundredths of all pairs (the Sørensen–Dice coefficient).
    fn similarity(&mut self, other: &str) -> usize {
        let mut taken = Vec::new();
        for pair in pairs(other) {
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

fn pairs(text: &str) -> impl Iterator<Item = [u8; 2]> {
    text.bytes().zip(text.bytes().skip(1)).map(|(first, second)| [first, second])
}
