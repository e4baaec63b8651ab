//! The last large text that was read, so that its digest is known when the same is read again.
//!
//! Agents read the same file many times, and hashing is most of what a large one costs. Whether it is the same is found by comparing every byte, which is
//! many times as fast; never by times, sizes or inode numbers, which somebody else may set. So a digest is always that of the bytes that are answered.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};

use toolgate_types::Sha256;

use crate::large::LARGE;

/// Lengths of texts that are kept: from where hashing takes long, up to where memory counts for more.
const KEPT: RangeInclusive<usize> = LARGE..=2 << 20;

/// A text, and what took long to find out about it.
pub(crate) struct KnownText {
    pub(crate) text: String,
    pub(crate) newlines: u64,
    pub(crate) sha256: Sha256,
}

/// One text at most for a workspace, however many reads are under way: nobody waits for it, and one that is being compared with is not replaced.
#[derive(Default)]
pub(crate) struct LastLarge(Mutex<Option<Arc<KnownText>>>);

impl LastLarge {
    /// The text, if a file of this length can be the same.
    pub(crate) fn of_length(&self, length: usize) -> Option<Arc<KnownText>> {
        let known = self.0.try_lock().ok()?;
        known.as_ref().filter(|known| known.text.len() == length).cloned()
    }

    /// Where a text of this length may be kept instead of the last one, if nobody compares with that but the one who asks.
    pub(crate) fn make_room(&self, length: usize, compared: Option<&Arc<KnownText>>) -> Option<Room<'_>> {
        if !KEPT.contains(&length) {
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
        Some(Room(known))
    }
}

/// Nobody else keeps a text meanwhile.
pub(crate) struct Room<'a>(MutexGuard<'a, Option<Arc<KnownText>>>);

impl Room<'_> {
    pub(crate) fn keep(mut self, known: KnownText) {
        *self.0 = Some(Arc::new(known));
    }
}

/// Without the text: what is in files is not for logs.
impl fmt::Debug for LastLarge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LastLarge").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests arrange files by hand and fail by panicking"
)]
mod tests {
    use std::fs;
    use std::path::Path;

    use toolgate_types::{Cancellation, Limits};

    use super::*;
    use crate::testing::{LIMITS, view, workspace};
    use crate::{ReadRequest, View, Workspace};

    /// Reads a file of this content; tells its digest.
    fn read(workspace: &Workspace, root: &Path, content: &str) -> Sha256 {
        fs::write(root.join("f"), content).unwrap();
        let (stop, limits) = (Cancellation::never(), Limits { max_read_bytes: 1 << 30, ..LIMITS });
        let view = View { limits: &limits, ..view(workspace, &stop) };
        view.read("f", &ReadRequest::default()).unwrap().sha256
    }

    #[test]
    fn what_is_the_same_is_not_hashed_again_and_what_is_not_is() {
        let scratch = tempfile::tempdir().unwrap();
        let workspace = workspace(scratch.path());
        let content = "0123456789abcde\n".repeat(LARGE / 16);
        assert_eq!(read(&workspace, scratch.path(), &content), Sha256::of(content.as_bytes()));
        assert!(workspace.last_large.of_length(LARGE).is_some_and(|known| known.text == content));
        // A digest that no hashing would give.
        let told = Sha256::of(b"something else");
        let room = workspace.last_large.make_room(LARGE, None).unwrap();
        room.keep(KnownText { text: content.clone(), newlines: 0, sha256: told });
        assert_eq!(read(&workspace, scratch.path(), &content), told);
        for other in [0, 15, LARGE / 2, LARGE - 1] {
            let mut changed = content.clone();
            changed.replace_range(other..=other, "x");
            assert_eq!(read(&workspace, scratch.path(), &changed), Sha256::of(changed.as_bytes()));
            assert!(workspace.last_large.of_length(LARGE).is_some_and(|known| known.text == changed));
        }
    }

    #[test]
    fn one_text_is_kept_however_many_are_read() {
        let scratch = tempfile::tempdir().unwrap();
        let workspace = workspace(scratch.path());
        let kept = |length| workspace.last_large.of_length(length).is_some();
        for (length, is_kept) in
            [(*KEPT.start() - 1, false), (*KEPT.start(), true), (*KEPT.end(), true), (*KEPT.end() + 1, false)]
        {
            read(&workspace, scratch.path(), &"x".repeat(length));
            assert_eq!(kept(length), is_kept, "{length}");
        }
        let compared_with = workspace.last_large.of_length(*KEPT.end()).unwrap();
        read(&workspace, scratch.path(), &"y".repeat(LARGE));
        assert!(!kept(LARGE), "a second text is kept while somebody has the first");
        drop(compared_with);
        let room = workspace.last_large.make_room(LARGE, None).unwrap();
        assert!(!kept(*KEPT.end()), "the old one is gone before the new one is copied");
        read(&workspace, scratch.path(), &"y".repeat(LARGE));
        drop(room);
        assert!(!kept(LARGE), "two copies are made at a time");
    }

    #[test]
    fn no_text_is_shown_in_logs() {
        let scratch = tempfile::tempdir().unwrap();
        let workspace = workspace(scratch.path());
        read(&workspace, scratch.path(), &"secret".repeat(LARGE));
        read(&workspace, scratch.path(), &"secret".repeat(LARGE / 4));
        assert!(workspace.last_large.of_length(LARGE / 4 * 6).is_some());
        assert!(!format!("{workspace:?}").contains("secret"));
    }
}
