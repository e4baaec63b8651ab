//! Encodes a record as a line, and verifies a line.
//!
//! The hash covers the raw bytes of the line, not the parsed JSON: two encodings of the same JSON are different lines.

use std::io;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::ser::Formatter;
use toolgate_types::Sha256;
use toolgate_types::digest::Sha256Hasher;
use toolgate_types::time::put_rfc3339_millis;

use crate::AuditError;
use crate::record::{ChainLink, RECORD_VERSION};

/// Domain separation from all other hashes.
const RECORD_DOMAIN: &[u8] = b"toolgate.audit.record.v1\0";
const BEFORE_HASH: &[u8] = b",\"hash\":\"";
const AFTER_HASH: &[u8] = b"\"}";
const HASH_DIGITS: usize = 64;

/// Maximum length of a line that a gate writes: every string and list in it is bounded.
pub(crate) const MAX_LINE_BYTES: u64 = 1024 * 1024;

/// The `prev` hash of the first line.
pub(crate) fn genesis() -> Sha256 {
    Sha256::from([0; 32])
}

/// JSON on one line, without characters that could move the cursor or reorder text.
pub(crate) fn to_json(value: &impl Serialize) -> Result<Vec<u8>, AuditError> {
    let failed = |error: serde_json::Error| AuditError::Encoding { problem: error.to_string() };
    let mut bytes = Vec::with_capacity(1024);
    serde_json::to_writer(&mut bytes, value).map_err(failed)?;
    // Most lines are printable ASCII and need no escaping pass.
    if !bytes.iter().fold(false, |found, byte| found | (*byte >= 0x7f)) {
        return Ok(bytes);
    }
    bytes.clear();
    value
        .serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, EscapingFormatter))
        .map_err(failed)?;
    Ok(bytes)
}

/// Appends the complete line, including its newline, to `lines` and returns its hash. `body` holds the fields between the timestamp and the hash.
pub(crate) fn append_chained(
    lines: &mut Vec<u8>,
    seq: u64,
    prev: Sha256,
    at: Timestamp,
    body: &[u8],
) -> Sha256 {
    let start = lines.len();
    lines.extend_from_slice(b"{\"v\":");
    lines.extend_from_slice(itoa::Buffer::new().format(RECORD_VERSION).as_bytes());
    lines.extend_from_slice(b",\"seq\":");
    lines.extend_from_slice(itoa::Buffer::new().format(seq).as_bytes());
    lines.extend_from_slice(b",\"prev\":\"");
    lines.extend_from_slice(&prev.hex_digits());
    lines.extend_from_slice(b"\",\"timestamp\":\"");
    put_rfc3339_millis(at, lines);
    lines.extend_from_slice(b"\",");
    lines.extend_from_slice(body);
    let hash = hash_of(lines.get(start..).unwrap_or_default());
    lines.extend_from_slice(BEFORE_HASH);
    lines.extend_from_slice(&hash.hex_digits());
    lines.extend_from_slice(AFTER_HASH);
    lines.push(b'\n');
    hash
}

fn hash_of(content: &[u8]) -> Sha256 {
    let mut hasher = Sha256Hasher::new();
    hasher.update(RECORD_DOMAIN);
    hasher.update(content);
    hasher.finish()
}

/// Why a line is not a valid record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LineProblem {
    /// It cannot be parsed.
    Unparsable(String),
    /// Its hash does not match its content.
    Changed,
}

/// Verifies the hash of a line, and returns its chain link and hash.
pub(crate) fn verify_line(line: &[u8]) -> Result<(ChainLink, Sha256), LineProblem> {
    let (content, stated) =
        split_hash(line).ok_or_else(|| LineProblem::Unparsable("it has no hash at its end".into()))?;
    let hash = hash_of(content);
    if hash.hex_digits() != stated {
        return Err(LineProblem::Changed);
    }
    let link: ChainLink =
        serde_json::from_slice(line).map_err(|error| LineProblem::Unparsable(error.to_string()))?;
    if !link.is_supported() {
        return Err(LineProblem::Unparsable(format!("version {} of records is not known here", link.v)));
    }
    Ok((link, hash))
}

/// The chain link and stated hash of a line, unverified: enough to continue the chain.
pub(crate) fn peek_link(line: &[u8]) -> Option<(ChainLink, Sha256)> {
    let (_, stated) = split_hash(line)?;
    let hash = std::str::from_utf8(stated).ok()?.parse().ok()?;
    Some((serde_json::from_slice(line).ok()?, hash))
}

fn split_hash(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.strip_suffix(AFTER_HASH)?;
    let (content, hash) = line.split_at_checked(line.len().checked_sub(HASH_DIGITS)?)?;
    Some((content.strip_suffix(BEFORE_HASH)?, hash))
}

/// Compact JSON that escapes control characters, bidirectional overrides and invisible characters.
struct EscapingFormatter;

impl Formatter for EscapingFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for character in fragment.chars() {
            if is_deceptive(character) {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            } else {
                writer.write_all(character.encode_utf8(&mut [0; 4]).as_bytes())?;
            }
        }
        Ok(())
    }
}

/// Invisible characters that change how the surrounding text is displayed.
fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_string_can_end_the_line_or_turn_it_around() {
        let nasty = "a\n\r\"\\\u{1b}[2J\u{7f}\u{85}\u{202e}\u{2066}\u{feff}\u{e0041}\u{2028}é漢";
        let json = String::from_utf8(to_json(&nasty).unwrap()).unwrap();
        insta::assert_snapshot!(json, @r#""a\n\r\"\\\u001b[2J\u007f\u0085\u202e\u2066\ufeff\udb40\udc41\u2028é漢""#);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), nasty);
    }

    #[test]
    fn the_hash_is_compared_as_it_is_written() {
        let mut line = Vec::new();
        let body = br#""traceId":"01931b2c-0000-7000-8000-000000000001""#;
        let hash = append_chained(&mut line, 1, genesis(), "2026-11-15T05:01:02.003Z".parse().unwrap(), body);
        line.pop();
        assert_eq!(verify_line(&line).unwrap().1, hash);
        let text = String::from_utf8(line.clone()).unwrap();
        let shouted = text.replace(&hash.to_string(), &hash.to_string().to_uppercase());
        assert_eq!(verify_line(shouted.as_bytes()).unwrap_err(), LineProblem::Changed);
        let spaced = text.replace(",\"prev\"", ", \"prev\"");
        assert_eq!(verify_line(spaced.as_bytes()).unwrap_err(), LineProblem::Changed);
        for bad in ["", "{}", "\"}", "null", &"0".repeat(66)] {
            assert!(matches!(verify_line(bad.as_bytes()), Err(LineProblem::Unparsable(_))), "{bad}");
        }
    }
}
