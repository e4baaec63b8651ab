//! What the gate itself wrote, as far as the entries that say so were let go.
//!
//! An entry that replaced such content holds nothing that came from elsewhere, and may go before others. Without this, the successor of every entry that was let
//! go would look as if it held an original.

use std::collections::{HashSet, VecDeque};
use std::io;

use cap_std::fs::Dir;
use toolgate_types::Sha256;

use super::seal::Seals;

const NAME: &str = "written";
const TEMPORARY: &str = ".written";
/// As many digests as are remembered, the newest.
const MAX_DIGESTS: usize = 1 << 16;

/// The beginning of a digest. That is enough to know content again that nobody chose to be mistaken for another.
pub(super) type ShortDigest = [u8; 16];

pub(super) fn short(digest: &Sha256) -> ShortDigest {
    digest.as_bytes().first_chunk().copied().unwrap_or_default()
}

/// Digests of contents, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Written {
    order: VecDeque<ShortDigest>,
    known: HashSet<ShortDigest>,
}

impl Written {
    /// What is written in a journal's directory; nothing, where that is missing or carries no valid seal: then more counts as original, and is kept.
    pub(super) fn read(directory: &Dir, seals: &Seals) -> Self {
        let bytes = directory.read(NAME).unwrap_or_default();
        let mut written = Self::default();
        let (digests, _) = seals.opened(NAME, &bytes).unwrap_or_default().as_chunks();
        digests.iter().for_each(|digest| written.add(*digest));
        written
    }

    pub(super) fn contains(&self, digest: &ShortDigest) -> bool {
        self.known.contains(digest)
    }

    pub(super) fn add(&mut self, digest: ShortDigest) {
        if self.known.insert(digest) {
            self.order.push_back(digest);
        }
        while self.order.len() > MAX_DIGESTS {
            self.order.pop_front().iter().for_each(|oldest| _ = self.known.remove(oldest));
        }
    }

    pub(super) fn write(&self, directory: &Dir, seals: &Seals) -> io::Result<()> {
        let digests: Vec<u8> = self.order.iter().flatten().copied().collect();
        directory.write(TEMPORARY, seals.closed(NAME, &digests))?;
        directory.rename(TEMPORARY, directory, NAME)
    }
}
