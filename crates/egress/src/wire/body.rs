//! The body of a plain request: exactly as long as its head declares, and framed anew.
//!
//! Bytes after its end are ignored: a second request on the same connection is never forwarded.

use crate::refusal_reason::RefusalReason;
use crate::wire::http::BodyFraming;

/// Maximum line in a chunked body: a size with its extensions, or a trailer.
const MAX_LINE_BYTES: usize = 1024;
/// Maximum bytes of trailers; they are dropped.
const MAX_TRAILER_BYTES: usize = 8 << 10;

/// Parses and reframes a body incrementally.
#[derive(Debug)]
pub struct BodyReframer {
    state: BodyState,
    line: Vec<u8>,
    trailers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyState {
    /// Bytes left of the body.
    Fixed(u64),
    /// In the line with the next chunk's size.
    Size,
    /// Bytes left of the chunk.
    Chunk(u64),
    /// In the CRLF after a chunk.
    ChunkEnd,
    /// In the trailers after the last chunk.
    Trailers,
    /// The request is complete.
    Finished,
}

impl BodyReframer {
    /// A body that has yet to arrive.
    #[must_use]
    pub fn new(framing: BodyFraming) -> Self {
        let state = match framing {
            BodyFraming::Length(0) => BodyState::Finished,
            BodyFraming::Length(length) => BodyState::Fixed(length),
            BodyFraming::Chunked => BodyState::Size,
        };
        Self { state, line: Vec::new(), trailers: 0 }
    }

    /// Whether the request is complete.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.state == BodyState::Finished
    }

    /// Takes bytes from the client and appends to `out` what the server gets. Bytes after the end are dropped.
    ///
    /// # Errors
    /// When the chunks are malformed.
    pub fn pass(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), RefusalReason> {
        while !bytes.is_empty() && !self.is_finished() {
            bytes = match self.state {
                BodyState::Fixed(left) | BodyState::Chunk(left) => self.pass_data(left, bytes, out),
                _ => self.pass_line(bytes, out)?,
            };
        }
        Ok(())
    }

    fn pass_data<'a>(&mut self, left: u64, bytes: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let (data, rest) = bytes.split_at_checked(length).unwrap_or((bytes, &[]));
        let left = left.saturating_sub(data.len() as u64);
        if let BodyState::Chunk(_) = self.state {
            out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
            out.extend_from_slice(data);
            out.extend_from_slice(b"\r\n");
            self.state = if left == 0 { BodyState::ChunkEnd } else { BodyState::Chunk(left) };
        } else {
            out.extend_from_slice(data);
            self.state = if left == 0 { BodyState::Finished } else { BodyState::Fixed(left) };
        }
        rest
    }

    /// Collects a line up to its CRLF and processes it.
    fn pass_line<'a>(&mut self, bytes: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], RefusalReason> {
        let Some((byte, rest)) = bytes.split_first() else { return Ok(bytes) };
        match (self.line.last(), byte) {
            (Some(b'\r'), b'\n') => {
                let mut line = std::mem::take(&mut self.line);
                line.pop();
                self.end_line(&line, out)?;
            }
            (Some(b'\r'), _) | (_, b'\n') => return Err(MALFORMED),
            _ if self.line.len() >= MAX_LINE_BYTES => return Err(RefusalReason::TooLarge),
            _ => self.line.push(*byte),
        }
        Ok(rest)
    }

    fn end_line(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<(), RefusalReason> {
        match self.state {
            BodyState::Size => match chunk_size(line)? {
                0 => self.state = BodyState::Trailers,
                size => self.state = BodyState::Chunk(size),
            },
            BodyState::ChunkEnd if line.is_empty() => self.state = BodyState::Size,
            BodyState::Trailers if line.is_empty() => {
                out.extend_from_slice(b"0\r\n\r\n");
                self.state = BodyState::Finished;
            }
            BodyState::Trailers => {
                self.trailers += line.len();
                if self.trailers > MAX_TRAILER_BYTES {
                    return Err(RefusalReason::TooLarge);
                }
            }
            _ => return Err(MALFORMED),
        }
        Ok(())
    }
}

const MALFORMED: RefusalReason = RefusalReason::Malformed("the chunks of the body do not fit together");

/// A size in hexadecimal digits. Extensions after a semicolon are dropped.
fn chunk_size(line: &[u8]) -> Result<u64, RefusalReason> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let digits = digits.trim_ascii_end();
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(MALFORMED);
    }
    let digits = std::str::from_utf8(digits).map_err(|_| MALFORMED)?;
    u64::from_str_radix(digits, 16).map_err(|_| MALFORMED)
}
