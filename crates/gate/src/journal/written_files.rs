//! Files that gates wrote, remembered after the entries that recorded them were dropped.
//!
//! An entry that replaced such a file holds no content from elsewhere, and may be dropped early. Without this file, the successor of every dropped
//! entry would look as if it held an original.

use std::collections::{HashMap, VecDeque};
use std::io;

use cap_std::fs::Dir;
use toolgate_types::CallId;

use super::content_origin::{ContentOrigin, FileKey};
use super::seal::JournalSealer;
use super::write_atomically;

const NAME: &str = "written";
/// The purpose in the seal. Files of the first format held only digests and are no longer accepted.
const SEALED_AS: &str = "written 2";
/// How many files are remembered, the newest first.
const MAX_FILES: usize = 1 << 15;
/// A key and the root call, or zeroes.
const RECORD_BYTES: usize = 32;

/// Files that gates wrote, oldest first.
#[derive(Debug, Default)]
pub(super) struct WrittenFiles {
    order: VecDeque<FileKey>,
    origins: HashMap<FileKey, ContentOrigin>,
}

impl WrittenFiles {
    /// Reads the file from the journal's directory; empty if it is missing or its seal is invalid: then more content counts as original and is kept.
    pub(super) fn read(directory: &Dir, seals: &JournalSealer) -> Self {
        let bytes = directory.read(NAME).unwrap_or_default();
        let mut written = Self::default();
        let (records, _) =
            seals.unseal_file(SEALED_AS, &bytes).unwrap_or_default().as_chunks::<RECORD_BYTES>();
        for record in records {
            let (keys, _) = record.as_chunks();
            let [key, root] = keys else { continue };
            let origin = if *root == [0; 16] {
                ContentOrigin::Gate
            } else {
                ContentOrigin::DerivedFrom(CallId::from_bytes(*root))
            };
            written.add(*key, origin);
        }
        written
    }

    pub(super) fn get(&self, key: &FileKey) -> Option<ContentOrigin> {
        self.origins.get(key).copied()
    }

    pub(super) fn add(&mut self, key: FileKey, origin: ContentOrigin) {
        if origin != ContentOrigin::Elsewhere && self.origins.insert(key, origin).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > MAX_FILES {
            self.order.pop_front().iter().for_each(|oldest| _ = self.origins.remove(oldest));
        }
    }

    pub(super) fn write(&self, directory: &Dir, seals: &JournalSealer) -> io::Result<()> {
        let mut records = Vec::with_capacity(self.order.len() * RECORD_BYTES);
        for key in &self.order {
            let root = match self.origins.get(key) {
                Some(ContentOrigin::DerivedFrom(root)) => root.to_bytes(),
                _ => [0; 16],
            };
            records.extend_from_slice(key);
            records.extend_from_slice(&root);
        }
        write_atomically(directory, NAME, &seals.seal_file(SEALED_AS, &records))
    }
}
