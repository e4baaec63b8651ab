//! Drops old and excess entries as new ones are added.
//!
//! An [`AppendCounter`] shared by all processes shows when another step (1/32 of a bound) was added. Then a thread scans the journal and removes the
//! excess. A call waits for a sweep only if two steps were added since the last one, or if it is about to add that much itself. The contents are
//! always read from the directory, so that gates sharing it agree, and so that the next sweep finds whatever a killed sweep left. Every sweep reads
//! and removes a bounded number of entries; the rest is left to the next.
//!
//! A hostile model must not be able to flush the undo history of its earlier calls. So under pressure, entries that hold only content written by the
//! gate itself are dropped first (see [`ContentOrigin`]), such as the intermediate versions of a file that is rewritten in a loop. An entry with
//! content from elsewhere is dropped only when it is older than [`MIN_AGE`] and no longer stands in for later versions. If only such entries are
//! left, the next change is refused, because it could not be undone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Stat, statat};
use toolgate_types::CallId;
use toolgate_workspace::{AppendCounter, COUNTER_STEP, Headroom, JournalError, KeptBound, counter_units};

use super::bounds::JournalBounds;
use super::change_set::ChangeSet;
use super::content_origin::{self, ContentOrigin, FileKey};
use super::dropped_entries::DroppedEntries;
use super::written_files::WrittenFiles;
use super::{EntryPhase, Journal, entry_name, read_entry, unfinished_name, write_atomically};

/// How long content that the gate did not write is kept at least, whatever the other bounds say.
pub(super) const MIN_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// How many entries one sweep reads, and how many it removes.
const MAX_ENTRIES_PER_SWEEP: usize = 4096;

/// How many entries are removed before the undo lock is released, so that a waiting undo can proceed.
const MAX_ENTRIES_PER_LOCK: usize = 256;

/// How long a call waits for another process that is sweeping or undoing.
const LOCK_TIMEOUT: Duration = Duration::from_millis(250);

/// How often the age of entries is checked if few are added.
const AGE_CHECK_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Its modification time is the time of the last sweep.
const LAST_SWEEP_FILE: &str = "swept";

/// Its length counts what was added since.
const ADDED_TALLY_FILE: &str = "added";

/// What this process knows of the journal's size.
#[derive(Debug, Default)]
pub(super) struct Sweeper {
    pub(super) bounds: JournalBounds,
    tally: OnceLock<Option<AppendCounter>>,
    index: Mutex<EntryIndex>,
    /// Whether a sweep thread is running.
    is_running: AtomicBool,
    /// When the age of entries is checked next.
    next_age_check: Mutex<Option<Instant>>,
}

/// Why entries must be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pressure {
    /// The journal's bounds, with this many bytes about to be added.
    Bounds {
        /// Bytes about to be added.
        reserved: u64,
    },
    /// The disk is almost full: everything that the gate itself wrote is dropped, and nothing else.
    Disk,
}

/// The result of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SweepOutcome {
    /// The journal is within its bounds.
    WithinLimits,
    /// Not finished: another process is sweeping or undoing, or there was too much for one sweep.
    Incomplete,
    /// What is left must not be dropped.
    Full(KeptBound),
}

/// The entries read so far, by age.
#[derive(Debug, Default)]
struct EntryIndex {
    held: BTreeMap<CallId, IndexedEntry>,
    /// Files that these calls wrote.
    made: HashMap<FileKey, ContentOrigin>,
    /// Files written by calls whose entries were dropped.
    dropped: WrittenFiles,
}

/// One call's entry in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
struct IndexedEntry {
    bytes: u64,
    origin: ContentOrigin,
    /// The files that the call wrote.
    made: Vec<FileKey>,
}

impl IndexedEntry {
    /// An entry that was not read, or blobs without an entry.
    fn unindexed(bytes: u64) -> Self {
        Self { bytes, origin: ContentOrigin::Elsewhere, made: Vec::new() }
    }

    /// Whether all its content was written by the gate, or derives from a root that is kept.
    fn is_gate_written(&self, is_held: &dyn Fn(&CallId) -> bool) -> bool {
        match &self.origin {
            ContentOrigin::Elsewhere => false,
            ContentOrigin::Gate => true,
            ContentOrigin::DerivedFrom(root) => is_held(root),
        }
    }
}

/// The result of a directory scan.
#[derive(Default)]
struct JournalScan {
    /// Everything that counts: entries read, entries not read yet, and blobs without an entry.
    held: BTreeMap<CallId, IndexedEntry>,
    blobs: BTreeMap<CallId, Vec<String>>,
}

impl Journal {
    /// Ensures that this many bytes can be stored for one call.
    pub(super) fn ensure_room(self: &Arc<Self>, bytes: u64) -> Result<(), JournalError> {
        let bounds = &self.sweeper.bounds;
        let limit = bounds.max_call_bytes();
        if bytes > limit {
            return Err(JournalError::TooLarge { bytes, limit });
        }
        let added = self.tally().map_or(0, AppendCounter::get);
        if added >= 2 * COUNTER_STEP || bytes >= bounds.sweep_step_bytes() {
            return match self.sweep(Pressure::Bounds { reserved: bytes }, LOCK_TIMEOUT) {
                SweepOutcome::Full(bound) => Err(JournalError::Full(bound)),
                SweepOutcome::WithinLimits | SweepOutcome::Incomplete => Ok(()),
            };
        }
        if added >= COUNTER_STEP || self.is_age_check_due() {
            self.sweep_in_background();
        }
        Ok(())
    }

    /// Ensures that changes leave the configured disk reserve. If it is reached, content written by the gate itself is dropped first.
    pub(super) fn make_space(&self, bytes: u64) -> Headroom {
        let Some(reserve) = &self.reserve else { return Headroom::Enough };
        match reserve.headroom(bytes) {
            Headroom::Enough => Headroom::Enough,
            _ => {
                self.sweep(Pressure::Disk, LOCK_TIMEOUT);
                reserve.headroom(bytes)
            }
        }
    }

    /// Counts an added entry.
    pub(super) fn count_added(&self, bytes: u64) {
        let bounds = &self.sweeper.bounds;
        if let Some(tally) = self.tally() {
            tally.add(counter_units(bytes, bounds.sweep_step_entries(), bounds.sweep_step_bytes()));
        }
    }

    fn tally(&self) -> Option<&AppendCounter> {
        self.sweeper
            .tally
            .get_or_init(|| AppendCounter::open(&self.directory, ADDED_TALLY_FILE).ok())
            .as_ref()
    }

    /// Whether no process has checked the age of entries within the interval.
    fn is_age_check_due(&self) -> bool {
        let mut next = self.sweeper.next_age_check.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if next.is_some_and(|next| now < next) {
            return false;
        }
        *next = now.checked_add(AGE_CHECK_INTERVAL);
        drop(next);
        let stamp = self.directory.metadata(LAST_SWEEP_FILE).and_then(|stamp| stamp.modified());
        // A time in the future comes from a wrong clock.
        let age = stamp.ok().and_then(|at| SystemTime::now().duration_since(at.into_std()).ok());
        age.is_none_or(|age| age >= AGE_CHECK_INTERVAL)
    }

    /// One thread per sweep: a permanent one would cost every gate a stack.
    fn sweep_in_background(self: &Arc<Self>) {
        if self.sweeper.is_running.swap(true, Ordering::Relaxed) {
            return;
        }
        let journal = Arc::clone(self);
        let sweep = move || {
            journal.sweep(Pressure::Bounds { reserved: 0 }, Duration::ZERO);
            journal.sweeper.is_running.store(false, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("sweep".to_owned()).spawn(sweep).is_err() {
            self.sweeper.is_running.store(false, Ordering::Relaxed);
        }
    }

    /// Removes expired and excess entries. Waits up to `lock_timeout` for another process that is sweeping or undoing.
    fn sweep(&self, pressure: Pressure, lock_timeout: Duration) -> SweepOutcome {
        let mut index = self.sweeper.index.lock().unwrap_or_else(PoisonError::into_inner);
        // What is added after this read counts for the next sweep. The count is reduced only after success: otherwise other gates would add entries
        // while this one refuses.
        let added = self.tally().map_or(0, AppendCounter::get);
        let swept = self.sweep_with(&mut index, pressure, lock_timeout);
        match self.tally() {
            Some(tally) if swept == SweepOutcome::WithinLimits => tally.subtract(added),
            // Raise the count so that the next change sweeps again.
            Some(tally) if added < 2 * COUNTER_STEP && pressure != Pressure::Disk => {
                (0..2).for_each(|_| tally.add(COUNTER_STEP))
            }
            _ => {}
        }
        swept
    }

    /// The bound that a sweep could not satisfy now.
    pub(super) fn full(&self) -> Option<KeptBound> {
        let mut index = self.sweeper.index.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let known = index.held.len();
            let found = self.scan(&mut index).ok()?;
            // One scan reads a bounded number of entries, and unread ones count as a person's: scan until all are read.
            if index.held.len() == known {
                let pressure = Pressure::Bounds { reserved: 0 };
                return plan_sweep(&found.held, &self.sweeper.bounds, pressure, SystemTime::now()).full;
            }
        }
    }

    fn sweep_with(&self, index: &mut EntryIndex, pressure: Pressure, lock_timeout: Duration) -> SweepOutcome {
        let Ok(found) = self.scan(index) else { return SweepOutcome::Incomplete };
        let _ = write_atomically(&self.directory, LAST_SWEEP_FILE, b"");
        let SweepPlan { victims, full } =
            plan_sweep(&found.held, &self.sweeper.bounds, pressure, SystemTime::now());
        let (now, later) = victims.split_at(victims.len().min(MAX_ENTRIES_PER_SWEEP));
        let mut is_finished = later.is_empty();
        for batch in now.chunks(MAX_ENTRIES_PER_LOCK) {
            let Ok(Some(removed)) = self.remove(batch, &found, lock_timeout) else {
                return SweepOutcome::Incomplete;
            };
            is_finished &= removed.len() == batch.len();
            removed.into_iter().for_each(|call| index.forget(call));
        }
        match full {
            _ if !is_finished => SweepOutcome::Incomplete,
            None => SweepOutcome::WithinLimits,
            Some(bound) => SweepOutcome::Full(bound),
        }
    }

    /// Lists the journal and reads entries that are not indexed yet, oldest first.
    fn scan(&self, index: &mut EntryIndex) -> io::Result<JournalScan> {
        // Blobs before entries: an entry is created before its blobs, so a blob found here without an entry below is orphaned.
        let mut found = JournalScan { blobs: self.blobs_by_call()?, ..JournalScan::default() };
        let mut done = BTreeSet::new();
        for entry in self.done.entries()? {
            let name = entry?.file_name();
            done.extend(name.to_str().and_then(|name| name.strip_suffix(".json")?.parse::<CallId>().ok()));
        }
        let gone: Vec<CallId> = index.held.keys().filter(|call| !done.contains(call)).copied().collect();
        gone.into_iter().for_each(|call| index.forget(call));
        index.dropped = WrittenFiles::read(&self.directory, &self.sealer);
        let unknown: Vec<CallId> =
            done.iter().filter(|call| !index.held.contains_key(call)).copied().collect();
        let mut is_stranger = BTreeSet::new();
        for (read, call) in unknown.into_iter().enumerate() {
            if read >= MAX_ENTRIES_PER_SWEEP {
                // Not read yet: it counts as an entry, and is dropped only when it is old.
                found.held.insert(call, IndexedEntry::unindexed(0));
            } else if !self.index_entry(index, call, &found) {
                is_stranger.insert(call);
            }
        }
        found.held.extend(index.held.iter().map(|(call, held)| (*call, held.clone())));
        for (call, names) in &found.blobs {
            if !done.contains(call) && !self.has_entry(*call) {
                found.held.insert(*call, IndexedEntry::unindexed(self.bytes_of(names)));
            }
        }
        // Entries without a valid seal are neither counted nor removed.
        found.held.retain(|call, _| !is_stranger.contains(call));
        Ok(found)
    }

    /// Reads an entry into the index; `false` if its seal is invalid.
    fn index_entry(&self, index: &mut EntryIndex, call: CallId, found: &JournalScan) -> bool {
        let name = entry_name(call);
        let Ok(file) = self.done.open(&name).map(cap_std::fs::File::into_std) else { return true };
        let Some((set, EntryPhase::Done)) = self.verified_entry(&name, &read_entry(&file)) else {
            return false;
        };
        let contents = found.blobs.get(&call).map_or(0, |names| self.bytes_of(names));
        // The entry's own size counts too: its length depends on the paths in the call, which a model chooses.
        let bytes = contents.saturating_add(rustix::fs::fstat(&file).map_or(0, |entry| disk_bytes(&entry)));
        index.add(&set, bytes, self.sweeper.bounds.stand_in());
        true
    }

    /// Whether a call has an entry, in order of its life: unpublished, pending, done.
    fn has_entry(&self, call: CallId) -> bool {
        self.pending.exists(unfinished_name(call))
            || self.pending.exists(entry_name(call))
            || self.done.exists(entry_name(call))
    }

    fn blobs_by_call(&self) -> io::Result<BTreeMap<CallId, Vec<String>>> {
        let mut calls: BTreeMap<CallId, Vec<String>> = BTreeMap::new();
        for entry in self.blobs.entries()? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            let Some(call) = name.rsplit_once('.').and_then(|(call, _)| call.parse().ok()) else { continue };
            calls.entry(call).or_default().push(name.to_owned());
        }
        Ok(calls)
    }

    /// Allocated space, not `st_size`: a sparse file may claim to be larger than the disk.
    fn bytes_of(&self, blobs: &[String]) -> u64 {
        let stats =
            blobs.iter().filter_map(|blob| statat(&self.blobs, &**blob, AtFlags::SYMLINK_NOFOLLOW).ok());
        stats.map(|blob| disk_bytes(&blob)).fold(0, u64::saturating_add)
    }

    /// Removes entries under the undo lock, because an undo may be about to rewrite one of them. Returns those removed; `None` if the lock was not
    /// acquired.
    fn remove(
        &self,
        victims: &[CallId],
        found: &JournalScan,
        lock_timeout: Duration,
    ) -> io::Result<Option<Vec<CallId>>> {
        let Some(_alone) = self.try_lock_undo(lock_timeout)? else { return Ok(None) };
        let mut written = WrittenFiles::read(&self.directory, &self.sealer);
        for (call, held) in victims.iter().filter_map(|call| Some((*call, found.held.get(call)?))) {
            held.made.iter().for_each(|file| written.add(*file, held.origin.for_output(call)));
        }
        written.write(&self.directory, &self.sealer)?;
        // Counted before removing: if this process is killed in between, everything gone is counted. Entries that another process removed since the
        // scan are counted already.
        let before = DroppedEntries::read(&self.directory);
        let is_there = |call: &CallId| self.done.exists(entry_name(*call)) || found.blobs.contains_key(call);
        let there: BTreeSet<CallId> = victims.iter().copied().filter(is_there).collect();
        before.with(there.iter().copied(), found).write(&self.directory)?;
        let removed: Vec<CallId> =
            victims.iter().copied().filter(|call| self.remove_one(*call, found).is_ok()).collect();
        if removed.len() < victims.len() {
            let gone = removed.iter().copied().filter(|call| there.contains(call));
            before.with(gone, found).write(&self.directory)?;
        }
        Ok(Some(removed))
    }

    /// Blobs are removed before their entry: if this process is killed in between, the next sweep finds the entry, and an undo reports that it is no
    /// longer kept.
    fn remove_one(&self, call: CallId, found: &JournalScan) -> io::Result<()> {
        for blob in found.blobs.get(&call).into_iter().flatten() {
            ignore_missing(self.blobs.remove_file(blob))?;
        }
        ignore_missing(self.done.remove_file(entry_name(call)))
    }
}

impl DroppedEntries {
    fn with(self, calls: impl Iterator<Item = CallId>, found: &JournalScan) -> Self {
        calls
            .fold(self, |dropped, call| dropped.add(call, found.held.get(&call).map_or(0, |held| held.bytes)))
    }
}

fn disk_bytes(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)
}

fn ignore_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl EntryIndex {
    /// Adds an entry. Older entries must be added first: content of a file that no indexed call wrote counts as from elsewhere.
    fn add(&mut self, set: &ChangeSet, bytes: u64, stand_in: Duration) {
        let (call, origin, made) =
            (set.call, self.origin_of(set, stand_in), content_origin::created_files(set));
        self.made.extend(made.iter().map(|file| (*file, origin.for_output(call))));
        self.held.insert(call, IndexedEntry { bytes, origin, made });
    }

    fn forget(&mut self, call: CallId) {
        for file in self.held.remove(&call).into_iter().flat_map(|held| held.made) {
            self.made.remove(&file);
        }
    }

    /// The origin of all its content; of several roots, the oldest.
    fn origin_of(&self, set: &ChangeSet, stand_in: Duration) -> ContentOrigin {
        let mut roots = Vec::new();
        for file in content_origin::replaced_files(set) {
            let origin =
                file.and_then(|file| self.made.get(&file).copied().or_else(|| self.dropped.get(&file)));
            match origin {
                None | Some(ContentOrigin::Elsewhere) => return ContentOrigin::Elsewhere,
                Some(ContentOrigin::Gate) => {}
                Some(ContentOrigin::DerivedFrom(root)) if self.stands_in(root, set.call, stand_in) => {
                    roots.push(root)
                }
                Some(ContentOrigin::DerivedFrom(_)) => return ContentOrigin::Elsewhere,
            }
        }
        roots.into_iter().min().map_or(ContentOrigin::Gate, ContentOrigin::DerivedFrom)
    }

    /// Whether the entry of `root` is kept and recent enough to stand in for that of `call`.
    fn stands_in(&self, root: CallId, call: CallId, stand_in: Duration) -> bool {
        let later = call.unix_millis().saturating_sub(root.unix_millis());
        self.held.contains_key(&root) && u128::from(later) <= stand_in.as_millis()
    }
}

/// Which entries to drop.
#[derive(Debug, Default, PartialEq, Eq)]
struct SweepPlan {
    victims: Vec<CallId>,
    /// The bound that is still exceeded afterwards.
    full: Option<KeptBound>,
}

/// Whether an entry may be dropped in this pass.
type Evictable<'a> = dyn Fn(CallId, &IndexedEntry) -> bool + 'a;

/// Chooses what to drop: first expired entries; then, while there is too much, the oldest whose content is all gate-written; then the oldest beyond
/// [`MIN_AGE`]. The second pass keeps the newest entry.
fn plan_sweep(
    held: &BTreeMap<CallId, IndexedEntry>,
    bounds: &JournalBounds,
    pressure: Pressure,
    now: SystemTime,
) -> SweepPlan {
    let milliseconds_before = |age: Duration| {
        let then = now.checked_sub(age).and_then(|then| then.duration_since(UNIX_EPOCH).ok());
        then.unwrap_or_default().as_millis()
    };
    let (expired, young) =
        (milliseconds_before(bounds.max_age), milliseconds_before(MIN_AGE + bounds.stand_in()));
    let (target_bytes, target_entries) = bounds.sweep_target();
    let (max_bytes, max_entries) = match pressure {
        // One of the four steps that the target leaves free covers what is about to be added, unless it is larger.
        Pressure::Bounds { reserved } => {
            (target_bytes.min(bounds.max_bytes.saturating_sub(reserved)), target_entries)
        }
        Pressure::Disk => (0, 0),
    };
    let mut bytes: u64 = held.values().map(|one| one.bytes).fold(0, u64::saturating_add);
    let mut entries = held.len() as u64;
    let newest = held.keys().next_back().copied();
    let mut gone = BTreeSet::new();
    let is_expired = |call: &CallId| u128::from(call.unix_millis()) < expired;
    let is_held = |root: &CallId| held.contains_key(root) && !is_expired(root);
    let passes: [&Evictable<'_>; 3] = [
        &|call, _| is_expired(&call),
        &|call, one| Some(call) != newest && one.is_gate_written(&is_held),
        &|call, _| pressure != Pressure::Disk && u128::from(call.unix_millis()) < young,
    ];
    for (pass, may_go) in passes.into_iter().enumerate() {
        for (call, one) in held.iter().filter(|(call, one)| may_go(**call, one)) {
            if pass > 0 && bytes <= max_bytes && entries <= max_entries {
                break;
            }
            if gone.insert(*call) {
                bytes = bytes.saturating_sub(one.bytes);
                entries = entries.saturating_sub(1);
            }
        }
    }
    let full = match () {
        () if bytes > max_bytes => Some(KeptBound::Bytes(bounds.max_bytes)),
        () if entries > max_entries.max(1) => Some(KeptBound::Calls(bounds.max_entries)),
        () => None,
    };
    SweepPlan { victims: gone.into_iter().collect(), full }
}

#[cfg(test)]
mod tests {
    use toolgate_types::Sha256;
    use toolgate_workspace::FileStamp;

    use super::super::change_set::{FileChange, FileChangeKind, MountIdentity, MovedFileStamp, StoredBlob};
    use super::*;

    const HOUR: u64 = 60 * 60 * 1000;
    const NOW: u64 = 1000 * 24 * HOUR;

    fn call(hours_ago: u64, number: u64) -> CallId {
        let then = NOW - hours_ago * HOUR;
        format!("{:08x}-{:04x}-7000-8000-{number:012x}", then >> 16, then & 0xffff).parse().unwrap()
    }

    /// A version of a file: each is another file with its own content.
    fn version(number: u64) -> (Sha256, Option<MovedFileStamp>) {
        let stamp = FileStamp { inode: number, bytes: 1, modified: (1, number) };
        (Sha256::of(&number.to_le_bytes()), Some(stamp.into()))
    }

    fn entry(call: CallId, before: Option<u64>, after: Option<u64>) -> ChangeSet {
        let kept = before.map(version).map(|(sha256, stamp)| StoredBlob {
            blob: "b".to_owned(),
            bytes: 1,
            sha256,
            stamp,
            mode: 0o600,
            uid: None,
            gid: None,
        });
        let change = FileChange {
            mount: "@w".to_owned(),
            root: "/w".to_owned(),
            identity: MountIdentity { device: 1, inode: 1, filesystem: 1 },
            path: "a".to_owned(),
            kind: match (before, after) {
                (None, _) => FileChangeKind::Create,
                (Some(_), Some(_)) => FileChangeKind::Modify,
                (Some(_), None) => FileChangeKind::Delete,
            },
            before: kept,
            after: after.map(|after| version(after).0),
            stamp: None,
            made: after.and_then(|after| version(after).1),
            moved_to: None,
            temporary: None,
            new_folders: Vec::new(),
        };
        let (session, tool, at) = ("s".parse().unwrap(), "t".to_owned(), String::new());
        let changes = vec![change];
        ChangeSet { call, session, tool, at, changes, undone_by: None, undoes: None, litter: Vec::new() }
    }

    /// What is dropped of these if only one entry has room, this many hours later.
    fn gone(entries: &[ChangeSet], bounds: JournalBounds, hours_later: u64) -> Vec<CallId> {
        let mut index = EntryIndex::default();
        entries.iter().for_each(|entry| index.add(entry, 1, bounds.stand_in()));
        let now = UNIX_EPOCH + Duration::from_millis(NOW + hours_later * HOUR);
        plan_sweep(&index.held, &bounds, Pressure::Bounds { reserved: 0 }, now).victims
    }

    #[test]
    fn a_version_made_of_a_persons_file_goes_first_only_while_a_near_one_is_kept() {
        let bounds = JournalBounds { max_entries: 1, ..JournalBounds::default() };
        let (last, created) = (call(0, 9), call(0, 8));
        let ending = [entry(created, None, Some(8)), entry(last, Some(8), Some(9))];
        for (hours, stands_in) in [(0, true), (6, true), (7, false), (25, false), (29, false)] {
            let (edit, deletion) = (call(hours, 1), call(0, 2));
            let entries = [entry(edit, Some(1), Some(2)), entry(deletion, Some(2), None)];
            let entries = [&entries[..], &ending[..]].concat();
            let expected = if stands_in { vec![deletion, created] } else { vec![created] };
            assert_eq!(gone(&entries, bounds, 0), expected, "{hours} hours");
            // For a day after the deletion, one of the two is kept.
            let kept_of = |later| {
                let gone = gone(&entries, bounds, later);
                [edit, deletion].iter().filter(|call| !gone.contains(call)).count()
            };
            assert!(kept_of(24) >= 1, "{hours} hours");
            assert_eq!(kept_of(31), 0, "{hours} hours");
        }
    }

    #[test]
    fn a_version_whose_root_is_too_old_to_be_kept_is_kept_itself() {
        let max_age = Duration::from_secs(4 * 60 * 60);
        let bounds = JournalBounds { max_entries: 1, max_age, ..JournalBounds::default() };
        let (edit, deletion, last) = (call(2, 1), call(0, 2), call(0, 9));
        let entries =
            [entry(edit, Some(1), Some(2)), entry(deletion, Some(2), None), entry(last, None, Some(9))];
        assert_eq!(gone(&entries, bounds, 0), [deletion]);
        assert_eq!(gone(&entries, bounds, 3), [edit], "what it stood in for is left");
    }
}
