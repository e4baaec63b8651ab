//! A workspace as one call sees it.

use std::path::Path;

use toolgate_types::{Deadline, Limits};

use crate::autorun_files::triggers_execution;
use crate::autorun_targets::is_target;
use crate::deny_list::Above;
use crate::error::WorkspaceError;
use crate::file_target::find_target;
use crate::mount::{Mount, MountAccess, NestedMount};
use crate::name_fold::fold;
use crate::repository::is_inside_repository;
use crate::requested_path::{self, PathStyle, RequestedPath};
use crate::rules::{PathGrant, PathVerdict};

/// What commands may do to files with another hard link elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HardLinks {
    /// Read them.
    #[default]
    Protect,
    /// Change them, and so the content elsewhere.
    Allow,
}

/// All mounts of a workspace.
#[derive(Debug)]
pub struct Workspace {
    mounts: Vec<Mount>,
    hard_links: HardLinks,
}

impl Workspace {
    /// A workspace of these mounts.
    ///
    /// # Errors
    /// Two mounts with one alias.
    pub fn new(mut mounts: Vec<Mount>) -> Result<Self, crate::MountError> {
        for (index, mount) in mounts.iter().enumerate() {
            if mounts.iter().skip(index + 1).any(|other| other.alias() == mount.alias()) {
                return Err(crate::MountError::Duplicate(mount.alias().to_owned()));
            }
        }
        let inside: Vec<_> = mounts.iter().map(|mount| mount.find_nested(&mounts)).collect();
        for (mount, inside) in mounts.iter_mut().zip(inside) {
            mount.set_nested(inside);
        }
        Ok(Self { mounts, hard_links: HardLinks::default() })
    }

    /// Sets whether a command may change files that have another hard link outside of its writable mounts.
    #[must_use]
    pub fn with_hard_links(self, hard_links: HardLinks) -> Self {
        Self { hard_links, ..self }
    }

    /// What commands may do to files with another hard link elsewhere.
    #[must_use]
    pub fn hard_links(&self) -> HardLinks {
        self.hard_links
    }

    /// The mounts, in the order they were given.
    #[must_use]
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// The path with the alias of its mount and without `.` and `..`. Lexical only: nothing is opened. `None` where it is invalid or leads out of the
    /// mounts.
    #[must_use]
    pub fn spelt(&self, path: &str, style: PathStyle) -> Option<String> {
        let requested = requested_path::parse(path, style, &self.mounts).ok()?;
        let mount = self.mounts.get(requested.mount)?;
        Some(mount.show_with_alias(requested.relative()))
    }

    /// The mount with this alias.
    #[must_use]
    pub fn mount(&self, alias: &str) -> Option<&Mount> {
        self.mounts.iter().find(|mount| mount.alias() == alias)
    }

    /// The error for an alias that is not mounted.
    #[must_use]
    pub fn unknown_alias(&self, alias: &str) -> WorkspaceError {
        let known: Vec<&str> = self.mounts().iter().map(Mount::alias).collect();
        WorkspaceError::UnknownAlias {
            alias: alias.to_owned(),
            known: known.join(", "),
            style: PathStyle::Free,
        }
    }

    /// Mounts that lie inside this one, with their places in it.
    pub fn nested_mounts<'m>(&'m self, mount: &'m Mount) -> impl Iterator<Item = (&'m Mount, &'m Path)> {
        let inner = |inside: &'m NestedMount| Some((self.mounts.get(inside.index)?, inside.path.as_path()));
        mount.nested().iter().filter_map(inner)
    }
}

/// A workspace with the permissions of one call: every operation is a method of this.
#[derive(Clone, Copy, Debug)]
pub struct WorkspaceView<'a> {
    /// The mounts.
    pub workspace: &'a Workspace,
    /// Which path syntax is accepted.
    pub style: PathStyle,
    /// The call's limits.
    pub limits: &'a Limits,
    /// The granted files, where the caller was granted only some.
    pub grant: Option<&'a dyn PathGrant>,
    /// Deadline of the call.
    pub stop: &'a Deadline,
    /// The one protected file, with its alias, that this call may change nevertheless.
    pub unlocked: Option<&'a str>,
}

impl<'a> WorkspaceView<'a> {
    pub(crate) fn request<'p>(&self, path: &'p str) -> Result<RequestedPath<'p>, WorkspaceError> {
        requested_path::parse(path, self.style, &self.workspace.mounts)
    }

    pub(crate) fn mount(&self, index: usize) -> Result<&'a Mount, WorkspaceError> {
        self.workspace
            .mounts
            .get(index)
            .ok_or(WorkspaceError::InvalidPath { reason: "has no mount", help: self.style.example() })
    }

    /// The verdict of all rules on a location, those of nested mounts too: a path through the outer mount does not bypass them.
    pub(crate) fn verdict(&self, mount: &Mount, location: &Path, is_directory: bool) -> PathVerdict {
        let own = mount.rules().verdict(location, is_directory, self.grant, Above::Unjudged);
        let inner = self.inner_mounts(mount, location);
        let inner =
            inner.map(|(inner, rest)| inner.rules().verdict(rest, is_directory, None, Above::Unjudged));
        let mut refusals =
            std::iter::once(own).chain(inner).filter(|verdict| *verdict != PathVerdict::Reachable);
        refusals.next().unwrap_or(PathVerdict::Reachable)
    }

    /// Whether a file may be changed, by the rules of this mount and of nested ones.
    pub(crate) fn may_change(&self, mount: &Mount, location: &Path) -> bool {
        self.rules_allow_change(mount, location) && !self.is_target(mount, location)
    }

    /// The same, without what configurations of git name.
    pub(crate) fn rules_allow_change(&self, mount: &Mount, location: &Path) -> bool {
        let may = |mount: &Mount, location: &Path| {
            let unlocked = self.unlocked.is_some_and(|path| path == mount.show_with_alias(location));
            mount.access() == MountAccess::ReadWrite
                && (unlocked || mount.rules().may_change(location))
                && !is_inside_repository(mount, location)
                && !triggers_execution(&fold(location))
        };
        may(mount, location) && self.inner_mounts(mount, location).all(|(inner, rest)| may(inner, rest))
    }

    /// Whether a configuration of git names a location, in this mount or in a nested one. If it does not, it names none that contains it.
    pub(crate) fn is_target(&self, mount: &Mount, location: &Path) -> bool {
        is_target(mount, location)
            || self.inner_mounts(mount, location).any(|(inner, rest)| is_target(inner, rest))
    }

    /// The nested mounts that contain a location of the outer one, with the rest of the path.
    fn inner_mounts<'l>(
        &self,
        mount: &'l Mount,
        location: &'l Path,
    ) -> impl Iterator<Item = (&'l Mount, &'l Path)>
    where
        'a: 'l,
    {
        let inside = self.workspace.nested_mounts(mount);
        inside.filter_map(move |(inner, place)| Some((inner, location.strip_prefix(place).ok()?)))
    }

    /// Where a path really leads, as answers show it: the existing file, or the place where it would be created.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn resolved(&self, path: &str) -> Result<String, WorkspaceError> {
        let target = find_target(self, &self.request(path)?)?;
        Ok(self.show(target.mount, &target.location))
    }

    pub(crate) fn show(&self, mount: &Mount, location: &Path) -> String {
        match self.style {
            PathStyle::AliasOnly => mount.show_with_alias(location),
            PathStyle::Free => mount.show(location),
        }
    }
}
