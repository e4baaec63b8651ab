//! The steps of a rebase that is under way.
//!
//! A command may go on with a rebase, so the list of what is left to do stays writable. But a step can be a line for the shell, and git runs that for
//! whoever goes on next: so steps that were not there before are seen afterwards. What `git am` keeps has no such steps.

use std::collections::HashSet;

/// A longer list is nobody's.
pub(super) const LARGEST_TODO: usize = 1 << 20;

/// Whether git keeps steps at this folded place, if it lies in a repository.
pub(super) fn is_todo(folded: &str) -> bool {
    ["rebase-merge/git-rebase-todo", "sequencer/todo"].iter().any(|names| {
        folded.strip_suffix(names).is_some_and(|before| before.is_empty() || before.ends_with('/'))
    })
}

/// The steps that run something.
pub(super) fn running_steps(content: &[u8]) -> HashSet<Vec<u8>> {
    let lines = content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let runs = |line: &&[u8]| {
        let word = line.split(u8::is_ascii_whitespace).next();
        matches!(word, Some(b"exec" | b"x"))
    };
    lines.filter(runs).map(<[u8]>::to_vec).collect()
}
