//! Tokens of an issuer: which are accepted, what rejected clients learn, and what is recorded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::json;
use toolgate_gate::GateConfig;
use toolgate_identity::{
    Algorithm, FetchError, FetchFuture, FetchKeys, Issuer, KeySource, Verifier, VerifierOptions,
};
use toolgate_types::{Decision, Stage};

use crate::http_fixture::{Says, Sent, TOKEN, by_issuer, by_token, get, newer, post, read_file};

const OTHER_SECRET: &[u8] = b"another secret, also of 32 bytes or more";

#[test]
fn tokens_for_others_of_others_or_too_old_are_refused_and_their_calls_recorded() {
    let world = by_issuer().start();
    let good = Says::default().token();
    let mut cut = good.clone();
    cut.truncate(good.len() - 3);
    let bad = [
        ("for another audience", Says { audience: "other-gate", ..Says::default() }.token()),
        ("expired", Says { age: Duration::from_secs(7200), ..Says::default() }.token()),
        ("signed by somebody else", Says { secret: OTHER_SECRET, ..Says::default() }.token()),
        ("cut", cut),
        ("no token", "abc".to_owned()),
        ("the token of a person", TOKEN.to_owned()),
    ];
    for (count, (what, token)) in bad.iter().enumerate() {
        let got = world.send(&newer(read_file(1)).bearing(token));
        assert_eq!(got.status, 401, "{what}: {got:?}");
        let challenge = got.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer resource_metadata=\"http://127.0.0.1:"), "{challenge}");
        assert!(challenge.ends_with("/.well-known/oauth-protected-resource/mcp\", error=\"invalid_token\""));
        assert!(!got.body.contains(token.as_str()) && !challenge.contains(token.as_str()));
        let records = world.records();
        assert_eq!(records.len(), count + 1, "{what}: one record for each call");
        let record = records.last().unwrap();
        assert_eq!((record.decision, record.caller.sub.as_str()), (Decision::Denied, "unverified"), "{what}");
        assert_eq!(record.denial.as_ref().unwrap().stage, Stage::Auth, "{what}");
    }
    // A rejected request that is no call leaves no record.
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    assert_eq!(world.send(&newer(list).bearing(&bad[0].1)).status, 401);
    assert_eq!(world.send(&get("/metrics").bearing(&bad[0].1)).status, 401);
    assert_eq!(world.records().len(), bad.len());

    let got = world.send(&newer(read_file(1)).bearing(&good));
    assert_eq!(got.message()["result"]["isError"], json!(false), "{got:?}");
    let records = world.records();
    assert_eq!(records.last().unwrap().caller.sub, "alice");
}

#[test]
fn without_a_token_strangers_learn_where_to_get_one_and_nothing_is_recorded() {
    let world = by_issuer().start();
    let got = world.send(&post(&read_file(1)));
    assert_eq!(got.status, 401);
    let challenge = got.header("www-authenticate").unwrap().to_owned();
    assert!(!challenge.contains("error="), "none was tried: {challenge}");
    let (_, url) = challenge.split_once("resource_metadata=\"").unwrap();
    let path = url.trim_end_matches('"').split_once(&world.address.to_string()).unwrap().1;
    for path in [path, "/.well-known/oauth-protected-resource"] {
        let got = world.send(&get(path));
        assert_eq!(got.status, 200, "{got:?}");
        let told = got.message();
        assert_eq!(told["resource"], json!(format!("http://{}/mcp", world.address)));
        assert_eq!(told["authorization_servers"], json!(["https://issuer.example"]));
        assert_eq!(told["bearer_methods_supported"], json!(["header"]));
    }
    assert_eq!(world.records().len(), 0);
}

#[test]
fn where_one_token_counts_the_token_of_an_issuer_does_not() {
    let world = by_token().start();
    let issued = Says::default().token();
    let got = world.send(&newer(read_file(1)).bearing(&issued));
    assert_eq!(got.status, 401);
    assert_eq!(got.header("www-authenticate"), Some("Bearer realm=\"toolgate\", error=\"invalid_token\""));
    let records = world.records();
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0].denial.as_ref().unwrap().stage, Stage::Auth);
}

#[test]
fn whoever_guesses_is_slowed_down_and_whoever_knows_is_not() {
    let world = by_issuer().limits(|limits| limits.bad_tokens_per_minute = 3).start();
    let guess = |_| world.send(&newer(read_file(1)).bearing("abc")).status;
    let found: Vec<u16> = (0..6).map(guess).collect();
    assert_eq!(found, [401, 401, 401, 429, 429, 429]);
    assert_eq!(world.records().len(), 3, "what is not looked into is not recorded");
    assert_eq!(world.send(&newer(read_file(1)).bearing(&Says::default().token())).status, 200);
}

#[test]
fn an_address_with_nothing_but_bad_tokens_is_not_looked_at_and_tokens_that_are_known_are() {
    let world = by_issuer()
        .limits(|limits| (limits.bad_tokens_per_minute, limits.unknown_tokens_per_second) = (1_000_000, 2))
        .start();
    let known = Says::default().token();
    let come = |token: &str| world.send(&get("/metrics").bearing(token)).status;
    assert_eq!(come(&known), 200);
    // So many that some fall into the same second, even on a slow machine.
    let found: Vec<u16> = (0..200).map(|number| come(&format!("abc{number}"))).collect();
    assert!(found.contains(&401) && found.contains(&429), "{found:?}");
    assert_eq!(come(&known), 200);
}

#[test]
fn a_caller_may_come_only_so_often_and_others_all_the_same() {
    let world =
        by_issuer().limits(|limits| limits.requests_per_second = std::num::NonZeroU32::new(2)).start();
    let as_caller = |subject| {
        let sent: Sent = newer(read_file(1)).bearing(&Says { subject, ..Says::default() }.token());
        world.send(&sent).status
    };
    // So many that some fall into the same second, even on a slow machine.
    let found: Vec<u16> = (0..200).map(|_| as_caller("alice")).collect();
    assert!(found.contains(&429) && found.contains(&200), "{found:?}");
    assert_eq!(as_caller("bob"), 200);
}

/// An issuer that can be switched off.
#[derive(Default)]
struct Publisher(Mutex<bool>);

impl FetchKeys for Publisher {
    fn fetch<'a>(&'a self, _: &'a str) -> FetchFuture<'a> {
        let is_gone = *self.0.lock().unwrap();
        Box::pin(async move {
            match is_gone {
                true => Err(FetchError::Unreachable),
                // The key of RFC 8037.
                false => Ok(br#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"x","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#.to_vec()),
            }
        })
    }
}

#[test]
fn readyz_tells_of_keys_that_could_not_be_fetched_again() {
    let world = by_issuer().start();
    let (publisher, seconds) = (Arc::new(Publisher::default()), Arc::new(AtomicU64::new(0)));
    let (begun, passed) = (SystemTime::now(), Arc::clone(&seconds));
    let clock = Arc::new(move || begun + Duration::from_secs(passed.load(Ordering::Relaxed)));
    let issuer = Issuer {
        issuer: "https://issuer.example".to_owned(),
        audiences: vec!["gate".to_owned()],
        algorithms: vec![Algorithm::EdDsa],
        keys: vec![KeySource::KeySetAddress { url: "https://issuer.example/keys".to_owned() }],
        ..Issuer::default()
    };
    let mut options = VerifierOptions::new(vec![issuer], clock, Arc::clone(&publisher) as _);
    options.cache.max_stale = Duration::from_secs(3600);
    let verifier = Arc::new(Verifier::new(options).unwrap());
    let loaded = GateConfig { verifier: Some(Arc::clone(&verifier)), ..world.bench.loaded().clone() };
    world.bench.gate().replace_config(loaded);
    let ready = || {
        let got = world.send(&get("/readyz"));
        (got.status, got.body)
    };
    let fetch = |after: u64| {
        seconds.fetch_add(after, Ordering::Relaxed);
        world.bench.wait(verifier.probe_key_sets()).remove(0).keys.is_ok()
    };
    assert_eq!((fetch(0), ready()), (true, (200, "ready\n".to_owned())));
    *publisher.0.lock().unwrap() = true;
    let told =
        "ready\nstale: 1 key set of callers could not be fetched again; the old keys count for 3600 s more\n";
    assert_eq!((fetch(600), ready()), (false, (200, told.to_owned())));
    *publisher.0.lock().unwrap() = false;
    assert_eq!((fetch(600), ready()), (true, (200, "ready\n".to_owned())));
}
