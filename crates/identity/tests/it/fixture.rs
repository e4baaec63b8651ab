//! Keys, tokens and verifiers for the tests.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{EncodingKey, crypto};
use proptest::prelude::ProptestConfig;
use serde_json::{Value, json};
use toolgate_identity::{
    Algorithm, FetchFuture, FetchKeys, Identity, Issuer, KeySource, SharedSecret, TokenError, Verifier,
    VerifierOptions,
};

/// The time at which the tests take place.
pub(crate) const NOW: u64 = 1_800_000_000;
pub(crate) const ISSUER: &str = "https://issuer.example";
pub(crate) const LOCAL: &str = "local";
pub(crate) const AUDIENCE: &str = "toolgate";
pub(crate) const SECRET: &[u8] = b"a secret for tests, 32 bytes or more";

macro_rules! key_file {
    ($name:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/test-only-", $name, ".pem"))
    };
}
pub(crate) use key_file;

/// A settable clock.
#[derive(Clone)]
pub(crate) struct TestClock(Arc<AtomicU64>);

impl TestClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(NOW)))
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    pub(crate) fn set(&self, second: u64) {
        self.0.store(second, Ordering::SeqCst);
    }

    pub(crate) fn read(&self) -> Arc<dyn Fn() -> SystemTime + Send + Sync> {
        let seconds = Arc::clone(&self.0);
        Arc::new(move || UNIX_EPOCH + Duration::from_secs(seconds.load(Ordering::SeqCst)))
    }
}

/// For verifiers that must not fetch.
pub(crate) struct NoFetch;

impl FetchKeys for NoFetch {
    fn fetch<'a>(&'a self, url: &'a str) -> FetchFuture<'a> {
        panic!("fetched {url}")
    }
}

/// The private key for this algorithm, and its id.
pub(crate) fn signer(algorithm: Algorithm) -> (&'static str, EncodingKey) {
    match algorithm {
        Algorithm::Hs256 => ("secret", EncodingKey::from_secret(SECRET)),
        Algorithm::Es256 => ("p256", EncodingKey::from_ec_pem(key_file!("p256.private")).unwrap()),
        Algorithm::Es384 => ("p384", EncodingKey::from_ec_pem(key_file!("p384.private")).unwrap()),
        Algorithm::EdDsa => ("ed", EncodingKey::from_ed_pem(key_file!("ed25519.private")).unwrap()),
        _ => ("rsa", EncodingKey::from_rsa_pem(key_file!("rsa2048.private")).unwrap()),
    }
}

fn theirs(algorithm: Algorithm) -> jsonwebtoken::Algorithm {
    algorithm.as_str().parse().unwrap()
}

/// The public keys of `ISSUER`, as PEM.
pub(crate) fn public_keys() -> Vec<KeySource> {
    let pem = |key_id: &str, pem: &[u8]| KeySource::Pem { key_id: key_id.to_owned(), pem: pem.to_vec() };
    vec![
        pem("rsa", key_file!("rsa2048.public")),
        pem("p256", key_file!("p256.public")),
        pem("p384", key_file!("p384.public")),
        pem("ed", key_file!("ed25519.public")),
    ]
}

pub(crate) fn secret_key() -> KeySource {
    KeySource::Secret { key_id: "secret".to_owned(), secret: SharedSecret::from(SECRET.to_vec()) }
}

pub(crate) fn public_algorithms() -> Vec<Algorithm> {
    Algorithm::ALL.iter().copied().filter(|algorithm| *algorithm != Algorithm::Hs256).collect()
}

/// An issuer with public keys.
pub(crate) fn public_issuer() -> Issuer {
    Issuer {
        issuer: ISSUER.to_owned(),
        audiences: vec![AUDIENCE.to_owned(), "other-gate".to_owned()],
        algorithms: public_algorithms(),
        keys: public_keys(),
        ..Issuer::default()
    }
}

/// An issuer with a secret.
pub(crate) fn local_issuer() -> Issuer {
    Issuer {
        issuer: LOCAL.to_owned(),
        audiences: vec![AUDIENCE.to_owned()],
        algorithms: vec![Algorithm::Hs256],
        keys: vec![secret_key()],
        ..Issuer::default()
    }
}

pub(crate) fn options(issuers: Vec<Issuer>) -> VerifierOptions {
    VerifierOptions::new(issuers, TestClock::new().read(), Arc::new(NoFetch))
}

pub(crate) fn verifier() -> Verifier {
    Verifier::new(options(vec![public_issuer(), local_issuer()])).unwrap()
}

/// Verifies without a runtime: without a fetch, the future must be ready at the first poll.
pub(crate) fn verify(verifier: &Verifier, token: &str) -> Result<Identity, TokenError> {
    match pin!(verifier.verify(token)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("waited without a reason"),
    }
}

/// The reason word for a token's result.
pub(crate) fn outcome(verifier: &Verifier, token: &str) -> &'static str {
    verify(verifier, token).map_or_else(|refusal| refusal.reason(), |_| "ok")
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The issuer whose tokens are signed with this algorithm in these tests.
pub(crate) fn issuer_for(algorithm: Algorithm) -> &'static str {
    if algorithm == Algorithm::Hs256 { LOCAL } else { ISSUER }
}

pub(crate) fn header(algorithm: Algorithm) -> Value {
    json!({"typ": "JWT", "alg": algorithm.as_str(), "kid": signer(algorithm).0})
}

pub(crate) fn claims(algorithm: Algorithm) -> Value {
    json!({
        "iss": issuer_for(algorithm), "aud": AUDIENCE, "sub": "alice", "iat": NOW - 10, "exp": NOW + 600,
        "jti": "t-1", "permissions": ["git:read", "fs:write"], "agent": "reviewer",
    })
}

/// Replaces or, with `null`, removes members.
pub(crate) fn with(mut object: Value, changes: Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(name);
        } else {
            object[name] = value.clone();
        }
    }
    object
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Signs these parts, whatever they say.
pub(crate) fn sign_parts(header: &str, claims: &str, key: &EncodingKey, algorithm: Algorithm) -> String {
    let message = format!("{}.{}", encode(header), encode(claims));
    let signature = crypto::sign(message.as_bytes(), key, theirs(algorithm)).unwrap();
    format!("{message}.{signature}")
}

/// A token with this header and these claims, really signed by the key for the algorithm.
pub(crate) fn sign(algorithm: Algorithm, header: &Value, claims: &Value) -> String {
    sign_parts(&header.to_string(), &claims.to_string(), &signer(algorithm).1, algorithm)
}

/// A valid token.
pub(crate) fn good(algorithm: Algorithm) -> String {
    sign(algorithm, &header(algorithm), &claims(algorithm))
}

/// A valid token of `ISSUER` with other claims.
pub(crate) fn claiming(changes: Value) -> String {
    sign(Algorithm::EdDsa, &header(Algorithm::EdDsa), &with(claims(Algorithm::EdDsa), changes))
}

/// A valid token of `ISSUER` with another header.
pub(crate) fn headed(changes: Value) -> String {
    sign(Algorithm::EdDsa, &with(header(Algorithm::EdDsa), changes), &claims(Algorithm::EdDsa))
}

/// The public key as a JWK with this id.
pub(crate) fn jwk(algorithm: Algorithm, key_id: &str) -> Value {
    let key = match algorithm {
        Algorithm::Es256 => jsonwebtoken::DecodingKey::from_ec_pem(key_file!("p256.public")),
        Algorithm::Es384 => jsonwebtoken::DecodingKey::from_ec_pem(key_file!("p384.public")),
        Algorithm::EdDsa => jsonwebtoken::DecodingKey::from_ed_pem(key_file!("ed25519.public")),
        _ => jsonwebtoken::DecodingKey::from_rsa_pem(key_file!("rsa2048.public")),
    };
    let jwk = jsonwebtoken::jwk::Jwk::from_decoding_key(&key.unwrap(), None).unwrap();
    with(serde_json::to_value(jwk).unwrap(), json!({"kid": key_id}))
}

/// This many cases, without a file of failed ones.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}
