//! A running command or server, from the walk before it until its changes have been scanned.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolgate_workspace::WorkspaceError;
use toolgate_workspace::internals::ProtectedArtifact;

use crate::baseline_source::BaselineSource;
use crate::baselines::{BaselineEntry, Baselines, IdleSnapshot};
use crate::{ConfinedMount, Quarantine, Quarantined};

/// The mounts of one command, each with its baseline.
///
/// Dropping it without settling marks the directories as unscanned: the next command there scans first.
#[derive(Debug)]
pub struct ConfinedRun<'r> {
    baselines: &'r Baselines,
    mounts: Vec<ConfinedMount<'r>>,
    uses: Mutex<Vec<Option<DirectoryUse>>>,
    /// Whether the mounts have been walked, so that a process may be started.
    has_begun: bool,
}

/// How far the changes of a command in a mount have been scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanCoverage {
    /// Completely, and everything that was found is in quarantine.
    Complete,
    /// Not completely, but another command runs there, and the mount is scanned again when that one ends.
    Deferred,
    /// Not completely.
    Partial,
}

/// A directory that the command may change.
#[derive(Debug)]
pub(super) struct DirectoryUse {
    pub(super) index: usize,
    /// Whether the baseline is still to be taken.
    pub(super) is_new: bool,
    /// Whether changes were left here that no running command will scan for.
    pub(super) is_inherited: bool,
    pub(super) sources: Vec<BaselineSource>,
    /// Set when the command has ended.
    quiet: Option<IdleSnapshot>,
}

impl DirectoryUse {
    pub(super) fn new(index: usize, is_new: bool, sources: Vec<BaselineSource>) -> Self {
        Self { index, is_new, is_inherited: false, sources, quiet: None }
    }
}

impl<'r> ConfinedRun<'r> {
    pub(super) fn new(baselines: &'r Baselines, uses: Vec<Option<DirectoryUse>>) -> Self {
        Self { baselines, mounts: Vec::new(), uses: Mutex::new(uses), has_begun: false }
    }

    pub(super) fn uses(&self) -> MutexGuard<'_, Vec<Option<DirectoryUse>>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(mut self, mut mounts: Vec<ConfinedMount<'r>>) -> Result<Self, WorkspaceError> {
        let uses = self.uses.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.baselines.begin(uses, &mut mounts)?;
        (self.mounts, self.has_begun) = (mounts, true);
        Ok(self)
    }

    /// The mounts, in the order of the request.
    #[must_use]
    pub fn mounts(&self) -> &[ConfinedMount<'r>] {
        &self.mounts
    }

    /// Whether one of its mounts has changes that no scan has covered completely: by a gate that was killed, or because files kept moving.
    #[must_use]
    pub fn is_inherited(&self) -> bool {
        self.uses().iter().flatten().any(|used| used.is_inherited)
    }

    /// Must be called when no process of the command is alive any more.
    pub fn ended(&self) {
        let (mut uses, mut entries) = (self.uses(), self.baselines.entries());
        for used in uses.iter_mut().flatten().filter(|used| used.quiet.is_none()) {
            used.quiet = entries.get_mut(used.index).map(BaselineEntry::end);
        }
    }

    /// Whether another command may be changing this mount, so that it will be scanned again.
    #[must_use]
    pub fn has_concurrent_run(&self, mount: usize) -> bool {
        let index = self.uses().get(mount).and_then(|used| Some(used.as_ref()?.index));
        index.is_some_and(|index| self.baselines.has_concurrent_run(index))
    }

    /// Moves an artifact to quarantine, one at a time in this gate; if another command has already moved it, both report it. `None` when it no longer
    /// exists.
    ///
    /// # Errors
    /// An I/O error; the artifact may then still take effect.
    pub fn quarantine(
        &self,
        mount: &ConfinedMount<'_>,
        stray: &ProtectedArtifact,
        quarantine: &Quarantine<'_>,
    ) -> Result<Option<Quarantined>, WorkspaceError> {
        let mut taken = self.baselines.quarantined.lock().unwrap_or_else(PoisonError::into_inner);
        let file = (stray.identity.device, stray.identity.inode);
        match mount.quarantine(stray, quarantine)? {
            Some(quarantined) => {
                taken.insert(file, quarantined.clone());
                Ok(Some(quarantined))
            }
            None => Ok(taken.get(&file).cloned()),
        }
    }

    /// Must be called after [`ConfinedRun::ended`], when a mount was scanned.
    pub fn settle(&self, mount: usize, looked: ScanCoverage) {
        let used = self.uses().get_mut(mount).and_then(Option::take);
        let Some(DirectoryUse { index, quiet: Some(quiet), sources, .. }) = used else { return };
        let mut entries = self.baselines.entries();
        let lineage = entries.get_mut(index).map(|entry| {
            entry.settle(looked, &quiet);
            Arc::clone(entry.lineage())
        });
        if entries.iter().all(BaselineEntry::is_idle) {
            self.baselines.quarantined.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        drop(entries);
        if let Some(lineage) = lineage.filter(|_| looked == ScanCoverage::Complete && !sources.is_empty()) {
            self.baselines.settle_orphans(&lineage, sources);
        }
    }

    /// Must be called when no process was started after all.
    pub fn cancel(self) {
        let (mut uses, mut entries) = (self.uses(), self.baselines.entries());
        for used in uses.iter_mut().filter_map(Option::take) {
            if let Some(entry) = entries.get_mut(used.index) {
                entry.cancel(used.is_new);
            }
        }
    }
}

impl Drop for ConfinedRun<'_> {
    fn drop(&mut self) {
        let (mut uses, mut entries) = (self.uses(), self.baselines.entries());
        for used in uses.iter_mut().filter_map(Option::take) {
            let Some(entry) = entries.get_mut(used.index) else { continue };
            if !self.has_begun || used.is_new {
                entry.cancel(used.is_new);
                continue;
            }
            let quiet = used.quiet.unwrap_or_else(|| entry.end());
            entry.settle(ScanCoverage::Partial, &quiet);
        }
    }
}
