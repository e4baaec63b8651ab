//! Times against a slow and obvious reference model.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use serde_json::json;
use toolgate_identity::{Algorithm, Issuer, TokenError, Verifier};

use crate::fixture::*;

/// The rules, in numbers that cannot overflow.
fn expected(
    now: i128,
    leeway: i128,
    longest: i128,
    exp: i128,
    nbf: Option<i128>,
    iat: Option<i128>,
) -> &'static str {
    if now >= exp + leeway {
        "expired"
    } else if nbf.is_some_and(|nbf| now + leeway < nbf) {
        "not_yet_valid"
    } else if iat.is_some_and(|iat| now + leeway < iat) {
        "issued_in_future"
    } else if exp - iat.unwrap_or(now + leeway) > longest {
        "lives_too_long"
    } else {
        "ok"
    }
}

fn around_now() -> impl Strategy<Value = u64> {
    prop_oneof![NOW - 100..NOW + 100, NOW - 4000..NOW + 4000, 0..253_402_300_800_u64]
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn times_are_judged_as_the_rules_say(
        exp in around_now(), nbf in prop::option::of(around_now()), iat in prop::option::of(around_now()),
        leeway in 0..=60_u64, longest in 1..7200_u64,
    ) {
        let issuer = Issuer {
            leeway: Duration::from_secs(leeway),
            max_lifetime: Duration::from_secs(longest),
            ..local_issuer()
        };
        let verifier = Verifier::new(options(vec![issuer])).unwrap();
        let hs = Algorithm::Hs256;
        let claims = with(claims(hs), json!({"exp": exp, "nbf": nbf, "iat": iat}));
        let wide = |second: Option<u64>| second.map(i128::from);
        let model = expected(NOW.into(), leeway.into(), longest.into(), exp.into(), wide(nbf), wide(iat));
        prop_assert_eq!(outcome(&verifier, &sign(hs, &header(hs), &claims)), model);
    }
}

#[test]
fn a_clock_before_1970_proves_nothing() {
    let options = toolgate_identity::VerifierOptions::new(
        vec![local_issuer()],
        Arc::new(|| UNIX_EPOCH - Duration::from_secs(1)),
        Arc::new(NoFetch),
    );
    let verifier = Verifier::new(options).unwrap();
    assert_eq!(verify(&verifier, &good(Algorithm::Hs256)), Err(TokenError::ClockUnusable));
}

#[test]
fn a_token_that_was_good_expires() {
    let clock = TestClock::new();
    let options =
        toolgate_identity::VerifierOptions::new(vec![local_issuer()], clock.read(), Arc::new(NoFetch));
    let verifier = Verifier::new(options).unwrap();
    let token = good(Algorithm::Hs256);
    assert_eq!(outcome(&verifier, &token), "ok");
    clock.set(NOW + 629);
    assert_eq!(outcome(&verifier, &token), "ok");
    clock.set(NOW + 630);
    assert_eq!(outcome(&verifier, &token), "expired");
}
