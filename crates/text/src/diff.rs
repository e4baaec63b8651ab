//! Unified diffs, as `diff -u`, `patch` and `git apply` understand them.
//!
//! Only `\n` ends a line, so CRLF files give lines that end with a carriage return, and the diff reproduces them exactly. The cost is limited by a
//! work budget instead of a clock: where the shortest diff would cost too much, a longer one that is equally correct is produced.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

use similar::{Algorithm, DiffTag, capture_diff_slices};

use crate::common_affixes::ChangedRegion;
use crate::patch::quoted_name;

/// The worst-case steps that the exact algorithm may take for one diff.
const MAX_DIFF_STEPS: usize = 16_000_000;
/// How often a segment that is too large is split at lines that occur only once.
const MAX_SPLITS: usize = 8;

/// The unified diff that turns `old` into `new`, with `context` lines around each change; empty when they are equal.
///
/// The labels are written as given (`a/src/lib.rs`, `/dev/null`), quoted where necessary.
#[must_use]
pub fn unified(old: &str, new: &str, old_label: &str, new_label: &str, context: usize) -> String {
    if old == new {
        return String::new();
    }
    // Most changes are small, and comparing two texts is much faster than splitting them into lines.
    let ChangedRegion { old, new, lines_before } = ChangedRegion::of(old, new, context);
    let lines = DiffInput {
        old: old.split_inclusive('\n').collect(),
        new: new.split_inclusive('\n').collect(),
        before: lines_before,
        context,
    };
    let mut out = format!("--- {}\n+++ {}\n", quoted_name::encode(old_label), quoted_name::encode(new_label));
    let changes = changes(&lines.old, &lines.new);
    for group in changes.chunk_by(|one, next| next.old.start - one.old.end <= context.saturating_mul(2)) {
        lines.write_hunk(&mut out, group);
    }
    out
}

/// A run of old lines that is replaced by a run of new lines; one of them may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LineChange {
    old: Range<usize>,
    new: Range<usize>,
}

/// The lines to be compared.
struct DiffInput<'t> {
    old: Vec<&'t str>,
    new: Vec<&'t str>,
    /// How many common lines come before them in both texts.
    before: usize,
    /// How many lines are shown around each change.
    context: usize,
}

impl DiffInput<'_> {
    fn write_hunk(&self, out: &mut String, group: &[LineChange]) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
        let before = self.context.min(first.old.start);
        let after = self.context.min(self.old.len() - last.old.end);
        let old_range = first.old.start - before..last.old.end + after;
        let new_range = first.new.start - before..last.new.end + after;
        // Writing to a string cannot fail.
        let _ = writeln!(out, "@@ -{} +{} @@", self.format_range(&old_range), self.format_range(&new_range));
        let mut at = old_range.start;
        for change in group {
            write_lines(out, ' ', &self.old, at..change.old.start);
            write_lines(out, '-', &self.old, change.old.clone());
            write_lines(out, '+', &self.new, change.new.clone());
            at = change.old.end;
        }
        write_lines(out, ' ', &self.old, at..old_range.end);
    }

    /// `start,count`; an empty range names the line before it, and a count of one is left out.
    fn format_range(&self, range: &Range<usize>) -> String {
        let start = self.before + range.start;
        match range.len() {
            0 => format!("{start},0"),
            1 => format!("{}", start + 1),
            count => format!("{},{count}", start + 1),
        }
    }
}

fn write_lines(out: &mut String, sign: char, lines: &[&str], range: Range<usize>) {
    for line in lines.get(range).unwrap_or_default() {
        out.push(sign);
        out.push_str(line);
        if !line.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

fn changes(old: &[&str], new: &[&str]) -> Vec<LineChange> {
    // The common prefix and suffix need no numbers.
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let start = old.iter().zip(new).take_while(same).count();
    let (old, new) = (old.get(start..).unwrap_or_default(), new.get(start..).unwrap_or_default());
    let end = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
    let mut numbers = HashMap::new();
    let mut number = |line| {
        let next = numbers.len();
        *numbers.entry(line).or_insert(next)
    };
    let old: Vec<usize> = old.iter().take(old.len() - end).map(|line| number(*line)).collect();
    let new: Vec<usize> = new.iter().take(new.len() - end).map(|line| number(*line)).collect();
    let mut search = Differ { budget: MAX_DIFF_STEPS, changes: Vec::new() };
    search.compare(&DiffSegment { old: &old, new: &new, old_start: start, new_start: start }, MAX_SPLITS);
    search.changes
}

/// Corresponding parts of the two texts, each line as a number.
#[derive(Clone, Copy)]
struct DiffSegment<'a> {
    old: &'a [usize],
    new: &'a [usize],
    old_start: usize,
    new_start: usize,
}

impl<'a> DiffSegment<'a> {
    /// The part within these ranges, relative to this segment.
    fn part(&self, old: Range<usize>, new: Range<usize>) -> Self {
        Self {
            old_start: self.old_start + old.start,
            new_start: self.new_start + new.start,
            old: self.old.get(old).unwrap_or_default(),
            new: self.new.get(new).unwrap_or_default(),
        }
    }

    /// Without the common lines at the beginning and at the end.
    fn trimmed(&self) -> Self {
        let same = |pair: &(&usize, &usize)| pair.0 == pair.1;
        let start = self.old.iter().zip(self.new).take_while(same).count();
        let rest = self.part(start..self.old.len(), start..self.new.len());
        let end = rest.old.iter().rev().zip(rest.new.iter().rev()).take_while(same).count();
        rest.part(0..rest.old.len() - end, 0..rest.new.len() - end)
    }

    /// The worst-case cost of comparing it exactly.
    fn cost(&self) -> usize {
        let lines = self.old.len() + self.new.len();
        lines.saturating_mul(lines)
    }

    /// Lines that occur once in each text, in an order that both share: (old, new) positions.
    fn anchors(&self) -> Vec<(usize, usize)> {
        let old_places = unique_lines(self.old);
        let new_places = unique_lines(self.new);
        let mut pairs: Vec<(usize, usize)> =
            old_places.iter().filter_map(|(line, old)| Some(((*old)?, (*new_places.get(line)?)?))).collect();
        pairs.sort_unstable();
        longest_increasing_subsequence(&pairs)
    }
}

/// The position of each line; `None` for a line that occurs several times.
fn unique_lines(lines: &[usize]) -> HashMap<usize, Option<usize>> {
    let mut places = HashMap::new();
    for (index, line) in lines.iter().enumerate() {
        places.entry(*line).and_modify(|place| *place = None).or_insert(Some(index));
    }
    places
}

/// The longest subsequence of pairs, sorted by their first element, whose second elements increase too.
fn longest_increasing_subsequence(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // `ends` holds, for each length, the pair with the smallest second element that ends a subsequence of that length.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    let second = |index: &usize| pairs.get(*index).map_or(0, |pair| pair.1);
    for (index, pair) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| second(end) < pair.1);
        before.push(length.checked_sub(1).and_then(|shorter| ends.get(shorter).copied()));
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let chain = std::iter::successors(ends.last().copied(), |index| before.get(*index).copied().flatten());
    let mut chosen: Vec<(usize, usize)> = chain.filter_map(|index| pairs.get(index).copied()).collect();
    chosen.reverse();
    chosen
}

/// Collects changes in order while the budget lasts.
struct Differ {
    budget: usize,
    changes: Vec<LineChange>,
}

impl Differ {
    fn compare(&mut self, piece: &DiffSegment<'_>, splits: usize) {
        let piece = piece.trimmed();
        if piece.old.is_empty() || piece.new.is_empty() {
            self.replace(&piece);
        } else if piece.cost() <= self.budget {
            self.budget -= piece.cost();
            self.compare_exactly(&piece);
        } else if splits > 0 {
            self.split(&piece, splits - 1);
        } else {
            self.replace(&piece);
        }
    }

    fn compare_exactly(&mut self, piece: &DiffSegment<'_>) {
        for operation in capture_diff_slices(Algorithm::Myers, piece.old, piece.new) {
            if operation.tag() != DiffTag::Equal {
                self.replace(&piece.part(operation.old_range(), operation.new_range()));
            }
        }
    }

    fn split(&mut self, piece: &DiffSegment<'_>, splits: usize) {
        let anchors = piece.anchors();
        if anchors.is_empty() {
            return self.replace(piece);
        }
        let (mut old, mut new) = (0, 0);
        for (old_anchor, new_anchor) in anchors {
            self.compare(&piece.part(old..old_anchor, new..new_anchor), splits);
            (old, new) = (old_anchor + 1, new_anchor + 1);
        }
        self.compare(&piece.part(old..piece.old.len(), new..piece.new.len()), splits);
    }

    /// Adds the whole segment as a change, merged with the previous change when they touch.
    fn replace(&mut self, piece: &DiffSegment<'_>) {
        let old = piece.old_start..piece.old_start + piece.old.len();
        let new = piece.new_start..piece.new_start + piece.new.len();
        if old.is_empty() && new.is_empty() {
            return;
        }
        match self.changes.last_mut() {
            Some(last) if last.old.end == old.start && last.new.end == new.start => {
                last.old.end = old.end;
                last.new.end = new.end;
            }
            _ => self.changes.push(LineChange { old, new }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_patch_reads() {
        let old = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten";
        let new = "one\n2\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n";
        insta::assert_snapshot!(unified(old, new, "a/list.txt", "b/list.txt", 2), @r"
        --- a/list.txt
        +++ b/list.txt
        @@ -1,4 +1,4 @@
         one
        -two
        +2
         three
         four
        @@ -8,3 +8,3 @@
         eight
         nine
        -ten
        \ No newline at end of file
        +ten
        ");
        insta::assert_snapshot!(unified("", "new\n", "/dev/null", "b/a b\tc", 3), @r#"
        --- /dev/null
        +++ "b/a b\tc"
        @@ -0,0 +1 @@
        +new
        "#);
        insta::assert_snapshot!(unified("x\ny\n", "x\n", "a/x y", "b/x y", 0), @r"
        --- a/x y	
        +++ b/x y	
        @@ -2 +1,0 @@
        -y
        ");
        assert_eq!(unified("same", "same", "a", "b", 3), "");
    }

    #[test]
    fn stays_cheap_and_useful_on_large_texts() {
        let old: Vec<String> = (0..60_000).map(|number| format!("line {number}\n")).collect();
        let mut new = old.clone();
        new[10] = "changed\n".into();
        new.remove(59_000);
        let diff = unified(&old.concat(), &new.concat(), "a", "b", 0);
        assert_eq!(
            diff,
            "--- a\n+++ b\n@@ -11 +11 @@\n-line 10\n+changed\n@@ -59001 +59000,0 @@\n-line 59000\n"
        );
    }

    #[test]
    fn gives_up_on_minimal_before_it_gives_up_on_time() {
        // No line is unique, the ends share nothing, and the exact algorithm would need minutes.
        let old = "a\nb\n".repeat(200_000);
        let new = "c\nc\nb\na\n".repeat(100_000) + "d\n";
        assert!(unified(&old, &new, "a", "b", 3).len() >= new.len());
    }
}
