//! Many callers, one fetch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::sync::Semaphore;
use toolgate_identity::{
    Algorithm, CacheOptions, FetchError, FetchFuture, FetchKeys, HttpKeyFetcher, Issuer, KeySource,
    TokenError, Verifier, VerifierOptions,
};

use crate::fixture::*;
use crate::server::{Answer, Server};

/// A fetch that starts immediately and ends when the test allows it.
struct HeldFetch {
    started: Semaphore,
    let_through: Semaphore,
    count: AtomicUsize,
    keys: Result<Vec<u8>, FetchError>,
}

impl HeldFetch {
    fn new(keys: Result<Vec<u8>, FetchError>) -> Arc<Self> {
        let (started, let_through) = (Semaphore::new(0), Semaphore::new(0));
        Arc::new(Self { started, let_through, count: AtomicUsize::new(0), keys })
    }
}

impl FetchKeys for HeldFetch {
    fn fetch<'a>(&'a self, _url: &'a str) -> FetchFuture<'a> {
        Box::pin(async move {
            self.count.fetch_add(1, Ordering::SeqCst);
            self.started.add_permits(1);
            self.let_through.acquire().await.unwrap().forget();
            self.keys.clone()
        })
    }
}

fn published(url: &str, fetch: Arc<dyn FetchKeys>, cache: CacheOptions) -> Arc<Verifier> {
    let keys = vec![KeySource::KeySetAddress { url: url.to_owned() }];
    let options =
        VerifierOptions::new(vec![Issuer { keys, ..public_issuer() }], TestClock::new().read(), fetch);
    Arc::new(Verifier::new(VerifierOptions { cache, ..options }).unwrap())
}

fn keys() -> Vec<u8> {
    json!({"keys": [jwk(Algorithm::EdDsa, "ed")]}).to_string().into_bytes()
}

/// A fetch timeout that no slow machine exceeds.
fn patient() -> CacheOptions {
    CacheOptions { timeout: std::time::Duration::from_secs(600), ..CacheOptions::default() }
}

#[test]
fn a_hundred_unknown_keys_are_one_request() {
    let server = Server::start(Answer::json(&json!({"keys": [jwk(Algorithm::EdDsa, "ed")]})));
    let verifier = published(server.url(), Arc::new(HttpKeyFetcher::new()), patient());
    runtime().block_on(async {
        let callers: Vec<_> = (0..100)
            .map(|caller| {
                let verifier = Arc::clone(&verifier);
                let token = headed(json!({"kid": format!("unknown-{caller}")}));
                tokio::spawn(async move { verifier.verify(&token).await.unwrap_err() })
            })
            .collect();
        for caller in callers {
            assert_eq!(caller.await.unwrap(), TokenError::UnknownKey);
        }
        assert!(verifier.verify(&good(Algorithm::EdDsa)).await.is_ok());
    });
    assert_eq!(server.requests(), 1);
}

#[test]
fn everybody_waits_for_the_one_fetch_even_without_a_pause() {
    let fetch = HeldFetch::new(Ok(keys()));
    let cache = CacheOptions { min_interval: std::time::Duration::ZERO, ..patient() };
    let verifier = published("https://issuer.example", Arc::clone(&fetch) as _, cache);
    runtime().block_on(async {
        let callers: Vec<_> = (0..100)
            .map(|_| {
                let verifier = Arc::clone(&verifier);
                tokio::spawn(async move { verifier.verify(&good(Algorithm::EdDsa)).await.is_ok() })
            })
            .collect();
        fetch.started.acquire().await.unwrap().forget();
        fetch.let_through.add_permits(100);
        for caller in callers {
            assert!(caller.await.unwrap());
        }
    });
    assert_eq!(fetch.count.load(Ordering::SeqCst), 1);
}

#[test]
fn a_caller_that_hangs_up_does_not_stop_the_fetch() {
    let fetch = HeldFetch::new(Ok(keys()));
    let verifier = published("https://issuer.example", Arc::clone(&fetch) as _, patient());
    runtime().block_on(async {
        let leader = tokio::spawn({
            let verifier = Arc::clone(&verifier);
            async move { verifier.verify(&headed(json!({"kid": "unknown"}))).await }
        });
        fetch.started.acquire().await.unwrap().forget();
        leader.abort();
        assert!(leader.await.unwrap_err().is_cancelled());
        fetch.let_through.add_permits(1);
        assert!(verifier.verify(&good(Algorithm::EdDsa)).await.is_ok());
    });
    assert_eq!(fetch.count.load(Ordering::SeqCst), 1);
}

#[test]
fn a_failed_fetch_is_everybodys_answer() {
    let fetch = HeldFetch::new(Err(FetchError::NoClient));
    fetch.let_through.add_permits(100);
    let verifier = published("https://issuer.example", Arc::clone(&fetch) as _, patient());
    runtime().block_on(async {
        for _ in 0..10 {
            let refusal = verifier.verify(&good(Algorithm::EdDsa)).await.unwrap_err();
            assert_eq!(refusal, TokenError::KeysUnavailable { cause: FetchError::NoClient });
        }
    });
    assert_eq!(fetch.count.load(Ordering::SeqCst), 1);
}

#[test]
fn a_fetch_that_panics_or_has_no_runtime_denies() {
    let denied = Err(TokenError::KeysUnavailable { cause: FetchError::Aborted });
    let verifier = published("https://issuer.example", Arc::new(NoFetch), patient());
    let token = good(Algorithm::EdDsa);
    assert_eq!(runtime().block_on(verifier.verify(&token)), denied);
    let verifier = published("https://issuer.example", Arc::new(NoFetch), patient());
    assert_eq!(verify(&verifier, &token), denied);
}
