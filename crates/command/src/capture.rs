//! Captures a command's output as it arrives: each stream alone, and both line by line in the order in which lines were completed.

use toolgate_sandbox::Stream;
use toolgate_text::{Sanitizer, SgrWriter, TerminalEffect, TextStyle};

/// The output of one command.
#[derive(Debug)]
pub(crate) struct Capture {
    /// How many bytes of each separate stream are kept. Output may be long; a caller that does not use the separate streams need not hold it twice.
    max_stream_bytes: usize,
    output: Channel,
    error: Channel,
    both: String,
}

/// A finished capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub error: String,
    /// Both, in the order in which lines were completed.
    pub both: String,
}

/// What a chunk adds to the live output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveChunk {
    /// The text.
    pub(crate) text: String,
    /// The same with its colours as SGR, for a screen; `None` if it has none.
    pub(crate) coloured: Option<String>,
}

/// One stream.
#[derive(Debug, Default)]
struct Channel {
    decoder: Decoder,
    cleaner: Sanitizer,
    /// How what follows looks. The kept text has no styles.
    style: TextStyle,
    /// The incomplete last line.
    line: String,
    text: TruncatedText,
}

/// The bounded beginning of a text.
#[derive(Debug, Default)]
struct TruncatedText {
    text: String,
    /// Whether something was dropped; nothing is added after that.
    is_full: bool,
}

impl TruncatedText {
    /// Adds as much of a line as fits.
    fn add(&mut self, line: &str, most: usize) {
        if !self.is_full {
            let room = line.floor_char_boundary(most.saturating_sub(self.text.len()));
            self.is_full = room < line.len();
            self.text.push_str(line.get(..room).unwrap_or_default());
        }
    }
}

impl Capture {
    /// An empty capture that keeps at most this much of each separate stream.
    pub(crate) fn with_limit(max_stream_bytes: usize) -> Self {
        Self { max_stream_bytes, output: Channel::default(), error: Channel::default(), both: String::new() }
    }

    /// Takes a chunk; returns the text that it adds, for live progress. A line that is overwritten appears twice in the live text.
    pub(crate) fn push(&mut self, stream: Stream, bytes: &[u8]) -> LiveChunk {
        let channel = match stream {
            Stream::Output => &mut self.output,
            Stream::Error => &mut self.error,
        };
        let text = channel.decoder.push(bytes);
        channel.write(&text, &mut self.both, self.max_stream_bytes)
    }

    /// Ends the capture. A character that a limit cut is dropped; one that the command left incomplete is shown as U+FFFD.
    pub(crate) fn finish(mut self, cut: bool) -> Captured {
        for channel in [&mut self.output, &mut self.error] {
            let rest = channel.decoder.finish();
            if !cut {
                channel.write(rest, &mut self.both, self.max_stream_bytes);
            }
        }
        for channel in [&mut self.output, &mut self.error] {
            if !self.both.is_empty() && !self.both.ends_with('\n') && !channel.line.is_empty() {
                self.both.push('\n');
            }
            self.both.push_str(&channel.line);
            channel.text.add(&channel.line, self.max_stream_bytes);
        }
        Captured { output: self.output.text.text, error: self.error.text.text, both: self.both }
    }
}

impl Channel {
    fn write(&mut self, text: &str, both: &mut String, each: usize) -> LiveChunk {
        let (mut live, mut coloured) = (String::new(), SgrWriter::default());
        let Self { cleaner, style, line, text: finished, .. } = self;
        for character in text.chars() {
            cleaner.push(character, &mut |stroke| match stroke {
                TerminalEffect::Visible(seen) => {
                    line.push(seen);
                    live.push(seen);
                    coloured.push(seen, *style);
                }
                TerminalEffect::Style(next) => *style = next,
                TerminalEffect::Restart => {
                    line.clear();
                    live.push('\n');
                    coloured.push('\n', *style);
                }
                TerminalEffect::Erase => drop(line.pop()),
                TerminalEffect::NewLine => {
                    line.push('\n');
                    finished.add(line, each);
                    both.push_str(line);
                    line.clear();
                    live.push('\n');
                    coloured.push('\n', *style);
                }
            });
        }
        let coloured = coloured.has_styles().then(|| coloured.finish());
        LiveChunk { text: live, coloured }
    }
}

/// Incremental UTF-8 decoding, where a chunk may end within a character.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The bytes of an incomplete character.
    begun: Vec<u8>,
}

impl Decoder {
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        let mut bytes = [std::mem::take(&mut self.begun).as_slice(), bytes].concat();
        let begun = unfinished(&bytes);
        self.begun = bytes.split_off(bytes.len() - begun);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The replacement for an incomplete character.
    fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.begun).is_empty() { "" } else { "\u{fffd}" }
    }
}

/// The number of trailing bytes that begin an incomplete character.
fn unfinished(bytes: &[u8]) -> usize {
    const MAX_PARTIAL_BYTES: usize = 3;
    let tails = (1..=MAX_PARTIAL_BYTES.min(bytes.len())).rev();
    let is_begun = |length: &usize| {
        let tail = bytes.get(bytes.len() - length..).unwrap_or_default();
        std::str::from_utf8(tail).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    tails.filter(is_begun).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toolgate_text::sanitize;

    use super::*;

    #[test]
    fn streams_are_cut_and_what_they_make_together_is_not() {
        let mut capture = Capture::with_limit(5);
        capture.push(Stream::Output, "one\n€€\n".as_bytes());
        capture.push(Stream::Error, b"bad\n");
        capture.push(Stream::Output, b"more");
        let captured = capture.finish(false);
        assert_eq!(
            (&*captured.output, &*captured.error, &*captured.both),
            ("one\n", "bad\n", "one\n€€\nbad\nmore")
        );
    }

    #[test]
    fn lines_stay_whole_and_in_their_order() {
        let mut capture = Capture::with_limit(usize::MAX);
        capture.push(Stream::Output, b"one ");
        capture.push(Stream::Error, b"warning\n");
        capture.push(Stream::Output, b"line\nend");
        capture.push(Stream::Error, b"bad end");
        let captured = capture.finish(false);
        assert_eq!(captured.both, "warning\none line\nend\nbad end");
        assert_eq!(
            (captured.output.as_str(), captured.error.as_str()),
            ("one line\nend", "warning\nbad end")
        );
    }

    #[test]
    fn a_character_in_two_pieces_is_one() {
        let mut capture = Capture::with_limit(usize::MAX);
        let euro = "€".as_bytes();
        assert_eq!(capture.push(Stream::Output, &euro[..2]).text, "");
        assert_eq!(capture.push(Stream::Output, &euro[2..]).text, "€");
        assert_eq!(capture.push(Stream::Output, b"x\xff\xe2").text, "x\u{fffd}");
        assert_eq!(capture.finish(false).output, "€x\u{fffd}\u{fffd}");
    }

    #[test]
    fn a_character_that_a_limit_cut_is_left_out() {
        let mut capture = Capture::with_limit(usize::MAX);
        capture.push(Stream::Output, b"x\xe2\x82");
        assert_eq!(capture.finish(true).output, "x");
    }

    #[test]
    fn whoever_watches_sees_every_state() {
        let mut capture = Capture::with_limit(usize::MAX);
        assert_eq!(capture.push(Stream::Output, b"10%\r20").text, "10%\n20");
        assert_eq!(capture.push(Stream::Output, b"%\n").text, "%\n");
        assert_eq!(capture.finish(false).output, "20%\n");
    }

    #[test]
    fn colours_are_in_the_live_output_alone() {
        let mut capture = Capture::with_limit(usize::MAX);
        let plain = capture.push(Stream::Output, b"plain\n");
        assert_eq!(plain, LiveChunk { text: "plain\n".to_owned(), coloured: None });
        // A style goes on in the next chunk of its stream, and every chunk is complete in itself.
        let red = capture.push(Stream::Output, b"\x1b[3");
        assert_eq!(red, LiveChunk::default());
        let red = capture.push(Stream::Output, b"1mre");
        assert_eq!((&*red.text, red.coloured.as_deref()), ("re", Some("\u{1b}[31mre\u{1b}[0m")));
        let other = capture.push(Stream::Error, b"bad\n");
        assert_eq!((&*other.text, other.coloured), ("bad\n", None));
        let red = capture.push(Stream::Output, b"d\x1b[8;42m hidden\x1b[0m\n");
        assert_eq!(
            (&*red.text, red.coloured.as_deref()),
            ("d hidden\n", Some("\u{1b}[31md hidden\u{1b}[0m\n"))
        );
        let captured = capture.finish(false);
        assert_eq!((&*captured.both, &*captured.output), ("plain\nbad\nred hidden\n", "plain\nred hidden\n"));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(bytes in prop::collection::vec(prop_oneof![
            prop::sample::select(b"\x1b[]0;m\r\n\x08\xe2\x82\xac\xf0\x9f\x99\x82\xffa".to_vec()), any::<u8>()
        ], 0..80), cuts in prop::collection::vec(0usize..80, 0..8)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let mut capture = Capture::with_limit(usize::MAX);
            for piece in cuts.windows(2) {
                capture.push(Stream::Output, &bytes[piece[0]..piece[1]]);
            }
            let captured = capture.finish(false);
            prop_assert_eq!(&captured.output, &sanitize(&String::from_utf8_lossy(&bytes)));
            prop_assert_eq!(&captured.output, &captured.both);
        }
    }
}
