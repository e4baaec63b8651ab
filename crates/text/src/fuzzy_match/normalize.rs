//! Finds texts that are equal except for one kind of difference.

use super::MatchDifference;
use crate::line_index::LineIndex;

/// Looks for `wanted` with one normalisation after the other.
pub(super) fn find_normalized(text: &str, wanted: &str) -> Option<(usize, usize, MatchDifference)> {
    let without_end = wanted.trim_end_matches(['\n', '\r']);
    if without_end.len() < wanted.len() && !text.ends_with('\n') && text.ends_with(without_end) {
        let lines = LineIndex::new(text);
        let first = lines.number_at(text.len() - without_end.len());
        return Some((first, lines.count(), MatchDifference::FinalNewline));
    }
    let readings: [(Normalizer, MatchDifference); 6] = [
        (without_carriage_returns, line_end_difference(wanted)),
        (without_trailing_space, MatchDifference::TrailingSpace),
        (without_indentation, MatchDifference::Indentation),
        (in_plain_characters, MatchDifference::Typography),
        (without_space, MatchDifference::Whitespace),
        (in_lower_case, MatchDifference::Case),
    ];
    readings.into_iter().find_map(|(reading, difference)| {
        let (first, last) = find_with(text, wanted, reading)?;
        Some((first, last, refine(difference, text, wanted, first, last)))
    })
}

fn line_end_difference(wanted: &str) -> MatchDifference {
    if wanted.contains("\r\n") { MatchDifference::WantedHasCrlf } else { MatchDifference::TextHasCrlf }
}

/// Reports tabs where the difference in white space is one of tabs.
fn refine(
    difference: MatchDifference,
    text: &str,
    wanted: &str,
    first: usize,
    last: usize,
) -> MatchDifference {
    let in_space = matches!(difference, MatchDifference::Indentation | MatchDifference::Whitespace);
    let there = LineIndex::new(text).slice(first, last).unwrap_or_default();
    if in_space && there.contains('\t') != wanted.contains('\t') {
        return MatchDifference::TabsAndSpaces;
    }
    difference
}

/// Writes a line (with its line end) in a form in which some differences disappear.
type Normalizer = fn(&str, &mut String);

fn without_carriage_returns(line: &str, out: &mut String) {
    match line.strip_suffix("\r\n") {
        Some(line) => out.extend([line, "\n"]),
        None => out.push_str(line),
    }
}

fn without_trailing_space(line: &str, out: &mut String) {
    out.push_str(line.trim_end());
    out.push_str(line_feed(line));
}

fn without_indentation(line: &str, out: &mut String) {
    out.push_str(line.trim());
    out.push_str(line_feed(line));
}

fn without_space(line: &str, out: &mut String) {
    out.extend(line.split_whitespace());
}

fn in_lower_case(line: &str, out: &mut String) {
    out.extend(line.chars().flat_map(char::to_lowercase));
}

fn in_plain_characters(line: &str, out: &mut String) {
    out.extend(line.chars().map(|character| match character {
        '‘' | '’' | '‛' | '′' => '\'',
        '“' | '”' | '„' | '″' => '"',
        '‐'..='―' | '−' => '-',
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{3000}' => ' ',
        other => other,
    }));
}

fn line_feed(line: &str) -> &'static str {
    if line.ends_with('\n') { "\n" } else { "" }
}

/// The first and last line of the first place where both normalised texts match.
fn find_with(text: &str, wanted: &str, reading: Normalizer) -> Option<(usize, usize)> {
    let (wanted, _) = normalize_lines(wanted, reading);
    if wanted.trim().is_empty() {
        return None;
    }
    let (text, starts) = normalize_lines(text, reading);
    let start = text.find(&wanted)?;
    let line_of = |offset: usize| starts.partition_point(|start| *start <= offset);
    Some((line_of(start), line_of(start + wanted.len() - 1)))
}

fn normalize_lines(text: &str, reading: Normalizer) -> (String, Vec<usize>) {
    let mut out = String::with_capacity(text.len());
    let mut starts = Vec::new();
    for line in text.split_inclusive('\n') {
        starts.push(out.len());
        reading(line, &mut out);
    }
    (out, starts)
}
