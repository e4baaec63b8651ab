//! Digests of arguments and outputs in records. They are keyed, because the plain SHA-256 of a short secret could be brute-forced.

use toolgate_types::{Sha256, StateKey};

/// The `argsHash` for arguments with this SHA-256: HMAC-SHA-256 under the state key.
#[must_use]
pub fn args_digest(key: &StateKey, plain: Sha256) -> Sha256 {
    key.seal("audit.args", &[plain.as_bytes()])
}

/// The `outputHash` for an output with this SHA-256, likewise keyed.
#[must_use]
pub fn output_digest(key: &StateKey, plain: Sha256) -> Sha256 {
    key.seal("audit.output", &[plain.as_bytes()])
}
