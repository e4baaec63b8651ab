//! What a tool says while it runs, kept until it is told on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use toolgate_gate::{Fraction, Progress, ProgressUpdate};

use crate::command::sanitize;

/// Collects what a tool says until somebody takes it, however fast it speaks and however rarely it is asked for.
///
/// Whoever looks on wants to see the newest: what is too long loses its beginning.
#[derive(Debug)]
pub struct ProgressBuffer {
    max_bytes: usize,
    /// As the tool said it.
    pending: Mutex<ProgressChunk>,
    more: Notify,
}

/// What a tool said since it was last told on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgressChunk {
    /// In words.
    pub text: String,
    /// How far it was when it last said so.
    pub fraction: Option<Fraction>,
}

impl ProgressBuffer {
    /// What was heard is told on not more often than this.
    pub const FORWARD_INTERVAL: Duration = Duration::from_millis(40);

    /// Keeps no more than so many bytes of what is said.
    #[must_use]
    pub fn with_limit(longest: usize) -> Arc<Self> {
        Arc::new(Self { max_bytes: longest, pending: Mutex::default(), more: Notify::new() })
    }

    /// What a tool is given to speak into.
    #[must_use]
    pub fn sink(self: &Arc<Self>) -> Progress {
        let listener = Arc::clone(self);
        Arc::new(move |said: ProgressUpdate<'_>| listener.push(said))
    }

    fn push(&self, said: ProgressUpdate<'_>) {
        let mut kept = self.lock();
        kept.fraction = said.fraction.or(kept.fraction);
        kept.text.push_str(said.text);
        // Twice as much as is told, so that what is kept is not moved with every word.
        if kept.text.len() > self.max_bytes.saturating_mul(2) {
            keep_newest(&mut kept.text, self.max_bytes);
        }
        drop(kept);
        self.more.notify_one();
    }

    /// Waits until something was said. There may be nothing to see in it.
    pub async fn changed(&self) {
        self.more.notified().await;
    }

    /// What was said and not taken yet, as a person would see it; nothing where there is nothing to see.
    #[must_use]
    pub fn take(&self) -> Option<ProgressChunk> {
        let ProgressChunk { text: words, fraction: share } = std::mem::take(&mut *self.lock());
        let mut words = sanitize(&words);
        keep_newest(&mut words, self.max_bytes);
        (!words.is_empty()).then_some(ProgressChunk { text: words, fraction: share })
    }

    fn lock(&self) -> MutexGuard<'_, ProgressChunk> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops the beginning of what is longer than this, whole characters.
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
            // A character is kept whole or not at all.
            (&["é0123456789abcdef"], said("0123456789abcdef")),
            (&["é0123456789abcde"], said("0123456789abcde")),
            (&["é0123456789abcd"], said("é0123456789abcd")),
            // What only a terminal obeys is not told, also where it came in pieces, and makes nothing else too long.
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

    /// One thing that happens to a listener.
    #[derive(Clone, Debug)]
    enum Step {
        Say(String, Option<u8>),
        Take,
    }

    /// `text` is a pattern for what is said at a time.
    fn steps(text: &'static str) -> impl Strategy<Value = Vec<Step>> {
        let say = (text, prop::option::of(any::<u8>())).prop_map(|(words, done)| Step::Say(words, done));
        prop::collection::vec(prop_oneof![4 => say, 1 => Just(Step::Take)], 0..24)
    }

    fn share(done: u8) -> Fraction {
        Fraction { done: f64::from(done), total: None }
    }

    /// Everything that was said since the last time, and the last number.
    #[derive(Default)]
    struct Model {
        whole: String,
        share: Option<Fraction>,
    }

    impl Model {
        /// The longest end of it that is not too long, one character after the other.
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

    /// Takes the steps with a listener and with the model; what each told, and how much had been said.
    fn both(steps: Vec<Step>) -> Vec<(Option<ProgressChunk>, Option<ProgressChunk>, usize)> {
        let (listener, mut model) = (ProgressBuffer::with_limit(LONGEST), Model::default());
        let ear = listener.sink();
        let mut told = Vec::new();
        for step in steps.into_iter().chain([Step::Take]) {
            match step {
                Step::Say(words, done) => {
                    let share = done.map(share);
                    ear(ProgressUpdate { text: &words, fraction: share });
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

        /// Where so much was said that some is forgotten, that may be the beginning of a sequence, whose end is then seen.
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
