//! The last output of a background command, read with a cursor.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use toolgate_sandbox::Stream;
use toolgate_text::{Sanitizer, TerminalEffect};

use crate::capture::Decoder;

/// How much is kept.
const MAX_KEPT_BYTES: usize = 256 * 1024;

/// How much more is collected before the beginning is dropped, so that not every chunk moves the whole text.
const SLACK_BYTES: usize = 64 * 1024;

/// Both streams, sanitised, in the order in which they arrived. A position is the number of bytes before it.
#[derive(Debug, Default)]
pub(super) struct OutputRing {
    text: Mutex<RingText>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct RingText {
    kept: String,
    /// The position of the first kept byte.
    start: u64,
    /// The position up to which it was read by a reader without a cursor of its own.
    read: u64,
    streams: [StreamText; 2],
    last: Option<usize>,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct StreamText {
    decoder: Decoder,
    sanitizer: Sanitizer,
}

/// A part of the output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OutputPart {
    pub(super) text: String,
    /// The position after it.
    pub(super) next: u64,
    /// How many bytes before it were dropped before they were read.
    pub(super) lost: u64,
    /// Whether there is more after it.
    pub(super) more: bool,
}

impl RingText {
    fn end(&self) -> u64 {
        self.start + self.kept.len() as u64
    }

    fn push(&mut self, index: usize, bytes: &[u8]) {
        let Self { kept, streams, last, .. } = self;
        let Some(stream) = streams.get_mut(index) else { return };
        let StreamText { decoder, sanitizer } = stream;
        // The other stream may have left a line without an end.
        if last.replace(index).is_some_and(|last| last != index) && !kept.is_empty() && !kept.ends_with('\n')
        {
            kept.push('\n');
        }
        for character in decoder.push(bytes).chars() {
            sanitizer.push(character, &mut |effect| match effect {
                TerminalEffect::Visible(seen) => kept.push(seen),
                TerminalEffect::Restart | TerminalEffect::NewLine => kept.push('\n'),
                TerminalEffect::Erase | TerminalEffect::Style(_) => {}
            });
        }
        if self.kept.len() > MAX_KEPT_BYTES + SLACK_BYTES {
            let cut = self.kept.ceil_char_boundary(self.kept.len() - MAX_KEPT_BYTES);
            self.kept.drain(..cut);
            self.start += cut as u64;
        }
    }

    /// The output after a position, at most this many bytes of it.
    fn part(&self, after: u64, max_bytes: usize) -> OutputPart {
        let from = after.clamp(self.start, self.end());
        let begin = usize::try_from(from - self.start).unwrap_or(usize::MAX);
        // A position that is within a character was not one of ours.
        let begin = self.kept.ceil_char_boundary(begin);
        let rest = self.kept.get(begin..).unwrap_or_default();
        let text = rest.get(..rest.floor_char_boundary(max_bytes)).unwrap_or_default();
        OutputPart {
            text: text.to_owned(),
            next: self.start + (begin + text.len()) as u64,
            lost: self.start.saturating_sub(after),
            more: text.len() < rest.len(),
        }
    }
}

impl OutputRing {
    pub(super) fn push(&self, stream: Stream, bytes: &[u8]) {
        let index = match stream {
            Stream::Output => 0,
            Stream::Error => 1,
        };
        self.lock().push(index, bytes);
        self.changed.notify_all();
    }

    /// Ends the output, and wakes every waiter.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until there is output after a position or the output is closed; returns whether it is so in time.
    pub(super) fn wait(&self, after: Option<u64>, timeout: Duration) -> bool {
        let state = self.lock();
        let is_silent = |state: &mut RingText| !state.is_closed && state.end() <= after.unwrap_or(state.read);
        let waited = self.changed.wait_timeout_while(state, timeout, is_silent);
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(state);
        !waited.timed_out()
    }

    /// All that is kept.
    pub(super) fn kept(&self) -> String {
        self.lock().kept.clone()
    }

    /// The output after a position; by default after what was read so.
    pub(super) fn read(&self, after: Option<u64>, max_bytes: usize) -> OutputPart {
        let mut state = self.lock();
        let part = state.part(after.unwrap_or(state.read), max_bytes);
        state.read = part.next;
        part
    }

    /// No code panics while holding the lock, so poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, RingText> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_reader_gets_what_is_new_and_may_go_back() {
        let ring = OutputRing::default();
        ring.push(Stream::Output, b"one\n");
        assert_eq!(ring.read(None, 100).text, "one\n");
        assert_eq!(ring.read(None, 100), OutputPart { next: 4, ..OutputPart::default() });
        ring.push(Stream::Error, b"two");
        ring.push(Stream::Output, b"\x1b[31mthree\n");
        let part = ring.read(None, 5);
        assert_eq!((part.text.as_str(), part.next, part.more), ("two\nt", 9, true));
        assert_eq!(ring.read(Some(0), 100).text, "one\ntwo\nthree\n");
        assert_eq!(ring.read(Some(u64::MAX), 100).text, "");
    }

    proptest! {
        /// Read in pieces from any position, the output is the end of what was written, and what is missing is counted.
        #[test]
        fn pieces_make_the_whole(
            writes in prop::collection::vec((0_usize..90_000, prop::sample::select(vec!['a', 'é', '€', '🙂'])), 1..12),
            piece in 1_usize..200_000, after in 0_u64..1_000_000,
        ) {
            let (ring, mut whole) = (OutputRing::default(), String::new());
            for (count, character) in writes {
                let text: String = std::iter::repeat_n(character, count).collect();
                ring.push(Stream::Output, text.as_bytes());
                whole.push_str(&text);
            }
            let (mut seen, mut first, mut at) = (String::new(), None, after);
            loop {
                let part = ring.read(Some(at), piece.max(4));
                first.get_or_insert(part.lost);
                seen.push_str(&part.text);
                prop_assert!(part.text.len() <= piece.max(4));
                at = part.next;
                if !part.more { break }
            }
            prop_assert_eq!(at, whole.len() as u64);
            prop_assert!(whole.ends_with(&seen));
            let missing = (whole.len() - seen.len()) as u64;
            // A cursor within a character begins at the next one.
            prop_assert!(missing.saturating_sub(after.min(whole.len() as u64)) <= first.unwrap_or(0) + 3);
            prop_assert!(seen.len() >= whole.len().saturating_sub(usize::try_from(after).unwrap()).min(MAX_KEPT_BYTES).saturating_sub(3));
        }
    }
}
