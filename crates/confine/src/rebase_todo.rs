//! The state of a rebase, cherry-pick or revert in progress, which git executes when the user continues it.
//!
//! A command may continue it too, so these files stay writable. But a step can be a shell command (`exec`), and a merge strategy that is not built
//! into git is a program (`git-merge-NAME`; a path if it contains a slash). Those that are new are detected after the command. Strategy options name
//! no program, and the state of `git am` has neither.

use std::collections::HashSet;

use toolgate_workspace::internals::setting_values;

/// A longer file of this kind was not written by git.
pub(super) const MAX_SEQUENCER_BYTES: usize = 1 << 20;

/// Strategies that are built into git.
const STRATEGIES: [&[u8]; 6] = [b"octopus", b"ort", b"ours", b"recursive", b"resolve", b"subtree"];

/// The files, by their folded place in a repository.
const SEQUENCER_FILES: [(&str, SequencerFile); 5] = [
    ("rebase-merge/git-rebase-todo", SequencerFile::Steps),
    ("sequencer/todo", SequencerFile::Steps),
    ("rebase-merge/strategy", SequencerFile::Strategy),
    ("rebase-apply/strategy", SequencerFile::Strategy),
    ("sequencer/opts", SequencerFile::Options),
];

/// Their last names.
pub(super) const SEQUENCER_FILE_NAMES: [&str; 4] = ["git-rebase-todo", "todo", "strategy", "opts"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SequencerFile {
    /// One step on each line.
    Steps,
    /// The name of a strategy.
    Strategy,
    /// A configuration with `options.strategy`.
    Options,
}

fn sequencer_file(folded: &str) -> Option<SequencerFile> {
    let is_it = |names: &str| {
        folded.strip_suffix(names).is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    SEQUENCER_FILES.into_iter().find(|(names, _)| is_it(names)).map(|(_, state)| state)
}

/// Whether git keeps such a file at this folded place, if it lies in a repository.
pub(super) fn is_sequencer_file(folded: &str) -> bool {
    sequencer_file(folded).is_some()
}

/// Whether git keeps such files in a directory of this folded name, which it never makes a symlink.
pub(super) fn is_sequencer_directory(folded: &str) -> bool {
    SEQUENCER_FILES.into_iter().any(|(names, _)| names.split('/').next() == Some(folded))
}

/// What the file at this folded place makes git execute.
pub(super) fn executed_steps(folded: &str, content: &[u8]) -> HashSet<Vec<u8>> {
    match sequencer_file(folded) {
        Some(SequencerFile::Steps) => shell_steps(content),
        Some(SequencerFile::Strategy) => programs([content.trim_ascii().to_vec()]),
        Some(SequencerFile::Options) => match setting_values(content, b"options", b"strategy") {
            Some(values) => programs(values),
            // Git might still parse a part of what this parser rejects, so the whole file counts as one step.
            None => HashSet::from([content.to_vec()]),
        },
        None => HashSet::new(),
    }
}

fn programs(strategies: impl IntoIterator<Item = Vec<u8>>) -> HashSet<Vec<u8>> {
    let is_program = |name: &Vec<u8>| !name.is_empty() && !STRATEGIES.contains(&name.as_slice());
    strategies.into_iter().filter(is_program).collect()
}

fn shell_steps(content: &[u8]) -> HashSet<Vec<u8>> {
    let lines = content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let runs = |line: &&[u8]| {
        let word = line.split(u8::is_ascii_whitespace).next();
        matches!(word, Some(b"exec" | b"x"))
    };
    lines.filter(runs).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_strategies_that_are_programs_are_found() {
        let found = |place: &str, content: &str| executed_steps(place, content.as_bytes()).len();
        for (place, content, count) in [
            (".git/rebase-merge/git-rebase-todo", "pick 1\n x  ls\nexec rm\nfixup 2\n", 2),
            (".git/sequencer/todo", "pick exec\n", 0),
            (".git/rebase-merge/strategy", "ort\n", 0),
            (".git/worktrees/w/rebase-merge/strategy", "x/evil\n", 1),
            (".git/rebase-apply/strategy", "mine", 1),
            (".git/sequencer/opts", "[options]\n\tstrategy = ours\n\tedit = true\n", 0),
            (".git/sequencer/opts", "[options]\n\tstrategy = ours\n\tStrategy = \"x/evil\"\n", 1),
            (".git/sequencer/opts", "[options \"sub\"]\n\tstrategy = x\n", 0),
            (".git/sequencer/opts", "[options", 1),
            ("notes/strategy", "x/evil", 0),
        ] {
            assert_eq!(found(place, content), count, "{place}: {content}");
        }
    }

    #[test]
    fn every_file_is_noticed_by_its_last_name() {
        for (names, _) in SEQUENCER_FILES {
            assert!(SEQUENCER_FILE_NAMES.contains(&names.rsplit('/').next().unwrap()), "{names}");
        }
    }
}
