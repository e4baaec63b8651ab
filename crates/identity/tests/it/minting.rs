//! Minted tokens are accepted, and nothing is minted that would be rejected.

use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use toolgate_identity::{
    ClaimNames, Issuer, KeyProblem, KeySource, MintError, MintOptions, SharedSecret, Verifier,
    generate_secret, mint,
};
use toolgate_types::Trust;

use crate::fixture::*;

fn minted<'a>(secret: &'a SharedSecret, subject: &'a str) -> MintOptions<'a> {
    MintOptions {
        secret,
        key_id: "k",
        issuer: LOCAL,
        audience: AUDIENCE,
        subject,
        permissions: ["git:read".to_owned(), "fs:write".to_owned()].into(),
        agent: Some("reviewer".parse().unwrap()),
        trust: Some(Trust::Supervised),
        now: UNIX_EPOCH + Duration::from_secs(NOW),
        lifetime: Duration::from_secs(3600),
    }
}

fn verifier_for(secret: &SharedSecret) -> Verifier {
    let keys = vec![KeySource::Secret { key_id: "k".to_owned(), secret: secret.clone() }];
    Verifier::new(options(vec![Issuer { keys, claims: ClaimNames::minted(), ..local_issuer() }])).unwrap()
}

#[test]
fn a_minted_token_says_what_it_was_told() {
    let secret = generate_secret().unwrap();
    assert!(secret.expose().len() >= 32);
    assert_ne!(secret, generate_secret().unwrap());
    let options = minted(&secret, "alice");
    let identity = verify(&verifier_for(&secret), &mint(&options).unwrap()).unwrap();
    assert_eq!((identity.subject.as_str(), identity.issuer.as_str()), ("alice", LOCAL));
    assert_eq!(
        (identity.permissions, identity.agent, identity.trust),
        (options.permissions, options.agent, options.trust)
    );
    assert_eq!(identity.expires, UNIX_EPOCH + Duration::from_secs(NOW + 3600));
    let other = verify(&verifier_for(&secret), &mint(&minted(&secret, "alice")).unwrap()).unwrap();
    assert_ne!(identity.token_id.unwrap(), other.token_id.unwrap());
    assert_eq!(
        outcome(&verifier_for(&generate_secret().unwrap()), &mint(&minted(&secret, "a")).unwrap()),
        "bad_signature"
    );
}

#[test]
fn what_the_verifier_would_refuse_is_not_minted() {
    let secret = generate_secret().unwrap();
    let weak = SharedSecret::from(vec![7; 31]);
    let with = |change: &dyn Fn(&mut MintOptions<'_>)| {
        let mut options = minted(&secret, "alice");
        change(&mut options);
        mint(&options).unwrap_err()
    };
    let day = Duration::from_secs(86_400);
    assert_eq!(mint(&minted(&weak, "alice")), Err(MintError::Secret(KeyProblem::ShortSecret { bytes: 31 })));
    for lifetime in [Duration::ZERO, Duration::from_millis(999), day + Duration::from_nanos(1), Duration::MAX]
    {
        assert_eq!(with(&|options| options.lifetime = lifetime), MintError::Lifetime(lifetime));
    }
    assert_eq!(with(&|options| options.now = UNIX_EPOCH - day), MintError::ClockUnusable);
    for (what, refusal) in [
        ("subject", with(&|options| options.subject = "a\nb")),
        ("audience", with(&|options| options.audience = "")),
        ("issuer", with(&|options| options.issuer = " ")),
        ("key id", with(&|options| options.key_id = "\0")),
        ("permission", with(&|options| options.permissions = ["a b".to_owned()].into())),
    ] {
        assert_eq!(refusal, MintError::BadName { what });
    }
    let mut longest = minted(&secret, "alice");
    longest.lifetime = day;
    assert_eq!(outcome(&verifier_for(&secret), &mint(&longest).unwrap()), "ok");
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn whatever_is_minted_verifies(
        subject in ".{0,40}|\\PC{0,40}|[a-z ]{0,10}",
        permissions in prop::collection::btree_set("\\PC{0,10}|[a-z:]{0,8}", 0..4),
    ) {
        let secret = SharedSecret::from(SECRET.to_vec());
        let options = MintOptions { permissions, ..minted(&secret, &subject) };
        if let Ok(token) = mint(&options) {
            let identity = verify(&verifier_for(&secret), &token).unwrap();
            prop_assert_eq!(&identity.subject, &subject);
            prop_assert_eq!(identity.permissions, options.permissions);
        }
    }
}
