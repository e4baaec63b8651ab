//! Whose tokens are accepted.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use toolgate_assembly::callers::issuer_verifier;
use toolgate_assembly::error::BuildError;
use toolgate_identity::{
    Algorithm, ClaimNames, Issuer, KeySource, MintOptions, SharedSecret, Verifier, mint,
};

/// Why a token could not be signed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct JwtError(String);

/// Whose tokens are accepted, and how they are verified.
#[derive(Clone, Debug)]
pub struct JwtSettings {
    issuer: Issuer,
    key_id: Option<String>,
    secret: Option<SharedSecret>,
}

impl JwtSettings {
    /// Tokens of this `iss` and `aud` that are signed with a shared secret (HS256, at least 32 bytes), whose header names it as `kid`.
    pub fn hs256(issuer: &str, audience: &str, key_id: &str, secret: &[u8]) -> Self {
        let secret = SharedSecret::from(secret.to_vec());
        let source = KeySource::Secret { key_id: key_id.to_owned(), secret: secret.clone() };
        let issuer =
            Issuer { claims: ClaimNames::minted(), ..issued_by(issuer, audience, Algorithm::Hs256, source) };
        Self { issuer, key_id: Some(key_id.to_owned()), secret: Some(secret) }
    }

    /// Tokens that are signed with the private half of this PEM key.
    pub fn public_key(issuer: &str, audience: &str, key_id: &str, algorithm: Algorithm, pem: &[u8]) -> Self {
        let source = KeySource::Pem { key_id: key_id.to_owned(), pem: pem.to_vec() };
        Self { issuer: issued_by(issuer, audience, algorithm, source), key_id: None, secret: None }
    }

    /// Tokens that are signed with a key of the set that the issuer publishes at this https address (JWKS, RFC 7517).
    pub fn key_set(issuer: &str, audience: &str, algorithm: Algorithm, url: &str) -> Self {
        let source = KeySource::KeySetAddress { url: url.to_owned() };
        Self { issuer: issued_by(issuer, audience, algorithm, source), key_id: None, secret: None }
    }

    /// A token with these permissions, for services that share the secret.
    ///
    /// # Errors
    /// Without a shared secret, and for what a verifier would refuse, such as a lifetime of a year.
    pub fn sign<'p>(
        &self,
        subject: &str,
        permissions: impl IntoIterator<Item = &'p str>,
        lifetime: Duration,
    ) -> Result<String, JwtError> {
        let (Some(secret), Some(key_id)) = (&self.secret, &self.key_id) else {
            return Err(JwtError("only a shared secret signs tokens: use `JwtSettings::hs256`".to_owned()));
        };
        mint(&MintOptions {
            secret,
            key_id,
            issuer: &self.issuer.issuer,
            audience: self.issuer.audiences.first().map_or("", String::as_str),
            subject,
            permissions: permissions.into_iter().map(str::to_owned).collect(),
            agent: None,
            trust: None,
            now: SystemTime::now(),
            lifetime,
        })
        .map_err(|error| JwtError(error.to_string()))
    }

    pub(super) fn verifier(self) -> Result<Arc<Verifier>, BuildError> {
        issuer_verifier(self.issuer).map_err(|error| BuildError::usage(error.to_string()).help(error.help()))
    }
}

fn issued_by(issuer: &str, audience: &str, algorithm: Algorithm, key: KeySource) -> Issuer {
    Issuer {
        issuer: issuer.to_owned(),
        audiences: vec![audience.to_owned()],
        algorithms: vec![algorithm],
        keys: vec![key],
        ..Issuer::default()
    }
}
