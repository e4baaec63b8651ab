//! One key, and the algorithms that it may be used with.
//!
//! A key gets its algorithms when it is loaded: a public key can never serve as an HMAC secret, nor a
//! secret as a public key, whatever a token's header says (algorithm confusion).

use std::fmt;

use jsonwebtoken::{DecodingKey, crypto};

use crate::error::KeyProblem;
use crate::options::SharedSecret;
use crate::token::ParsedToken;
use crate::{Algorithm, algorithm};

/// Shorter secrets can be brute-forced.
pub(crate) const MIN_SECRET_BYTES: usize = 32;

/// A parsed and checked key.
pub(crate) struct VerifyingKey {
    key: DecodingKey,
    algorithms: Vec<Algorithm>,
}

/// The supported curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curve {
    P256,
    P384,
}

impl Curve {
    /// Bytes of one coordinate.
    pub(crate) fn coordinate_bytes(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
        }
    }

    fn algorithm(self) -> Algorithm {
        match self {
            Self::P256 => Algorithm::Es256,
            Self::P384 => Algorithm::Es384,
        }
    }
}

impl VerifyingKey {
    /// A shared secret: HS256 only.
    pub(crate) fn secret(secret: &SharedSecret) -> Result<Self, KeyProblem> {
        check_secret(secret)?;
        let key = DecodingKey::from_secret(secret.expose());
        Ok(Self { key, algorithms: vec![Algorithm::Hs256] })
    }

    /// An RSA public key from its big-endian modulus and exponent.
    pub(crate) fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self, KeyProblem> {
        let (modulus, exponent) = (without_leading_zeros(modulus), without_leading_zeros(exponent));
        let bits = bits(modulus);
        if !(2048..=8192).contains(&bits) {
            return Err(KeyProblem::RsaSize { bits });
        }
        let value = exponent.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        if exponent.len() > 4 || value < 3 || value % 2 == 0 {
            return Err(KeyProblem::RsaExponent);
        }
        let key = DecodingKey::from_rsa_raw_components(modulus, exponent);
        Ok(Self { key, algorithms: algorithm::RSA.to_vec() })
    }

    /// An uncompressed point on a curve: 4, x, y.
    pub(crate) fn point(curve: Curve, point: &[u8]) -> Result<Self, KeyProblem> {
        if point.len() != 1 + 2 * curve.coordinate_bytes() || point.first() != Some(&4) {
            return Err(KeyProblem::WrongCurve);
        }
        Ok(Self { key: DecodingKey::from_ec_der(point), algorithms: vec![curve.algorithm()] })
    }

    /// An Ed25519 public key.
    pub(crate) fn ed25519(public: &[u8]) -> Result<Self, KeyProblem> {
        if public.len() != 32 {
            return Err(KeyProblem::NotAKey);
        }
        Ok(Self { key: DecodingKey::from_ed_der(public), algorithms: vec![Algorithm::EdDsa] })
    }

    /// The same key for fewer algorithms.
    pub(crate) fn restrict(mut self, keep: impl Fn(Algorithm) -> bool) -> Self {
        self.algorithms.retain(|algorithm| keep(*algorithm));
        self
    }

    /// The algorithms that it may be used with.
    pub(crate) fn algorithms(&self) -> &[Algorithm] {
        &self.algorithms
    }

    /// Whether this key signed the token, with an algorithm that it may be used with.
    pub(crate) fn verifies(&self, token: &ParsedToken<'_>) -> bool {
        self.algorithms.contains(&token.algorithm)
            && crypto::verify(
                token.signature,
                token.message.as_bytes(),
                &self.key,
                token.algorithm.for_signature(),
            )
            .unwrap_or(false)
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("VerifyingKey").field("algorithms", &self.algorithms).finish_non_exhaustive()
    }
}

/// Rejects a weak secret.
pub(crate) fn check_secret(secret: &SharedSecret) -> Result<(), KeyProblem> {
    match secret.expose() {
        short if short.len() < MIN_SECRET_BYTES => Err(KeyProblem::ShortSecret { bytes: short.len() }),
        pem if pem.trim_ascii_start().starts_with(b"-----BEGIN") => Err(KeyProblem::PublicSecret),
        _ => Ok(()),
    }
}

fn without_leading_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

fn bits(number: &[u8]) -> usize {
    number.first().map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rsa_numbers_have_bounds() {
        let modulus = |bytes: usize| [vec![0x80], vec![1; bytes - 1]].concat();
        assert!(VerifyingKey::rsa(&modulus(256), &[1, 0, 1]).is_ok());
        assert!(VerifyingKey::rsa(&[vec![0, 0], modulus(256)].concat(), &[0, 1, 0, 1]).is_ok());
        assert!(VerifyingKey::rsa(&modulus(1024), &[3]).is_ok());
        let mut one_bit_less = modulus(256);
        one_bit_less[0] = 0x7f;
        for (modulus, exponent, problem) in [
            (one_bit_less, vec![1, 0, 1], KeyProblem::RsaSize { bits: 2047 }),
            ([vec![0; 200], modulus(128)].concat(), vec![1, 0, 1], KeyProblem::RsaSize { bits: 1024 }),
            (vec![], vec![1, 0, 1], KeyProblem::RsaSize { bits: 0 }),
            (modulus(1025), vec![3], KeyProblem::RsaSize { bits: 8200 }),
            (modulus(256), vec![], KeyProblem::RsaExponent),
            (modulus(256), vec![0], KeyProblem::RsaExponent),
            (modulus(256), vec![1], KeyProblem::RsaExponent),
            (modulus(256), vec![1, 0, 0], KeyProblem::RsaExponent),
            (modulus(256), vec![1, 0, 0, 0, 1], KeyProblem::RsaExponent),
        ] {
            assert_eq!(VerifyingKey::rsa(&modulus, &exponent).unwrap_err(), problem);
        }
    }
}
