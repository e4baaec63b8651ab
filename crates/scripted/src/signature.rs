//! What a model wants to see again exactly as it said it: signatures, and reasoning that only its server can read.
//!
//! A seal says where it belongs and vouches for the text beside it, so that a server that remembers nothing can tell whether either was changed.

use sha2::{Digest as _, Sha256};

/// A seal for this text at this place of a conversation.
pub(crate) fn sign(place: &str, text: &str) -> String {
    let digest = Sha256::new().chain_update("toolgate scripted\0").chain_update(place).chain_update("\0");
    let digest = digest.chain_update(text).finalize();
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{place}.{hex}")
}

/// Whether a seal is one of ours and belongs to this text.
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
