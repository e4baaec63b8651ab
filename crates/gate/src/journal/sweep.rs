//! Letting go of what is too old or too much to keep, as entries are added.
//!
//! A [`Tally`] that all processes share says when another step (a thirty-second part of a bound) was added. Then a thread looks what is there and removes the
//! excess; a call waits for that only when two steps were added since the last sweep, or when it is about to add as much itself. What is there is always read from the
//! directory, so that gates which share it agree, and whatever a killed sweep left is found by the next one. Every sweep reads and removes a bounded number of
//! entries; what is beyond that is left to the next.
//!
//! A hostile model must not be able to flush the undo history of what it did before. So under pressure go first the entries which hold nothing but content that
//! the gate itself had written (see [`Origin`]), such as the versions between the first and the last of a file that is rewritten in a loop. An entry with content
//! from elsewhere goes only when it is older than [`MIN_AGE`] and the time for which it stands in for versions after it; where all that is left are such, the
//! next change is refused, because it could not be undone.

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

/// Content that the gate did not write itself is kept for so long, whatever the other bounds say.
pub(super) const MIN_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Entries that one sweep reads, and that it removes.
const MAX_ENTRIES_PER_SWEEP: usize = 4096;

/// Entries that are removed before an undo gets its turn.
const MAX_ENTRIES_PER_LOCK: usize = 256;

/// How long a call waits for another process that sweeps or undoes something.
const LOCK_TIMEOUT: Duration = Duration::from_millis(250);

/// How often entries are looked at for their age, where few are added.
const AGE_CHECK_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Its modification time says when the journal was last swept.
const LAST_SWEEP_FILE: &str = "swept";

/// The file whose length says how much was added since.
const ADDED_TALLY_FILE: &str = "added";

/// What this process knows of the journal's size.
#[derive(Debug, Default)]
pub(super) struct Sweeper {
    pub(super) bounds: JournalBounds,
    tally: OnceLock<Option<AppendCounter>>,
    index: Mutex<EntryIndex>,
    /// Whether a thread is at it.
    is_running: AtomicBool,
    /// When the age of entries is looked at next.
    next_age_check: Mutex<Option<Instant>>,
}

/// Why there is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pressure {
    /// The bounds, if so many bytes are added.
    Bounds {
        /// What is about to be added.
        reserved: u64,
    },
    /// The disk is almost full: all goes that is the gate's own writing, and nothing else.
    Disk,
}

/// How a sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SweepOutcome {
    /// The journal is within its bounds.
    WithinLimits,
    /// There is more to do: another process sweeps or undoes something, or there was too much for one sweep.
    Incomplete,
    /// What is left must not be let go.
    Full(KeptBound),
}

/// Entries that were read, by age.
#[derive(Debug, Default)]
struct EntryIndex {
    held: BTreeMap<CallId, IndexedEntry>,
    /// Files that these calls made.
    made: HashMap<FileKey, ContentOrigin>,
    /// Files that calls made whose entries were let go.
    dropped: WrittenFiles,
}

/// What is kept of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
struct IndexedEntry {
    bytes: u64,
    origin: ContentOrigin,
    /// The files that the call made.
    made: Vec<FileKey>,
}

impl IndexedEntry {
    /// One that was not read, or has no entry.
    fn unindexed(bytes: u64) -> Self {
        Self { bytes, origin: ContentOrigin::Elsewhere, made: Vec::new() }
    }

    /// Whether all of it is the gate's own writing, or has a root that is kept.
    fn is_gate_written(&self, is_held: &dyn Fn(&CallId) -> bool) -> bool {
        match &self.origin {
            ContentOrigin::Elsewhere => false,
            ContentOrigin::Gate => true,
            ContentOrigin::DerivedFrom(root) => is_held(root),
        }
    }
}

/// What a look at the directories found.
#[derive(Default)]
struct JournalScan {
    /// Everything that counts: entries that were read, entries that were not yet, and contents without an entry.
    held: BTreeMap<CallId, IndexedEntry>,
    blobs: BTreeMap<CallId, Vec<String>>,
}

impl Journal {
    /// Sees to it that so much content can be kept for one call.
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

    /// Sees to it that changes leave the reserve of the disk. Where that is reached, what gates wrote themselves is let go first.
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

    /// Counts an entry that was added.
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

    /// Whether the age of entries was not looked at for a while, by any process.
    fn is_age_check_due(&self) -> bool {
        let mut next = self.sweeper.next_age_check.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if next.is_some_and(|next| now < next) {
            return false;
        }
        *next = now.checked_add(AGE_CHECK_INTERVAL);
        drop(next);
        let stamp = self.directory.metadata(LAST_SWEEP_FILE).and_then(|stamp| stamp.modified());
        // A time in the future is that of a clock that was wrong.
        let age = stamp.ok().and_then(|at| SystemTime::now().duration_since(at.into_std()).ok());
        age.is_none_or(|age| age >= AGE_CHECK_INTERVAL)
    }

    /// A thread per sweep: one that waited all the time would cost every gate its stack.
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

    /// Removes what is too old and what is too much. Where another process sweeps or undoes something, it is waited for so long.
    fn sweep(&self, pressure: Pressure, lock_timeout: Duration) -> SweepOutcome {
        let mut index = self.sweeper.index.lock().unwrap_or_else(PoisonError::into_inner);
        // What is added after the look counts for the next sweep. Until this one has ended well the count stays: else other gates would add while it refuses.
        let added = self.tally().map_or(0, AppendCounter::get);
        let swept = self.sweep_with(&mut index, pressure, lock_timeout);
        match self.tally() {
            Some(tally) if swept == SweepOutcome::WithinLimits => tally.subtract(added),
            // The next change tries again.
            Some(tally) if added < 2 * COUNTER_STEP && pressure != Pressure::Disk => {
                (0..2).for_each(|_| tally.add(COUNTER_STEP))
            }
            _ => {}
        }
        swept
    }

    /// The bound that a sweep could not keep to now.
    pub(super) fn full(&self) -> Option<KeptBound> {
        let mut index = self.sweeper.index.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let known = index.held.len();
            let found = self.scan(&mut index).ok()?;
            // One look reads a bounded number of entries, and those that were not read count as a person's.
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

    /// Lists what is there, and reads the entries that are not known yet, the oldest first.
    fn scan(&self, index: &mut EntryIndex) -> io::Result<JournalScan> {
        // Contents before entries: a content is made after its entry, so one that is found here and has no entry below is nobody's.
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
                // Not read yet: it counts as an entry, and goes only when it is old.
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
        // What no gate of this user wrote is neither counted nor touched.
        found.held.retain(|call, _| !is_stranger.contains(call));
        Ok(found)
    }

    /// Reads an entry into the index, unless it is not believed.
    fn index_entry(&self, index: &mut EntryIndex, call: CallId, found: &JournalScan) -> bool {
        let name = entry_name(call);
        let Ok(file) = self.done.open(&name).map(cap_std::fs::File::into_std) else { return true };
        let Some((set, EntryPhase::Done)) = self.verified_entry(&name, &read_entry(&file)) else {
            return false;
        };
        let contents = found.blobs.get(&call).map_or(0, |names| self.bytes_of(names));
        // What a call named, and so how long its entry is, a model decides.
        let bytes = contents.saturating_add(rustix::fs::fstat(&file).map_or(0, |entry| disk_bytes(&entry)));
        index.add(&set, bytes, self.sweeper.bounds.stand_in());
        true
    }

    /// Whether a call has an entry, or is about to: an entry moves from the first of these names to the last.
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

    /// What contents really take: a file may say that it is larger than the disk.
    fn bytes_of(&self, blobs: &[String]) -> u64 {
        let stats =
            blobs.iter().filter_map(|blob| statat(&self.blobs, &**blob, AtFlags::SYMLINK_NOFOLLOW).ok());
        stats.map(|blob| disk_bytes(&blob)).fold(0, u64::saturating_add)
    }

    /// Removes entries, unless an undo is under way, which may be about to write one of them anew; says which.
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
        // Counted first: if this process is killed in between, what is gone by then is said to be. What another process removed since the look is counted already.
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

    /// Contents go before the entry that names them: if this process is killed in between, the next sweep finds the entry, and an undo says that it is no
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
    /// Adds an entry. The entries before it must have been added: content of a file that no known call made came from elsewhere.
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

    /// Where all of it came from: of several roots, the oldest.
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

    /// Whether the entry of one call is kept for as long after another one as if it were that.
    fn stands_in(&self, root: CallId, call: CallId, stand_in: Duration) -> bool {
        let later = call.unix_millis().saturating_sub(root.unix_millis());
        self.held.contains_key(&root) && u128::from(later) <= stand_in.as_millis()
    }
}

/// What is to be let go.
#[derive(Debug, Default, PartialEq, Eq)]
struct SweepPlan {
    victims: Vec<CallId>,
    /// The bound that what is left fills all the same.
    full: Option<KeptBound>,
}

/// Whether an entry may go.
type Evictable<'a> = dyn Fn(CallId, &IndexedEntry) -> bool + 'a;

/// Chooses what goes: what is too old; then of what is too much, the oldest that holds nothing but the gate's own writing, then the oldest that is older than
/// [`MIN_AGE`]. The newest entry stays.
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
        // What is about to be added is one of the steps that the target leaves room for, unless it is larger.
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

    /// A version of a file: each is another file, with a content of its own.
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

    /// What goes of these, where no more than one entry has room, so many hours after.
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
            // For a day after the deletion, either of them is kept.
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
