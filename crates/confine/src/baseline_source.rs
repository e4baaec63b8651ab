//! Older baselines that a new one inherits from: of other gates, and of gates that were killed.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use cap_std::fs::Dir;
use toolgate_fs::FileLock;

use crate::baseline::Baseline;
use crate::baseline_record::remove;
use crate::baselines::is_same_directory;
use crate::lineage::Lineage;

/// An older baseline that a baseline of this gate inherits from.
#[derive(Clone, Debug)]
pub(crate) struct BaselineSource {
    pub(crate) lineage: Arc<Lineage>,
    pub(crate) before: Arc<Baseline>,
    /// The record, if it is orphaned.
    pub(crate) orphaned: Option<Arc<OrphanedRecord>>,
}

/// An orphaned record. Its lock makes it look in use to other gates while this one handles it.
#[derive(Debug)]
pub(crate) struct OrphanedRecord {
    pub(crate) name: OsString,
    pub(crate) _lock: FileLock<File>,
}

impl BaselineSource {
    /// Whether it contains anything about a mount.
    pub(crate) fn concerns(&self, lineage: &Lineage) -> bool {
        let around = self.lineage.path_to(lineage);
        lineage.path_to(&self.lineage).is_some()
            || around.is_some_and(|place| !self.before.is_unscanned(&place))
    }

    /// The baseline with places relative to a mount, and the part of the mount that it covers.
    pub(crate) fn for_mount(&self, lineage: &Lineage) -> Option<(Baseline, PathBuf)> {
        if let Some(place) = lineage.path_to(&self.lineage) {
            let before = if is_same_directory(place.clone()) {
                Baseline::clone(&self.before)
            } else {
                self.before.within(&place)
            };
            return Some((before, place));
        }
        let place = self.lineage.path_to(lineage)?;
        Some((self.before.below(&place)?, PathBuf::new()))
    }

    /// Whether the source is covered by this directory's own record, or its gate still runs. Removes an orphaned record whose directory is this one
    /// or lies in it.
    pub(crate) fn is_inside(&self, lineage: &Lineage, folder: &Dir) -> bool {
        let is_inside = lineage.path_to(&self.lineage).is_some();
        if let Some(abandoned) = self.orphaned.as_ref().filter(|_| is_inside) {
            remove(folder, &abandoned.name);
        }
        is_inside || self.orphaned.is_none()
    }
}
