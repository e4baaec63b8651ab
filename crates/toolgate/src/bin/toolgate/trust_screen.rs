//! A found configuration as it is shown before the question. The file is untrusted: nothing of it reaches the terminal unsanitised, or in the first
//! column, where the gate's own text is.

use std::fmt::Write as _;
use std::path::Path;

use toolgate_assembly::trust::{AgreedFile, Agreement, CoveredConfig, EffectGroup, ProjectInstructions};
use toolgate_text::diff::unified;
use toolgate_types::Sha256;

use crate::approval_screen::{Screen, quoted, quoted_diff};
use crate::terminal::{escape_line, paint};

/// The most items of a group; the rest is counted.
const MAX_ITEMS: usize = 100;

/// Longer items are truncated and marked.
const MAX_ITEM_CHARS: usize = 2000;

/// Longer diffs are truncated and marked.
const MAX_DIFF_LINES: usize = 1000;

/// The context lines around a change.
const CONTEXT_LINES: usize = 3;

/// The change of one file since the last agreement.
#[derive(Debug)]
pub(crate) struct FileDiff {
    pub(crate) path: String,
    /// The displayed path: relative to the configuration's directory if it is below it.
    label: String,
    pub(crate) state: &'static str,
    /// The diff, if the old content was kept and both are text.
    pub(crate) diff: Option<String>,
}

/// The changes since an agreement.
pub(crate) fn differences(covered: &CoveredConfig, before: &Agreement) -> Vec<FileDiff> {
    let mut found = Vec::new();
    let path = |path: &Path| path.to_string_lossy().into_owned();
    for (file, bytes) in covered.files() {
        let path = path(file);
        let label = label(covered, &path);
        let old = before.files.iter().find(|old| old.path == path);
        if old.is_some_and(|old| old.digest == Sha256::of(bytes)) {
            continue;
        }
        let new = std::str::from_utf8(bytes).ok();
        let (state, old) = match old {
            None => ("added", Some("")),
            Some(old) => ("changed", old.content.as_deref()),
        };
        let is_shown = file.starts_with(&covered.directory);
        let diff = old
            .zip(new)
            .filter(|_| is_shown)
            .map(|(old, new)| unified(old, new, &label, &label, CONTEXT_LINES));
        found.push(FileDiff { path, label, state, diff });
    }
    let is_gone = |old: &&AgreedFile| !covered.files().iter().any(|(file, _)| path(file) == old.path);
    for old in before.files.iter().filter(is_gone) {
        let label = label(covered, &old.path);
        let diff = old.content.as_deref().map(|content| unified(content, "", &label, &label, CONTEXT_LINES));
        found.push(FileDiff { path: old.path.clone(), label, state: "removed", diff });
    }
    found
}

fn label(covered: &CoveredConfig, path: &str) -> String {
    let below = Path::new(path).strip_prefix(&covered.directory);
    below.map_or_else(|_| path.to_owned(), |below| below.to_string_lossy().into_owned())
}

/// Everything that is shown before the question: the changes since the last agreement, if there was one, and the effects.
pub(crate) fn overview(
    covered: &CoveredConfig,
    effects: &[EffectGroup],
    before: Option<&Agreement>,
    screen: Screen,
) -> String {
    let path = escape_line(&covered.file().display().to_string());
    let mut text = match before {
        None => screen.line(&format!("{path} was found, and counts only if you agree to it."), "1"),
        Some(before) => {
            let agreed = format!("{path} changed since you agreed to it on {}.", day(before));
            screen.line(&agreed, "1") + &changes(&differences(covered, before), screen)
        }
    };
    if effects.is_empty() {
        text.push_str("It starts no program, connects to nothing and asks for no less than usual.\n");
    } else {
        text.push_str("It would\n");
    }
    for group in effects {
        let _ = writeln!(text, "{}:", paint(group.title, "1", screen.colour));
        for item in group.items.iter().take(MAX_ITEMS) {
            text.push_str(&screen.with_gutter(&escape_line(&truncate(item))));
        }
        if let Some(more) = group.items.len().checked_sub(MAX_ITEMS).filter(|more| *more > 0) {
            let _ = writeln!(text, "and {more} more");
        }
    }
    // The first lines may have scrolled away by now.
    let count = |group: &EffectGroup| {
        let [one, several] = group.count;
        format!("{} {}", group.items.len(), if group.items.len() == 1 { one } else { several })
    };
    let counted: Vec<String> = effects.iter().map(count).collect();
    let files = match covered.files().len() {
        1 => "1 file".to_owned(),
        files => format!("{files} files"),
    };
    let counted = if counted.is_empty() { files } else { format!("{files}: {}", counted.join(", ")) };
    text + &screen.line(&format!("in all {counted}"), "")
}

/// What is shown before the question about project instructions: all of them, or what changed since the last agreement.
pub(crate) fn instructions_overview(
    instructions: &ProjectInstructions,
    before: Option<&Agreement>,
    screen: Screen,
) -> String {
    let ProjectInstructions { name, file, text } = instructions;
    let path = escape_line(&file.display().to_string());
    let old = before.and_then(|before| Some((before, before.files.first()?.content.as_deref()?)));
    match old {
        Some((before, old)) => {
            let changed = format!("{path} changed since you agreed to it on {}.", day(before));
            screen.line(&changed, "1") + &quoted_diff(&unified(old, text, name, name, CONTEXT_LINES), screen)
        }
        None => {
            let found = format!(
                "{path} was found: instructions for the model, which follows them only if you agree."
            );
            screen.line(&found, "1") + &quoted(text, screen)
        }
    }
}

fn changes(differences: &[FileDiff], screen: Screen) -> String {
    let mut text = String::new();
    for FileDiff { label, state, diff, .. } in differences {
        text.push_str(&screen.line(&format!("{state}: {}", escape_line(label)), ""));
        match diff {
            None => text.push_str("its content is not shown: it is elsewhere, too long, or no text\n"),
            Some(diff) => {
                let lines = diff.lines().count();
                let shown: String = diff.split_inclusive('\n').take(MAX_DIFF_LINES).collect();
                text.push_str(&quoted_diff(&shown, screen));
                if lines > MAX_DIFF_LINES {
                    let _ = writeln!(text, "and {} more lines, which are not shown", lines - MAX_DIFF_LINES);
                }
            }
        }
    }
    text
}

fn truncate(item: &str) -> String {
    let more = item.chars().count().saturating_sub(MAX_ITEM_CHARS);
    match more {
        0 => item.to_owned(),
        more => {
            item.chars().take(MAX_ITEM_CHARS).collect::<String>() + &format!("… and {more} more characters")
        }
    }
}

fn day(agreement: &Agreement) -> String {
    escape_line(&agreement.agreed_at).chars().take(10).collect()
}
