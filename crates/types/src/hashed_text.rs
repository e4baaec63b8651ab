//! A text with its SHA-256, computed at most once.
//!
//! The audit record of a call holds the digest of its answer, and a read answers with the digest of the file. Both are the digest of one text, which
//! passes from the file reader through the tool to the gate. Nothing but this module computes it, from the bytes that it belongs to, and nothing can
//! exchange one of the two: so the gate records it without hashing the answer again, and no tool can have a wrong digest recorded.
//!
//! ```compile_fail
//! # use toolgate_types::{HashedText, Sha256};
//! let forged = HashedText { text: "one".to_owned(), sha256: Sha256::of(b"another").into() };
//! ```

use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, Scope, ScopedJoinHandle};

use crate::Sha256;
use crate::digest::Sha256Hasher;

/// How many chunks are queued for the hashing thread before a writer blocks: waking a thread takes long on a busy machine.
const MAX_QUEUED_CHUNKS: usize = 64;

/// An immutable text that computes its digest when it is first asked for.
#[derive(Clone, Debug, Default)]
pub struct HashedText {
    text: String,
    sha256: OnceLock<Sha256>,
}

impl HashedText {
    /// The digest of the text.
    #[must_use]
    pub fn sha256(&self) -> Sha256 {
        *self.sha256.get_or_init(|| Sha256::of(self.text.as_bytes()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text without its digest.
    #[must_use]
    pub fn into_string(self) -> String {
        self.text
    }
}

impl Deref for HashedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for HashedText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl From<String> for HashedText {
    fn from(text: String) -> Self {
        Self { text, sha256: OnceLock::new() }
    }
}

impl From<&str> for HashedText {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<HashedText> for String {
    fn from(text: HashedText) -> Self {
        text.into_string()
    }
}

impl PartialEq for HashedText {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for HashedText {}

impl PartialEq<str> for HashedText {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

impl PartialEq<&str> for HashedText {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

impl PartialEq<String> for HashedText {
    fn eq(&self, other: &String) -> bool {
        self.text == *other
    }
}

/// Collects chunks of a large content while a second thread hashes them: hashing takes longer than reading.
///
/// Every chunk goes to the text and to the hash by one call, so the digest is that of the text. Chunks that are not UTF-8 are only hashed.
pub struct HashedTextWriter<'scope> {
    /// `None` if the content is not text.
    text: Option<String>,
    bytes: u64,
    hashing: Hashing<'scope>,
}

enum Hashing<'scope> {
    Parallel(SyncSender<Vec<u8>>, ScopedJoinHandle<'scope, Sha256>),
    /// No thread could be started.
    Inline(Sha256Hasher),
}

/// A content that was collected and hashed.
#[derive(Debug)]
pub struct HashedContent {
    /// `None` if it is not text.
    pub text: Option<HashedText>,
    /// Its size.
    pub bytes: u64,
    /// Its digest.
    pub sha256: Sha256,
}

impl<'scope> HashedTextWriter<'scope> {
    /// Begins a content. `capacity` is the expected number of bytes.
    pub fn new(scope: &'scope Scope<'scope, '_>, capacity: usize) -> Self {
        let (chunks, to_hash) = sync_channel::<Vec<u8>>(MAX_QUEUED_CHUNKS);
        let thread = thread::Builder::new().spawn_scoped(scope, move || {
            let mut hasher = Sha256Hasher::new();
            to_hash.iter().for_each(|chunk| hasher.update(&chunk));
            hasher.finish()
        });
        let hashing = thread.map_or_else(
            |_| Hashing::Inline(Sha256Hasher::new()),
            |thread| Hashing::Parallel(chunks, thread),
        );
        Self { text: Some(String::with_capacity(capacity)), bytes: 0, hashing }
    }

    /// Appends a chunk, but not an incomplete character at its end: that is returned, and belongs in front of the next chunk.
    #[must_use]
    pub fn push(&mut self, mut chunk: Vec<u8>) -> Vec<u8> {
        let incomplete = match self.text {
            Some(_) => chunk.split_off(complete_utf8_len(&chunk)),
            None => Vec::new(),
        };
        self.append(chunk);
        incomplete
    }

    /// Drops the text, because the content is not text for its reader. It is still hashed.
    pub fn discard_text(&mut self) {
        self.text = None;
    }

    /// Appends the last bytes, waits for the hash and returns the content.
    ///
    /// # Errors
    /// The hashing thread ended early.
    pub fn finish(mut self, last: Vec<u8>) -> io::Result<HashedContent> {
        self.append(last);
        let Self { text, bytes, hashing } = self;
        let sha256 = match hashing {
            Hashing::Inline(hasher) => hasher.finish(),
            Hashing::Parallel(chunks, thread) => {
                drop(chunks);
                thread.join().map_err(|_| io::Error::from(ErrorKind::Other))?
            }
        };
        let text = text.map(|text| HashedText { text, sha256: sha256.into() });
        Ok(HashedContent { text, bytes, sha256 })
    }

    fn append(&mut self, chunk: Vec<u8>) {
        self.bytes += chunk.len() as u64;
        self.text = self.text.take().and_then(|mut text| {
            text.push_str(std::str::from_utf8(&chunk).ok()?);
            Some(text)
        });
        match &mut self.hashing {
            // The thread receives until the channel closes. If it panicked, `finish` reports that.
            Hashing::Parallel(chunks, _) => drop(chunks.send(chunk)),
            Hashing::Inline(hasher) => hasher.update(&chunk),
        }
    }
}

/// The length without an incomplete character at the end. Invalid UTF-8 may be cut anywhere.
fn complete_utf8_len(bytes: &[u8]) -> usize {
    let last_begins = bytes.iter().rev().take(4).position(|byte| byte & 0b1100_0000 != 0b1000_0000);
    let Some(begin) = last_begins.map(|back| bytes.len() - back - 1) else { return bytes.len() };
    match bytes.get(begin..).map(std::str::from_utf8) {
        Some(Err(error)) if error.error_len().is_none() => begin,
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes the chunks as a reader does: with what was left of the last one in front.
    fn write(chunks: &[Vec<u8>]) -> HashedContent {
        thread::scope(|scope| {
            let mut writer = HashedTextWriter::new(scope, 0);
            let mut left = Vec::new();
            for chunk in chunks {
                left = writer.push([left, chunk.clone()].concat());
            }
            writer.finish(left).unwrap()
        })
    }

    fn assert_is(content: &HashedContent, bytes: &[u8]) {
        assert_eq!((content.sha256, content.bytes), (Sha256::of(bytes), bytes.len() as u64));
        let text = std::str::from_utf8(bytes).ok();
        assert_eq!(content.text.as_deref(), text);
        if let Some(text) = &content.text {
            assert_eq!(text.sha256(), Sha256::of(text.as_bytes()));
        }
    }

    proptest! {
        #[test]
        fn a_text_in_chunks_has_the_digest_of_the_whole(
            text in "[aé漢🦀\n]{0,40}", cuts in prop::collection::vec(0..160_usize, 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).chain([0, text.len()]).collect();
            cuts.sort_unstable();
            let chunks: Vec<Vec<u8>> = cuts.windows(2).map(|cut| text.as_bytes()[cut[0]..cut[1]].to_vec()).collect();
            let content = write(&chunks);
            prop_assert!(content.text.is_some());
            assert_is(&content, text.as_bytes());
        }

        #[test]
        fn bytes_in_chunks_have_the_digest_of_the_whole(
            chunks in prop::collection::vec(prop::collection::vec(prop_oneof![Just(b'a'), Just(0xc3), any::<u8>()], 0..6), 0..6),
        ) {
            assert_is(&write(&chunks), &chunks.concat());
        }
    }

    #[test]
    fn a_discarded_text_is_hashed_and_not_returned() {
        let content = thread::scope(|scope| {
            let mut writer = HashedTextWriter::new(scope, 0);
            assert_eq!(writer.push(b"a\xc3".to_vec()), b"\xc3");
            writer.discard_text();
            assert!(writer.push(b"\xc3\xa9".to_vec()).is_empty());
            writer.finish(b"z".to_vec()).unwrap()
        });
        assert_eq!((content.text, content.bytes), (None, 4));
        assert_eq!(content.sha256, Sha256::of("aéz".as_bytes()));
    }

    #[test]
    fn a_text_equals_any_text_of_the_same_letters() {
        let text = HashedText::from("text");
        assert_eq!(text.sha256(), Sha256::of(b"text"));
        assert_eq!(text, HashedText::from("text".to_owned()), "whether hashed or not");
        let owned = "text".to_owned();
        assert!(text == *"text" && text == "text" && text == owned && text != "Text");
        assert_eq!((text.clone().sha256(), String::from(text)), (Sha256::of(b"text"), "text".to_owned()));
    }
}
