//! Public keys in PEM format, one block each.
//!
//! The block is parsed here and not by `jsonwebtoken`, because that accepts private keys, certificates and
//! any curve, and fails only at the first token.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk};

use crate::error::KeyProblem;
use crate::key::{Curve, VerifyingKey};

/// The DER prefix of a `SubjectPublicKeyInfo` of each kind; DER allows exactly one encoding.
const ED25519: &[u8] = &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const P256: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const P384: &[u8] = &[
    0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81,
    0x04, 0x00, 0x22, 0x03, 0x62, 0x00,
];
/// The OID `id-ecPublicKey`, which every elliptic curve key contains, whatever its curve.
const ANY_CURVE: &[u8] = &[0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// The key in a PEM file.
pub(crate) fn public_key(pem: &[u8]) -> Result<VerifyingKey, KeyProblem> {
    let (label, der) = block(pem).ok_or(KeyProblem::NotAKey)?;
    match label {
        "PUBLIC KEY" => key_info(pem, &der),
        "RSA PUBLIC KEY" => rsa(pem),
        "CERTIFICATE" => Err(KeyProblem::Certificate),
        other if other.ends_with("PRIVATE KEY") => Err(KeyProblem::Private),
        _ => Err(KeyProblem::NotAKey),
    }
}

/// The label and the content of a text that is a single block.
fn block(pem: &[u8]) -> Option<(&str, Vec<u8>)> {
    let text = std::str::from_utf8(pem).ok()?.trim();
    let (label, rest) = text.strip_prefix("-----BEGIN ")?.split_once("-----")?;
    let body = rest.strip_suffix("-----")?.strip_suffix(label)?.strip_suffix("-----END ")?;
    let packed: String = body.split_ascii_whitespace().collect();
    Some((label, STANDARD.decode(packed).ok()?))
}

fn key_info(pem: &[u8], der: &[u8]) -> Result<VerifyingKey, KeyProblem> {
    if let Some(public) = der.strip_prefix(ED25519) {
        VerifyingKey::ed25519(public)
    } else if let Some(point) = der.strip_prefix(P256) {
        VerifyingKey::point(Curve::P256, point)
    } else if let Some(point) = der.strip_prefix(P384) {
        VerifyingKey::point(Curve::P384, point)
    } else if der.windows(ANY_CURVE.len()).take(8).any(|window| window == ANY_CURVE) {
        Err(KeyProblem::WrongCurve)
    } else {
        rsa(pem)
    }
}

fn rsa(pem: &[u8]) -> Result<VerifyingKey, KeyProblem> {
    let key = DecodingKey::from_rsa_pem(pem).map_err(|_| KeyProblem::NotAKey)?;
    let numbers = Jwk::from_decoding_key(&key, None).map_err(|_| KeyProblem::NotAKey)?;
    let AlgorithmParameters::RSA(numbers) = numbers.algorithm else { return Err(KeyProblem::NotAKey) };
    let number = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| KeyProblem::NotAKey);
    VerifyingKey::rsa(&number(&numbers.n)?, &number(&numbers.e)?)
}
