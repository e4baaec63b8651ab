//! Incremental parser for server-sent events. It takes linear time, however the stream is split into chunks.

use memchr::{memchr, memchr2};

use crate::error::{ErrorKind, ProviderError};
use crate::frame::StreamFrame;
use crate::limits::MAX_STEP_BYTES;

/// Some servers begin with a UTF-8 byte order mark.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Takes bytes and emits events.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    /// An incomplete line.
    line: Vec<u8>,
    /// An incomplete event.
    event: SseEvent,
    /// Whether a line feed that comes now belongs to the CR before it.
    after_return: bool,
    /// Whether a line was seen.
    begun: bool,
}

#[derive(Debug, Default)]
struct SseEvent {
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
}

impl SseParser {
    /// Takes more bytes, and emits every event that they complete.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        each: &mut impl FnMut(StreamFrame<'_>) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return) && bytes.first() == Some(&b'\n') {
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', bytes) else {
                bounded(self.line.len() + bytes.len())?;
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            let (line, rest) = bytes.split_at_checked(end).unwrap_or_default();
            self.after_return = rest.first() == Some(&b'\r');
            bytes = rest.get(1..).unwrap_or_default();
            self.line_ends_with(line, each)?;
        }
        Ok(())
    }

    /// The stream has ended. An incomplete event is emitted as such.
    pub(crate) fn end(
        &mut self,
        each: &mut impl FnMut(StreamFrame<'_>) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.take_line(&line, each)?;
        }
        self.event.emit(false, each)
    }

    fn line_ends_with(
        &mut self,
        line: &[u8],
        each: &mut impl FnMut(StreamFrame<'_>) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        if self.line.is_empty() {
            return self.take_line(line, each);
        }
        bounded(self.line.len() + line.len())?;
        let mut whole = std::mem::take(&mut self.line);
        whole.extend_from_slice(line);
        let taken = self.take_line(&whole, each);
        whole.clear();
        self.line = whole;
        taken
    }

    fn take_line(
        &mut self,
        line: &[u8],
        each: &mut impl FnMut(StreamFrame<'_>) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        let is_first = !std::mem::replace(&mut self.begun, true);
        let line = line.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first).unwrap_or(line);
        if line.is_empty() {
            return self.event.emit(true, each);
        }
        let colon = memchr(b':', line).unwrap_or(line.len());
        let (field, rest) = line.split_at_checked(colon).unwrap_or_default();
        let value = rest.get(1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => self.event.push(value),
            b"event" => {
                self.event.name.clear();
                self.event.name.extend_from_slice(value);
                Ok(())
            }
            // Comments, `id`, `retry` and unknown fields: no wire here uses them.
            _ => Ok(()),
        }
    }
}

impl SseEvent {
    fn push(&mut self, value: &[u8]) -> Result<(), ProviderError> {
        bounded(self.data.len() + value.len())?;
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        Ok(())
    }

    fn emit(
        &mut self,
        whole: bool,
        each: &mut impl FnMut(StreamFrame<'_>) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        let handed = if std::mem::take(&mut self.has_data) {
            let event = str::from_utf8(&self.name).map_err(|_| {
                ProviderError::new(ErrorKind::Garbled, "an event of the stream has a name that is not text")
            })?;
            each(StreamFrame { event, data: &self.data, is_complete: whole })
        } else {
            Ok(())
        };
        self.name.clear();
        self.data.clear();
        handed
    }
}

/// The events of a stream in these chunks, by name and data. For testing the framing; steps are decoded by [`StepDecoder`](crate::StepDecoder).
///
/// # Errors
/// An event is too large, or its name is not UTF-8.
#[doc(hidden)]
pub fn stream_events(pieces: &[&[u8]]) -> Result<Vec<(String, Vec<u8>)>, ProviderError> {
    let (mut parser, mut events) = (SseParser::default(), Vec::new());
    let mut each = |frame: StreamFrame<'_>| {
        events.push((frame.event.to_owned(), frame.data.to_vec()));
        Ok(())
    };
    pieces.iter().try_for_each(|piece| parser.feed(piece, &mut each))?;
    parser.end(&mut each)?;
    Ok(events)
}

fn bounded(bytes: usize) -> Result<(), ProviderError> {
    if bytes <= MAX_STEP_BYTES {
        return Ok(());
    }
    Err(ProviderError::new(
        ErrorKind::TooLarge,
        format!("an event of the stream has more than {MAX_STEP_BYTES} bytes"),
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Seen = Vec<(String, String, bool)>;

    fn parsed<'b>(pieces: impl IntoIterator<Item = &'b [u8]>) -> Seen {
        let (mut parser, mut seen) = (SseParser::default(), Seen::new());
        let mut each = |frame: StreamFrame<'_>| {
            seen.push((
                frame.event.to_owned(),
                String::from_utf8_lossy(frame.data).into_owned(),
                frame.is_complete,
            ));
            Ok(())
        };
        for piece in pieces {
            parser.feed(piece, &mut each).unwrap();
        }
        parser.end(&mut each).unwrap();
        seen
    }

    /// The reference: all bytes in one buffer, split into lines, line by line.
    fn plainly(bytes: &[u8]) -> Seen {
        let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n");
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let (mut seen, mut name, mut data) = (Seen::new(), String::new(), Vec::<String>::new());
        let mut lines: Vec<&str> = text.split('\n').collect();
        let last = lines.pop().unwrap();
        let mut end = |name: &mut String, data: &mut Vec<String>, whole: bool| {
            if !data.is_empty() {
                seen.push((name.clone(), data.join("\n"), whole));
            }
            name.clear();
            data.clear();
        };
        let field = |line: &str, name: &mut String, data: &mut Vec<String>| {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "data" => data.push(value.to_owned()),
                "event" => *name = value.to_owned(),
                _ => {}
            }
        };
        for line in lines {
            if line.is_empty() { end(&mut name, &mut data, true) } else { field(line, &mut name, &mut data) }
        }
        field(last, &mut name, &mut data);
        end(&mut name, &mut data, false);
        seen
    }

    #[test]
    fn events_are_told_apart() {
        for (bytes, expected) in [
            ("", vec![]),
            ("data: a\n\n", vec![("", "a", true)]),
            ("data:a\r\n\r\n", vec![("", "a", true)]),
            ("data: a\r\rdata:  b\r\r", vec![("", "a", true), ("", " b", true)]),
            ("event: x\ndata: a\ndata: b\n\n", vec![("x", "a\nb", true)]),
            ("event: x\n\ndata: a\n\n", vec![("", "a", true)]),
            (": remark\n\n:\n\nid: 1\nretry: 5\n\ndata\n\n", vec![("", "", true)]),
            ("\u{feff}data: a\n\n", vec![("", "a", true)]),
            ("data: a\n\ndata: b", vec![("", "a", true), ("", "b", false)]),
            ("data: a\n\nevent: x\ndata: b\n", vec![("", "a", true), ("x", "b", false)]),
            ("data: a\n\nevent: x\n", vec![("", "a", true)]),
            ("dat: a\n\n data: b\n\n", vec![]),
        ] {
            let seen = parsed([bytes.as_bytes()]);
            let seen: Vec<_> =
                seen.iter().map(|(name, data, whole)| (name.as_str(), data.as_str(), *whole)).collect();
            assert_eq!(seen, expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_too_large() {
        let (mut parser, piece) = (SseParser::default(), vec![b'x'; 1 << 20]);
        let mut each = |_: StreamFrame<'_>| Ok(());
        let failed = (0..64).find_map(|_| parser.feed(&piece, &mut each).err()).unwrap();
        assert_eq!(failed.kind, ErrorKind::TooLarge);
        assert!(parser.line.len() <= MAX_STEP_BYTES);
        let (mut parser, line) = (SseParser::default(), [b"data: ".as_slice(), &piece, b"\n"].concat());
        let failed = (0..64).find_map(|_| parser.feed(&line, &mut each).err()).unwrap();
        assert_eq!(failed.kind, ErrorKind::TooLarge);
    }

    proptest! {
        #[test]
        fn any_cut_gives_what_the_plain_reading_gives(
            lines in proptest::collection::vec("(data|event|id|dat|)(:| |: |)[a-c:\u{e9} ]{0,4}(\n|\r\n|\r|\n\n|\r\r|\r\n\r\n|)", 0..12),
            cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let bytes = lines.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            prop_assert_eq!(parsed(pieces), plainly(&bytes));
        }
    }
}
