//! Any text as a token, a key set and a public key: only the one valid token is accepted, and nothing blocks.
#![no_main]

use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, UNIX_EPOCH};

use libfuzzer_sys::fuzz_target;
use toolgate_identity::{
    Algorithm, ClaimNames, HttpKeyFetcher, Issuer, KeySource, Verifier, VerifierOptions,
};

const GOOD: &str = include_str!("../seeds/token/minted");
const SECRET: &[u8] = b"a secret for fuzzing, of 32 bytes or more";

static VERIFIER: LazyLock<Verifier> = LazyLock::new(|| {
    let key = KeySource::Secret { key_id: "local".to_owned(), secret: SECRET.to_vec().into() };
    let verifier = verifier(vec![Algorithm::Hs256], key).expect("the configuration is right");
    assert!(is_believed(&verifier, GOOD));
    verifier
});

fn verifier(algorithms: Vec<Algorithm>, key: KeySource) -> Option<Verifier> {
    let issuer = Issuer {
        issuer: "toolgate".to_owned(),
        audiences: vec!["toolgate".to_owned()],
        algorithms,
        keys: vec![key],
        claims: ClaimNames::minted(),
        ..Issuer::default()
    };
    let clock = Arc::new(|| UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    Verifier::new(VerifierOptions::new(vec![issuer], clock, Arc::new(HttpKeyFetcher::new()))).ok()
}

fn is_believed(verifier: &Verifier, token: &str) -> bool {
    match pin!(verifier.verify(token)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result.is_ok(),
        Poll::Pending => panic!("waited although every key is at hand"),
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(token) = std::str::from_utf8(bytes) {
        assert_eq!(is_believed(&VERIFIER, token), token == GOOD);
    }
    let sources = [
        KeySource::KeySet { json: bytes.to_vec() },
        KeySource::Pem { key_id: "local".to_owned(), pem: bytes.to_vec() },
    ];
    for verifier in sources.into_iter().filter_map(|source| verifier(vec![Algorithm::EdDsa], source)) {
        assert!(!is_believed(&verifier, GOOD));
    }
});
