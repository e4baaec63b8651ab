//! Digests of arguments and answers as the record holds them. They are keyed: from a plain SHA-256 a short secret can be guessed by trying.

use toolgate_types::{Sha256, StateKey};

/// What stands in `argsHash` for arguments with this SHA-256: HMAC-SHA-256 with the key of the state.
#[must_use]
pub fn args_digest(key: &StateKey, plain: Sha256) -> Sha256 {
    key.seal("audit.args", &[plain.as_bytes()])
}

/// What stands in `outputHash` for an answer with this SHA-256.
#[must_use]
pub fn output_digest(key: &StateKey, plain: Sha256) -> Sha256 {
    key.seal("audit.output", &[plain.as_bytes()])
}
