//! Authenticated encryption of small state at rest: AES-256-GCM with a random nonce.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// A key of 32 random bytes.
pub struct AeadKey(LessSafeKey);

impl AeadKey {
    /// The key of these bytes; `None` only if the library refuses them.
    #[must_use]
    pub fn new(bytes: &[u8; 32]) -> Option<Self> {
        UnboundKey::new(&AES_256_GCM, bytes).ok().map(|key| Self(LessSafeKey::new(key)))
    }

    /// Encrypts: the nonce, and then the text with its tag. Only who names the same context opens it. `None` if there are no random numbers.
    #[must_use]
    pub fn seal(&self, context: &[u8], mut plain: Vec<u8>) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        aws_lc_rs::rand::fill(&mut nonce).ok()?;
        let unique = Nonce::assume_unique_for_key(nonce);
        self.0.seal_in_place_append_tag(unique, Aad::from(context), &mut plain).ok()?;
        Some([nonce.as_slice(), &plain].concat())
    }

    /// Decrypts; `None` if it was sealed with another key or for another context, or was changed.
    #[must_use]
    pub fn open(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, body) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut body = body.to_vec();
        let length = self.0.open_in_place(nonce, Aad::from(context), &mut body).ok()?.len();
        body.truncate(length);
        Some(body)
    }
}

impl fmt::Debug for AeadKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AeadKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_for_its_key_and_its_context_alone() {
        let key = AeadKey::new(&[7; 32]).unwrap();
        let sealed = key.seal(b"record 1", b"src/secret.txt".to_vec()).unwrap();
        assert!(!sealed.windows(6).any(|part| part == b"secret"));
        assert_ne!(key.seal(b"record 1", b"src/secret.txt".to_vec()).unwrap(), sealed, "another nonce");
        assert_eq!(key.open(b"record 1", &sealed).unwrap(), b"src/secret.txt");
        assert_eq!(key.open(b"record 2", &sealed), None);
        assert_eq!(AeadKey::new(&[8; 32]).unwrap().open(b"record 1", &sealed), None);
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert_eq!(key.open(b"record 1", &changed), None, "byte {place}");
            assert_eq!(key.open(b"record 1", &sealed[..place]), None, "cut at {place}");
        }
    }
}
