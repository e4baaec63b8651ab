//! Signatures and opaque reasoning, which a client must send back unchanged.
//!
//! A signature contains its position and a digest of the text, so that a stateless server can detect a change of either.

use sha2::{Digest as _, Sha256};

/// The signature of this text at this position of a conversation.
pub(crate) fn sign(place: &str, text: &str) -> String {
    let digest = Sha256::new().chain_update("toolgate scripted\0").chain_update(place).chain_update("\0");
    let digest = digest.chain_update(text).finalize();
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{place}.{hex}")
}

/// Whether a signature is one of ours and matches this text.
pub(crate) fn verify(given: &str, text: &str) -> bool {
    given.split_once('.').is_some_and(|(place, _)| sign(place, text) == given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_breaks_with_its_text_and_with_itself() {
        let whole = sign("0001t0", "I should look");
        assert!(verify(&whole, "I should look"));
        assert!(!verify(&whole, "I should look."));
        assert!(!verify(&whole.replace("0001", "0002"), "I should look"));
        assert!(!verify("", ""));
    }
}
