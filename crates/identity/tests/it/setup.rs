//! Configurations that are rejected before the first token, and how.

use std::time::Duration;

use jsonwebtoken::EncodingKey;
use jsonwebtoken::jwk::Jwk;
use serde_json::json;
use toolgate_identity::{Algorithm, ClaimNames, Issuer, KeySource, SetupError, Verifier};

use crate::fixture::*;

fn pem(pem: &[u8]) -> Vec<Issuer> {
    let keys = vec![KeySource::Pem { key_id: "k".to_owned(), pem: pem.to_vec() }];
    vec![Issuer { keys, ..public_issuer() }]
}

fn secret(bytes: &[u8]) -> Vec<Issuer> {
    let keys = vec![KeySource::Secret { key_id: "k".to_owned(), secret: bytes.to_vec().into() }];
    vec![Issuer { keys, ..local_issuer() }]
}

fn address(url: &str) -> Vec<Issuer> {
    vec![Issuer { keys: vec![KeySource::KeySetAddress { url: url.to_owned() }], ..public_issuer() }]
}

fn key_set(json: &str) -> Vec<Issuer> {
    vec![Issuer { keys: vec![KeySource::KeySet { json: json.as_bytes().to_vec() }], ..public_issuer() }]
}

fn refusal(issuers: Vec<Issuer>) -> SetupError {
    Verifier::new(options(issuers)).unwrap_err()
}

#[test]
fn what_cannot_be_right_is_refused_with_a_remedy() {
    let two_blocks = [key_file!("rsa2048.public").as_slice(), key_file!("p256.public")].concat();
    let mut same_id = public_keys();
    same_id.extend(public_keys().pop());
    let set_and_pem = vec![
        public_keys().pop().unwrap(),
        KeySource::KeySet { json: json!({"keys": [jwk(Algorithm::EdDsa, "ed")]}).to_string().into_bytes() },
    ];
    let weak_set = json!({"keys": [{"kty": "oct", "kid": "a", "k": encode(SECRET)}]}).to_string();
    let public = |change: fn(&mut Issuer)| {
        let mut issuer = public_issuer();
        change(&mut issuer);
        vec![issuer]
    };
    let cases = [
        vec![],
        vec![local_issuer(), local_issuer()],
        public(|issuer| issuer.issuer.clear()),
        public(|issuer| issuer.issuer = "a\u{200b}b".to_owned()),
        public(|issuer| issuer.audiences.clear()),
        public(|issuer| issuer.audiences.push(String::new())),
        public(|issuer| issuer.algorithms.clear()),
        public(|issuer| issuer.keys.clear()),
        public(|issuer| issuer.leeway = Duration::from_secs(61)),
        public(|issuer| issuer.claims = ClaimNames { agent: Some(String::new()), ..ClaimNames::default() }),
        public(|issuer| issuer.algorithms.push(Algorithm::Hs256)),
        vec![Issuer { algorithms: vec![Algorithm::Hs256], ..address("https://issuer.example").remove(0) }],
        vec![Issuer { keys: vec![secret_key()], ..public_issuer() }],
        vec![Issuer { algorithms: vec![Algorithm::Es384], keys: public_keys(), ..public_issuer() }],
        vec![Issuer { keys: same_id, ..public_issuer() }],
        vec![Issuer { keys: set_and_pem, algorithms: vec![Algorithm::EdDsa], ..public_issuer() }],
        vec![Issuer {
            keys: vec![KeySource::Secret { key_id: " ".to_owned(), secret: SECRET.to_vec().into() }],
            ..local_issuer()
        }],
        secret(&SECRET[..31]),
        secret(b""),
        secret(key_file!("rsa2048.public")),
        pem(key_file!("rsa1024.public")),
        pem(key_file!("p521.public")),
        pem(key_file!("secp256k1.public")),
        pem(key_file!("p256-compressed.public")),
        pem(key_file!("rsa2048.private")),
        pem(key_file!("ed25519.private")),
        pem(key_file!("certificate")),
        pem(&two_blocks),
        pem(b""),
        pem(b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"),
        pem(b"-----BEGIN PUBLIC KEY-----"),
        pem(SECRET),
        key_set(""),
        key_set(r#"{"keys":[]}"#),
        key_set(&weak_set),
        address("http://issuer.example/keys"),
        address("file:///keys"),
        address("https://user:password@issuer.example/"),
        address("https://user:password@"),
        address(""),
    ];
    let lines: Vec<String> =
        cases.into_iter().map(refusal).map(|refusal| format!("{refusal}\n    {}", refusal.help())).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn keys_load_from_every_form_that_is_promised() {
    let rsa = |source| Issuer { algorithms: vec![Algorithm::Rs256], keys: vec![source], ..public_issuer() };
    let pkcs1 = KeySource::Pem { key_id: "rsa".to_owned(), pem: key_file!("rsa2048.pkcs1.public").to_vec() };
    let windows = String::from_utf8(key_file!("rsa2048.public").to_vec()).unwrap().replace('\n', "\r\n");
    let windows = KeySource::Pem { key_id: "rsa".to_owned(), pem: format!("\n{windows}\n").into_bytes() };
    let set = json!({"keys": [jwk(Algorithm::Rs256, "rsa"), jwk(Algorithm::EdDsa, "ed")]});
    let set = KeySource::KeySet { json: set.to_string().into_bytes() };
    for source in [pkcs1, windows, set] {
        let verifier = Verifier::new(options(vec![rsa(source)])).unwrap();
        assert_eq!(outcome(&verifier, &good(Algorithm::Rs256)), "ok");
        assert_eq!(outcome(&verifier, &good(Algorithm::EdDsa)), "wrong_algorithm");
    }
    let keys = json!({"keys": [
        jwk(Algorithm::Rs256, "rsa"), jwk(Algorithm::EdDsa, "ed"),
        jwk(Algorithm::Es256, "p256"), jwk(Algorithm::Es384, "p384"),
    ]});
    let all = Verifier::new(options(key_set(&keys.to_string()))).unwrap();
    for algorithm in public_algorithms() {
        assert_eq!(outcome(&all, &good(algorithm)), "ok", "{algorithm}");
    }
}

#[test]
fn one_id_may_stand_for_a_key_of_each_algorithm() {
    let keys = json!({"keys": [
        with(jwk(Algorithm::Rs256, "k"), json!({"alg": "RS512"})),
        with(jwk(Algorithm::EdDsa, "k"), json!({"alg": "EdDSA"})),
    ]});
    let issuer = Issuer {
        algorithms: vec![Algorithm::Rs256, Algorithm::Rs512, Algorithm::EdDsa],
        ..key_set(&keys.to_string()).remove(0)
    };
    assert_eq!(
        refusal(vec![issuer.clone()]),
        SetupError::NoKeyFor { issuer: ISSUER.to_owned(), algorithm: Algorithm::Rs256 }
    );
    let issuer = Issuer { algorithms: vec![Algorithm::Rs512, Algorithm::EdDsa], ..issuer };
    let verifier = Verifier::new(options(vec![issuer])).unwrap();
    for (algorithm, expected) in
        [(Algorithm::Rs512, "ok"), (Algorithm::EdDsa, "ok"), (Algorithm::Rs256, "wrong_algorithm")]
    {
        let header = with(header(algorithm), json!({"kid": "k"}));
        assert_eq!(outcome(&verifier, &sign(algorithm, &header, &claims(algorithm))), expected);
    }
}

#[test]
fn an_algorithm_of_one_key_is_not_lent_to_another_of_the_same_id() {
    let other = EncodingKey::from_rsa_pem(key_file!("other-rsa2048.private")).unwrap();
    let other = Jwk::from_encoding_key(&other, jsonwebtoken::Algorithm::RS256).unwrap();
    let other = with(serde_json::to_value(other).unwrap(), json!({"kid": "rsa"}));
    let keys = json!({"keys": [with(jwk(Algorithm::Rs512, "rsa"), json!({"alg": "RS512"})), other]});
    let algorithms = vec![Algorithm::Rs256, Algorithm::Rs512];
    let issuer = Issuer { algorithms, ..key_set(&keys.to_string()).remove(0) };
    let verifier = Verifier::new(options(vec![issuer])).unwrap();
    assert_eq!(outcome(&verifier, &good(Algorithm::Rs512)), "ok");
    assert_eq!(outcome(&verifier, &good(Algorithm::Rs256)), "bad_signature");
}

#[test]
fn nothing_that_prints_shows_a_secret() {
    let shown =
        format!("{:?} {:?}", options(vec![local_issuer()]), Verifier::new(options(vec![local_issuer()])));
    assert!(shown.contains("local") && !shown.contains("32 bytes") && !shown.contains("97, 32"), "{shown}");
}
