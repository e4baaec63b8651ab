//! The signature algorithms that a configuration may allow.
//!
//! There is no `none`, and the only symmetric algorithm is HS256, which works only with a local secret.

use std::fmt;
use std::str::FromStr;

/// A signature algorithm (RFC 7518).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// HMAC with SHA-256 and a local secret.
    Hs256,
    /// RSA PKCS#1 v1.5 with SHA-256.
    Rs256,
    /// RSA PKCS#1 v1.5 with SHA-384.
    Rs384,
    /// RSA PKCS#1 v1.5 with SHA-512.
    Rs512,
    /// RSA-PSS with SHA-256.
    Ps256,
    /// RSA-PSS with SHA-384.
    Ps384,
    /// RSA-PSS with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

/// The algorithms of an RSA key.
pub(crate) const RSA: &[Algorithm] = &[
    Algorithm::Rs256,
    Algorithm::Rs384,
    Algorithm::Rs512,
    Algorithm::Ps256,
    Algorithm::Ps384,
    Algorithm::Ps512,
];

impl Algorithm {
    /// Every algorithm.
    pub const ALL: &'static [Self] = &[
        Self::Hs256,
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// The name in tokens and configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The same algorithm in `jsonwebtoken`.
    pub(crate) fn for_signature(self) -> jsonwebtoken::Algorithm {
        use jsonwebtoken::Algorithm as Theirs;
        match self {
            Self::Hs256 => Theirs::HS256,
            Self::Rs256 => Theirs::RS256,
            Self::Rs384 => Theirs::RS384,
            Self::Rs512 => Theirs::RS512,
            Self::Ps256 => Theirs::PS256,
            Self::Ps384 => Theirs::PS384,
            Self::Ps512 => Theirs::PS512,
            Self::Es256 => Theirs::ES256,
            Self::Es384 => Theirs::ES384,
            Self::EdDsa => Theirs::EdDSA,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for Algorithm {
    type Err = String;

    /// Exact match only: every spelling of `none`, `hs256` and unknown names are rejected in the same way.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|algorithm| algorithm.as_str() == text).ok_or_else(|| {
            let known: Vec<String> = Self::ALL.iter().map(|known| format!("`{known}`")).collect();
            format!("not a signature algorithm; use one of {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exact() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.as_str().parse(), Ok(*algorithm));
            assert_eq!(format!("{:?}", algorithm.for_signature()), algorithm.as_str());
        }
        for bad in
            ["", "none", "None", "NONE", "nOnE", "hs256", "HS384", "HS512", "RS256 ", "ES512", "ES256K"]
        {
            assert!(bad.parse::<Algorithm>().is_err(), "{bad:?} was accepted");
        }
    }
}
