//! Putting back what dead processes left half-done.

use std::io;

use cap_std::fs::OpenOptions;
use rustix::fs::FlockOperation;

use super::entry::{ChangeSet, Kind};
use super::undo::{restoration_of, workspace_of};
use super::{Journal, entry_name};
use toolgate_types::Stop;
use toolgate_workspace::{Expect, Forgetful, PathStyle, View};

use super::undo::UNLIMITED;

impl Journal {
    /// Takes every pending entry that nobody holds, undoes what it did, and removes it.
    pub(super) fn recover(&self) -> io::Result<()> {
        for entry in self.pending.entries()? {
            let name = entry?.file_name();
            let mut options = OpenOptions::new();
            options.read(true);
            let Ok(file) = self.pending.open_with(&name, &options) else { continue };
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let Ok(bytes) = self.pending.read(&name) else { continue };
            match serde_json::from_slice::<ChangeSet>(&bytes) {
                Ok(set) if name.to_str() == Some(&entry_name(set.call)) => self.put_back(&set),
                // Never finished being written, so nothing was changed.
                _ => {
                    let _ = self.pending.remove_file(&name);
                }
            }
        }
        Ok(())
    }

    fn put_back(&self, set: &ChangeSet) {
        if let Ok(workspace) = workspace_of(set) {
            let stop = Stop::never();
            let view = View {
                workspace: &workspace,
                style: PathStyle::AliasOnly,
                limits: &UNLIMITED,
                grant: None,
                stop: &stop,
                unlocked: None,
            };
            for change in set.changes.iter().rev() {
                let made = match change.kind {
                    Kind::Create | Kind::Modify => {
                        change.after.is_some()
                            && view.digest_of(&change.shown()).ok().flatten() == change.after
                    }
                    Kind::Delete => matches!(view.digest_of(&change.shown()), Ok(None)),
                    Kind::Move => matches!(view.digest_of(&change.shown()), Ok(None)),
                };
                if made && let Ok(restoration) = restoration_of(&self.blobs, change, Expect::Anything) {
                    let _ = view.restore(&[restoration], &Forgetful);
                }
                if let Some(temporary) = &change.temporary {
                    view.remove_litter(&change.mount, change.path.as_ref(), temporary.as_ref());
                }
                let mount = change.moved_to.as_ref().map_or(&change.mount, |place| &place.mount);
                view.remove_empty_folders(mount, &change.new_folders);
            }
        }
        let mut blobs = set
            .changes
            .iter()
            .filter_map(|change| change.before.as_ref())
            .map(|kept| kept.blob.clone())
            .collect();
        self.forget(set.call, &mut blobs);
    }
}
