//! What a command must not see or change in its mounts, and what must be quarantined after it ran.
//!
//! A command gets whole mounts, so the rules that the file tools apply to each file must be enforced by the kernel. Before the command starts, the
//! mounts are walked, and everything that it must not reach gets an overlay mount. A file that does not exist yet cannot have an overlay. So the
//! writable mounts are walked again afterwards, and what the command put under a name that other programs execute or read as configuration is moved
//! to quarantine.
//!
//! This crate mounts nothing and runs nothing: it computes the overlays, relative to a mount's handle.

mod mount_tree;
mod hard_links;
mod inventory;
mod rebase_todo;
mod scanner;
mod overlays;
mod baseline;
mod codec;
mod target_codec;
mod lineage;
mod baseline_record;
mod baseline_source;
mod baselines;
mod confined_run;
mod leftover;
mod post_run_scan;
mod trash;
mod quarantine;
mod quarantine_bounds;

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use toolgate_search::{TreeScan, scan_tree};
use toolgate_types::{Deadline, MountOverlay};
use toolgate_workspace::{MountAccess, PathGrant, Workspace, WorkspaceError};

use baseline::Baseline;
use leftover::ReportedLeftover;
use mount_tree::MountTree;
use overlays::{OverlayPlan, plan_overlays};
use scanner::{ScanResult, Scanner};

pub use baselines::Baselines;
pub use confined_run::{ConfinedRun, ScanCoverage};
pub use leftover::{Leftover, LeftoverKind};
pub use post_run_scan::PostRunScan;
pub use quarantine::{Quarantine, Quarantined};
pub use quarantine_bounds::QuarantineBounds;
pub use toolgate_workspace::internals::{ProtectedArtifact, ProtectedArtifactKind};
pub use trash::{empty_trash, move_to_trash};

/// Each overlay is a mount that costs every command time. Where more would be needed, whole directories are masked.
const MAX_OVERLAYS: usize = 10_000;

/// A walk stops collecting protections at this number.
const MAX_PROTECTIONS: usize = 200_000;

/// How often a tree is walked again when other processes keep changing directories.
const MAX_WALKS: usize = 4;

/// A mount that a command requests.
#[derive(Clone, Copy, Debug)]
pub struct ConfineRequest<'a> {
    /// The alias, with its `@`.
    pub alias: &'a str,
    /// Whether the command may change it.
    pub writable: bool,
}

/// A mount as one command gets it.
#[derive(Debug)]
pub struct ConfinedMount<'a> {
    tree: MountTree<'a>,
    writable: bool,
    overlays: Vec<MountOverlay>,
    /// Directories that are masked as a whole because too much in them is denied.
    bundled: Vec<PathBuf>,
    /// How many files have a hard link elsewhere, and cannot be changed.
    linked: usize,
    /// Existing files that would be reported if the command had left them.
    reported: HashSet<ReportedLeftover>,
    baseline: Arc<Baseline>,
    /// How many protected artifacts were moved to quarantine.
    quarantined: AtomicUsize,
}

/// Walks the requested mounts and computes the overlays for what a command must not reach.
///
/// The caller must open each overlay's place beneath the mount's handle without following symlinks, and must not start the command when one of
/// them no longer exists.
///
/// # Errors
/// An alias that is not mounted, a read-only mount requested as writable, too many overlays, or a tree that cannot be walked.
pub fn confine<'w>(
    workspace: &'w Workspace,
    wanted: &[ConfineRequest<'_>],
    grant: Option<&dyn PathGrant>,
    stop: &Deadline,
) -> Result<Vec<ConfinedMount<'w>>, WorkspaceError> {
    wanted.iter().map(|wanted| confine_one(workspace, wanted, grant, stop)).collect()
}

fn confine_one<'w>(
    workspace: &'w Workspace,
    wanted: &ConfineRequest<'_>,
    grant: Option<&dyn PathGrant>,
    stop: &Deadline,
) -> Result<ConfinedMount<'w>, WorkspaceError> {
    let mount = workspace.mount(wanted.alias).ok_or_else(|| workspace.unknown_alias(wanted.alias))?;
    if wanted.writable && mount.access() == MountAccess::ReadOnly {
        return Err(WorkspaceError::ReadOnly { path: mount.alias().to_owned() });
    }
    let ground = MountTree::new(workspace, mount);
    let mut sightings = scan_until_stable(&ground, wanted.writable, grant, stop)?;
    let before = Arc::new(Baseline::from_scan(&mut sightings, &ground));
    let linked = hard_links::protect_hard_links(&mut sightings);
    let told = std::mem::take(&mut sightings.reported);
    let OverlayPlan { overlays: covers, bundled } =
        plan_overlays(sightings, wanted.writable).map_err(|most| WorkspaceError::TooManyCovers {
            alias: mount.alias().to_owned(),
            limit: MAX_OVERLAYS,
            most: mount.show_with_alias(&most),
        })?;
    let (writable, taken) = (wanted.writable, AtomicUsize::new(0));
    Ok(ConfinedMount {
        tree: ground,
        writable,
        overlays: covers,
        bundled,
        linked,
        reported: told,
        baseline: before,
        quarantined: taken,
    })
}

fn unstable_tree(ground: &MountTree<'_>) -> WorkspaceError {
    WorkspaceError::Restless { alias: ground.mount.alias().to_owned() }
}

/// Walks until no concurrent move could have hidden anything. In a tree that keeps changing, the results of several walks are merged. But where a
/// directory was moved before it was read, or something that no command may see is no longer where it was seen, its place is unknown, and the command
/// is not started.
fn scan_until_stable(
    ground: &MountTree<'_>,
    writable: bool,
    grant: Option<&dyn PathGrant>,
    stop: &Deadline,
) -> Result<ScanResult, WorkspaceError> {
    let mut earlier = ScanResult::default();
    for walk in 1..=MAX_WALKS {
        let look = || Scanner::new(ground, writable, grant);
        let TreeScan { visitors: surveyors, changed_during_scan: restless, incomplete: missed, stopped } =
            scan_tree(ground.mount.as_fd(), stop, look).map_err(WorkspaceError::other)?;
        if let Some(reason) = stopped {
            return Err(WorkspaceError::Stopped(reason));
        }
        let mut seen = ScanResult::default();
        surveyors.into_iter().for_each(|look| seen.add(look.into_result()));
        if !restless {
            seen.add(earlier.retain_existing(ground));
            return Ok(seen);
        }
        if walk == MAX_WALKS {
            let (links, targets) = (std::mem::take(&mut seen.links), std::mem::take(&mut seen.targets));
            seen.add(earlier);
            let linked = std::mem::take(&mut seen.linked);
            let sealed = seen.protections.len();
            let seen = seen.retain_existing(ground);
            let all_there = !missed && seen.protections.len() == sealed;
            return if all_there {
                Ok(ScanResult { links, targets, linked, ..seen })
            } else {
                Err(unstable_tree(ground))
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
        self.tree.mount.alias()
    }

    /// Where it is on the host.
    #[must_use]
    pub fn host_root(&self) -> &'a Path {
        self.tree.mount.host_root()
    }

    /// The open directory.
    #[must_use]
    pub fn handle(&self) -> BorrowedFd<'a> {
        self.tree.mount.as_fd()
    }

    /// Whether the command may change it.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Directories that are masked as a whole because too much in them is denied, as answers show them.
    pub fn bundled(&self) -> impl Iterator<Item = String> {
        self.bundled.iter().map(|folder| self.tree.mount.show_with_alias(folder))
    }

    /// How many files the command cannot change because they have a hard link elsewhere.
    #[must_use]
    pub fn linked_elsewhere(&self) -> usize {
        self.linked
    }

    /// The overlays in mount order: parents before children, and every place once.
    #[must_use]
    pub fn overlays(&self) -> &[MountOverlay] {
        &self.overlays
    }
}
