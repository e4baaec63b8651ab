//! Outputs that are too long for a response, stored for a while for the caller alone.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read as _, Write as _};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};

use crate::mcp::random_id;

/// Limits of the output store of one process. One caller may use half of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputBounds {
    /// Maximum bytes in total.
    pub max_bytes: u64,
    /// How long an output is kept.
    pub max_age: Duration,
}

impl Default for OutputBounds {
    fn default() -> Self {
        Self { max_bytes: 64 * 1024 * 1024, max_age: Duration::from_secs(15 * 60) }
    }
}

impl OutputBounds {
    fn max_bytes_per_caller(&self) -> u64 {
        self.max_bytes / 2
    }
}

/// The prefix of every output URI.
pub(crate) const OUTPUT_URI_PREFIX: &str = "toolgate://outputs/";

/// Opens the output directory, creating it if it is missing.
type OpenDirectory = Box<dyn Fn() -> io::Result<Dir> + Send + Sync>;

/// Stores outputs in files that only this user can read (mode 0600).
pub struct OutputStore {
    open: OpenDirectory,
    directory: OnceLock<Option<Dir>>,
    bounds: OutputBounds,
    stored: Mutex<HashMap<String, StoredOutput>>,
}

struct StoredOutput {
    owner: [u8; 32],
    since: Instant,
    bytes: u64,
}

impl OutputStore {
    /// A store in the directory that `open` opens, which is called when the first output is stored.
    #[must_use]
    pub fn new(open: impl Fn() -> io::Result<Dir> + Send + Sync + 'static) -> Self {
        let bounds = OutputBounds::default();
        Self { open: Box::new(open), directory: OnceLock::new(), bounds, stored: Mutex::default() }
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_bounds(mut self, bounds: OutputBounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// The retention time as text.
    pub(crate) fn retention_text(&self) -> String {
        match self.bounds.max_age.as_secs() {
            seconds @ 0..60 => format!("{seconds} seconds"),
            seconds => format!("{} minutes", seconds / 60),
        }
    }

    /// Stores a text and returns its URI. Returns `None` if it does not fit or cannot be written.
    pub(crate) fn store(&self, owner: [u8; 32], text: &str) -> Option<String> {
        let bytes = text.len() as u64;
        if bytes > self.bounds.max_bytes_per_caller() {
            return None;
        }
        let folder = self.directory()?;
        let id = random_id()?;
        self.evict(folder, owner, bytes);
        let written = write(folder, &id, text);
        if written.is_err() {
            let _ = folder.remove_file(&id);
            return None;
        }
        self.lock().insert(id.clone(), StoredOutput { owner, since: Instant::now(), bytes });
        Some(format!("{OUTPUT_URI_PREFIX}{id}"))
    }

    /// The size of the output with this URI, if it belongs to this owner.
    pub(crate) fn bytes(&self, owner: [u8; 32], uri: &str) -> Option<u64> {
        let kept = self.lock();
        kept.get(uri.strip_prefix(OUTPUT_URI_PREFIX)?)
            .filter(|kept| kept.owner == owner)
            .map(|kept| kept.bytes)
    }

    /// The output with this URI, if it belongs to this owner.
    pub(crate) fn read(&self, owner: [u8; 32], uri: &str) -> Option<String> {
        let id = uri.strip_prefix(OUTPUT_URI_PREFIX)?;
        let folder = self.directory.get()?.as_ref()?;
        self.evict(folder, owner, 0);
        let is_owners = self.lock().get(id).is_some_and(|kept| kept.owner == owner);
        let mut text = String::new();
        is_owners.then(|| folder.open(id))?.ok()?.read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Evicts expired outputs, then this owner's oldest until the new bytes fit its share, then the oldest of the largest owner until the total fits.
    fn evict(&self, folder: &Dir, owner: [u8; 32], bytes: u64) {
        let mut kept = self.lock();
        for id in to_evict(&kept, &self.bounds, owner, bytes, Instant::now()) {
            kept.remove(&id);
            let _ = folder.remove_file(&id);
        }
    }

    fn directory(&self) -> Option<&Dir> {
        let opened = self.directory.get_or_init(|| {
            let folder = (self.open)().ok()?;
            remove_stale(&folder, self.bounds.max_age);
            Some(folder)
        });
        opened.as_ref()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, StoredOutput>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OutputStore {
    fn drop(&mut self) {
        if let Some(Some(folder)) = self.directory.get() {
            for id in self.lock().keys() {
                let _ = folder.remove_file(id);
            }
        }
    }
}

/// The outputs to evict so that this owner can store this many more bytes.
fn to_evict(
    kept: &HashMap<String, StoredOutput>,
    bounds: &OutputBounds,
    owner: [u8; 32],
    bytes: u64,
    now: Instant,
) -> Vec<String> {
    let is_old = |one: &StoredOutput| now.saturating_duration_since(one.since) >= bounds.max_age;
    let mut gone: Vec<String> =
        kept.iter().filter(|(_, one)| is_old(one)).map(|(id, _)| id.clone()).collect();
    let mut left: Vec<(&String, &StoredOutput)> = kept.iter().filter(|(_, one)| !is_old(one)).collect();
    left.sort_by_key(|(_, one)| one.since);
    loop {
        let mut held = BTreeMap::from([(owner, bytes)]);
        left.iter().for_each(|(_, one)| *held.entry(one.owner).or_default() += one.bytes);
        let own = held.get(&owner).copied().unwrap_or_default();
        let largest = held.iter().max_by_key(|(_, held)| **held).map_or(owner, |(largest, _)| *largest);
        let must_give = match () {
            () if own > bounds.max_bytes_per_caller() => owner,
            () if held.values().sum::<u64>() > bounds.max_bytes => largest,
            () => return gone,
        };
        let Some(place) = left.iter().position(|(_, one)| one.owner == must_give) else { return gone };
        gone.push(left.remove(place).0.clone());
    }
}

/// Removes files that crashed processes left behind.
fn remove_stale(folder: &Dir, max_age: Duration) {
    let Ok(entries) = folder.entries() else { return };
    let now = SystemTime::now();
    for entry in entries.flatten() {
        let modified = entry.metadata().and_then(|found| found.modified());
        let age = modified.ok().and_then(|modified| now.duration_since(modified.into_std()).ok());
        if age.is_some_and(|age| age > max_age) {
            let _ = folder.remove_file(entry.file_name());
        }
    }
}

fn write(folder: &Dir, id: &str, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    folder.open_with(id, &options)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    /// The evicted indices for outputs given as owner and size, oldest first.
    fn going(kept: &[(u8, u64)], owner: u8, bytes: u64) -> Vec<usize> {
        let start = Instant::now();
        let kept = kept.iter().enumerate().map(|(number, (owner, mebibytes))| {
            let since = start + Duration::from_secs(number as u64);
            (number.to_string(), StoredOutput { owner: [*owner; 32], since, bytes: mebibytes * MIB })
        });
        let gone = to_evict(
            &kept.collect(),
            &OutputBounds::default(),
            [owner; 32],
            bytes * MIB,
            start + Duration::from_secs(60),
        );
        gone.iter().map(|id| id.parse().unwrap()).collect()
    }

    #[test]
    fn room_is_made_by_whoever_has_too_much() {
        for (kept, owner, bytes, expected) in [
            (&[(1, 4), (2, 4)][..], 1, 4, vec![]),
            // Above its share, a caller loses its own outputs, even if others are older.
            (&[(2, 4), (1, 20), (1, 12)], 1, 4, vec![1]),
            (&[(2, 4), (1, 20), (1, 12)], 1, 24, vec![1, 2]),
            // Above the total, the largest owner loses its oldest.
            (&[(3, 4), (1, 16), (1, 16), (2, 28)], 3, 4, vec![1]),
            (&[(1, 8), (2, 30), (3, 26)], 4, 4, vec![1]),
        ] {
            assert_eq!(going(kept, owner, bytes), expected, "{kept:?} {owner} {bytes}");
        }
    }

    #[test]
    fn what_is_too_old_goes_whoever_asks() {
        let (now, bounds) = (Instant::now(), OutputBounds::default());
        let kept = HashMap::from([("old".to_owned(), StoredOutput { owner: [1; 32], since: now, bytes: 1 })]);
        assert_eq!(to_evict(&kept, &bounds, [2; 32], 0, now + bounds.max_age), ["old"]);
        assert!(to_evict(&kept, &bounds, [2; 32], 0, now + bounds.max_age / 2).is_empty());
    }
}
