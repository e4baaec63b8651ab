//! One table: a token and its result.

use serde_json::json;
use toolgate_identity::{Algorithm, ClaimNames, Issuer, Verifier};
use toolgate_types::{ErrorCode, Trust};

use crate::fixture::*;

/// Tokens of the public issuer and the local one, each with its reason word.
fn table() -> Vec<(&'static str, String, &'static str)> {
    let ed = Algorithm::EdDsa;
    let raw = |header: &str, claims: &str| sign_parts(header, claims, &signer(ed).1, ed);
    let (header_text, claims_text) = (header(ed).to_string(), claims(ed).to_string());
    let token = good(ed);
    let [head, body, signature] = token.split('.').collect::<Vec<_>>()[..] else { panic!() };
    let mut rows: Vec<(&str, String, &str)> =
        Algorithm::ALL.iter().map(|algorithm| (algorithm.as_str(), good(*algorithm), "ok")).collect();
    rows.extend([
        // The header.
        ("typ at+jwt", headed(json!({"typ": "at+jwt"})), "ok"),
        ("typ application/at+jwt", headed(json!({"typ": "application/at+JWT"})), "ok"),
        ("typ absent", headed(json!({"typ": null})), "ok"),
        ("typ of a logout token", headed(json!({"typ": "logout+jwt"})), "wrong_type"),
        ("typ empty", headed(json!({"typ": ""})), "wrong_type"),
        ("typ a number", headed(json!({"typ": 1})), "wrong_type"),
        ("alg none", headed(json!({"alg": "none"})), "wrong_algorithm"),
        ("alg None", headed(json!({"alg": "None"})), "wrong_algorithm"),
        ("alg NONE", headed(json!({"alg": "NONE"})), "wrong_algorithm"),
        ("alg empty", headed(json!({"alg": ""})), "wrong_algorithm"),
        ("alg in small letters", headed(json!({"alg": "eddsa"})), "wrong_algorithm"),
        ("alg unknown", headed(json!({"alg": "ES512"})), "wrong_algorithm"),
        ("alg of another key", headed(json!({"alg": "RS256"})), "wrong_algorithm"),
        ("alg absent", headed(json!({"alg": null})), "malformed"),
        ("alg a number", headed(json!({"alg": 5})), "malformed"),
        ("alg a list", headed(json!({"alg": ["EdDSA"]})), "malformed"),
        ("kid absent", headed(json!({"kid": null})), "missing_key_id"),
        ("kid empty", headed(json!({"kid": ""})), "malformed"),
        ("kid a number", headed(json!({"kid": 1})), "malformed"),
        ("kid over-long", headed(json!({"kid": "k".repeat(257)})), "malformed"),
        ("kid with NUL", headed(json!({"kid": "ed\0"})), "malformed"),
        ("kid a path", headed(json!({"kid": "../../../../dev/null"})), "unknown_key"),
        ("kid a query", headed(json!({"kid": "' UNION SELECT 'secret' --"})), "unknown_key"),
        ("kid in capitals", headed(json!({"kid": "ED"})), "unknown_key"),
        ("kid of another issuer", headed(json!({"kid": "secret"})), "unknown_key"),
        ("kid of another key", headed(json!({"kid": "p256"})), "wrong_algorithm"),
        ("crit", headed(json!({"crit": ["exp"]})), "unsupported_header"),
        ("crit empty", headed(json!({"crit": []})), "unsupported_header"),
        ("b64 false", headed(json!({"b64": false})), "unsupported_header"),
        ("b64 with crit", headed(json!({"b64": false, "crit": ["b64"]})), "unsupported_header"),
        ("zip", headed(json!({"zip": "DEF"})), "unsupported_header"),
        ("unknown header", headed(json!({"x-anything": {"deep": [1]}})), "ok"),
        ("a certificate in the header", headed(json!({"x5c": ["MIIB"], "x5t": "a"})), "ok"),
        ("alg twice", raw(&header_text.replace("{", r#"{"alg":"none","#), &claims_text), "malformed"),
        ("kid twice", raw(&header_text.replace("{", r#"{"kid":"ed","#), &claims_text), "malformed"),
        ("a header that is a list", raw("[]", &claims_text), "malformed"),
        ("a header with a tail", raw(&format!("{header_text}x"), &claims_text), "malformed"),
        // The claims.
        ("exp absent", claiming(json!({"exp": null})), "missing_claim"),
        ("aud absent", claiming(json!({"aud": null})), "missing_claim"),
        ("iss absent", claiming(json!({"iss": null})), "missing_claim"),
        ("sub absent", claiming(json!({"sub": null})), "missing_claim"),
        ("exp text", claiming(json!({"exp": "1800000600"})), "bad_claim"),
        ("exp negative", claiming(json!({"exp": -1})), "bad_claim"),
        ("exp a fraction", claiming(json!({"exp": 1_800_000_600.5})), "bad_claim"),
        ("exp in milliseconds", claiming(json!({"exp": (NOW + 600) * 1000})), "bad_claim"),
        ("exp huge", claiming(json!({"exp": u64::MAX})), "bad_claim"),
        ("exp an explicit null", raw(&header_text, &claims_text.replace("1800000600", "null")), "bad_claim"),
        ("nbf text", claiming(json!({"nbf": "now"})), "bad_claim"),
        ("iat text", claiming(json!({"iat": "now"})), "bad_claim"),
        ("expired", claiming(json!({"exp": NOW - 31})), "expired"),
        ("expired to the second", claiming(json!({"exp": NOW - 30})), "expired"),
        ("expired within the leeway", claiming(json!({"exp": NOW - 29})), "ok"),
        ("not yet", claiming(json!({"nbf": NOW + 31})), "not_yet_valid"),
        ("not yet, within the leeway", claiming(json!({"nbf": NOW + 30})), "ok"),
        ("from the future", claiming(json!({"iat": NOW + 31})), "issued_in_future"),
        ("from the future, within the leeway", claiming(json!({"iat": NOW + 30})), "ok"),
        ("a day", claiming(json!({"iat": NOW, "exp": NOW + 86_400})), "ok"),
        ("more than a day", claiming(json!({"iat": NOW, "exp": NOW + 86_401})), "lives_too_long"),
        ("issued long ago", claiming(json!({"iat": 1, "exp": NOW + 10})), "lives_too_long"),
        ("without iat", claiming(json!({"iat": null})), "ok"),
        ("without iat, for ever", claiming(json!({"iat": null, "exp": NOW + 86_431})), "lives_too_long"),
        ("for ever", claiming(json!({"exp": 253_402_300_799_u64})), "lives_too_long"),
        ("another audience", claiming(json!({"aud": "another"})), "wrong_audience"),
        ("an audience that begins the same", claiming(json!({"aud": "toolgate2"})), "wrong_audience"),
        ("several audiences", claiming(json!({"aud": ["another", "other-gate"]})), "ok"),
        ("several wrong audiences", claiming(json!({"aud": ["another", "third"]})), "wrong_audience"),
        ("no audience in the list", claiming(json!({"aud": []})), "bad_claim"),
        ("a list with a number", claiming(json!({"aud": ["toolgate", 1]})), "bad_claim"),
        ("audience an object", claiming(json!({"aud": {"toolgate": true}})), "bad_claim"),
        ("another issuer", claiming(json!({"iss": "https://evil.example"})), "wrong_issuer"),
        ("issuer with a slash more", claiming(json!({"iss": "https://issuer.example/"})), "wrong_issuer"),
        ("issuer in capitals", claiming(json!({"iss": "HTTPS://ISSUER.EXAMPLE"})), "wrong_issuer"),
        ("issuer a list", claiming(json!({"iss": [ISSUER]})), "bad_claim"),
        ("the other issuer's name", claiming(json!({"iss": LOCAL})), "wrong_algorithm"),
        ("sub empty", claiming(json!({"sub": ""})), "bad_claim"),
        ("sub a number", claiming(json!({"sub": 1})), "bad_claim"),
        ("sub over-long", claiming(json!({"sub": "s".repeat(257)})), "bad_claim"),
        ("sub with an escape", claiming(json!({"sub": "alice\u{1b}[2K"})), "bad_claim"),
        ("sub with a line break", claiming(json!({"sub": "alice\nbob"})), "bad_claim"),
        ("sub with NUL", claiming(json!({"sub": "alice\0"})), "bad_claim"),
        ("sub written backwards", claiming(json!({"sub": "\u{202e}ecila"})), "bad_claim"),
        ("sub with a space at the end", claiming(json!({"sub": "alice "})), "bad_claim"),
        ("sub that is the gate's word for nobody", claiming(json!({"sub": "unverified"})), "bad_claim"),
        ("sub that is nearly that", claiming(json!({"sub": "UnVerified"})), "bad_claim"),
        ("sub that is the gate's word for an example", claiming(json!({"sub": "example"})), "bad_claim"),
        ("sub that has such a word in it", claiming(json!({"sub": "unverified-bob"})), "ok"),
        ("sub in another script", claiming(json!({"sub": "アリス"})), "ok"),
        ("jti a number", claiming(json!({"jti": 1})), "bad_claim"),
        ("permissions absent", claiming(json!({"permissions": null})), "ok"),
        ("permissions as words", claiming(json!({"permissions": "a b"})), "ok"),
        ("permissions empty", claiming(json!({"permissions": ""})), "ok"),
        ("permissions an empty list", claiming(json!({"permissions": []})), "ok"),
        ("permissions with two spaces", claiming(json!({"permissions": "a  b"})), "bad_claim"),
        ("permissions with a tab", claiming(json!({"permissions": "a\tb"})), "bad_claim"),
        ("permissions an object", claiming(json!({"permissions": {"a": true}})), "bad_claim"),
        ("permissions true", claiming(json!({"permissions": true})), "bad_claim"),
        ("permissions a list with a number", claiming(json!({"permissions": ["a", 1]})), "bad_claim"),
        ("permissions a list in a list", claiming(json!({"permissions": [["a"]]})), "bad_claim"),
        ("a permission with a space", claiming(json!({"permissions": ["a b"]})), "bad_claim"),
        ("a permission that is empty", claiming(json!({"permissions": [""]})), "bad_claim"),
        ("agent absent", claiming(json!({"agent": null})), "ok"),
        ("agent a path", claiming(json!({"agent": "../reviewer"})), "bad_claim"),
        ("agent a list", claiming(json!({"agent": ["reviewer"]})), "bad_claim"),
        ("trust that nobody reads", claiming(json!({"trust": ["junk"]})), "ok"),
        ("sub twice", raw(&header_text, &claims_text.replace("{", r#"{"sub":"bob","#)), "malformed"),
        (
            "sub twice, once in disguise",
            raw(&header_text, &claims_text.replace("{", r#"{"su\u0062":"bob","#)),
            "malformed",
        ),
        (
            "an unknown claim twice",
            raw(&header_text, &claims_text.replace("{", r#"{"x":1,"x":1,"#)),
            "malformed",
        ),
        (
            "a repeated name deep inside",
            raw(&header_text, &claims_text.replace("{", r#"{"x":[{"y":1,"y":1}],"#)),
            "malformed",
        ),
        ("claims that are a list", raw(&header_text, "[]"), "malformed"),
        ("claims that are text", raw(&header_text, r#""alice""#), "malformed"),
        ("claims with a tail", raw(&header_text, &format!("{claims_text}{{}}")), "malformed"),
        // The form.
        ("nothing", String::new(), "malformed"),
        ("dots", "..".to_owned(), "malformed"),
        ("one part", head.to_owned(), "malformed"),
        ("two parts", format!("{head}.{body}"), "malformed"),
        ("four parts", format!("{token}.{signature}"), "malformed"),
        ("five parts", format!("{token}.a.b"), "malformed"),
        ("a dot before", format!(".{token}"), "malformed"),
        ("a dot after", format!("{token}."), "malformed"),
        ("no signature", format!("{head}.{body}."), "bad_signature"),
        ("no claims", format!("{head}..{signature}"), "malformed"),
        ("a space before", format!(" {token}"), "malformed"),
        ("a line break after", format!("{token}\n"), "malformed"),
        ("a line break inside", format!("{head}.\n{body}.{signature}"), "malformed"),
        ("with the scheme", format!("Bearer {token}"), "malformed"),
        ("padding on the signature", format!("{token}=="), "malformed"),
        ("padding on the header", format!("{head}=.{body}.{signature}"), "malformed"),
        ("NUL after", format!("{token}\0"), "malformed"),
        (
            "another's claims",
            format!("{head}.{}.{signature}", encode(claims(ed).to_string().replace("alice", "root"))),
            "bad_signature",
        ),
        ("huge", format!("{head}.{}.{signature}", "a".repeat(8192)), "too_large"),
        ("huge and not a token", "x".repeat(1 << 20), "too_large"),
        (
            "nested out of all proportion",
            raw(&header_text, &format!("{}{}", r#"{"a":"#.repeat(500), "}".repeat(500))),
            "malformed",
        ),
    ]);
    rows
}

#[test]
fn every_token_of_the_table() {
    let verifier = verifier();
    let table = table();
    let wrong: Vec<String> = table
        .iter()
        .map(|(name, token, expected)| (name, outcome(&verifier, token), expected))
        .filter(|(_, found, expected)| found != *expected)
        .map(|(name, found, expected)| format!("{name}: {found}, not {expected}"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(table.len() > 100);
}

#[test]
fn every_refusal_is_the_same_to_the_caller() {
    let verifier = verifier();
    for (name, token, _) in table() {
        let Err(refusal) = verify(&verifier, &token) else { continue };
        let failure = refusal.to_failure();
        assert_eq!(failure.code, ErrorCode::Unauthenticated);
        assert_eq!(failure.to_string(), "the caller could not be verified", "{name}");
        assert!(failure.details.is_empty());
        assert!(failure.operator_note.unwrap().starts_with(refusal.reason()));
    }
}

#[test]
fn an_identity_says_what_the_token_said() {
    let identity = verify(&verifier(), &good(Algorithm::Rs256)).unwrap();
    insta::assert_debug_snapshot!((
        &identity.subject, &identity.issuer, &identity.permissions, identity.agent.as_ref().unwrap().as_str(),
        identity.trust, identity.expires.duration_since(std::time::UNIX_EPOCH).unwrap(), &identity.token_id,
    ), @r#"
    (
        "alice",
        "https://issuer.example",
        {
            "fs:write",
            "git:read",
        },
        "reviewer",
        None,
        1800000600s,
        Some(
            "t-1",
        ),
    )
    "#);
    let bare = claiming(json!({"permissions": null, "agent": null, "jti": null}));
    let identity = verify(&verifier(), &bare).unwrap();
    assert!(identity.permissions.is_empty());
    assert_eq!((identity.agent, identity.trust, identity.token_id), (None, None, None));
}

#[test]
fn claims_go_by_the_names_that_the_operator_gave() {
    let names = ClaimNames {
        permissions: "scope".to_owned(),
        agent: None,
        trust: Some("https://issuer.example/trust".to_owned()),
    };
    let verifier = Verifier::new(options(vec![Issuer { claims: names, ..public_issuer() }])).unwrap();
    let asking = |trust: serde_json::Value| {
        claiming(json!({"scope": "a b a", "https://issuer.example/trust": trust, "agent": ["not read"]}))
    };
    let identity = verify(&verifier, &asking(json!("supervised"))).unwrap();
    assert_eq!(identity.permissions, ["a".to_owned(), "b".to_owned()].into());
    assert_eq!((identity.agent, identity.trust), (None, Some(Trust::Supervised)));
    for bad in [json!("Autonomous"), json!("all"), json!(""), json!(true), json!(["autonomous"])] {
        assert_eq!(outcome(&verifier, &asking(bad)), "bad_claim");
    }
}

#[test]
fn a_token_of_exactly_the_largest_size_is_read() {
    let token = good(Algorithm::Hs256);
    let bounded = |max_token_bytes| {
        let options = options(vec![local_issuer()]);
        Verifier::new(toolgate_identity::VerifierOptions { max_token_bytes, ..options }).unwrap()
    };
    assert_eq!(outcome(&bounded(token.len()), &token), "ok");
    assert_eq!(outcome(&bounded(token.len() - 1), &token), "too_large");
}
