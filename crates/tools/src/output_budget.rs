//! The output limit of one answer, for lists and diffs. File contents have a limit of their own.

use toolgate_text::json_len::{MAX_ESCAPE_BYTES, added_by_escaping, json_len};
use toolgate_text::quoted_name;
use toolgate_workspace::{FoundFiles, FoundLines, ListOptions, ListResult, ListedEntry, WorkspaceView};

/// Reserved for the fields around a list or a diff; at most half of the limit.
const RESERVED_BYTES: usize = 1024;

fn output_budget(view: &WorkspaceView<'_>) -> usize {
    let limit = usize::try_from(view.limits.max_output_bytes).unwrap_or(usize::MAX);
    limit - RESERVED_BYTES.min(limit / 2)
}

/// Truncates text at a line boundary if it exceeds the budget, with a notice; returns whether it was cut.
pub(crate) fn cut_lines(view: &WorkspaceView<'_>, text: String, notice: &str) -> (String, bool) {
    let room = output_budget(view);
    if text.len() <= room {
        return (text, false);
    }
    let mut kept = String::new();
    for line in text.split_inclusive('\n') {
        if kept.len() + line.len() > room {
            break;
        }
        kept.push_str(line);
    }
    let shown = kept.len();
    kept.push_str(&format!("[truncated: {shown} of {} bytes shown; {notice}]\n", text.len()));
    (kept, true)
}

/// How many items fit into the budget, given the cost of each.
fn fitting(view: &WorkspaceView<'_>, costs: impl Iterator<Item = usize>) -> usize {
    let mut left = output_budget(view);
    let fits = |cost: &usize| match left.checked_sub(*cost) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    costs.take_while(fits).count()
}

/// The longer of a name's JSON form and its quoted form in text.
fn max_name_len(name: &str) -> usize {
    json_len(name).max(quoted_name(name).len())
}

/// Whether any byte matches. Scans every byte instead of stopping at the first match: the loop vectorises, and matches are rare.
pub(crate) fn has_byte(text: &str, is_such: impl Fn(u8) -> bool) -> bool {
    text.bytes().fold(false, |found, byte| found | is_such(byte))
}

/// Options that list every visible entry, up to the call's `max_entries`.
pub(crate) fn every_entry(view: &WorkspaceView<'_>, with_size: bool) -> ListOptions {
    ListOptions {
        max_entries: view.limits.max_entries,
        include_hidden: true,
        include_symlinks: true,
        with_size,
    }
}

/// How many bytes an entry of a listing costs.
#[derive(Clone, Copy)]
pub(crate) struct EntryCost {
    /// How often its name appears.
    pub(crate) names: usize,
    /// Bytes of everything else.
    pub(crate) overhead: usize,
}

impl EntryCost {
    fn of(self, written_name: usize) -> usize {
        written_name.saturating_mul(self.names).saturating_add(self.overhead)
    }
}

/// Truncates a listing to the budget.
pub(crate) fn bound_listing(view: &WorkspaceView<'_>, listed: &mut ListResult, cost: EntryCost) {
    if max_json_len(listed, cost) <= output_budget(view) {
        return;
    }
    let fit = fitting(view, name_json_lens(listed).map(|name| cost.of(name)));
    listed.truncated |= fit < listed.entries.len();
    listed.entries.truncate(fit);
}

/// An upper bound of a listing's JSON length, assuming that every byte is escaped. Most listings fit by this bound, and their names need not be
/// measured.
fn max_json_len(listed: &ListResult, cost: EntryCost) -> usize {
    let names = listed.names.len().saturating_mul(MAX_ESCAPE_BYTES).saturating_mul(cost.names);
    names.saturating_add(listed.entries.len().saturating_mul(cost.overhead))
}

/// The length that each entry's name takes in the answer.
fn name_json_lens(listed: &ListResult) -> impl Iterator<Item = usize> {
    // Names are separated by NUL and contain none. Non-ASCII characters may be invisible, and are then escaped in text.
    let is_escaped =
        has_byte(&listed.names, |byte| byte != 0 && (added_by_escaping(byte) > 0 || !byte.is_ascii()));
    let name = move |entry: &ListedEntry| {
        if is_escaped { max_name_len(listed.name(entry)) } else { entry.name.len() }
    };
    listed.entries.iter().map(name)
}

/// Truncates a list of paths to the budget.
pub(crate) fn bound_paths(view: &WorkspaceView<'_>, found: &mut FoundFiles) {
    let fit = fitting(view, found.paths.iter().map(|path| max_name_len(path) + "\"\",".len()));
    found.is_cut |= fit < found.paths.len();
    found.truncated |= found.is_cut;
    found.paths.truncate(fit);
}

/// Truncates the matches of a search to the budget. The first match stays, if necessary without its context lines.
pub(crate) fn bound_matches(view: &WorkspaceView<'_>, found: &mut FoundLines) {
    const NUMBER_AND_FIELDS: usize = 64;
    let costs = found.matches.iter().map(|(path, found)| {
        let lines = std::iter::once(&found.line).chain(&found.before).chain(&found.after);
        lines.map(|line| max_name_len(path) + json_len(&line.text) + NUMBER_AND_FIELDS).sum()
    });
    let fit = fitting(view, costs);
    found.is_cut |= fit < found.matches.len();
    found.truncated |= found.is_cut;
    found.matches.truncate(fit.max(1));
    if let (0, Some((_, first))) = (fit, found.matches.first_mut()) {
        first.before.clear();
        first.after.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toolgate_workspace::EntryKind;

    use super::*;

    proptest! {
        #[test]
        fn names_take_what_serde_makes_of_them(
            names in prop::collection::vec("[a-c]{1,9}|[\u{1}-\u{1f}\"\\\\\u{7f}a\u{e9}]{1,3}|[\u{1}-\u{7}]{1,9}", 0..4),
        ) {
            let mut listed =
                ListResult { path: String::new(), names: String::new(), entries: Vec::new(), total: 0, truncated: false };
            for name in &names {
                let start = listed.names.len();
                listed.names.push_str(name);
                let name = start..listed.names.len();
                listed.entries.push(ListedEntry { name, kind: EntryKind::File, size: None });
                listed.names.push('\0');
            }
            for (counted, name) in name_json_lens(&listed).zip(&names) {
                let spelt = serde_json::to_string(name).unwrap().len() - "\"\"".len();
                // `\b` and `\f` have short escapes in JSON but are counted as long ones, and a name in text has quotes.
                let short = name.matches(['\u{8}', '\u{c}']).count() * ("\\u0008".len() - "\\b".len());
                let deleted = name.matches('\u{7f}').count() * ("\\u007f".len() - 1);
                prop_assert!((spelt..=spelt + short + deleted + "\"\"".len()).contains(&counted));
                prop_assert!(counted >= quoted_name(name).len() || counted == name.len());
            }
            prop_assert_eq!(name_json_lens(&listed).count(), names.len());
            for cost in [EntryCost { names: 1, overhead: 3 }, EntryCost { names: 2, overhead: 0 }] {
                let counted: usize = name_json_lens(&listed).map(|name| cost.of(name)).sum();
                prop_assert!(counted <= max_json_len(&listed, cost));
            }
        }
    }
}
