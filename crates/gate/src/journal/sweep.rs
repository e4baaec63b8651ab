//! Letting go of what is too old or too much to keep.
//!
//! Entries are named by their call, and calls are numbered by time: their names say how old they are, and none of them has to be read.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cap_std::fs::MetadataExt as _;

use super::Journal;

/// Changes older than this can no longer be undone.
pub(super) const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Changes younger than this can always be undone, however many others came since: what a model did an hour ago is not flushed by what it does now.
pub(super) const MIN_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Beyond so many calls the oldest are let go, once they are older than [`MIN_AGE`].
pub(super) const MAX_ENTRIES: usize = 1000;
/// Beyond so much content the oldest calls are let go, once they are older than [`MIN_AGE`].
pub(super) const MAX_BYTES: u64 = 1 << 30;

/// A start looks only so often: a call at the command line should not count what is there.
const INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Its time says when somebody last looked.
const STAMP: &str = "swept";

impl Journal {
    /// Lets go of what is too old or too much, if nobody has looked lately. Nothing depends on its success.
    pub(super) fn sweep(&self) {
        let (folder, now) = (&self.directory, SystemTime::now());
        let stamp = folder.metadata(STAMP).and_then(|stamp| stamp.modified());
        // A time in the future was set by somebody, or by a clock that was wrong.
        let lately = stamp.is_ok_and(|at| now.duration_since(at.into_std()).is_ok_and(|age| age < INTERVAL));
        if !lately && folder.write(STAMP, b"").is_ok() {
            let _ = self.let_go(now);
        }
    }

    fn let_go(&self, now: SystemTime) -> io::Result<()> {
        let milliseconds_before = |age: Duration| {
            let then = now.checked_sub(age).and_then(|then| then.duration_since(UNIX_EPOCH).ok());
            then.unwrap_or_default().as_millis()
        };
        let (oldest, young) = (milliseconds_before(MAX_AGE), milliseconds_before(MIN_AGE));
        let mut blobs = self.blobs_by_call()?;
        let mut calls = Vec::new();
        for entry in self.done.entries()? {
            let name = entry?.file_name();
            calls.extend(name.to_str().and_then(|name| name.strip_suffix(".json")).map(str::to_owned));
        }
        calls.sort_unstable_by(|one, other| other.cmp(one));
        let mut bytes = 0_u64;
        for (index, call) in calls.iter().enumerate() {
            let kept = blobs.remove(call).unwrap_or_default();
            bytes = bytes.saturating_add(kept.bytes);
            let is_too_much = index >= MAX_ENTRIES || bytes > MAX_BYTES;
            let latest = if is_too_much { young } else { oldest };
            if made_at(call).is_some_and(|at| at < latest) {
                self.done.remove_file(format!("{call}.json"))?;
                self.drop_blobs(&kept);
            }
        }
        // Left by calls that nobody knows any more, such as those whose entry a power cut took.
        for (call, kept) in &blobs {
            let is_pending = [format!("{call}.json"), format!(".{call}.json")];
            let is_pending = is_pending.iter().any(|name| self.pending.exists(name));
            if !is_pending && made_at(call).is_some_and(|at| at < oldest) {
                self.drop_blobs(kept);
            }
        }
        Ok(())
    }

    fn blobs_by_call(&self) -> io::Result<BTreeMap<String, Blobs>> {
        let mut calls: BTreeMap<String, Blobs> = BTreeMap::new();
        for entry in self.blobs.entries()? {
            let entry = entry?;
            let name = entry.file_name();
            let Some((call, _)) = name.to_str().and_then(|name| name.rsplit_once('.')) else { continue };
            let Ok(metadata) = entry.metadata() else { continue };
            let of_call = calls.entry(call.to_owned()).or_default();
            // What it really takes: a file may say that it is larger than the disk.
            of_call.bytes = of_call.bytes.saturating_add(metadata.blocks().saturating_mul(512));
            of_call.names.extend(name.to_str().map(str::to_owned));
        }
        Ok(calls)
    }

    fn drop_blobs(&self, blobs: &Blobs) {
        for name in &blobs.names {
            let _ = self.blobs.remove_file(name);
        }
    }
}

/// What is kept for one call.
#[derive(Default)]
struct Blobs {
    names: Vec<String>,
    bytes: u64,
}

/// When a call was made, in milliseconds since 1970: the first 48 bits of its id.
fn made_at(call: &str) -> Option<u128> {
    let id: toolgate_types::CallId = call.parse().ok()?;
    let digits: String = id.to_string().chars().filter(|digit| *digit != '-').take(12).collect();
    u128::from_str_radix(&digits, 16).ok()
}
