//! One-entry cache of the last large text that was read, with its digest.
//!
//! Agents read the same file many times, and hashing dominates the cost of reading a large one. A hit is found by comparing every byte, which is many
//! times faster than hashing; never by time, size or inode number, which other processes may set. So a digest is always that of the returned bytes.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};

use toolgate_types::HashedText;

use crate::large_file::MIN_PARALLEL_HASH_BYTES;

/// Sizes of cached texts: from where hashing takes long, up to where the memory is not worth it.
const CACHEABLE_BYTES: RangeInclusive<usize> = MIN_PARALLEL_HASH_BYTES..=2 << 20;

/// A text and its line count.
pub(crate) struct CachedText {
    pub(crate) text: HashedText,
    pub(crate) newlines: u64,
}

/// At most one text for a workspace, however many reads are in flight. No read waits for the lock, and an entry that another read compares with is
/// not replaced.
#[derive(Default)]
pub(crate) struct DigestCache(Mutex<Option<Arc<CachedText>>>);

impl DigestCache {
    /// The cached text, if it has this length.
    pub(crate) fn get(&self, length: usize) -> Option<Arc<CachedText>> {
        let known = self.0.try_lock().ok()?;
        known.as_ref().filter(|known| known.text.len() == length).cloned()
    }

    /// Returns the cache slot for a text of this length, if no other reader uses the current entry.
    pub(crate) fn reserve(&self, length: usize, compared: Option<&Arc<CachedText>>) -> Option<CacheSlot<'_>> {
        if !CACHEABLE_BYTES.contains(&length) {
            return None;
        }
        let mut known = self.0.try_lock().ok()?;
        if let Some(known) = &*known {
            let own = usize::from(compared.is_some_and(|compared| Arc::ptr_eq(compared, known)));
            if Arc::strong_count(known) > 1 + own {
                return None;
            }
        }
        *known = None;
        Some(CacheSlot(known))
    }
}

/// The locked cache entry.
pub(crate) struct CacheSlot<'a>(MutexGuard<'a, Option<Arc<CachedText>>>);

impl CacheSlot<'_> {
    pub(crate) fn store(mut self, known: CachedText) {
        *self.0 = Some(Arc::new(known));
    }
}

/// Without the text: file contents do not belong in logs.
impl fmt::Debug for DigestCache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DigestCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests arrange files by hand and fail by panicking"
)]
mod tests {
    use std::fs;
    use std::path::Path;

    use toolgate_types::{Cancellation, Limits, Sha256};

    use super::*;
    use crate::testing::{LIMITS, view, workspace};
    use crate::{FileContent, ReadRequest, Workspace, WorkspaceView};

    /// Reads a file of this content; returns its digest and its number of lines.
    fn read(workspace: &Workspace, root: &Path, content: &str) -> (Sha256, u64) {
        fs::write(root.join("f"), content).unwrap();
        let (stop, limits) = (Cancellation::never(), Limits { max_read_bytes: 1 << 30, ..LIMITS });
        let view = WorkspaceView { limits: &limits, ..view(workspace, &stop) };
        let read = view.read("f", &ReadRequest::default()).unwrap();
        let FileContent::Text(window) = read.content else { panic!("it is text") };
        assert_eq!((&window.text, window.text.sha256()), (&HashedText::from(content), read.sha256));
        (read.sha256, window.total_lines)
    }

    #[test]
    fn what_is_the_same_is_not_hashed_again_and_what_is_not_is() {
        let scratch = tempfile::tempdir().unwrap();
        let workspace = workspace(scratch.path());
        let content = "0123456789abcde\n".repeat(MIN_PARALLEL_HASH_BYTES / 16);
        let lines = content.lines().count() as u64;
        assert_eq!(read(&workspace, scratch.path(), &content), (Sha256::of(content.as_bytes()), lines));
        let is_cached = |text: &str| {
            workspace.digest_cache.get(MIN_PARALLEL_HASH_BYTES).is_some_and(|known| known.text == *text)
        };
        assert!(is_cached(&content));
        // A number of lines that counting would not give shows that the entry was used.
        let slot = workspace.digest_cache.reserve(MIN_PARALLEL_HASH_BYTES, None).unwrap();
        slot.store(CachedText { text: content.as_str().into(), newlines: 7 });
        assert_eq!(read(&workspace, scratch.path(), &content), (Sha256::of(content.as_bytes()), 7));
        for other in [0, 15, MIN_PARALLEL_HASH_BYTES / 2, MIN_PARALLEL_HASH_BYTES - 1] {
            let mut changed = content.clone();
            changed.replace_range(other..=other, "x");
            assert_eq!(read(&workspace, scratch.path(), &changed).0, Sha256::of(changed.as_bytes()));
            assert!(is_cached(&changed));
        }
    }

    #[test]
    fn one_text_is_kept_however_many_are_read() {
        let scratch = tempfile::tempdir().unwrap();
        let workspace = workspace(scratch.path());
        let kept = |length| workspace.digest_cache.get(length).is_some();
        for (length, is_kept) in [
            (*CACHEABLE_BYTES.start() - 1, false),
            (*CACHEABLE_BYTES.start(), true),
            (*CACHEABLE_BYTES.end(), true),
            (*CACHEABLE_BYTES.end() + 1, false),
        ] {
            read(&workspace, scratch.path(), &"x".repeat(length));
            assert_eq!(kept(length), is_kept, "{length}");
        }
        let compared_with = workspace.digest_cache.get(*CACHEABLE_BYTES.end()).unwrap();
        read(&workspace, scratch.path(), &"y".repeat(MIN_PARALLEL_HASH_BYTES));
        assert!(!kept(MIN_PARALLEL_HASH_BYTES), "a second text is kept while somebody has the first");
        drop(compared_with);
        let room = workspace.digest_cache.reserve(MIN_PARALLEL_HASH_BYTES, None).unwrap();
        assert!(!kept(*CACHEABLE_BYTES.end()), "the old one is gone before the new one is copied");
        read(&workspace, scratch.path(), &"y".repeat(MIN_PARALLEL_HASH_BYTES));
        drop(room);
        assert!(!kept(MIN_PARALLEL_HASH_BYTES), "two copies are made at a time");
    }

    #[test]
    fn no_text_is_shown_in_logs() {
        let scratch = tempfile::tempdir().unwrap();
        let workspace = workspace(scratch.path());
        read(&workspace, scratch.path(), &"secret".repeat(MIN_PARALLEL_HASH_BYTES));
        read(&workspace, scratch.path(), &"secret".repeat(MIN_PARALLEL_HASH_BYTES / 4));
        assert!(workspace.digest_cache.get(MIN_PARALLEL_HASH_BYTES / 4 * 6).is_some());
        assert!(!format!("{workspace:?}").contains("secret"));
    }
}
