//! Putting back what dead processes left half-done.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Mutex;

use cap_std::fs::OpenOptions;
use rustix::fs::FlockOperation;
use toolgate_types::Stop;
use toolgate_workspace::{PathStyle, PlannedChange, Recorder, Settled, View};

use super::entry::{Change, ChangeSet, Kind, Place};
use super::record::is_named;
use super::undo::{UNLIMITED, expectation, restoration_of, workspace_of};
use super::{Journal, entry_name, written};

impl Journal {
    /// Takes every pending entry that nobody holds, undoes what it did, and removes it.
    pub(super) fn recover(&self) -> io::Result<()> {
        for entry in self.pending.entries()? {
            let name = entry?.file_name();
            let mut options = OpenOptions::new();
            options.read(true);
            let Ok(file) = self.pending.open_with(&name, &options) else { continue };
            let mut file = file.into_std();
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            // Between opening and locking, a living process may have ended one attempt and begun another under the same name.
            if !is_named(&self.pending, &name, &file) {
                continue;
            }
            let mut bytes = Vec::new();
            if file.read_to_end(&mut bytes).is_err() {
                continue;
            }
            match serde_json::from_slice::<ChangeSet>(&bytes) {
                Ok(set) if name.to_str() == Some(&entry_name(set.call)) => self.put_back(set),
                _ => self.abandon(&name.to_string_lossy()),
            }
        }
        Ok(())
    }

    /// An entry that never counted: nothing was changed, but something may have been kept for it.
    fn abandon(&self, name: &str) {
        let call = name.trim_start_matches('.').trim_end_matches(".json");
        let counts = |name: &str| self.pending.exists(name) || self.done.exists(name);
        if !call.is_empty() && !counts(&format!("{call}.json")) {
            for blob in self.blobs.entries().into_iter().flatten().flatten() {
                let blob = blob.file_name();
                if blob.to_string_lossy().strip_prefix(call).is_some_and(|index| index.starts_with('.')) {
                    let _ = self.blobs.remove_file(blob);
                }
            }
        }
        let _ = self.pending.remove_file(name);
    }

    fn put_back(&self, set: ChangeSet) {
        if let Ok(workspace) = workspace_of(&set) {
            let stop = Stop::never();
            let view = View {
                workspace: &workspace,
                style: PathStyle::Free,
                limits: &UNLIMITED,
                grant: None,
                stop: &stop,
                unlocked: None,
            };
            let remembering = Remembering::new(self, &set);
            for change in set.changes.iter().rev() {
                self.put_one_back(&view, change, &remembering);
            }
            for Place { mount, path, .. } in &set.litter {
                remove_litter(&view, mount, path, path);
            }
        }
        let _ = self.note_undoing(&set, false);
        let kept = set.changes.iter().filter_map(|change| change.before.as_ref());
        let mut blobs = kept.map(|kept| kept.blob.clone()).collect();
        self.forget(set.call, &mut blobs);
    }

    fn put_one_back(&self, view: &View<'_>, change: &Change, recorder: &dyn Recorder) {
        let now = view.digest_of(&change.shown());
        let made = match change.kind {
            Kind::Create | Kind::Modify => {
                change.after.is_some() && matches!(now, Ok(now) if now == change.after)
            }
            Kind::Delete | Kind::Move => matches!(now, Ok(None)),
        };
        // Somebody may be at work on the file by now: only what this change left behind is put back.
        if made && let Ok(restoration) = restoration_of(&self.blobs, change, expectation(change)) {
            let _ = view.restore(&[restoration], recorder);
        }
        if let Some(temporary) = &change.temporary {
            remove_litter(view, &change.mount, &change.path, temporary);
        }
        let mount = change.moved_to.as_ref().map_or(&change.mount, |place| &place.mount);
        view.remove_empty_folders(mount, &change.new_folders);
    }
}

/// Removes the file that has the last name of `name`, beside `beside`.
fn remove_litter(view: &View<'_>, mount: &str, beside: &str, name: &str) {
    let name = name.rsplit('/').next().unwrap_or(name);
    view.remove_litter(mount, beside.as_ref(), name.as_ref());
}

/// Adds the temporary names of putting back to the entry itself: whoever dies while putting back leaves litter that the next start knows of.
struct Remembering<'j> {
    journal: &'j Journal,
    held: Mutex<(ChangeSet, Option<File>)>,
}

impl<'j> Remembering<'j> {
    fn new(journal: &'j Journal, set: &ChangeSet) -> Self {
        Self { journal, held: Mutex::new((set.clone(), None)) }
    }
}

impl Recorder for Remembering<'_> {
    fn record(&self, changes: &[PlannedChange<'_>]) -> Result<(), String> {
        let mut held = self.held.lock().map_err(|_| "putting back was interrupted".to_owned())?;
        for change in changes {
            let Some(temporary) = &change.temporary else { continue };
            let (mount, root) = (change.alias.to_owned(), written(change.host_root)?);
            let path = written(&change.location.with_file_name(temporary))?;
            held.0.litter.push(Place { mount, root, path });
        }
        let entry = self.journal.begin(held.0.call).map_err(|error| error.to_string())?;
        self.journal.announce(&entry, &held.0).map_err(|error| error.to_string())?;
        held.1 = Some(entry);
        Ok(())
    }

    fn settle(&self, _settled: Settled) {}
}
