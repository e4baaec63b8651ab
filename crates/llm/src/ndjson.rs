//! Incremental parser for newline-delimited JSON.

use toolgate_text::line_buffer::LineBuffer;

use crate::error::{ErrorKind, ProviderError};
use crate::frame::StreamFrame;
use crate::limits::MAX_STEP_BYTES;

/// Takes bytes and emits lines; blank lines are skipped.
#[derive(Debug, Default)]
pub(crate) struct LineParser {
    lines: LineBuffer,
}

impl LineParser {
    /// Takes more bytes, and emits every line that they complete.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        each: &mut impl FnMut(StreamFrame<'_>) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        self.lines.buffer().extend_from_slice(bytes);
        while let Some(line) = self.lines.next_line() {
            check_length(line.len())?;
            emit(line, true, each)?;
        }
        check_length(self.lines.pending_bytes())
    }

    /// The stream has ended. An incomplete line is emitted as such.
    pub(crate) fn end(
        &mut self,
        each: &mut impl FnMut(StreamFrame<'_>) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        emit(self.lines.take_rest(), false, each)
    }
}

fn check_length(bytes: usize) -> Result<(), ProviderError> {
    if bytes > MAX_STEP_BYTES {
        let message = format!("a line of the stream has more than {MAX_STEP_BYTES} bytes");
        return Err(ProviderError::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}

fn emit(
    line: &[u8],
    whole: bool,
    each: &mut impl FnMut(StreamFrame<'_>) -> Result<(), ProviderError>,
) -> Result<(), ProviderError> {
    let data = line.trim_ascii();
    if data.is_empty() { Ok(()) } else { each(StreamFrame { event: "", data, is_complete: whole }) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed<'b>(pieces: impl IntoIterator<Item = &'b [u8]>) -> Vec<(Vec<u8>, bool)> {
        let (mut parser, mut seen) = (LineParser::default(), Vec::new());
        let mut each = |frame: StreamFrame<'_>| {
            seen.push((frame.data.to_vec(), frame.is_complete));
            Ok(())
        };
        for piece in pieces {
            parser.feed(piece, &mut each).unwrap();
        }
        parser.end(&mut each).unwrap();
        seen
    }

    #[test]
    fn a_line_without_an_end_is_too_large() {
        let (mut parser, piece) = (LineParser::default(), vec![b'x'; 1 << 20]);
        let failed = (0..64).find_map(|_| parser.feed(&piece, &mut |_| Ok(())).err()).unwrap();
        assert_eq!(failed.kind, ErrorKind::TooLarge);
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_lines(text in "[ab\r\n ]{0,60}", cuts in proptest::collection::vec(0usize..60, 0..8)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            let mut lines: Vec<_> = text.split('\n').map(|line| (line.trim().as_bytes().to_vec(), true)).collect();
            lines.last_mut().unwrap().1 = false;
            lines.retain(|(line, _)| !line.is_empty());
            prop_assert_eq!(parsed(pieces), lines);
        }
    }
}
