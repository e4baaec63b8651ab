//! Letting go of what is too old or too much to keep, as entries are added.
//!
//! A [`Tally`] that all processes share says when another step (a thirty-second part of a bound) was added. Then a thread looks what is there and removes the
//! excess; a call waits for that only when two steps were added since the last sweep, or when it is about to add as much itself. What is there is always read from the
//! directory, so that gates which share it agree, and whatever a killed sweep left is found by the next one. Every sweep reads and removes a bounded number of
//! entries; what is beyond that is left to the next.
//!
//! A hostile model must not be able to flush the undo history of what it did before. So under pressure go first the entries which hold nothing but content that
//! the gate itself had written, such as the versions between the first and the last of a file that is rewritten in a loop. An entry with content from elsewhere
//! goes only when it is older than [`MIN_AGE`]; where all that is left are such, the next change is refused, because it could not be undone.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cap_std::fs::MetadataExt as _;
use toolgate_types::{CallId, Sha256};
use toolgate_workspace::{NotKept, TALLY_STEP, Tally, tally_units};

use super::bounds::JournalBounds;
use super::dropped::Dropped;
use super::entry::{ChangeSet, Kind};
use super::written::{ShortDigest, Written, short};
use super::{Journal, Phase, entry_name, read_entry, unfinished_name};

/// Content that the gate did not write itself is kept for so long, whatever the other bounds say.
pub(super) const MIN_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Entries that one sweep reads, and that it removes.
const MAX_ENTRIES_PER_SWEEP: usize = 4096;

/// Entries that are removed before an undo gets its turn.
const MAX_ENTRIES_PER_LOCK: usize = 256;

/// How long a call waits for another process that sweeps or undoes something.
const LOCK_TIMEOUT: Duration = Duration::from_millis(250);

/// How often entries are looked at for their age, where few are added.
const INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Its modification time says when the journal was last swept.
const STAMP: &str = "swept";

/// The file whose length says how much was added since.
const TALLY: &str = "added";

/// What this process knows of the journal's size.
#[derive(Debug, Default)]
pub(super) struct Sweeper {
    pub(super) bounds: JournalBounds,
    tally: OnceLock<Option<Tally>>,
    index: Mutex<Index>,
    /// Whether a thread is at it.
    is_running: AtomicBool,
    /// When the age of entries is looked at next.
    next_look: Mutex<Option<Instant>>,
}

/// How a sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Swept {
    /// The journal is within its bounds.
    Within,
    /// There is more to do: another process sweeps or undoes something, or there was too much for one sweep.
    Unfinished,
    /// What is left must not be let go.
    Full,
}

/// Entries that were read, by age.
#[derive(Debug, Default)]
struct Index {
    held: BTreeMap<CallId, Held>,
    /// Contents that these calls wrote.
    written: HashSet<ShortDigest>,
    /// Contents that calls wrote whose entries were let go.
    dropped: Written,
}

/// What is kept of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    bytes: u64,
    /// Whether any of it came from elsewhere than from the gate.
    is_original: bool,
    /// What the call wrote.
    written: Vec<ShortDigest>,
}

impl Held {
    /// One that was not read, or has no entry.
    fn unread(bytes: u64) -> Self {
        Self { bytes, is_original: true, written: Vec::new() }
    }
}

/// What a look at the directories found.
#[derive(Default)]
struct Found {
    /// Everything that counts: entries that were read, entries that were not yet, and contents without an entry.
    held: BTreeMap<CallId, Held>,
    blobs: BTreeMap<CallId, Vec<String>>,
}

impl Journal {
    /// Sees to it that so much content can be kept for one call.
    pub(super) fn make_room(self: &Arc<Self>, bytes: u64) -> Result<(), NotKept> {
        let bounds = &self.sweeper.bounds;
        if bytes > bounds.max_bytes {
            return Err(NotKept::TooLarge { bytes, limit: bounds.max_bytes });
        }
        let added = self.tally().map_or(0, Tally::get);
        if added >= 2 * TALLY_STEP || bytes >= bounds.step_bytes() {
            return match self.sweep(bytes, LOCK_TIMEOUT) {
                Swept::Full => Err(NotKept::Full { limit: bounds.max_bytes }),
                Swept::Within | Swept::Unfinished => Ok(()),
            };
        }
        if added >= TALLY_STEP || self.is_time_to_look() {
            self.sweep_in_background();
        }
        Ok(())
    }

    /// Counts an entry that was added.
    pub(super) fn count_added(&self, bytes: u64) {
        let bounds = &self.sweeper.bounds;
        if let Some(tally) = self.tally() {
            tally.add(tally_units(bytes, bounds.step_entries(), bounds.step_bytes()));
        }
    }

    fn tally(&self) -> Option<&Tally> {
        self.sweeper.tally.get_or_init(|| Tally::open(&self.directory, TALLY).ok()).as_ref()
    }

    /// Whether the age of entries was not looked at for a while, by any process.
    fn is_time_to_look(&self) -> bool {
        let mut next = self.sweeper.next_look.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if next.is_some_and(|next| now < next) {
            return false;
        }
        *next = now.checked_add(INTERVAL);
        drop(next);
        let stamp = self.directory.metadata(STAMP).and_then(|stamp| stamp.modified());
        // A time in the future is that of a clock that was wrong.
        let age = stamp.ok().and_then(|at| SystemTime::now().duration_since(at.into_std()).ok());
        age.is_none_or(|age| age >= INTERVAL)
    }

    /// A thread per sweep: one that waited all the time would cost every gate its stack.
    fn sweep_in_background(self: &Arc<Self>) {
        if self.sweeper.is_running.swap(true, Ordering::Relaxed) {
            return;
        }
        let journal = Arc::clone(self);
        let sweep = move || {
            journal.sweep(0, Duration::ZERO);
            journal.sweeper.is_running.store(false, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("sweep".to_owned()).spawn(sweep).is_err() {
            self.sweeper.is_running.store(false, Ordering::Relaxed);
        }
    }

    /// Removes what is too old, and what is too much if so many bytes are to be added. Where another process sweeps or undoes something, it is waited for so long.
    fn sweep(&self, reserved: u64, lock_timeout: Duration) -> Swept {
        let mut index = self.sweeper.index.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the look: what is added from here on counts for the next sweep.
        self.tally().into_iter().for_each(Tally::reset);
        let swept = self.sweep_with(&mut index, reserved, lock_timeout);
        if swept != Swept::Within {
            // The next change tries again.
            self.tally().into_iter().for_each(|tally| (0..2).for_each(|_| tally.add(TALLY_STEP)));
        }
        swept
    }

    fn sweep_with(&self, index: &mut Index, reserved: u64, lock_timeout: Duration) -> Swept {
        let Ok(found) = self.look(index) else { return Swept::Unfinished };
        let _ = self.directory.write(STAMP, b"");
        let Choice { victims, is_full } =
            choose(&found.held, &self.sweeper.bounds, reserved, SystemTime::now());
        let (now, later) = victims.split_at(victims.len().min(MAX_ENTRIES_PER_SWEEP));
        for batch in now.chunks(MAX_ENTRIES_PER_LOCK) {
            match self.remove(batch, &found, lock_timeout) {
                Ok(true) => batch.iter().for_each(|call| _ = index.held.remove(call)),
                Ok(false) | Err(_) => return Swept::Unfinished,
            }
        }
        match (later, is_full) {
            ([], false) => Swept::Within,
            ([], true) => Swept::Full,
            _ => Swept::Unfinished,
        }
    }

    /// Lists what is there, and reads the entries that are not known yet, the oldest first.
    fn look(&self, index: &mut Index) -> io::Result<Found> {
        // Contents before entries: a content is made after its entry, so one that is found here and has no entry below is nobody's.
        let mut found = Found { blobs: self.blobs_by_call()?, ..Found::default() };
        let mut done = BTreeSet::new();
        for entry in self.done.entries()? {
            let name = entry?.file_name();
            done.extend(name.to_str().and_then(|name| name.strip_suffix(".json")?.parse::<CallId>().ok()));
        }
        index.held.retain(|call, _| done.contains(call));
        index.dropped = Written::read(&self.directory, &self.seals);
        let unknown: Vec<CallId> =
            done.iter().filter(|call| !index.held.contains_key(call)).copied().collect();
        let mut is_stranger = BTreeSet::new();
        for (read, call) in unknown.into_iter().enumerate() {
            if read >= MAX_ENTRIES_PER_SWEEP {
                // Not read yet: it counts as an entry, and goes only when it is old.
                found.held.insert(call, Held::unread(0));
            } else if !self.add_to(index, call, &found) {
                is_stranger.insert(call);
            }
        }
        found.held.extend(index.held.iter().map(|(call, held)| (*call, held.clone())));
        for (call, names) in &found.blobs {
            if !done.contains(call) && !self.is_under_way(*call) {
                found.held.insert(*call, Held::unread(self.bytes_of(names)));
            }
        }
        // What no gate of this user wrote is neither counted nor touched.
        found.held.retain(|call, _| !is_stranger.contains(call));
        Ok(found)
    }

    /// Reads an entry into the index, unless it is not believed.
    fn add_to(&self, index: &mut Index, call: CallId, found: &Found) -> bool {
        let name = entry_name(call);
        let Ok(file) = self.done.open(&name) else { return true };
        let Some((set, Phase::Done)) = self.believed(&name, &read_entry(&file.into_std())) else {
            return false;
        };
        let is_original = contents(&set).any(|content| content.is_none_or(|digest| !index.has(&digest)));
        let written: Vec<ShortDigest> =
            set.changes.iter().filter_map(|change| change.after.map(|after| short(&after))).collect();
        index.written.extend(&written);
        let bytes = found.blobs.get(&call).map_or(0, |names| self.bytes_of(names));
        index.held.insert(call, Held { bytes, is_original, written });
        true
    }

    /// Whether a call has an entry, or is about to: an entry moves from the first of these names to the last.
    fn is_under_way(&self, call: CallId) -> bool {
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
        let sizes = blobs.iter().filter_map(|blob| self.blobs.symlink_metadata(blob).ok());
        sizes.map(|blob| blob.blocks().saturating_mul(512)).fold(0, u64::saturating_add)
    }

    /// Removes entries, unless an undo is under way, which may be about to write one of them anew. Contents go before the entry that names them: if this process
    /// is killed in between, the next sweep finds the entry, and an undo says that it is no longer kept.
    fn remove(&self, victims: &[CallId], found: &Found, lock_timeout: Duration) -> io::Result<bool> {
        let Some(_alone) = self.lock_undoing_within(lock_timeout)? else { return Ok(false) };
        let mut written = Written::read(&self.directory, &self.seals);
        let held = victims.iter().filter_map(|call| found.held.get(call));
        held.flat_map(|held| &held.written).for_each(|digest| written.add(*digest));
        written.write(&self.directory, &self.seals)?;
        let mut dropped = Dropped::read(&self.directory);
        for call in victims {
            for blob in found.blobs.get(call).into_iter().flatten() {
                ignore_missing(self.blobs.remove_file(blob))?;
            }
            ignore_missing(self.done.remove_file(entry_name(*call)))?;
            dropped.add(*call, found.held.get(call).map_or(0, |held| held.bytes));
        }
        dropped.write(&self.directory)?;
        Ok(true)
    }
}

fn ignore_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl Index {
    /// Whether the gate itself wrote this content.
    fn has(&self, digest: &Sha256) -> bool {
        let digest = short(digest);
        self.written.contains(&digest) || self.dropped.contains(&digest)
    }
}

/// The contents that a call replaced, removed or moved, by digest; nothing for one without a digest. What is only new replaces none.
fn contents(set: &ChangeSet) -> impl Iterator<Item = Option<Sha256>> {
    set.changes.iter().filter_map(|change| match change.kind {
        Kind::Create => None,
        Kind::Modify | Kind::Delete => Some(change.before.as_ref().map(|kept| kept.sha256)),
        Kind::Move => Some(change.after),
    })
}

/// What is to be let go.
#[derive(Debug, Default, PartialEq, Eq)]
struct Choice {
    victims: Vec<CallId>,
    /// Whether what is left is still too much.
    is_full: bool,
}

/// Whether an entry may go.
type MayGo<'a> = dyn Fn(CallId, &Held) -> bool + 'a;

/// Chooses what goes: what is too old; then of what is too much, the oldest that holds nothing but the gate's own writing, then the oldest that is older than
/// [`MIN_AGE`]. The newest entry stays.
fn choose(held: &BTreeMap<CallId, Held>, bounds: &JournalBounds, reserved: u64, now: SystemTime) -> Choice {
    let milliseconds_before = |age: Duration| {
        let then = now.checked_sub(age).and_then(|then| then.duration_since(UNIX_EPOCH).ok());
        then.unwrap_or_default().as_millis()
    };
    let (expired, young) = (milliseconds_before(bounds.max_age), milliseconds_before(MIN_AGE));
    let (max_bytes, max_entries) = bounds.target();
    // What is about to be added is one of the steps that the target leaves room for, unless it is larger.
    let max_bytes = max_bytes.min(bounds.max_bytes.saturating_sub(reserved));
    let mut bytes: u64 = held.values().map(|one| one.bytes).fold(0, u64::saturating_add);
    let mut entries = held.len() as u64;
    let newest = held.keys().next_back().copied();
    let mut gone = BTreeSet::new();
    let passes: [&MayGo<'_>; 3] = [
        &|call, _| u128::from(call.unix_millis()) < expired,
        &|call, one| !one.is_original && Some(call) != newest,
        &|call, _| u128::from(call.unix_millis()) < young,
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
    let is_full = bytes > max_bytes || entries > max_entries.max(1);
    Choice { victims: gone.into_iter().collect(), is_full }
}
