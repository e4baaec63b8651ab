//! SHA-256, written as 64 lower-case hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use sha2::Digest as _;

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// The digest as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digest as ASCII hexadecimal digits, for writing it into a byte buffer.
    // An audit record has four digests: not inlined, so that one copy of the code serves all of them.
    #[must_use]
    #[inline(never)]
    pub fn hex_digits(&self) -> [u8; 64] {
        // Without a table and without a branch, so that the compiler vectorises it over sixteen bytes.
        let digit = |nibble: u8| nibble + b'0' + u8::from(nibble > 9) * (b'a' - b'0' - 10);
        let mut digits = [0; 64];
        for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *pair = [digit(byte >> 4), digit(byte & 15)];
        }
        digits
    }
}

impl From<[u8; 32]> for Sha256 {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// Hashes bytes incrementally.
#[derive(Clone, Default)]
pub struct Sha256Hasher(sha2::Sha256);

impl Sha256Hasher {
    /// An empty hash.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds the length of a part as a 64-bit big-endian number, then the part: the length prefix keeps a sequence of parts unambiguous.
    pub fn update_prefixed(&mut self, part: &[u8]) {
        self.update(&(part.len() as u64).to_be_bytes());
        self.update(part);
    }

    /// The digest of everything that was added.
    #[must_use]
    pub fn finish(self) -> Sha256 {
        Sha256(self.0.finalize().into())
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(std::str::from_utf8(&self.hex_digits()).unwrap_or_default())
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for Sha256 {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(InvalidDigest);
        }
        let mut bytes = [0u8; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().try_fold(0u8, |value, digit| Ok(value << 4 | nibble(*digit)?))?;
        }
        Ok(Self(bytes))
    }
}

fn nibble(digit: u8) -> Result<u8, InvalidDigest> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(InvalidDigest),
    }
}

/// Text that is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidDigest;

impl fmt::Display for InvalidDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not a SHA-256 digest of 64 hexadecimal digits")
    }
}

impl std::error::Error for InvalidDigest {}

impl TryFrom<String> for Sha256 {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl Serialize for Sha256 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(std::str::from_utf8(&self.hex_digits()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_and_reads_the_known_digest() {
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Sha256::of(b"abc").to_string(), text);
        assert_eq!(text.to_uppercase().parse::<Sha256>().unwrap(), Sha256::of(b"abc"));
        let mut hasher = Sha256Hasher::new();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish().to_string(), text);
        assert_eq!(serde_json::to_value(Sha256::of(b"abc")).unwrap(), text);
    }

    #[test]
    fn parts_with_a_length_are_told_apart() {
        let hashed = |parts: &[&str]| {
            let mut hasher = Sha256Hasher::new();
            parts.iter().for_each(|part| hasher.update_prefixed(part.as_bytes()));
            hasher.finish()
        };
        assert_eq!(hashed(&["ab"]), Sha256::of(b"\0\0\0\0\0\0\0\x02ab"));
        for other in [["a", "b"].as_slice(), &["", "ab"], &["ab", ""], &["abc"]] {
            assert_ne!(hashed(&["ab"]), hashed(other), "{other:?}");
        }
    }

    #[test]
    fn every_byte_has_its_two_digits() {
        for first in (0..=255u8).step_by(32) {
            let bytes: [u8; 32] = std::array::from_fn(|place| first + place as u8);
            let expected: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(Sha256(bytes).hex_digits(), expected.as_bytes());
        }
    }

    #[test]
    fn refuses_what_is_not_a_digest() {
        for bad in ["", "ba78", &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(bad.parse::<Sha256>(), Err(InvalidDigest));
        }
    }
}
