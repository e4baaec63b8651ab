//! Key sets over real HTTP on loopback.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;
use toolgate_identity::{
    Algorithm, CacheOptions, FetchError, HttpKeyFetcher, Issuer, KeySource, MAX_KEY_SET_BYTES, TokenError,
    Verifier, VerifierOptions,
};

use crate::fixture::*;
use crate::server::{Answer, Server};

/// A verifier whose issuer publishes its keys at a URL.
struct World {
    verifier: Verifier,
    clock: TestClock,
    runtime: Runtime,
}

impl World {
    fn new(url: &str) -> Self {
        Self::with(url, |options| options)
    }

    fn with(url: &str, change: impl FnOnce(VerifierOptions) -> VerifierOptions) -> Self {
        let clock = TestClock::new();
        let keys = vec![KeySource::KeySetAddress { url: url.to_owned() }];
        let issuer = Issuer { keys, max_lifetime: Duration::from_secs(1 << 30), ..public_issuer() };
        // No test depends on a timeout that it does not set.
        let cache = CacheOptions { timeout: Duration::from_secs(600), ..CacheOptions::default() };
        let fetch = Arc::new(HttpKeyFetcher::new());
        let options = VerifierOptions { cache, ..VerifierOptions::new(vec![issuer], clock.read(), fetch) };
        Self { verifier: Verifier::new(change(options)).unwrap(), clock, runtime: runtime() }
    }

    fn verify(&self, token: &str) -> Result<(), TokenError> {
        self.runtime.block_on(self.verifier.verify(token)).map(|_| ())
    }
}

fn key_set(keys: &[Value]) -> Answer {
    Answer::json(&json!({"keys": keys}))
}

/// A token that is still valid after the test advances the clock.
fn token(algorithm: Algorithm, key_id: &str) -> String {
    let claims = with(claims(algorithm), json!({"exp": NOW + (1 << 29)}));
    sign(algorithm, &with(header(algorithm), json!({"kid": key_id})), &claims)
}

fn unavailable(cause: FetchError) -> Result<(), TokenError> {
    Err(TokenError::KeysUnavailable { cause })
}

#[test]
fn keys_are_fetched_once_and_kept() {
    let server = Server::start(key_set(&[jwk(Algorithm::EdDsa, "one"), jwk(Algorithm::Rs256, "two")]));
    let world = World::new(server.url());
    assert_eq!(server.requests(), 0);
    for _ in 0..20 {
        assert_eq!(world.verify(&token(Algorithm::EdDsa, "one")), Ok(()));
        assert_eq!(world.verify(&token(Algorithm::Ps384, "two")), Ok(()));
        assert_eq!(world.verify(&token(Algorithm::EdDsa, "two")), Err(TokenError::WrongAlgorithm));
    }
    assert_eq!(server.requests(), 1);
}

#[test]
fn a_token_that_can_prove_nothing_causes_no_fetch() {
    let server = Server::start(key_set(&[jwk(Algorithm::EdDsa, "one")]));
    let world = World::new(server.url());
    let hs = sign(Algorithm::Hs256, &header(Algorithm::Hs256), &claims(Algorithm::EdDsa));
    for bad in [
        "a.b.c",
        &hs,
        &claiming(json!({"iss": "https://evil.example"})),
        &headed(json!({"alg": "none"})),
        &headed(json!({"kid": null})),
        &headed(json!({"crit": []})),
        &headed(json!({"kid": "a\u{1}"})),
    ] {
        assert!(world.verify(bad).is_err());
    }
    assert_eq!(server.requests(), 0);
}

#[test]
fn rotated_keys_arrive_and_withdrawn_ones_go() {
    let server = Server::start(key_set(&[jwk(Algorithm::EdDsa, "old")]));
    let world = World::new(server.url());
    let (old, new) = (token(Algorithm::EdDsa, "old"), token(Algorithm::Es256, "new"));
    assert_eq!(world.verify(&old), Ok(()));
    server.answers(key_set(&[jwk(Algorithm::Es256, "new")]));
    // Within the minimum interval nothing is fetched, whatever tokens request.
    for _ in 0..50 {
        assert_eq!(world.verify(&new), Err(TokenError::UnknownKey));
    }
    assert_eq!(server.requests(), 1);
    world.clock.advance(30);
    assert_eq!(world.verify(&new), Ok(()));
    assert_eq!(world.verify(&old), Err(TokenError::UnknownKey));
    assert_eq!(server.requests(), 2);
    // A known key is no reason to fetch again, until the keys are old.
    world.clock.advance(600);
    assert_eq!(world.verify(&new), Ok(()));
    assert_eq!(server.requests(), 2);
    world.clock.advance(1);
    server.answers(key_set(&[]));
    assert_eq!(world.verify(&new), Err(TokenError::UnknownKey));
    assert_eq!(server.requests(), 3);
}

#[test]
fn old_keys_serve_while_the_issuer_is_down_but_not_for_ever() {
    let server = Server::start(key_set(&[jwk(Algorithm::EdDsa, "one")]));
    let world = World::new(server.url());
    let (known, unknown) = (token(Algorithm::EdDsa, "one"), token(Algorithm::EdDsa, "two"));
    assert_eq!(world.verify(&known), Ok(()));
    let down = FetchError::Status { status: 503 };
    server.answers(Answer::status("503 Service Unavailable", ""));
    world.clock.advance(601);
    assert_eq!(world.verify(&known), Ok(()));
    assert_eq!(world.verify(&unknown), unavailable(down));
    assert_eq!(server.requests(), 2);
    world.clock.advance(86_400 - 1);
    assert_eq!(world.verify(&known), Ok(()));
    world.clock.advance(1);
    assert_eq!(world.verify(&known), unavailable(down));
    world.clock.advance(30);
    server.answers(key_set(&[jwk(Algorithm::EdDsa, "one")]));
    assert_eq!(world.verify(&known), Ok(()));
    assert_eq!(world.verify(&unknown), Err(TokenError::UnknownKey));
}

#[test]
fn a_clock_that_was_set_back_stops_nothing() {
    let server = Server::start(key_set(&[jwk(Algorithm::EdDsa, "one")]));
    let world = World::new(server.url());
    world.clock.set(NOW + 100_000);
    assert_eq!(world.verify(&token(Algorithm::EdDsa, "one")), Ok(()));
    world.clock.set(NOW);
    server.answers(Answer::status("500 Oops", ""));
    assert_eq!(world.verify(&token(Algorithm::EdDsa, "one")), Ok(()));
    assert_eq!(server.requests(), 2);
    world.clock.advance(30);
    server.answers(key_set(&[jwk(Algorithm::EdDsa, "two")]));
    assert_eq!(world.verify(&token(Algorithm::EdDsa, "two")), Ok(()));
}

#[test]
fn what_is_not_a_key_set_denies_until_it_is_one() {
    let huge = " ".repeat(MAX_KEY_SET_BYTES + 1);
    let many: Vec<Value> = vec![jwk(Algorithm::EdDsa, "one"); 101];
    let elsewhere = Server::start(key_set(&[jwk(Algorithm::EdDsa, "one")]));
    for (answer, cause) in [
        (Answer::status("200 OK", "<html>"), FetchError::NotAKeySet),
        (Answer::status("200 OK", ""), FetchError::NotAKeySet),
        (Answer::status("200 OK", r#"{"keys":{}}"#), FetchError::NotAKeySet),
        (key_set(&many), FetchError::NotAKeySet),
        (Answer::Bytes(b"\x16\x03\x01garbage\r\n\r\n".to_vec()), FetchError::Unreachable),
        (Answer::Bytes(Vec::new()), FetchError::Unreachable),
        (Answer::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{}".to_vec()), FetchError::Unreachable),
        (Answer::status("404 Not Found", r#"{"keys":[]}"#), FetchError::Status { status: 404 }),
        (Answer::status("204 No Content", ""), FetchError::Status { status: 204 }),
        (Answer::redirect(elsewhere.url()), FetchError::Redirected),
        (Answer::status("200 OK", &huge), FetchError::TooLarge),
        (Answer::Endless, FetchError::TooLarge),
    ] {
        let server = Server::start(answer);
        let world = World::new(server.url());
        let token = token(Algorithm::EdDsa, "one");
        assert_eq!(world.verify(&token), unavailable(cause));
        server.answers(key_set(&[jwk(Algorithm::EdDsa, "one")]));
        assert_eq!(world.verify(&token), unavailable(cause));
        assert_eq!(server.requests(), 1);
        world.clock.advance(30);
        assert_eq!(world.verify(&token), Ok(()));
    }
    assert_eq!(elsewhere.requests(), 0);
}

#[test]
fn keys_that_cannot_be_fetched_count_as_long_as_the_operator_says_and_the_operator_is_told() {
    for (max_stale, after) in [(0, 601), (3600, 600 + 3601)] {
        let server = Server::start(key_set(&[jwk(Algorithm::EdDsa, "one")]));
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&told);
        let world = World::with(server.url(), |mut options| {
            options.cache.max_stale = Duration::from_secs(max_stale);
            options.notify = Arc::new(move |words| heard.lock().unwrap().push(words.to_owned()));
            options
        });
        let token = token(Algorithm::EdDsa, "one");
        assert_eq!(world.verify(&token), Ok(()));
        assert!(told.lock().unwrap().is_empty());
        server.answers(Answer::status("503 Service Unavailable", ""));
        let down = unavailable(FetchError::Status { status: 503 });
        world.clock.advance(601);
        assert_eq!(world.verify(&token).is_ok(), max_stale > 0, "{max_stale}");
        world.clock.advance(after - 601);
        assert_eq!(world.verify(&token), down, "{max_stale}");
        assert_eq!(told.lock().unwrap().len(), 1, "{told:?}");
        assert!(told.lock().unwrap()[0].contains("could not be fetched"), "{told:?}");
        server.answers(key_set(&[jwk(Algorithm::EdDsa, "one")]));
        world.clock.advance(30);
        assert_eq!(world.verify(&token), Ok(()));
        assert!(told.lock().unwrap()[1].contains("were fetched again"), "{told:?}");
    }
}

#[test]
fn a_server_that_does_not_answer_is_left() {
    for answer in [Answer::Silence, Answer::Half] {
        let server = Server::start(answer);
        let world = World::with(server.url(), |options| VerifierOptions {
            cache: CacheOptions { timeout: Duration::from_millis(50), ..CacheOptions::default() },
            ..options
        });
        assert_eq!(world.verify(&token(Algorithm::EdDsa, "one")), unavailable(FetchError::TimedOut));
    }
}

#[test]
fn nobody_at_the_address_denies() {
    // No server listens there, and while the port is held none can.
    let held = TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/keys", held.local_addr().unwrap());
    let world = World::new(&url);
    assert_eq!(world.verify(&token(Algorithm::EdDsa, "one")), unavailable(FetchError::Unreachable));
}

#[test]
fn a_published_set_cannot_widen_what_is_allowed() {
    let evil_secret = json!({"kty": "oct", "kid": "evil", "k": encode(SECRET), "alg": "HS256"});
    let encryption = with(jwk(Algorithm::Rs256, "enc"), json!({"use": "enc"}));
    let narrow = with(jwk(Algorithm::Rs256, "narrow"), json!({"alg": "RS512"}));
    let private = with(jwk(Algorithm::EdDsa, "private"), json!({"d": encode([1; 32])}));
    let shadow = with(jwk(Algorithm::EdDsa, "secret"), json!({}));
    let server = Server::start(key_set(&[evil_secret, encryption, narrow, private, shadow]));
    let world = World::with(server.url(), |mut options| {
        options.issuers[0].algorithms = Algorithm::ALL.to_vec();
        options.issuers[0].keys.push(secret_key());
        options
    });
    let hs = with(claims(Algorithm::Hs256), json!({"iss": ISSUER}));
    let evil = sign(Algorithm::Hs256, &json!({"alg": "HS256", "kid": "evil"}), &hs);
    assert_eq!(world.verify(&evil), Err(TokenError::UnknownKey));
    assert_eq!(world.verify(&token(Algorithm::Rs256, "enc")), Err(TokenError::UnknownKey));
    assert_eq!(world.verify(&token(Algorithm::EdDsa, "private")), Err(TokenError::UnknownKey));
    assert_eq!(world.verify(&token(Algorithm::Rs256, "narrow")), Err(TokenError::WrongAlgorithm));
    assert_eq!(world.verify(&token(Algorithm::Rs512, "narrow")), Ok(()));
    // A configured key is not replaced by a fetched one with the same id.
    assert_eq!(world.verify(&token(Algorithm::EdDsa, "secret")), Err(TokenError::WrongAlgorithm));
    assert_eq!(world.verify(&sign(Algorithm::Hs256, &header(Algorithm::Hs256), &hs)), Ok(()));
}

#[test]
fn several_addresses_are_all_asked() {
    let one = Server::start(key_set(&[jwk(Algorithm::EdDsa, "one")]));
    let two = Server::start(key_set(&[jwk(Algorithm::Rs256, "two")]));
    let down = Server::start(Answer::status("500 Oops", ""));
    let world = World::with(down.url(), |mut options| {
        for server in [&one, &two] {
            options.issuers[0].keys.push(KeySource::KeySetAddress { url: server.url().to_owned() });
        }
        options
    });
    assert_eq!(world.verify(&token(Algorithm::EdDsa, "one")), Ok(()));
    assert_eq!(world.verify(&token(Algorithm::Rs256, "two")), Ok(()));
    let cause = FetchError::Status { status: 500 };
    assert_eq!(world.verify(&token(Algorithm::Rs256, "three")), unavailable(cause));
    assert_eq!([&down, &one, &two].map(Server::requests), [1, 1, 1]);
}
