//! A command or server at work, as the baselines know it: from its walk until what it left has been looked at.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::baselines::{BaselineEntry, BaselineSource, Baselines, IdleSnapshot};
use super::{ConfinedMount, ProtectedArtifact, Quarantine, Quarantined};
use crate::error::WorkspaceError;

/// The mounts of one command, each with the baseline that it is compared with.
///
/// Dropping it without settling says that something may have been left: the next command in the same directories looks first.
#[derive(Debug)]
pub struct ConfinedRun<'r> {
    baselines: &'r Baselines,
    mounts: Vec<ConfinedMount<'r>>,
    uses: Mutex<Vec<Option<DirectoryUse>>>,
    /// Whether the mounts have been walked, so that something may be started.
    has_begun: bool,
}

/// How far what a command left in a mount has been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanCoverage {
    /// To the end, and all that was found has been taken away.
    Complete,
    /// Not to the end, but another command is at work there, and it is looked at again when that one has ended.
    Deferred,
    /// Not to the end.
    Partial,
}

/// A directory that the command may change.
#[derive(Debug)]
pub(super) struct DirectoryUse {
    pub(super) index: usize,
    /// Whether it is still to take the baseline.
    pub(super) is_new: bool,
    /// Whether something was left here that no command under way will look at.
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

    /// The mounts, in the order in which they were wanted.
    #[must_use]
    pub fn mounts(&self) -> &[ConfinedMount<'r>] {
        &self.mounts
    }

    /// Whether something was left in one of its mounts that nobody has looked at to the end: by a gate that was killed, or because files kept moving.
    #[must_use]
    pub fn is_inherited(&self) -> bool {
        self.uses().iter().flatten().any(|used| used.is_inherited)
    }

    /// To be said when no process of the command is alive any more.
    pub fn ended(&self) {
        let (mut uses, mut entries) = (self.uses(), self.baselines.entries());
        for used in uses.iter_mut().flatten().filter(|used| used.quiet.is_none()) {
            used.quiet = entries.get_mut(used.index).map(BaselineEntry::end);
        }
    }

    /// Whether another command may be changing something in this mount, so that it will be looked at again.
    #[must_use]
    pub fn has_concurrent_run(&self, mount: usize) -> bool {
        let index = self.uses().get(mount).and_then(|used| Some(used.as_ref()?.index));
        index.is_some_and(|index| self.baselines.has_concurrent_run(index))
    }

    /// Takes a stray away, one at a time in this gate: what another command has taken away before is told by both. `None` when it is not there any more.
    ///
    /// # Errors
    /// Whatever the operating system says; the stray may then still be obeyed.
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

    /// To be said after [`ConfinedRun::ended`], when a mount was looked at.
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

    /// To be said when nothing was started after all.
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
