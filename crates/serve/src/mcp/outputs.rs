//! Outputs that are too long for an answer: kept for a while, for whoever made the call and nobody else.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};

use crate::mcp::unguessable;

/// How long an output is kept.
const KEPT_FOR: Duration = Duration::from_secs(15 * 60);

/// How many bytes are kept in all.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// What every link begins with.
pub(crate) const OUTPUTS: &str = "toolgate://outputs/";

/// Opens the folder of the outputs, making it if it is missing.
type Open = Box<dyn Fn() -> io::Result<Dir> + Send + Sync>;

/// Keeps outputs in files that nobody but this user can read.
pub struct OutputStore {
    open: Open,
    folder: OnceLock<Option<Dir>>,
    kept: Mutex<HashMap<String, Kept>>,
}

struct Kept {
    owner: [u8; 32],
    since: Instant,
    bytes: u64,
}

impl OutputStore {
    /// A store in the folder that `open` opens; it is asked for when the first output comes.
    #[must_use]
    pub fn new(open: impl Fn() -> io::Result<Dir> + Send + Sync + 'static) -> Self {
        Self { open: Box::new(open), folder: OnceLock::new(), kept: Mutex::default() }
    }

    /// Keeps a text; tells where its owner can read it. Nothing is kept that cannot be kept safely.
    pub(crate) fn keep(&self, owner: [u8; 32], text: &str) -> Option<String> {
        let bytes = text.len() as u64;
        if bytes > MOST_BYTES {
            return None;
        }
        let folder = self.folder()?;
        let id = unguessable()?;
        self.make_room(folder, bytes);
        let written = write(folder, &id, text);
        if written.is_err() {
            let _ = folder.remove_file(&id);
            return None;
        }
        self.lock().insert(id.clone(), Kept { owner, since: Instant::now(), bytes });
        Some(format!("{OUTPUTS}{id}"))
    }

    /// What is kept under this address for this owner.
    pub(crate) fn read(&self, owner: [u8; 32], uri: &str) -> Option<String> {
        let id = uri.strip_prefix(OUTPUTS)?;
        let folder = self.folder.get()?.as_ref()?;
        self.make_room(folder, 0);
        let is_owners = self.lock().get(id).is_some_and(|kept| kept.owner == owner);
        let mut text = String::new();
        is_owners.then(|| folder.open(id))?.ok()?.read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Forgets what is too old, and the oldest of the rest until so many bytes fit.
    fn make_room(&self, folder: &Dir, bytes: u64) {
        let mut kept = self.lock();
        let now = Instant::now();
        let mut order: Vec<(Instant, String)> =
            kept.iter().map(|(id, one)| (one.since, id.clone())).collect();
        order.sort();
        let mut total: u64 = kept.values().map(|one| one.bytes).sum();
        for (since, id) in order {
            let expired = now.saturating_duration_since(since) >= KEPT_FOR;
            if !expired && total + bytes <= MOST_BYTES {
                break;
            }
            if let Some(gone) = kept.remove(&id) {
                total -= gone.bytes;
                let _ = folder.remove_file(&id);
            }
        }
    }

    fn folder(&self) -> Option<&Dir> {
        let opened = self.folder.get_or_init(|| {
            let folder = (self.open)().ok()?;
            sweep(&folder);
            Some(folder)
        });
        opened.as_ref()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OutputStore {
    fn drop(&mut self) {
        if let Some(Some(folder)) = self.folder.get() {
            for id in self.lock().keys() {
                let _ = folder.remove_file(id);
            }
        }
    }
}

/// Removes what processes left behind that did not come to their end.
fn sweep(folder: &Dir) {
    let Ok(entries) = folder.entries() else { return };
    let now = SystemTime::now();
    for entry in entries.flatten() {
        let modified = entry.metadata().and_then(|found| found.modified());
        let age = modified.ok().and_then(|modified| now.duration_since(modified.into_std()).ok());
        if age.is_some_and(|age| age > KEPT_FOR) {
            let _ = folder.remove_file(entry.file_name());
        }
    }
}

fn write(folder: &Dir, id: &str, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    folder.open_with(id, &options)?.write_all(text.as_bytes())
}
