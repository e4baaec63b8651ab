//! How much one answer may hold, whatever it is made of. File contents have a limit of their own.

use toolgate_workspace::{FoundFiles, Listed, View};

/// What an answer keeps free for the words around a list or a diff, as far as it can.
const AROUND: usize = 1024;

fn room(view: &View<'_>) -> usize {
    let limit = usize::try_from(view.limits.max_output_bytes).unwrap_or(usize::MAX);
    limit - AROUND.min(limit / 2)
}

/// A text of lines, cut after a line where it is too long, with a notice; and whether it was cut.
pub(crate) fn cut_lines(view: &View<'_>, text: String, notice: &str) -> (String, bool) {
    let room = room(view);
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

/// How many items fit, when each costs what its name takes in JSON and something around it.
fn fitting<'n>(
    view: &View<'_>,
    names: impl Iterator<Item = std::borrow::Cow<'n, str>>,
    around: usize,
) -> usize {
    let mut left = room(view);
    let mut count = 0;
    for name in names {
        let escaped: usize = name.chars().map(escaped_length).sum();
        match left.checked_sub(escaped.saturating_add(around)) {
            Some(rest) => left = rest,
            None => break,
        }
        count += 1;
    }
    count
}

fn escaped_length(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        control if control < ' ' => 6,
        other => other.len_utf8(),
    }
}

/// Shortens a listing whose entries each take `around` bytes besides their names.
pub(crate) fn bound_listing(view: &View<'_>, listed: &mut Listed, around: usize) {
    let fit = fitting(view, listed.entries.iter().map(|entry| entry.name.to_string_lossy()), around);
    listed.truncated |= fit < listed.entries.len();
    listed.entries.truncate(fit);
}

/// Shortens a list of paths.
pub(crate) fn bound_paths(view: &View<'_>, found: &mut FoundFiles) {
    let fit = fitting(view, found.paths.iter().map(|path| path.as_str().into()), "\"\",".len());
    found.truncated |= fit < found.paths.len();
    found.paths.truncate(fit);
}
