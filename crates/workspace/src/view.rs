//! A workspace as one call sees it.

use toolgate_types::{Limits, Stop};

use crate::error::WorkspaceError;
use crate::mount::Mount;
use crate::request::{self, PathStyle, Requested};
use crate::rules::PathGrant;
use crate::target::find_target;

/// All mounts of a workspace.
#[derive(Debug)]
pub struct Workspace {
    mounts: Vec<Mount>,
}

impl Workspace {
    /// A workspace of these mounts.
    ///
    /// # Errors
    /// Two mounts with one alias.
    pub fn new(mounts: Vec<Mount>) -> Result<Self, crate::MountError> {
        for (index, mount) in mounts.iter().enumerate() {
            if mounts.iter().skip(index + 1).any(|other| other.alias() == mount.alias()) {
                return Err(crate::MountError::Duplicate(mount.alias().to_owned()));
            }
        }
        Ok(Self { mounts })
    }

    /// The mounts, in the order they were given.
    #[must_use]
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// The mount with this alias.
    #[must_use]
    pub fn mount(&self, alias: &str) -> Option<&Mount> {
        self.mounts.iter().find(|mount| mount.alias() == alias)
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
    pub stop: &'a Stop,
    /// The one protected file, with its alias, that this call may change all the same.
    pub unlocked: Option<&'a str>,
}

impl<'a> View<'a> {
    pub(crate) fn request(&self, path: &str) -> Result<Requested, WorkspaceError> {
        request::parse(path, self.style, &self.workspace.mounts)
    }

    pub(crate) fn mount(&self, index: usize) -> Result<&'a Mount, WorkspaceError> {
        self.workspace.mounts.get(index).ok_or(WorkspaceError::InvalidPath { reason: "has no mount" })
    }

    /// Where a path really leads, as answers show it: the file that is there, or the place where it would be.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn resolved(&self, path: &str) -> Result<String, WorkspaceError> {
        let target = find_target(self, &self.request(path)?)?;
        Ok(self.show(target.mount, &target.location))
    }

    pub(crate) fn show(&self, mount: &Mount, location: &std::path::Path) -> String {
        match self.style {
            PathStyle::AliasOnly => mount.show_with_alias(location),
            PathStyle::Free => mount.show(location),
        }
    }
}
