//! What a command may not see or change in its mounts, and what must be taken away after it ran.
//!
//! A command is given whole mounts, so the rules that are otherwise asked about every single file are told to the kernel beforehand: before it
//! starts, the mounts are walked, and everything that it must not reach gets a cover. What does not exist yet cannot be covered. So the mounts that
//! it may change are walked again afterwards, and what it put under a name that other programs obey is moved to quarantine.
//!
//! This module mounts nothing and runs nothing: it tells what to cover, relative to a mount's handle.

mod ground;
mod hard_links;
mod repositories;
mod discovery;
mod inventory;
mod todo;
mod targets;
mod look;
mod covers;
mod before;
mod codec;
mod lineage;
mod record;
mod baselines;
mod run;
mod stray;
mod leftover;
mod strays;
mod quarantine;
mod quarantine_bounds;

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use toolgate_search::{Surveyed, survey};
use toolgate_types::{Cancellation, MountOverlay};

use crate::error::WorkspaceError;
use crate::mount::{Access, Mount};
use crate::request::PathStyle;
use crate::rules::PathGrant;
use crate::view::Workspace;

use before::Before;
use covers::{Assembled, assemble};
use ground::Ground;
use leftover::Told;
use look::{Look, Sightings};

pub(crate) use targets::is_target;

pub use baselines::Baselines;
pub use hard_links::HardLinks;
pub use leftover::{Leftover, LeftoverKind};
pub use quarantine::{Quarantine, Quarantined};
pub use quarantine_bounds::QuarantineBounds;
pub use run::{Looked, Run};
pub use stray::{Stray, StrayKind, Strays};

/// Each cover is a mount that every command pays for. Where more would be needed, directories are hidden as a whole.
pub(crate) const MOST_COVERS: usize = 10_000;

/// A walk that has found more to cover than this finds no more.
const MAX_SEALS: usize = 200_000;

/// How often a tree is walked in which others keep changing directories.
const WALKS: usize = 4;

/// A mount that a command wants.
#[derive(Clone, Copy, Debug)]
pub struct Confined<'a> {
    /// The alias, with its `@`.
    pub alias: &'a str,
    /// Whether the command may change it.
    pub writable: bool,
}

/// A mount as one command gets it.
#[derive(Debug)]
pub struct ConfinedMount<'a> {
    ground: Ground<'a>,
    writable: bool,
    covers: Vec<MountOverlay>,
    /// Directories that are hidden as a whole because too much in them is denied.
    bundled: Vec<PathBuf>,
    /// How many files have a name elsewhere, and cannot be changed.
    linked: usize,
    /// What would be told if the command had left it, and was there before.
    told: HashSet<Told>,
    before: Arc<Before>,
    /// How many strays were taken away.
    taken: AtomicUsize,
}

impl Workspace {
    /// Walks the wanted mounts and tells what of them a command must not reach.
    ///
    /// Whoever mounts the covers must open each of them beneath the mount's handle without following links, and must not start the command when
    /// one of them is not there any more.
    ///
    /// # Errors
    /// An alias that is not mounted, a read-only mount that is to be written, more covers than anybody would wait for, or a tree that cannot be walked.
    pub fn confine(
        &self,
        wanted: &[Confined<'_>],
        grant: Option<&dyn PathGrant>,
        stop: &Cancellation,
    ) -> Result<Vec<ConfinedMount<'_>>, WorkspaceError> {
        wanted.iter().map(|wanted| self.confine_one(wanted, grant, stop)).collect()
    }

    fn confine_one(
        &self,
        wanted: &Confined<'_>,
        grant: Option<&dyn PathGrant>,
        stop: &Cancellation,
    ) -> Result<ConfinedMount<'_>, WorkspaceError> {
        let mount = self.mount(wanted.alias).ok_or_else(|| self.unknown(wanted.alias))?;
        if wanted.writable && mount.access() == Access::ReadOnly {
            return Err(WorkspaceError::ReadOnly { path: mount.alias().to_owned() });
        }
        let ground = Ground::new(self, mount);
        let mut sightings = look_around(&ground, wanted.writable, grant, stop)?;
        let before = Arc::new(Before::take(&mut sightings, &ground));
        let linked = hard_links::freeze(&mut sightings);
        let told = std::mem::take(&mut sightings.told);
        let Assembled { covers, bundled } =
            assemble(sightings, wanted.writable).map_err(|most| WorkspaceError::TooManyCovers {
                alias: mount.alias().to_owned(),
                limit: MOST_COVERS,
                most: mount.show_with_alias(&most),
            })?;
        let (writable, taken) = (wanted.writable, AtomicUsize::new(0));
        Ok(ConfinedMount { ground, writable, covers, bundled, linked, told, before, taken })
    }

    pub(crate) fn unknown(&self, alias: &str) -> WorkspaceError {
        let known: Vec<&str> = self.mounts().iter().map(Mount::alias).collect();
        WorkspaceError::UnknownAlias {
            alias: alias.to_owned(),
            known: known.join(", "),
            style: PathStyle::Free,
        }
    }
}

fn restless_mount(ground: &Ground<'_>) -> WorkspaceError {
    WorkspaceError::Restless { alias: ground.mount.alias().to_owned() }
}

/// Walks until nobody moved anything past us. In a tree that never rests, all that was seen in several walks counts; but where a folder moved away before it was
/// read, or something that no command may see is no longer where it was seen, nobody knows where it is, and no command is started.
fn look_around(
    ground: &Ground<'_>,
    writable: bool,
    grant: Option<&dyn PathGrant>,
    stop: &Cancellation,
) -> Result<Sightings, WorkspaceError> {
    let mut earlier = Sightings::default();
    for walk in 1..=WALKS {
        let look = || Look::new(ground, writable, grant);
        let Surveyed { surveyors, restless, missed, stopped } =
            survey(ground.mount.as_fd(), stop, look).map_err(WorkspaceError::other)?;
        if let Some(reason) = stopped {
            return Err(WorkspaceError::Stopped(reason));
        }
        let mut seen = Sightings::default();
        surveyors.into_iter().for_each(|look| seen.add(look.into_sightings()));
        if !restless {
            seen.add(earlier.still_there(ground));
            return Ok(seen);
        }
        if walk == WALKS {
            let (links, targets) = (std::mem::take(&mut seen.links), std::mem::take(&mut seen.targets));
            seen.add(earlier);
            let linked = std::mem::take(&mut seen.linked);
            let sealed = seen.seals.len();
            let seen = seen.still_there(ground);
            let all_there = !missed && seen.seals.len() == sealed;
            return if all_there {
                Ok(Sightings { links, targets, linked, ..seen })
            } else {
                Err(restless_mount(ground))
            };
        }
        earlier.add(seen);
    }
    Ok(earlier)
}

impl<'a> ConfinedMount<'a> {
    /// The alias, with its `@`.
    #[must_use]
    pub fn alias(&self) -> &'a str {
        self.ground.mount.alias()
    }

    /// The open directory.
    #[must_use]
    pub fn handle(&self) -> BorrowedFd<'a> {
        self.ground.mount.as_fd()
    }

    /// Whether the command may change it.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Directories that are hidden as a whole because too much in them is denied, as answers show them.
    pub fn bundled(&self) -> impl Iterator<Item = String> {
        self.bundled.iter().map(|folder| self.ground.mount.show_with_alias(folder))
    }

    /// How many files the command cannot change because they have another name elsewhere.
    #[must_use]
    pub fn linked_elsewhere(&self) -> usize {
        self.linked
    }

    /// What to cover, in this order: parents stand before children, and every place once.
    #[must_use]
    pub fn covers(&self) -> &[MountOverlay] {
        &self.covers
    }
}
