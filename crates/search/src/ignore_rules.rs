//! Ignore files, as ripgrep reads them: `.ignore` beats `.gitignore` beats `.git/info/exclude`, and within each the
//! file nearest to the entry decides. A `.gitignore` does not reach into a repository nested beneath it.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::EntryKind;
use crate::directory::{DirEntries, open_directory, open_file, reopen, stat_child};
use crate::path_buffer::as_path;

/// How much of an ignore file is used. Compiling globs costs far more than reading them, and any process may have written the file.
const MAX_IGNORE_FILE_BYTES: usize = 64 * 1024;

/// The decision of the ignore files on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IgnoreDecision {
    /// No rule matches.
    Unmatched,
    /// Leave it out.
    Ignore,
    /// Keep it, even if it is hidden.
    Whitelist,
}

/// The ignore files of one directory, and of those above it that have any.
pub(crate) struct IgnoreRules {
    parent: Option<Arc<IgnoreRules>>,
    /// How many bytes of a path come before the part that these rules match.
    prefix: usize,
    ignore: Option<Gitignore>,
    gitignore: Option<Gitignore>,
    exclude: Option<Gitignore>,
    is_repository: bool,
}

impl IgnoreRules {
    /// The rules in the directories from the root of the mount down to, but not in, the last of these.
    pub(crate) fn for_parents<'n>(
        mount: BorrowedFd<'_>,
        names: impl Iterator<Item = &'n OsStr>,
    ) -> Option<Arc<Self>> {
        let mut rules = None;
        let mut directory = reopen(mount).ok()?;
        let mut place = Vec::new();
        for name in names {
            let here = directory.as_fd();
            let is_repository = stat_child(here, c".git").is_ok();
            rules = Self::read(
                here,
                &place,
                rules,
                IgnoreFilesPresent { ignore: true, gitignore: true, is_repository },
            );
            if !place.is_empty() {
                place.push(b'/');
            }
            place.extend_from_slice(name.as_bytes());
            let name = CString::new(name.as_bytes()).ok()?;
            let Ok(child) = open_directory(here, &name) else { break };
            directory = child;
        }
        rules
    }

    /// The rules for the entries of a directory whose names are known.
    pub(crate) fn for_directory(
        directory: BorrowedFd<'_>,
        place: &[u8],
        names: &DirEntries,
        above: Option<Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let is_file =
            |name| names.find(name).is_some_and(|name| name.kind.is_none_or(|kind| kind == EntryKind::File));
        let present = IgnoreFilesPresent {
            ignore: is_file(c".ignore"),
            gitignore: is_file(c".gitignore"),
            is_repository: names.find(c".git").is_some(),
        };
        Self::read(directory, place, above, present)
    }

    fn read(
        directory: BorrowedFd<'_>,
        place: &[u8],
        above: Option<Arc<Self>>,
        present: IgnoreFilesPresent,
    ) -> Option<Arc<Self>> {
        let rules = Self {
            ignore: present.ignore.then(|| read_rules(directory, c".ignore")).flatten(),
            gitignore: present.gitignore.then(|| read_rules(directory, c".gitignore")).flatten(),
            exclude: present.is_repository.then(|| read_exclude(directory)).flatten(),
            prefix: if place.is_empty() { 0 } else { place.len() + 1 },
            is_repository: present.is_repository,
            parent: above,
        };
        if rules.has_rules() { Some(Arc::new(rules)) } else { rules.parent }
    }

    fn has_rules(&self) -> bool {
        self.is_repository || self.ignore.is_some() || self.gitignore.is_some() || self.exclude.is_some()
    }

    /// The decision of the rules on the entry at this place.
    pub(crate) fn matched(&self, place: &[u8], is_directory: bool) -> IgnoreDecision {
        let mut words = [IgnoreDecision::Unmatched; 3];
        let [ignore, gitignore, exclude] = &mut words;
        let mut level = Some(self);
        let mut git_counts = true;
        while let Some(rules) = level {
            let relative = as_path(place.get(rules.prefix..).unwrap_or_default());
            apply_rules(ignore, rules.ignore.as_ref(), relative, is_directory);
            if git_counts {
                apply_rules(gitignore, rules.gitignore.as_ref(), relative, is_directory);
                apply_rules(exclude, rules.exclude.as_ref(), relative, is_directory);
            }
            git_counts &= !rules.is_repository;
            level = rules.parent.as_deref();
        }
        words.into_iter().find(|word| *word != IgnoreDecision::Unmatched).unwrap_or(IgnoreDecision::Unmatched)
    }
}

struct IgnoreFilesPresent {
    ignore: bool,
    gitignore: bool,
    is_repository: bool,
}

/// Applies one file, unless a nearer one of the same name has decided.
fn apply_rules(word: &mut IgnoreDecision, rules: Option<&Gitignore>, relative: &Path, is_directory: bool) {
    if let (IgnoreDecision::Unmatched, Some(rules)) = (*word, rules) {
        *word = match rules.matched(relative, is_directory) {
            Match::None => IgnoreDecision::Unmatched,
            Match::Ignore(_) => IgnoreDecision::Ignore,
            Match::Whitelist(_) => IgnoreDecision::Whitelist,
        };
    }
}

fn read_exclude(directory: BorrowedFd<'_>) -> Option<Gitignore> {
    let git = open_directory(directory, c".git").ok()?;
    let info = open_directory(git.as_fd(), c"info").ok()?;
    read_rules(info.as_fd(), c"exclude")
}

/// `None` when there is no such file, or it has no rules. A line that does not parse is skipped, as in git.
fn read_rules(directory: BorrowedFd<'_>, name: &CStr) -> Option<Gitignore> {
    let (file, _) = open_file(directory, name).ok()??;
    let text = read_limited(file.as_fd())?;
    let mut builder = GitignoreBuilder::new(".");
    let text = text.strip_prefix(b"\xEF\xBB\xBF".as_slice()).unwrap_or(&text);
    for line in text.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok()) {
        let _line_without_meaning = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

/// The file, or as many of its first lines as fit.
fn read_limited(file: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let mut text = vec![0; MAX_IGNORE_FILE_BYTES];
    let mut length = 0;
    while let Some(rest) = text.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match rustix::io::read(file, rest).ok()? {
            0 => break,
            read => length += read,
        }
    }
    if length == MAX_IGNORE_FILE_BYTES {
        length = memchr::memrchr(b'\n', &text).unwrap_or(0);
    }
    text.truncate(length);
    Some(text)
}
