//! A tool's progress output, buffered until it is forwarded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use toolgate_gate::{Fraction, Progress, ProgressUpdate};
use toolgate_text::{StyledText, sanitize, sgr_boundary};

/// Buffers a tool's progress output in bounded memory, however fast the tool writes and however rarely it is read.
///
/// A viewer wants the newest output, so the oldest is dropped.
#[derive(Debug)]
pub struct ProgressBuffer {
    max_bytes: usize,
    colours: Colours,
    /// Unsanitised, as the tool wrote it.
    pending: Mutex<ProgressChunk>,
    more: Notify,
}

/// Whether a buffer keeps the colours of what a tool writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colours {
    /// For models, and for clients that pass it on to them.
    Dropped,
    /// For screens of people.
    Kept,
}

/// A tool's output since the last chunk was taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgressChunk {
    /// The text.
    pub text: String,
    /// The last reported fraction.
    pub fraction: Option<Fraction>,
}

impl ProgressBuffer {
    /// Output is forwarded at most once per interval.
    pub const FORWARD_INTERVAL: Duration = Duration::from_millis(40);

    /// Keeps at most this many bytes.
    #[must_use]
    pub fn with_limit(longest: usize) -> Arc<Self> {
        Self::new(longest, Colours::Dropped)
    }

    /// The same with the colours that commands write, as SGR, which do not count towards the limit. Only for what people see.
    #[must_use]
    pub fn with_colours(longest: usize) -> Arc<Self> {
        Self::new(longest, Colours::Kept)
    }

    fn new(max_bytes: usize, colours: Colours) -> Arc<Self> {
        Arc::new(Self { max_bytes, colours, pending: Mutex::default(), more: Notify::new() })
    }

    /// The sink that a tool writes to.
    #[must_use]
    pub fn sink(self: &Arc<Self>) -> Progress {
        let listener = Arc::clone(self);
        Arc::new(move |said: ProgressUpdate<'_>| listener.push(said))
    }

    fn push(&self, said: ProgressUpdate<'_>) {
        let mut kept = self.lock();
        kept.fraction = said.fraction.or(kept.fraction);
        let coloured = said.coloured.filter(|_| self.colours == Colours::Kept);
        kept.text.push_str(coloured.unwrap_or(said.text));
        // Up to twice the limit is buffered, so that the buffer is not shifted with every update.
        if kept.text.len() > self.max_bytes.saturating_mul(2) {
            let from = sgr_boundary(&kept.text, kept.text.len() - self.max_bytes);
            kept.text.drain(..from);
        }
        drop(kept);
        self.more.notify_one();
    }

    /// Waits for an update. Its text may turn out to be empty after sanitising.
    pub async fn changed(&self) {
        self.more.notified().await;
    }

    /// The text since the last call, sanitised; `None` if nothing visible remains.
    #[must_use]
    pub fn take(&self) -> Option<ProgressChunk> {
        let ProgressChunk { text: words, fraction: share } = std::mem::take(&mut *self.lock());
        let words = match self.colours {
            Colours::Dropped => {
                let mut words = sanitize(&words);
                keep_newest(&mut words, self.max_bytes);
                words
            }
            Colours::Kept => {
                let mut words = StyledText::sanitized(&words);
                words.keep_newest(self.max_bytes);
                words.to_sgr()
            }
        };
        (!words.is_empty()).then_some(ProgressChunk { text: words, fraction: share })
    }

    fn lock(&self) -> MutexGuard<'_, ProgressChunk> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops the beginning beyond this length, at a character boundary.
fn keep_newest(text: &mut String, longest: usize) {
    let from = text.ceil_char_boundary(text.len().saturating_sub(longest));
    text.drain(..from);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toolgate_text::is_invisible;

    use super::*;

    const LONGEST: usize = 16;

    fn said(words: &str) -> Option<ProgressChunk> {
        Some(ProgressChunk { text: words.to_owned(), fraction: None })
    }

    #[test]
    fn what_is_said_is_told_once_and_the_newest_of_it() {
        for (pieces, told) in [
            (&[][..], None),
            (&[""], None),
            (&["one\n", "two\n"], said("one\ntwo\n")),
            (&["0123456789abcdef"], said("0123456789abcdef")),
            (&["0123456789abcdefg"], said("123456789abcdefg")),
            (&["0123456789abcdef", "0123456789abcdef", "g"], said("123456789abcdefg")),
            // A character is kept whole or dropped.
            (&["é0123456789abcdef"], said("0123456789abcdef")),
            (&["é0123456789abcde"], said("0123456789abcde")),
            (&["é0123456789abcd"], said("é0123456789abcd")),
            // Terminal control sequences are dropped, also when they arrive in pieces, and do not count towards the limit.
            (&["\u{1b}[3", "1mred", "\u{1b}[0m\u{202e}"], said("red")),
            (&["\u{1b}[31m0123456789abcdef\u{1b}[0m"], said("0123456789abcdef")),
            (&["10%\r", "20%"], said("20%")),
            (&["\u{1b}[0m\u{200b}"], None),
        ] {
            let listener = ProgressBuffer::with_limit(LONGEST);
            let ear = listener.sink();
            for piece in pieces {
                ear((*piece).into());
            }
            assert_eq!(listener.take(), told, "{pieces:?}");
            assert_eq!(listener.take(), None, "{pieces:?}");
        }
    }

    #[test]
    fn colours_are_for_those_who_ask_for_them() {
        let update =
            ProgressUpdate { coloured: Some("\u{1b}[31mred\u{1b}[0m\n"), ..ProgressUpdate::from("red\n") };
        for (buffer, told) in [
            (ProgressBuffer::with_limit(LONGEST), "red\n"),
            (ProgressBuffer::with_colours(LONGEST), "\u{1b}[31mred\u{1b}[0m\n"),
        ] {
            buffer.sink()(update);
            assert_eq!(buffer.take(), said(told));
            // Nothing else than colours, also if it claims to be a coloured text.
            buffer.sink()(ProgressUpdate { coloured: Some("\u{1b}[8m\u{1b}[2Jx\u{1b}]8;;y\u{7}"), ..update });
            let told = buffer.take().unwrap().text;
            assert!(!told.contains('\u{1b}') && (told == "x" || told == "red\n"), "{told:?}");
        }
    }

    #[test]
    fn a_flood_of_colours_is_bounded_and_no_sequence_is_cut() {
        let buffer = ProgressBuffer::with_colours(LONGEST);
        for number in 0..100 {
            let coloured = format!("\u{1b}[1;9{}mab\u{1b}[0m", 1 + number % 6);
            buffer.sink()(ProgressUpdate { coloured: Some(&coloured), ..ProgressUpdate::from("ab") });
            assert!(buffer.lock().text.len() <= 2 * LONGEST);
        }
        let told = buffer.take().unwrap().text;
        let plain = toolgate_text::without_sgr(&told);
        assert!(
            plain.len() <= LONGEST && plain.chars().all(|character| "ab".contains(character)),
            "{told:?}"
        );
    }

    #[tokio::test]
    async fn whoever_waits_is_told_also_of_what_was_said_before() {
        let listener = ProgressBuffer::with_limit(LONGEST);
        let ear = listener.sink();
        for words in ["before", "more", "words"] {
            ear(words.into());
        }
        listener.changed().await;
        assert_eq!(listener.take(), said("beforemorewords"));
        let waiting = tokio::spawn({
            let listener = Arc::clone(&listener);
            async move {
                listener.changed().await;
                listener.take()
            }
        });
        tokio::task::yield_now().await;
        ear("while somebody".into());
        assert_eq!(waiting.await.unwrap(), said("while somebody"));
    }

    /// One operation on a buffer.
    #[derive(Clone, Debug)]
    enum Step {
        Say(String, Option<u8>),
        Take,
    }

    /// `text` is the pattern of one update.
    fn steps(text: &'static str) -> impl Strategy<Value = Vec<Step>> {
        let say = (text, prop::option::of(any::<u8>())).prop_map(|(words, done)| Step::Say(words, done));
        prop::collection::vec(prop_oneof![4 => say, 1 => Just(Step::Take)], 0..24)
    }

    fn share(done: u8) -> Fraction {
        Fraction { done: f64::from(done), total: None }
    }

    /// Everything since the last take, and the last number.
    #[derive(Default)]
    struct Model {
        whole: String,
        share: Option<Fraction>,
    }

    impl Model {
        /// The longest suffix within the limit, character by character.
        fn take(&mut self) -> Option<ProgressChunk> {
            let Self { whole, share } = std::mem::take(self);
            let seen = sanitize(&whole);
            let mut newest = Vec::new();
            for character in seen.chars().rev() {
                let length: usize = newest.iter().copied().map(char::len_utf8).sum();
                if length + character.len_utf8() > LONGEST {
                    break;
                }
                newest.push(character);
            }
            let words: String = newest.into_iter().rev().collect();
            (!words.is_empty()).then_some(ProgressChunk { text: words, fraction: share })
        }
    }

    /// Applies the steps to a buffer and to the model; the results of both, and how much had been written.
    fn both(steps: Vec<Step>) -> Vec<(Option<ProgressChunk>, Option<ProgressChunk>, usize)> {
        let (listener, mut model) = (ProgressBuffer::with_limit(LONGEST), Model::default());
        let ear = listener.sink();
        let mut told = Vec::new();
        for step in steps.into_iter().chain([Step::Take]) {
            match step {
                Step::Say(words, done) => {
                    let share = done.map(share);
                    ear(ProgressUpdate { fraction: share, ..words.as_str().into() });
                    assert!(listener.lock().text.len() <= 2 * LONGEST, "what nobody takes is not kept");
                    model.whole += &words;
                    model.share = share.or(model.share);
                }
                Step::Take => {
                    let length = model.whole.len();
                    told.push((listener.take(), model.take(), length));
                }
            }
        }
        told
    }

    proptest! {
        #[test]
        fn plain_words_are_kept_like_by_whoever_remembers_everything(steps in steps("[ -~\\n\\té漢🙂]{0,20}")) {
            for (told, expected, _) in both(steps) {
                prop_assert_eq!(told, expected);
            }
        }

        /// When the buffer overflows, the dropped part may be the beginning of an escape sequence, whose end then becomes visible.
        #[test]
        fn odd_words_are_within_the_bound_and_hide_nothing(steps in steps("[\u{1b}\u{9b}\\[m31;\r\n\u{8}\u{202e}\u{200b}aé🙂]{0,20}")) {
            for (told, expected, length) in both(steps) {
                if length <= 2 * LONGEST {
                    prop_assert_eq!(&told, &expected);
                }
                let words = told.map(|told| told.text).unwrap_or_default();
                prop_assert!(words.len() <= LONGEST && !words.chars().any(is_invisible), "{:?}", words);
            }
        }
    }
}
