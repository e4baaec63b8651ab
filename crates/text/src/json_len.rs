//! The length of a text as a JSON string.

/// The length of a text as a JSON string without its quotes, never less than the text itself.
#[must_use]
pub fn json_len(text: &str) -> usize {
    text.len() + text.bytes().map(added_by_escaping).sum::<usize>()
}

/// The longest JSON escape of one byte.
pub const MAX_ESCAPE_BYTES: usize = "\\u0000".len();

/// What an escape adds to one byte. Only ASCII bytes are escaped, and no byte of a multi-byte UTF-8 sequence is ASCII.
#[inline]
#[must_use]
pub fn added_by_escaping(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        control if control < b' ' => 5,
        _ => 0,
    }
}
