//! Misused keys: a public key as a secret, a secret as a public key, a key from the token.

use std::sync::Arc;

use jsonwebtoken::EncodingKey;
use serde_json::json;
use toolgate_identity::{Algorithm, HttpKeyFetcher, Issuer, KeySource, Verifier, VerifierOptions};

use crate::fixture::*;
use crate::server::{Answer, Server};

/// An issuer that allows everything, so that only the keys can reject.
fn lenient_issuer() -> Issuer {
    let mut keys = public_keys();
    keys.push(secret_key());
    Issuer { algorithms: Algorithm::ALL.to_vec(), keys, ..public_issuer() }
}

#[test]
fn a_public_key_is_no_secret() {
    let strict = verifier();
    let lenient = Verifier::new(options(vec![lenient_issuer()])).unwrap();
    let pem = key_file!("rsa2048.public").as_slice();
    let trimmed = pem.trim_ascii();
    let body: String =
        std::str::from_utf8(pem).unwrap().lines().filter(|line| !line.contains("--")).collect();
    let jwk_text = jwk(Algorithm::Rs256, "rsa").to_string();
    let modulus = jwk(Algorithm::Rs256, "rsa")["n"].as_str().unwrap().to_owned();
    let ed = jwk(Algorithm::EdDsa, "ed")["x"].as_str().unwrap().to_owned();
    for (key_id, secret) in [
        ("rsa", pem),
        ("rsa", trimmed),
        ("rsa", key_file!("rsa2048.pkcs1.public").as_slice()),
        ("rsa", body.as_bytes()),
        ("rsa", jwk_text.as_bytes()),
        ("rsa", modulus.as_bytes()),
        ("ed", ed.as_bytes()),
        ("ed", key_file!("ed25519.public").as_slice()),
        ("p256", key_file!("p256.public").as_slice()),
        ("rsa", b"".as_slice()),
    ] {
        let header = json!({"alg": "HS256", "typ": "JWT", "kid": key_id}).to_string();
        let claims = claims(Algorithm::Rs256).to_string();
        let forged = sign_parts(&header, &claims, &EncodingKey::from_secret(secret), Algorithm::Hs256);
        assert_eq!(outcome(&strict, &forged), "wrong_algorithm");
        assert_eq!(outcome(&lenient, &forged), "wrong_algorithm");
    }
}

#[test]
fn each_key_works_with_its_own_algorithms_only() {
    let lenient = Verifier::new(options(vec![lenient_issuer()])).unwrap();
    for signed_with in Algorithm::ALL {
        for named in Algorithm::ALL {
            for key_of in Algorithm::ALL {
                let header = json!({"alg": named.as_str(), "kid": signer(*key_of).0});
                let claims = with(claims(*signed_with), json!({"iss": ISSUER}));
                let found = outcome(&lenient, &sign(*signed_with, &header, &claims));
                let fits = signed_with == named && signer(*key_of).0 == signer(*named).0;
                assert_eq!(found == "ok", fits, "{signed_with} as {named} with the key of {key_of}: {found}");
            }
        }
    }
}

#[test]
fn an_allowed_list_is_a_list() {
    let only = |algorithm| {
        Verifier::new(options(vec![Issuer {
            algorithms: vec![algorithm],
            keys: vec![KeySource::Pem { key_id: "rsa".into(), pem: key_file!("rsa2048.public").to_vec() }],
            ..public_issuer()
        }]))
        .unwrap()
    };
    for allowed in &Algorithm::ALL[1..7] {
        for used in &Algorithm::ALL[1..7] {
            let expected = if allowed == used { "ok" } else { "wrong_algorithm" };
            assert_eq!(outcome(&only(*allowed), &good(*used)), expected, "{used} where {allowed} is allowed");
        }
    }
}

#[test]
fn another_key_of_the_same_kind_signs_for_nothing() {
    let verifier = verifier();
    let (ed, rsa) = (Algorithm::EdDsa, Algorithm::Rs256);
    let other_ed = EncodingKey::from_ed_pem(key_file!("other-ed25519.private")).unwrap();
    let other_rsa = EncodingKey::from_rsa_pem(key_file!("other-rsa2048.private")).unwrap();
    let other_secret = EncodingKey::from_secret(b"another secret for tests, 32 or more");
    for (algorithm, key) in [(ed, other_ed), (rsa, other_rsa), (Algorithm::Hs256, other_secret)] {
        let (header, claims) = (header(algorithm).to_string(), claims(algorithm).to_string());
        assert_eq!(outcome(&verifier, &sign_parts(&header, &claims, &key, algorithm)), "bad_signature");
    }
}

#[test]
fn a_key_that_the_token_brings_is_not_looked_at() {
    let server = Server::start(Answer::json(&json!({"keys": [jwk(Algorithm::EdDsa, "evil")]})));
    let options = VerifierOptions::new(
        vec![public_issuer(), local_issuer()],
        TestClock::new().read(),
        Arc::new(HttpKeyFetcher::new()),
    );
    let verifier = Verifier::new(options).unwrap();
    let other = EncodingKey::from_ed_pem(key_file!("other-ed25519.private")).unwrap();
    let embedded = with(jwk(Algorithm::EdDsa, "evil"), json!({"kid": "evil"}));
    let runtime = runtime();
    for (key_id, expected) in [("evil", "unknown_key"), ("ed", "bad_signature")] {
        let header = json!({
            "alg": "EdDSA", "typ": "JWT", "kid": key_id, "jwk": embedded,
            "jku": server.url(), "x5u": server.url(),
            "x5c": [encode("certificate")], "x5t": "a", "x5t#S256": "b",
        });
        let claims = claims(Algorithm::EdDsa).to_string();
        let token = sign_parts(&header.to_string(), &claims, &other, Algorithm::EdDsa);
        assert_eq!(runtime.block_on(verifier.verify(&token)).unwrap_err().reason(), expected);
    }
    // The same URLs in an otherwise valid token: accepted for its signature, and still not fetched.
    let honest = headed(json!({"jku": server.url(), "x5u": server.url(), "jwk": embedded}));
    assert!(runtime.block_on(verifier.verify(&honest)).is_ok());
    assert_eq!(server.requests(), 0);
}
