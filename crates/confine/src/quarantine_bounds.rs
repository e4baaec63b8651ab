//! Limits on the quarantine.
//!
//! A command decides how much is quarantined, so the limits are enforced as artifacts are added: after every sixteenth of the limit, counted by all
//! gates that share the directory. Expired artifacts are removed first, then the largest: a flood of large files does not displace the small one that
//! an editor wrote while a command ran. The note beside an artifact stays, and then says that the content is no longer kept.
//!
//! What is removed goes through the trash ([`crate::trash`]); what is left there, also by a process that was killed, is removed by the next sweep.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cap_std::fs::{Dir, DirEntry, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{AtFlags, FileType, Mode, Stat};
use serde_json::{Value, json};
use toolgate_fs::FileLock;
use toolgate_types::CallId;
use toolgate_workspace::{AppendCounter, COUNTER_STEP, counter_units};

use crate::trash::{empty_trash, move_to_trash, open_directory};

/// The version of the notes beside quarantined files.
pub(super) const NOTE_VERSION: u32 = 1;

/// What is to be removed. Not a valid call id.
const TRASH_DIR: &str = ".dropping";
/// Its lock serialises sweeps.
const SWEEP_LOCK: &str = "sweeping";
/// Its length is what was added since the last sweep ([`AppendCounter`]).
const ADDED_COUNTER: &str = "added";

/// How many artifacts are kept, whatever their size.
const MAX_ENTRIES: usize = 10_000;
/// How many names are visited to measure one artifact, and how deep. A larger one is the first to be removed.
const MAX_MEASURED: usize = 10_000;
const MAX_MEASURED_DEPTH: usize = 64;
/// How many notes of removed artifacts are kept; the newest.
const MAX_NOTES: usize = 10_000;
/// The approximate cost of a name beside its content: an inode and a directory entry. So an empty file has a cost too.
const NAME_BYTES: u64 = 4096;
/// The longest note that is read.
const MAX_NOTE_BYTES: u64 = 64 << 10;

/// Limits of the quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuarantineBounds {
    /// Disk space of all artifacts.
    pub max_bytes: u64,
    /// Older artifacts are removed.
    pub max_age: Duration,
}

impl Default for QuarantineBounds {
    fn default() -> Self {
        Self { max_bytes: 256 << 20, max_age: Duration::from_secs(30 * 24 * 60 * 60) }
    }
}

/// One quarantined artifact.
struct QuarantineEntry {
    call: CallId,
    name: OsString,
    bytes: u64,
}

impl QuarantineBounds {
    /// Counts an added artifact. The size of a directory is unknown, so it counts as a whole step.
    pub(super) fn count_added(&self, quarantine: &Dir, taken: &Stat) {
        let step = (self.max_bytes / 16).max(1);
        let bytes = match FileType::from_raw_mode(taken.st_mode) {
            FileType::Directory => step,
            _ => space(taken),
        };
        if let Ok(tally) = AppendCounter::open(quarantine, ADDED_COUNTER) {
            // The note beside it has a name as well.
            tally.add(counter_units(bytes.saturating_add(NAME_BYTES), MAX_ENTRIES as u64 / 16, step));
        }
    }

    /// Removes expired and excess artifacts, if a sixteenth was added since the last sweep. Skipped while another gate sweeps.
    ///
    /// # Errors
    /// The directory cannot be read or written.
    pub fn apply(&self, quarantine: &Dir) -> io::Result<()> {
        let tally = AppendCounter::open(quarantine, ADDED_COUNTER)?;
        if tally.get() < COUNTER_STEP {
            return Ok(());
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).mode(0o600);
        let Ok(_alone) = FileLock::try_lock(quarantine.open_with(SWEEP_LOCK, &options)?.into_std()) else {
            return Ok(());
        };
        match rustix::fs::mkdirat(quarantine, TRASH_DIR, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let dropping = quarantine.open_dir(TRASH_DIR)?;
        for kept in self.excess(entries_in(quarantine)?, SystemTime::now()) {
            discard_entry(quarantine, &dropping, &kept)?;
        }
        self.remove_notes(quarantine)?;
        if empty_trash(&dropping)? {
            tally.reset();
        }
        Ok(())
    }

    /// What must be removed: the expired, then the largest, and of two equal ones the older.
    fn excess(&self, kept: Vec<QuarantineEntry>, now: SystemTime) -> Vec<QuarantineEntry> {
        let expired = self.expired(now);
        let (mut gone, mut left): (Vec<QuarantineEntry>, Vec<QuarantineEntry>) =
            kept.into_iter().partition(|one| one.call.unix_millis() < expired);
        left.sort_by_key(|one| (std::cmp::Reverse(one.bytes), one.call));
        let mut bytes: u64 = left.iter().map(|one| one.bytes).fold(0, u64::saturating_add);
        let mut left = left.into_iter().peekable();
        // This leaves room for the step that may be added before the next sweep.
        let target = self.max_bytes - self.max_bytes / 16;
        while bytes > target || left.len() > MAX_ENTRIES {
            let Some(one) = left.next() else { break };
            bytes = bytes.saturating_sub(one.bytes);
            gone.push(one);
        }
        gone
    }

    fn expired(&self, now: SystemTime) -> u64 {
        let then = now.checked_sub(self.max_age).and_then(|then| then.duration_since(UNIX_EPOCH).ok());
        u64::try_from(then.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
    }

    /// Removes notes of removed artifacts that are expired or too many; the oldest first.
    fn remove_notes(&self, quarantine: &Dir) -> io::Result<()> {
        let expired = self.expired(SystemTime::now());
        let mut calls: Vec<CallId> = calls_below(quarantine)?.map(|(call, _)| call).collect();
        calls.sort_unstable_by_key(|call| std::cmp::Reverse(*call));
        let mut left = MAX_NOTES;
        for call in calls {
            let Ok(directory) = open_directory(quarantine, call.to_string().as_ref()) else { continue };
            let is_expired = call.unix_millis() < expired;
            let names = directory.entries()?.flatten().map(|entry| entry.file_name());
            for note in names.filter(|name| is_note_alone(&directory, name)) {
                if is_expired || left == 0 {
                    let _ = directory.remove_file(note);
                } else {
                    left -= 1;
                }
            }
            if is_expired || left == 0 {
                // Fails where the directory is not empty.
                let _ = quarantine.remove_dir(call.to_string());
            }
        }
        Ok(())
    }
}

/// Whether this is a note without its artifact. Every artifact has a note beside it.
fn is_note_alone(directory: &Dir, name: &OsStr) -> bool {
    let noted = name.as_encoded_bytes().strip_suffix(b".json").map(OsStr::from_bytes);
    !directory.exists(note_of(name)) && noted.is_none_or(|noted| directory.symlink_metadata(noted).is_err())
}

/// The directories of calls, one at a time. Other names are ignored.
fn calls_below(quarantine: &Dir) -> io::Result<impl Iterator<Item = (CallId, Dir)> + use<'_>> {
    let open = move |entry: io::Result<DirEntry>| {
        let entry = entry.ok()?;
        let call: CallId = entry.file_name().to_str()?.parse().ok()?;
        Some((call, open_directory(quarantine, &entry.file_name()).ok()?))
    };
    Ok(quarantine.entries()?.filter_map(open))
}

fn entries_in(quarantine: &Dir) -> io::Result<Vec<QuarantineEntry>> {
    let mut kept = Vec::new();
    for (call, directory) in calls_below(quarantine)? {
        for entry in directory.entries()? {
            let name = entry?.file_name();
            // Every artifact has a note beside it, and a note has none.
            if directory.exists(note_of(&name)) {
                let bytes = measure(&directory, &name);
                kept.push(QuarantineEntry { call, name, bytes });
            }
        }
    }
    Ok(kept)
}

fn note_of(name: &OsStr) -> OsString {
    let mut note = name.to_owned();
    note.push(".json");
    note
}

fn space(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512).saturating_add(NAME_BYTES)
}

/// The disk usage of a file or a tree; `u64::MAX` if it is too wide or too deep to measure.
fn measure(directory: &Dir, name: &OsStr) -> u64 {
    const UNMEASURABLE: u64 = u64::MAX;
    let Ok(stat) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { return 0 };
    let mut bytes = space(&stat);
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return bytes;
    }
    let Ok(top) = open_directory(directory, name) else { return UNMEASURABLE };
    let (mut open, mut seen) = (vec![(top, 0)], 0);
    while let Some((directory, depth)) = open.pop() {
        let Ok(entries) = directory.entries() else { return UNMEASURABLE };
        for entry in entries {
            seen += 1;
            let Ok(entry) = entry else { return UNMEASURABLE };
            if seen > MAX_MEASURED || depth > MAX_MEASURED_DEPTH || open.len() > MAX_MEASURED_DEPTH {
                return UNMEASURABLE;
            }
            let Ok(stat) = rustix::fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            else {
                continue;
            };
            bytes = bytes.saturating_add(space(&stat));
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                let Ok(next) = open_directory(&directory, &entry.file_name()) else { return UNMEASURABLE };
                open.push((next, depth + 1));
            }
        }
    }
    bytes
}

/// Moves an artifact to the trash directory, and records that in its note.
fn discard_entry(quarantine: &Dir, dropping: &Dir, kept: &QuarantineEntry) -> io::Result<()> {
    let directory = quarantine.open_dir(kept.call.to_string())?;
    let note = note_of(&kept.name);
    let mut said: Value = read_note(&directory, &note).unwrap_or_else(|| json!({"version": NOTE_VERSION}));
    // The earliest notes have no version. An artifact whose note has a later one is left alone.
    if said.get("version").is_some_and(|version| *version != json!(NOTE_VERSION)) {
        return Ok(());
    }
    if let Value::Object(fields) = &mut said {
        fields.insert("kept".to_owned(), Value::Bool(false));
    }
    directory.write(&note, format!("{said}\n"))?;
    move_to_trash(&directory, &kept.name, dropping)
}

fn read_note(directory: &Dir, note: &OsStr) -> Option<Value> {
    let is_short =
        directory.symlink_metadata(note).is_ok_and(|note| note.is_file() && note.len() <= MAX_NOTE_BYTES);
    is_short.then(|| serde_json::from_slice(&directory.read(note).ok()?).ok())?
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests arrange files by hand")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    /// Puts a file of this size into the quarantine, as a call of so many days ago.
    fn keep(quarantine: &Path, days_ago: u64, name: &str, bytes: usize) -> CallId {
        let then = CallId::fresh().unix_millis() - days_ago * 24 * 60 * 60 * 1000;
        let number = bytes + usize::try_from(days_ago).unwrap();
        let call = format!("{:08x}-{:04x}-7000-8000-{number:012x}", then >> 16, then & 0xffff);
        let call: CallId = call.parse().unwrap();
        let folder = quarantine.join(call.to_string());
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(name), vec![b'x'; bytes]).unwrap();
        std::fs::write(folder.join(format!("{name}.json")), "{\"version\":1,\"path\":\"@project/x\"}\n")
            .unwrap();
        call
    }

    fn sweep(quarantine: &Path, max_bytes: u64) {
        let bounds = QuarantineBounds { max_bytes, ..QuarantineBounds::default() };
        let folder = Dir::open_ambient_dir(quarantine, cap_std::ambient_authority()).unwrap();
        AppendCounter::open(&folder, ADDED_COUNTER).unwrap().add(COUNTER_STEP);
        bounds.apply(&folder).unwrap();
        assert_eq!(std::fs::read_dir(quarantine.join(TRASH_DIR)).unwrap().count(), 0);
        assert_eq!(AppendCounter::open(&folder, ADDED_COUNTER).unwrap().get(), 0);
    }

    #[test]
    fn what_is_too_old_goes_and_then_the_largest() {
        let scratch = tempfile::tempdir().unwrap();
        let quarantine = scratch.path();
        let [small, large, json, ancient] =
            [(3, "0-a", 100), (1, "0-b", 900_000), (2, "0-c.json", 300_000), (31, "0-d", 100)]
                .map(|(days, name, bytes)| (keep(quarantine, days, name, bytes), name));
        std::fs::write(quarantine.join("of a person"), "not ours").unwrap();
        let exists = |(call, name): (CallId, &str)| quarantine.join(call.to_string()).join(name).exists();
        sweep(quarantine, 1 << 20);
        assert_eq!([small, large, json, ancient].map(exists), [true, false, true, false]);
        let note = std::fs::read_to_string(quarantine.join(large.0.to_string()).join("0-b.json")).unwrap();
        assert_eq!(note, "{\"version\":1,\"path\":\"@project/x\",\"kept\":false}\n");
        assert!(!quarantine.join(ancient.0.to_string()).exists(), "nor is its note kept");
        assert!(quarantine.join("of a person").exists());
        // Below the step nothing is swept.
        let folder = Dir::open_ambient_dir(quarantine, cap_std::ambient_authority()).unwrap();
        QuarantineBounds { max_bytes: 1, ..QuarantineBounds::default() }.apply(&folder).unwrap();
        assert!(exists(json));
    }

    #[test]
    fn names_without_content_and_notes_of_what_is_gone_are_bounded() {
        let scratch = tempfile::tempdir().unwrap();
        let call = keep(scratch.path(), 1, "0-a", 0);
        let folder = scratch.path().join(call.to_string());
        for number in 1..1000 {
            std::fs::write(folder.join(format!("{number}-a")), "").unwrap();
            std::fs::write(folder.join(format!("{number}-a.json")), "{\"version\":1}\n").unwrap();
        }
        sweep(scratch.path(), 1 << 20);
        let names = || std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        let kept = names().filter(|name| !name.to_str().unwrap().ends_with(".json")).count();
        assert!((100..=256).contains(&kept), "{kept}");
        let newer = scratch.path().join(keep(scratch.path(), 0, "0-b", 10).to_string());
        for number in 1..MAX_NOTES {
            std::fs::write(newer.join(format!("{number}-b.json")), "{}").unwrap();
        }
        sweep(scratch.path(), 2 << 20);
        // The newest notes stay, and so do the kept artifacts with their notes.
        assert_eq!(std::fs::read_dir(&newer).unwrap().count(), MAX_NOTES + 1);
        let notes = names().filter(|name| name.to_str().unwrap().ends_with(".json")).count();
        assert!(notes <= kept + 1, "{notes} notes beside {kept} things");
    }

    #[test]
    fn a_tree_without_rights_and_without_a_bottom_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let call = keep(scratch.path(), 0, "0-tree", 0);
        let tree = scratch.path().join(call.to_string()).join("0-tree");
        std::fs::remove_file(&tree).unwrap();
        std::fs::create_dir(&tree).unwrap();
        let mut deepest = Dir::open_ambient_dir(&tree, cap_std::ambient_authority()).unwrap();
        for _ in 0..300 {
            deepest.write("file", "x").unwrap();
            deepest.create_dir("d").unwrap();
            deepest = deepest.open_dir("d").unwrap();
        }
        let outside = scratch.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("canary"), "alive").unwrap();
        std::os::unix::fs::symlink(&outside, tree.join("link")).unwrap();
        std::fs::set_permissions(tree.join("d"), std::fs::Permissions::from_mode(0o000)).unwrap();
        sweep(scratch.path(), 1 << 20);
        assert!(!tree.exists());
        assert_eq!(std::fs::read_to_string(outside.join("canary")).unwrap(), "alive");
    }
}
