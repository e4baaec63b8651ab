//! Putting back what dead processes left half-done.
//!
//! What was kept for a call may be the only copy of something. So it is thrown away only when every file of the call was looked at and is as it
//! should be; whatever goes wrong, all of it stays for the next start, and the operator is told.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Mutex;

use cap_std::fs::OpenOptions;
use toolgate_types::digest::Sha256Hasher;
use toolgate_types::{CallId, Locked, Sha256, Stop};
use toolgate_workspace::{
    NotKept, Patience, PlannedChange, Recorder, Restoration, Settled, View, WorkspaceError,
};

use super::entry::{Change, ChangeSet, Kind, Place};
use super::record::{is_named, write_down};
use super::undo::{expectation, restoration_of, restoring, workspace_of};
use super::{Journal, entry_name, written};

/// What a start found of processes that died, or that could not take a change back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Calls whose changes were put back: they have changed nothing.
    pub put_back: Vec<CallId>,
    /// Calls, or names of entries, whose changes could not be put back, and why. All that was kept for them is still there.
    pub kept: Vec<(String, String)>,
}

impl Journal {
    /// Takes every pending entry that nobody holds, undoes what it did, and removes it.
    pub(super) fn recover(&self) -> io::Result<Recovery> {
        let mut recovery = Recovery::default();
        for entry in self.pending.entries()? {
            let name = entry?.file_name();
            let Some((_held, bytes)) = self.take_over(&name)? else { continue };
            let shown = name.to_string_lossy();
            if shown.starts_with('.') {
                if let Some(kept) = self.abandon(&shown, &bytes) {
                    recovery.kept.push(kept);
                }
                continue;
            }
            match serde_json::from_slice::<ChangeSet>(&bytes) {
                Ok(set) if *shown == entry_name(set.call) => match self.put_back(&set) {
                    Ok(()) => recovery.put_back.push(set.call),
                    Err(reason) => recovery.kept.push((set.call.to_string(), reason)),
                },
                _ => recovery.kept.push((shown.into_owned(), "the entry cannot be read".to_owned())),
            }
        }
        Ok(recovery)
    }

    /// Locks an entry and reads it; nothing when somebody else holds it.
    fn take_over(&self, name: &std::ffi::OsStr) -> io::Result<Option<(Locked<File>, Vec<u8>)>> {
        let mut options = OpenOptions::new();
        options.read(true);
        let file = match self.pending.open_with(name, &options) {
            Ok(file) => file.into_std(),
            // Its process has just ended the call.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Ok(entry) = Locked::at_once(file) else { return Ok(None) };
        // Between opening and locking, a living process may have ended one attempt and begun another under the same name.
        if !is_named(&self.pending, name, &entry) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        (&*entry).read_to_end(&mut bytes)?;
        Ok(Some((entry, bytes)))
    }

    /// An entry that never counted: nothing was changed, but something may have been kept for it, and folders made. A power cut may have lost that it
    /// counted: where files look changed, all of it stays, and the operator is told.
    fn abandon(&self, name: &str, bytes: &[u8]) -> Option<(String, String)> {
        let call = name.trim_start_matches('.').trim_end_matches(".json");
        let counts = |name: &str| self.pending.exists(name) || self.done.exists(name);
        if !call.is_empty() && !counts(&format!("{call}.json")) {
            let set = serde_json::from_slice(bytes).ok();
            if let Some(shown) = set.as_ref().and_then(looks_changed) {
                let reason =
                    format!("`{shown}` was changed by this call, or by somebody else that it waited for");
                return Some((call.to_owned(), reason));
            }
            for blob in self.blobs.entries().into_iter().flatten().flatten() {
                let blob = blob.file_name();
                if blob.to_string_lossy().strip_prefix(call).is_some_and(|index| index.starts_with('.')) {
                    let _ = self.blobs.remove_file(blob);
                }
            }
            if let Some(set) = &set {
                remove_new_folders(set);
            }
        }
        let _ = self.pending.remove_file(name);
        None
    }

    fn put_back(&self, set: &ChangeSet) -> Result<(), String> {
        let workspace = workspace_of(set).map_err(|error| error.to_string())?;
        let stop = Stop::never();
        let view = restoring(&workspace, &stop);
        let remembering = Remembering::new(self, set);
        let known = Known { journal: self, set, digests: OnceCell::new() };
        let mut left = Ok(());
        for change in set.changes.iter().rev() {
            // One file that cannot be put back is no reason to leave the others.
            left = left.and(put_one_back(&view, change, &known, &remembering));
        }
        left?;
        for Place { mount, path, .. } in &set.litter {
            known.remove_litter(&view, mount, path, path).map_err(|error| error.to_string())?;
        }
        self.note_undoing(set, false).map_err(|error| error.to_string())?;
        let kept = set.changes.iter().filter_map(|change| change.before.as_ref());
        self.forget(set.call, &mut kept.map(|kept| kept.blob.clone()).collect());
        Ok(())
    }
}

fn put_one_back(
    view: &View<'_>,
    change: &Change,
    known: &Known<'_>,
    recorder: &dyn Recorder,
) -> Result<(), String> {
    let told = |error: WorkspaceError| operator_text(&error);
    let made = is_made(view, change).map_err(told)?;
    // Somebody may be at work on the file by now: only what this change left behind is put back.
    if made && is_where_it_went(view, change).map_err(told)? {
        let restoration = known.restoration(view, change)?;
        view.restore(&[restoration], Patience::None, recorder).map_err(told)?;
    }
    if let Some(temporary) = &change.temporary {
        known.remove_litter(view, &change.mount, &change.path, temporary).map_err(told)?;
    }
    view.remove_empty_folders(change.mount_of_new_folders(), &change.new_folders);
    Ok(())
}

/// Whether a file is as the change would have left it.
fn is_made(view: &View<'_>, change: &Change) -> Result<bool, WorkspaceError> {
    let now = view.digest_of(&change.shown())?;
    Ok(match change.kind {
        Kind::Create | Kind::Modify => change.after.is_some() && now == change.after,
        Kind::Delete | Kind::Move => now.is_none(),
    })
}

/// A file that is as the call would have left it, or cannot be looked at, and of which there may be no other copy than the one that was kept.
fn looks_changed(set: &ChangeSet) -> Option<String> {
    let mut kept = set.changes.iter().filter(|change| change.before.is_some());
    let Ok(workspace) = workspace_of(set) else { return kept.next().map(Change::shown) };
    let stop = Stop::never();
    let view = restoring(&workspace, &stop);
    kept.find(|change| is_made(&view, change).unwrap_or(true)).map(Change::shown)
}

fn remove_new_folders(set: &ChangeSet) {
    // Where a mount is no longer there, neither are they.
    let Ok(workspace) = workspace_of(set) else { return };
    let stop = Stop::never();
    let view = restoring(&workspace, &stop);
    for change in &set.changes {
        view.remove_empty_folders(change.mount_of_new_folders(), &change.new_folders);
    }
}

/// A file that moved is put back from where it went; if nothing is there, somebody has taken it further.
fn is_where_it_went(view: &View<'_>, change: &Change) -> Result<bool, WorkspaceError> {
    change.shown_destination().map_or(Ok(true), |now| Ok(view.digest_of(&now)?.is_some()))
}

/// The reason as the operator may see it.
fn operator_text(error: &WorkspaceError) -> String {
    match error {
        WorkspaceError::NotRecorded(reason) => format!("{error}: {reason}"),
        _ => error.to_string(),
    }
}

/// All content that a call put somewhere or took from somewhere.
struct Known<'j> {
    journal: &'j Journal,
    set: &'j ChangeSet,
    /// Read only when there is litter to judge.
    digests: OnceCell<BTreeSet<String>>,
}

impl Known<'_> {
    fn digests(&self) -> &BTreeSet<String> {
        self.digests.get_or_init(|| {
            let after = self.set.changes.iter().filter_map(|change| change.after);
            let kept = self.set.changes.iter().filter_map(|change| change.before.as_ref());
            let before = kept.filter_map(|kept| self.journal.digest_of_blob(&kept.blob).ok());
            after.chain(before).map(|digest| digest.to_string()).collect()
        })
    }

    /// What was taken out waits under the temporary name, and is put back from there: if somebody was faster than the call,
    /// it is newer than what was kept.
    fn restoration(&self, view: &View<'_>, change: &Change) -> Result<Restoration, String> {
        let restoration = restoration_of(&self.journal.blobs, change, expectation(change));
        if let (Some(temporary), Some(kept)) = (&change.temporary, &change.before) {
            let taken = view
                .open_litter(&change.mount, change.path.as_ref(), temporary.as_ref())
                .map_err(|error| operator_text(&error))?;
            if let Some(taken) = taken {
                let digest = digest_of(&taken).map_err(|error| error.to_string())?;
                if Some(digest) != change.after {
                    let (path, expect) = (change.shown(), expectation(change));
                    let (mode, owner) = (kept.mode, kept.owner());
                    return Ok(Restoration::Content { path, content: taken, mode, owner, expect });
                }
            }
        }
        restoration.map_err(|error| format!("what was kept of `{}` cannot be read: {error}", change.shown()))
    }

    /// Removes the file that has the last name of `name`, beside `beside`, if what it holds is to be had elsewhere.
    fn remove_litter(
        &self,
        view: &View<'_>,
        mount: &str,
        beside: &str,
        name: &str,
    ) -> Result<(), WorkspaceError> {
        let name = name.rsplit('/').next().unwrap_or(name);
        let places = self.set.changes.iter().map(Change::shown);
        let elsewhere = |digest| {
            places.clone().any(|path| matches!(view.digest_of(&path), Ok(Some(now)) if now == digest))
        };
        let is_known = |digest: Sha256| self.digests().contains(&digest.to_string()) || elsewhere(digest);
        view.remove_litter(mount, beside.as_ref(), name.as_ref(), &is_known)
    }
}

impl Journal {
    fn digest_of_blob(&self, blob: &str) -> io::Result<Sha256> {
        digest_of(&self.blobs.open(blob)?.into_std())
    }
}

fn digest_of(mut file: &File) -> io::Result<Sha256> {
    let mut hasher = Sha256Hasher::new();
    let mut buffer = vec![0; 128 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(count) => hasher.update(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Adds the temporary names of putting back to the entry itself: whoever dies while putting back leaves litter that the next start knows of.
struct Remembering<'j> {
    journal: &'j Journal,
    held: Mutex<(ChangeSet, Option<Locked<File>>)>,
}

impl<'j> Remembering<'j> {
    fn new(journal: &'j Journal, set: &ChangeSet) -> Self {
        Self { journal, held: Mutex::new((set.clone(), None)) }
    }
}

impl Recorder for Remembering<'_> {
    fn record(&self, changes: &[PlannedChange<'_>], _stop: &Stop) -> Result<(), NotKept> {
        let mut held = self.held.lock().map_err(|_| "putting back was interrupted".to_owned())?;
        for change in changes {
            let Some(temporary) = &change.temporary else { continue };
            let (mount, root) = (change.alias.to_owned(), written(change.host_root)?);
            let path = written(&change.location.with_file_name(temporary))?;
            held.0.litter.push(Place { mount, root, path });
        }
        let entry = self.journal.make_entry(held.0.call).map_err(|error| error.to_string())?;
        write_down(&entry, &held.0).map_err(|error| error.to_string())?;
        self.journal.announce(held.0.call).map_err(|error| error.to_string())?;
        held.1 = Some(entry);
        Ok(())
    }

    /// The entry has counted since the call that is put back, and must go on to.
    fn begin(&self) -> Result<(), NotKept> {
        Ok(())
    }

    fn settle(&self, _settled: Settled) {}
}
