//! Which entries a walk includes: not hidden, not ignored, not skipped by name, and visible to the caller.

use std::sync::Arc;

use crate::directory::DirEntry;
use crate::glob::FileGlob;
use crate::ignore_rules::{IgnoreDecision, IgnoreRules};
use crate::path_buffer::{as_path, walk_order};
use crate::{EntryKind, VisibilityFilter, WalkRoot};

/// Which names that begin with a dot a walk includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hidden {
    /// None.
    #[default]
    None,
    /// Hidden files; hidden directories are not entered.
    Files,
    /// All.
    All,
}

impl Hidden {
    fn takes(self, is_directory: bool) -> bool {
        match self {
            Self::None => false,
            Self::Files => !is_directory,
            Self::All => true,
        }
    }
}

/// The filter of one walk.
pub(crate) struct WalkFilter<'a> {
    pub(crate) visible: &'a dyn VisibilityFilter,
    /// Files must match this glob, if there is one.
    pub(crate) glob: Option<FileGlob>,
    /// Which names that begin with a dot are included.
    pub(crate) hidden: Hidden,
    /// Whether ignore files are read.
    pub(crate) respect_gitignore: bool,
    /// Directories of these names are not entered.
    pub(crate) skip_directories: &'a [&'a str],
    /// Nothing up to this place is included, except for directories that lead to it.
    pub(crate) after: Option<&'a [u8]>,
    /// The length of the path prefix before the part relative to the start of the walk.
    pub(crate) start: usize,
}

impl<'a> WalkFilter<'a> {
    pub(crate) fn new(
        visible: &'a dyn VisibilityFilter,
        start: WalkRoot<'_>,
        glob: Option<FileGlob>,
    ) -> Self {
        let length = start.path_prefix().len();
        let start = if length == 0 { 0 } else { length + 1 };
        let (hidden, respect_gitignore, skip_directories, after) = (Hidden::None, true, &[][..], None);
        Self { visible, glob, hidden, respect_gitignore, skip_directories, after, start }
    }

    /// Whether a place, and everything beneath it, comes before `after`.
    pub(crate) fn is_past(&self, place: &[u8]) -> bool {
        let leads_to = |after: &[u8]| after.strip_prefix(place).and_then(<[u8]>::first) == Some(&b'/');
        self.after.is_some_and(|after| walk_order(place, after).is_lt() && !leads_to(after))
    }

    /// Whether to include this entry. The caller's rules are always applied, and last, since they may cost the most.
    pub(crate) fn accepts(
        &self,
        name: DirEntry<'_>,
        kind: EntryKind,
        place: &[u8],
        rules: Option<&Arc<IgnoreRules>>,
    ) -> bool {
        let is_directory = kind == EntryKind::Directory;
        name.bytes() != b".git"
            && self.accepts_name(name, is_directory, place)
            && self.is_listed(name, is_directory, place, rules)
            && (self.visible.visible_anywhere(name.bytes())
                || self.visible.visible(as_path(place), is_directory))
    }

    fn accepts_name(&self, name: DirEntry<'_>, is_directory: bool, place: &[u8]) -> bool {
        if is_directory {
            !self.skip_directories.iter().any(|skipped| skipped.as_bytes() == name.bytes())
        } else {
            let relative = place.get(self.start..).unwrap_or_default();
            self.glob.as_ref().is_none_or(|glob| glob.matches(name.bytes(), relative))
        }
    }

    /// As in ripgrep, an ignore file may whitelist a hidden entry.
    fn is_listed(
        &self,
        name: DirEntry<'_>,
        is_directory: bool,
        place: &[u8],
        rules: Option<&Arc<IgnoreRules>>,
    ) -> bool {
        match rules.map_or(IgnoreDecision::Unmatched, |rules| rules.matched(place, is_directory)) {
            IgnoreDecision::Ignore => false,
            IgnoreDecision::Whitelist => true,
            IgnoreDecision::Unmatched => !name.is_hidden() || self.hidden.takes(is_directory),
        }
    }
}
