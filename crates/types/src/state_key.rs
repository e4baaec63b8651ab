//! The key of one user's own state, and the seals made with it: state without a valid seal was not written by this user's gate.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};

use crate::digest::Sha256;

/// SHA-256 works on blocks of this size; HMAC (RFC 2104) pads a shorter key with zeros to it.
const BLOCK_BYTES: usize = 64;

/// 32 random bytes that only this user can read.
#[derive(Clone)]
pub struct StateKey(Hmac<sha2::Sha256>);

impl StateKey {
    /// A key of these bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        let mut block = [0; BLOCK_BYTES];
        for (place, byte) in block.iter_mut().zip(bytes) {
            *place = byte;
        }
        Self(Hmac::new(&block.into()))
    }

    /// HMAC-SHA-256 over a purpose and some parts. Each is preceded by its length, so that different lists of parts never give the same bytes.
    #[must_use]
    pub fn seal(&self, purpose: &str, parts: &[&[u8]]) -> Sha256 {
        Sha256::from(<[u8; 32]>::from(self.mac(purpose, parts).finalize().into_bytes()))
    }

    /// Whether a hexadecimal seal is that of these parts, in constant time.
    #[must_use]
    pub fn verifies(&self, purpose: &str, parts: &[&[u8]], seal: &[u8]) -> bool {
        let seal = std::str::from_utf8(seal).ok().and_then(|digits| digits.parse::<Sha256>().ok());
        seal.is_some_and(|seal| self.mac(purpose, parts).verify_slice(seal.as_bytes()).is_ok())
    }

    fn mac(&self, purpose: &str, parts: &[&[u8]]) -> Hmac<sha2::Sha256> {
        let mut mac = self.0.clone();
        for part in [purpose.as_bytes()].iter().chain(parts) {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for StateKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StateKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_holds_for_its_purpose_its_parts_and_its_key_alone() {
        let key = StateKey::new([7; 32]);
        let seal = key.seal("journal", &[b"ab", b"c"]).to_string();
        assert!(key.verifies("journal", &[b"ab", b"c"], seal.as_bytes()));
        let others: [(&str, &[&[u8]]); 4] =
            [("pins", &[b"ab", b"c"]), ("journal", &[b"a", b"bc"]), ("journal", &[b"abc"]), ("journal", &[])];
        for (purpose, parts) in others {
            assert!(!key.verifies(purpose, parts, seal.as_bytes()), "{purpose} {parts:?}");
        }
        assert!(!StateKey::new([8; 32]).verifies("journal", &[b"ab", b"c"], seal.as_bytes()));
        for bad in ["", "x", &format!("{seal}0"), &"0".repeat(64)] {
            assert!(!key.verifies("journal", &[b"ab", b"c"], bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn the_mac_is_that_of_rfc_4231() {
        // Test case 1: twenty bytes 0x0b, "Hi There". HMAC pads a key with zeros, so a shorter key equals its padded form.
        let mut bytes = [0; 32];
        bytes[..20].fill(0x0b);
        let mut mac = StateKey::new(bytes).0;
        mac.update(b"Hi There");
        let expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        assert_eq!(Sha256::from(<[u8; 32]>::from(mac.finalize().into_bytes())).to_string(), expected);
    }
}
