//! A workspace as one call sees it.

use std::path::Path;

use toolgate_types::{Cancellation, Limits};

use crate::again::LastLarge;
use crate::confine::{HardLinks, is_target};
use crate::error::WorkspaceError;
use crate::fold::fold;
use crate::mount::{Access, Mount, MountInside};
use crate::obeyed::is_obeyed;
use crate::repository::is_inside_repository;
use crate::request::{self, PathStyle, Requested};
use crate::rules::{PathGrant, Verdict};
use crate::target::find_target;

/// All mounts of a workspace.
#[derive(Debug)]
pub struct Workspace {
    mounts: Vec<Mount>,
    pub(crate) last_large: LastLarge,
    pub(crate) hard_links: HardLinks,
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
        let inside: Vec<_> = mounts.iter().map(|mount| mount.find_inside(&mounts)).collect();
        for (mount, inside) in mounts.iter_mut().zip(inside) {
            mount.keep_inside(inside);
        }
        Ok(Self { mounts, last_large: LastLarge::default(), hard_links: HardLinks::default() })
    }

    /// The same, with a say about files that have another name outside of what a command may change.
    #[must_use]
    pub fn with_hard_links(self, hard_links: HardLinks) -> Self {
        Self { hard_links, ..self }
    }

    /// The mounts, in the order they were given.
    #[must_use]
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// A path as named, spelt with the alias of its mount and without `.` and `..`. Nothing is looked up; `None` where the name leads out of the mounts.
    #[must_use]
    pub fn spelt(&self, path: &str, style: PathStyle) -> Option<String> {
        let requested = request::parse(path, style, &self.mounts).ok()?;
        let mount = self.mounts.get(requested.mount)?;
        Some(mount.show_with_alias(requested.relative()))
    }

    /// The mount with this alias.
    #[must_use]
    pub fn mount(&self, alias: &str) -> Option<&Mount> {
        self.mounts.iter().find(|mount| mount.alias() == alias)
    }

    /// Mounts that lie inside another one, with their places in it.
    pub(crate) fn mounts_inside<'m>(
        &'m self,
        mount: &'m Mount,
    ) -> impl Iterator<Item = (&'m Mount, &'m Path)> {
        let inner = |inside: &'m MountInside| Some((self.mounts.get(inside.index)?, inside.place.as_path()));
        mount.inside().iter().filter_map(inner)
    }
}

/// A workspace together with what one call may do in it: every operation is a method of this.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The mounts.
    pub workspace: &'a Workspace,
    /// How paths are written.
    pub style: PathStyle,
    /// The call's bounds.
    pub limits: &'a Limits,
    /// Which files, where the caller was granted only some.
    pub grant: Option<&'a dyn PathGrant>,
    /// When to give up.
    pub stop: &'a Cancellation,
    /// The one protected file, with its alias, that this call may change all the same.
    pub unlocked: Option<&'a str>,
}

impl<'a> View<'a> {
    pub(crate) fn request<'p>(&self, path: &'p str) -> Result<Requested<'p>, WorkspaceError> {
        request::parse(path, self.style, &self.workspace.mounts)
    }

    pub(crate) fn mount(&self, index: usize) -> Result<&'a Mount, WorkspaceError> {
        self.workspace
            .mounts
            .get(index)
            .ok_or(WorkspaceError::InvalidPath { reason: "has no mount", help: self.style.example() })
    }

    /// What the rules say about a location, those of mounts inside this one too: coming through the outer mount is no way around them.
    pub(crate) fn verdict(&self, mount: &Mount, location: &Path, is_directory: bool) -> Verdict {
        let own = mount.rules().verdict(location, is_directory, self.grant);
        let inner = self.inner_mounts(mount, location);
        let inner = inner.map(|(inner, rest)| inner.rules().verdict(rest, is_directory, None));
        let mut refusals = std::iter::once(own).chain(inner).filter(|verdict| *verdict != Verdict::Reachable);
        refusals.next().unwrap_or(Verdict::Reachable)
    }

    /// Whether a file may be changed, also as far as mounts inside this one have a say.
    pub(crate) fn may_change(&self, mount: &Mount, location: &Path) -> bool {
        let may = |mount: &Mount, location: &Path| {
            let unlocked = self.unlocked.is_some_and(|path| path == mount.show_with_alias(location));
            mount.access() == Access::ReadWrite
                && (unlocked || mount.rules().may_change(location))
                && !is_inside_repository(mount, location)
                && !is_obeyed(&fold(location))
                && !is_target(mount, location)
        };
        may(mount, location) && self.inner_mounts(mount, location).all(|(inner, rest)| may(inner, rest))
    }

    /// Mounts that lie inside another one and hold a location of it, with the rest of the way.
    fn inner_mounts<'l>(
        &self,
        mount: &'l Mount,
        location: &'l Path,
    ) -> impl Iterator<Item = (&'l Mount, &'l Path)>
    where
        'a: 'l,
    {
        let inside = self.workspace.mounts_inside(mount);
        inside.filter_map(move |(inner, place)| Some((inner, location.strip_prefix(place).ok()?)))
    }

    /// Where a path really leads, as answers show it: the file that is there, or the place where it would be.
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
