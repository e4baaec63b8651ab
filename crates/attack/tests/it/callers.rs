//! Callers with a token: what they must prove, what they may do, and what a refusal does not reveal.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{EncodingKey, crypto};
use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, Tree, code_of, person};
use toolgate_gate::{ApprovalReply, CallOptions, Credential};
use toolgate_identity::{
    Algorithm, ClaimNames, FetchFuture, FetchKeys, Issuer, KeySource, MintOptions, SharedSecret, Verifier,
    VerifierOptions, mint,
};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{Caller, Decision, ErrorCode, Stage, ToolCall, ToolClass, Trust};

use crate::approval::Scripted;
use crate::declared::Declared;

/// The time of these tests.
const NOW: u64 = 1_800_000_000;
const SECRET: &[u8] = b"a secret for tests, 32 bytes or more";
const RSA_PUBLIC: &[u8] = include_bytes!("../../../identity/tests/data/test-only-rsa2048.public.pem");

const AGENTS: &str = "
agents:
  reader: {permissions: ['local:only']}
  watched: {trust: supervised}
  clerk: {tool_permissions: {write_file: {allowed: true}, log: {allowed: true}}}
";

struct NoFetch;

impl FetchKeys for NoFetch {
    fn fetch<'a>(&'a self, url: &'a str) -> FetchFuture<'a> {
        panic!("fetched {url}")
    }
}

/// Trusts tokens of `toolgate` signed with a secret, and tokens of `elsewhere` signed with an RSA key.
fn verifier() -> Verifier {
    let issuer = |name: &str, algorithm, key| Issuer {
        issuer: name.to_owned(),
        audiences: vec!["gate".to_owned()],
        algorithms: vec![algorithm],
        keys: vec![key],
        claims: ClaimNames::minted(),
        ..Issuer::default()
    };
    let secret =
        KeySource::Secret { key_id: "local".to_owned(), secret: SharedSecret::from(SECRET.to_vec()) };
    let public = KeySource::Pem { key_id: "rsa".to_owned(), pem: RSA_PUBLIC.to_vec() };
    let issuers =
        vec![issuer("toolgate", Algorithm::Hs256, secret), issuer("elsewhere", Algorithm::Rs256, public)];
    let clock = Arc::new(|| UNIX_EPOCH + Duration::from_secs(NOW));
    Verifier::new(VerifierOptions::new(issuers, clock, Arc::new(NoFetch))).unwrap()
}

/// A token as the operator would mint it.
fn minted(permissions: &[&str], agent: Option<&str>, trust: Option<Trust>) -> String {
    let now: SystemTime = UNIX_EPOCH + Duration::from_secs(NOW);
    mint(&MintOptions {
        secret: &SharedSecret::from(SECRET.to_vec()),
        key_id: "local",
        issuer: "toolgate",
        audience: "gate",
        subject: "alice",
        permissions: permissions.iter().map(|permission| (*permission).to_owned()).collect(),
        agent: agent.map(|agent| agent.parse().unwrap()),
        trust,
        now,
        lifetime: Duration::from_secs(600),
    })
    .unwrap()
}

fn with(mut object: Value, changes: Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(object.as_object_mut().unwrap().remove(name)),
            value => object[name] = value.clone(),
        }
    }
    object
}

/// A hand-made token, signed with this HMAC key whatever its header says.
fn signed(header: Value, claims: Value, key: &[u8]) -> String {
    let header = with(json!({"typ": "JWT", "alg": "HS256", "kid": "local"}), header);
    let claims = with(
        json!({"iss": "toolgate", "aud": "gate", "sub": "alice", "iat": NOW - 10, "exp": NOW + 600}),
        claims,
    );
    let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let message = format!("{}.{}", encode(&header), encode(&claims));
    let key = EncodingKey::from_secret(key);
    let algorithm = match header["alg"].as_str() {
        Some("HS384") => jsonwebtoken::Algorithm::HS384,
        _ => jsonwebtoken::Algorithm::HS256,
    };
    format!("{message}.{}", crypto::sign(message.as_bytes(), &key, algorithm).unwrap())
}

fn claiming(claims: Value) -> String {
    signed(json!({}), claims, SECRET)
}

fn headed(header: Value) -> String {
    signed(header, json!({}), SECRET)
}

/// The same token with other claims, under the old signature.
fn altered(token: &str) -> String {
    let parts: Vec<&str> = token.split('.').collect();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
    let claims = with(claims, json!({"permissions": ["git:read", "allow_destructive"]}));
    format!("{}.{}.{}", parts[0], URL_SAFE_NO_PAD.encode(claims.to_string()), parts[2])
}

fn unsigned(algorithm: &str) -> String {
    let token = headed(json!({"alg": algorithm}));
    format!("{}.", token.rsplit_once('.').unwrap().0)
}

/// Invalid tokens, with the reason for the operator.
fn bad_tokens() -> Vec<(&'static str, String, &'static str)> {
    let confused = json!({"iss": "elsewhere"});
    vec![
        ("empty", String::new(), "malformed"),
        ("words", "let me in, please".to_owned(), "malformed"),
        ("two parts", "a.b".to_owned(), "malformed"),
        ("four parts", format!("{}.x", claiming(json!({}))), "malformed"),
        ("a space at the end", format!("{} ", claiming(json!({}))), "malformed"),
        ("huge", claiming(json!({"padding": "x".repeat(100_000)})), "too_large"),
        ("no algorithm", unsigned("none"), "wrong_algorithm"),
        ("no algorithm, in other letters", unsigned("nOnE"), "wrong_algorithm"),
        ("no signature", unsigned("HS256"), "bad_signature"),
        ("another algorithm", headed(json!({"alg": "HS384"})), "wrong_algorithm"),
        (
            "the public key as a secret",
            signed(json!({"kid": "rsa"}), confused.clone(), RSA_PUBLIC),
            "wrong_algorithm",
        ),
        (
            "the public key as a secret, under its algorithm",
            signed(json!({"kid": "rsa", "alg": "RS256"}), confused, RSA_PUBLIC),
            "bad_signature",
        ),
        (
            "another key's secret",
            signed(json!({}), json!({}), b"another secret, of 32 bytes or more"),
            "bad_signature",
        ),
        ("altered", altered(&minted(&["git:read"], None, None)), "bad_signature"),
        (
            "a key that it brings along",
            headed(json!({"kid": "mine", "jwk": {"kty": "oct", "k": "AAAA"}})),
            "unknown_key",
        ),
        ("unknown key", headed(json!({"kid": "next"})), "unknown_key"),
        (
            "no key id, and not of the one key that there is",
            signed(json!({"kid": null}), json!({}), b"another secret, of 32 bytes or more"),
            "bad_signature",
        ),
        ("expired", claiming(json!({"exp": NOW - 3600})), "expired"),
        ("expired beyond the leeway", claiming(json!({"exp": NOW - 31})), "expired"),
        ("not yet", claiming(json!({"nbf": NOW + 31})), "not_yet_valid"),
        ("issued tomorrow", claiming(json!({"iat": NOW + 86_400, "exp": NOW + 86_500})), "issued_in_future"),
        ("for ever", claiming(json!({"exp": NOW + 10 * 86_400})), "lives_too_long"),
        ("without an end", claiming(json!({"exp": null})), "missing_claim"),
        ("for somebody else", claiming(json!({"aud": "bank"})), "wrong_audience"),
        ("for nobody", claiming(json!({"aud": null})), "missing_claim"),
        ("by somebody else", claiming(json!({"iss": "nobody"})), "wrong_issuer"),
        ("by the other issuer", claiming(json!({"iss": "elsewhere"})), "wrong_algorithm"),
        ("about nobody", claiming(json!({"sub": null})), "missing_claim"),
        ("an agent that is no name", claiming(json!({"agent": "../reader"})), "bad_claim"),
        (
            "an agent that nobody declared",
            claiming(json!({"agent": "ghost"})),
            "agent `ghost` is not declared",
        ),
    ]
}

struct Desk {
    workspace: PathBuf,
    audit: PathBuf,
    log: Arc<Declared>,
    approver: Arc<Scripted>,
    // Dropped before its directory, or it would recreate the directory.
    bench: Bench,
    _scratch: Scratch,
}

impl Desk {
    fn new(verifier: Option<Verifier>, replies: impl IntoIterator<Item = ApprovalReply>) -> Self {
        let scratch = Scratch::new();
        let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
        std::fs::write(workspace.join("a.txt"), "old\n").unwrap();
        let log = Declared::new("log").permissions(&["git:read"]).share();
        let push = Declared::new("push").class(ToolClass::Write).permissions(&["git:push"]).share();
        let wipe = Declared::new("wipe").class(ToolClass::Destructive).permissions(&["git:push"]).share();
        let approver = Scripted::new(replies);
        let mut options = BenchOptions::new(Profile::NATIVE, &workspace, &state)
            .config(AGENTS)
            .approver(approver.clone(), Duration::from_millis(50))
            .tool(log.clone())
            .tool(push)
            .tool(wipe);
        if let Some(verifier) = verifier {
            options = options.verifier(verifier);
        }
        let bench = options.open();
        Self { workspace, audit: state.join("audit"), log, approver, bench, _scratch: scratch }
    }

    fn call(&self, token: &str, tool: &str, arguments: Value) -> CallResponse {
        self.bench.call_as(credential(token, Trust::Autonomous), tool, arguments)
    }

    fn code(&self, token: &str, tool: &str, arguments: Value) -> Option<ErrorCode> {
        code_of(&self.call(token, tool, arguments))
    }

    /// Everything in the audit directory, as text.
    fn audit_text(&self) -> String {
        let entries = std::fs::read_dir(&self.audit).unwrap().map(|entry| entry.unwrap().path());
        entries
            .filter(|path| path.is_file())
            .map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned())
            .collect()
    }
}

fn credential(token: &str, trust: Trust) -> Credential {
    Credential::Token { token: token.to_owned(), session: "s1".parse().unwrap(), run: None, trust }
}

fn refused_at(called: &CallResponse) -> Option<(Stage, ErrorCode)> {
    called.failed.as_ref().map(|(stage, failure)| (*stage, failure.code))
}

#[test]
fn a_token_that_proves_nothing_is_refused_and_recorded_once() {
    let desk = Desk::new(Some(verifier()), []);
    let before = Tree::of(&desk.workspace);
    let tokens = bad_tokens();
    for (name, token, reason) in &tokens {
        let called = desk.call(token, "log", json!({"count": 1}));
        assert_eq!(refused_at(&called), Some((Stage::Auth, ErrorCode::Unauthenticated)), "{name}");
        assert!(!called.answer.text.contains(reason), "{name}: {}", called.answer.text);
        let record = desk.bench.record(called.call);
        let denial = record.denial.unwrap();
        assert_eq!((record.decision, denial.stage), (Decision::Denied, Stage::Auth), "{name}");
        assert!(denial.reason.starts_with(reason), "{name}: {}", denial.reason);
        // None of its claims is believed, not even for the audit record.
        assert_eq!((record.caller.sub.as_str(), record.caller.agent), ("unverified", None), "{name}");
        assert_eq!(record.caller.permissions, Vec::<String>::new(), "{name}");
        // Writing is refused too.
        let called = desk.call(token, "write_file", json!({"path": "a.txt", "content": "x"}));
        assert_eq!(refused_at(&called), Some((Stage::Auth, ErrorCode::Unauthenticated)), "{name}");
    }
    assert_eq!(desk.log.runs(), 0);
    assert_eq!(desk.approver.asked().len(), 0);
    assert_eq!(before.differences(&Tree::of(&desk.workspace)), Vec::<String>::new());
    let records = desk.bench.records();
    assert_eq!(records.len(), 2 * tokens.len());
    assert!(records.values().all(|records| records.len() == 1), "a call has more than one record");
    assert_eq!(desk.bench.verify_audit(), 2 * tokens.len() as u64);
}

#[test]
fn no_part_of_a_token_is_written_down_or_answered() {
    let desk = Desk::new(Some(verifier()), []);
    let good = minted(&["git:read"], None, None);
    let mut tokens: Vec<String> = bad_tokens().into_iter().map(|(_, token, _)| token).collect();
    tokens.push(good.clone());
    let mut heard = String::new();
    for token in &tokens {
        for tool in ["log", "lgo"] {
            let called = desk.call(token, tool, json!({}));
            heard.push_str(&format!("{:?} {:?}", called.answer, called.failed));
        }
    }
    assert_eq!(desk.code(&good, "log", json!({})), None);
    heard.push_str(&desk.bench.complaints().join("\n"));
    heard.push_str(&desk.audit_text());
    assert!(heard.contains("bad_signature"), "nothing was recorded");
    for part in tokens.iter().flat_map(|token| token.split('.')).filter(|part| part.len() >= 8) {
        let end = part.len().min(64);
        assert!(!heard.contains(&part[..end]), "a part of a token was written down: {}", &part[..end]);
    }
}

#[test]
fn a_good_token_is_who_it_says() {
    let desk = Desk::new(Some(verifier()), []);
    let called = desk.call(&minted(&["git:read"], Some("reader"), None), "log", json!({"count": 3}));
    assert_eq!(called.failed, None);
    assert_eq!(desk.log.calls(), [called.call]);
    let caller = desk.bench.record(called.call).caller;
    assert_eq!((caller.sub.as_str(), caller.agent.as_deref()), ("alice", Some("reader")));
    // What is declared for an agent that a person acts as does not apply to tokens.
    assert_eq!((caller.permissions, caller.session.as_str()), (vec!["git:read".to_owned()], "s1"));
    // Clocks may differ by the leeway, and by no second more.
    assert_eq!(
        desk.code(&claiming(json!({"exp": NOW - 29, "permissions": ["git:read"]})), "log", json!({})),
        None
    );
    assert_eq!(
        desk.code(&claiming(json!({"nbf": NOW + 29, "permissions": ["git:read"]})), "log", json!({})),
        None
    );
}

#[test]
fn without_a_verifier_no_token_is_good() {
    let desk = Desk::new(None, []);
    for token in [minted(&["git:read"], None, None), String::new()] {
        let called = desk.call(&token, "log", json!({}));
        assert_eq!(refused_at(&called), Some((Stage::Auth, ErrorCode::Unauthenticated)));
        assert!(desk.bench.record(called.call).denial.unwrap().reason.contains("no issuer"));
    }
    assert_eq!(desk.log.runs(), 0);
    // A person at the keyboard needs none.
    assert_eq!(code_of(&desk.bench.call_as(person("s1"), "log", json!({}))), None);
}

#[test]
fn whoever_is_not_verified_learns_no_tool_names() {
    let desk = Desk::new(Some(verifier()), []);
    for (name, token, _) in bad_tokens() {
        let answers = ["log", "lgo", "write_file", "no_such_tool"].map(|tool| {
            let called = desk.call(&token, tool, json!({"count": "x"}));
            (called.answer, called.failed)
        });
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{name}: {answers:?}");
    }
    // A verified caller gets help, with the tools that it may use.
    let good = minted(&["git:read"], None, None);
    let called = desk.call(&good, "lgo", json!({}));
    assert_eq!(refused_at(&called), Some((Stage::Registry, ErrorCode::UnknownTool)));
    assert!(called.answer.text.contains("`log`"), "{}", called.answer.text);
    assert_eq!(desk.bench.record(called.call).caller.sub, "alice");
    let called = desk.call(&good, "zzzzzzzzzzzzz", json!({}));
    for (tool, is_told) in
        [("read_file", false), ("log", true), ("push", false), ("wipe", false), ("write_file", false)]
    {
        assert_eq!(called.answer.text.contains(tool), is_told, "{tool}: {}", called.answer.text);
    }
}

#[test]
fn a_bearer_for_no_agent_reads_and_uses_what_it_has_permissions_for() {
    let desk = Desk::new(Some(verifier()), []);
    let before = Tree::of(&desk.workspace);
    let cases: [(&[&str], &str, Value, bool); 11] = [
        (&[], "read_file", json!({"path": "a.txt"}), false),
        (&["files:write", "git:read"], "read_file", json!({"path": "a.txt"}), false),
        (&["files:read"], "read_file", json!({"path": "a.txt"}), true),
        (&[], "write_file", json!({"path": "a.txt", "content": "x"}), false),
        (&["allow_destructive"], "delete_file", json!({"path": "a.txt"}), false),
        (&[], "log", json!({}), false),
        (&["git:read"], "log", json!({}), true),
        (&["git:read"], "push", json!({}), false),
        (&["git:push"], "push", json!({}), true),
        (&["git:push"], "wipe", json!({}), false),
        (&["git:push", "allow_destructive"], "wipe", json!({}), true),
    ];
    for (permissions, tool, arguments, is_allowed) in cases {
        let token = minted(permissions, None, None);
        let called = desk.call(&token, tool, arguments);
        let expected = (!is_allowed).then_some((Stage::Permission, ErrorCode::NotPermitted));
        assert_eq!(refused_at(&called), expected, "{permissions:?} {tool}");
        // What is offered is what may be used.
        let offered =
            desk.bench.wait(desk.bench.gate().tools_for(credential(&token, Trust::Guided))).unwrap();
        let is_offered = offered.iter().any(|offered| offered.spec().name.as_str() == tool);
        assert_eq!(is_offered, is_allowed, "{permissions:?} {tool}");
    }
    assert_eq!(before.differences(&Tree::of(&desk.workspace)), Vec::<String>::new());
    let refused = desk.bench.wait(desk.bench.gate().tools_for(credential("x.y.z", Trust::Guided)));
    assert_eq!(refused.err().map(|failure| failure.code), Some(ErrorCode::Unauthenticated));
}

#[test]
fn a_token_for_an_agent_has_the_scope_of_that_agent() {
    let desk = Desk::new(Some(verifier()), []);
    let clerk = |permissions: &[&str]| minted(permissions, Some("clerk"), None);
    let not_permitted = Some(ErrorCode::NotPermitted);
    let write = json!({"path": "b.txt", "content": "x"});
    assert_eq!(desk.code(&clerk(&[]), "write_file", write.clone()), None);
    assert_eq!(desk.code(&clerk(&["git:read"]), "read_file", json!({"path": "a.txt"})), not_permitted);
    // A declared tool must be in the list, and its permissions held.
    assert_eq!(desk.code(&clerk(&[]), "log", json!({})), not_permitted);
    assert_eq!(desk.code(&clerk(&["git:read"]), "log", json!({})), None);
    assert_eq!(desk.code(&clerk(&["git:push"]), "push", json!({})), not_permitted);
    // Without a list: read-only tools.
    let reader = minted(&["git:read", "git:push"], Some("reader"), None);
    assert_eq!(desk.code(&reader, "log", json!({})), None);
    assert_eq!(desk.code(&reader, "push", json!({})), not_permitted);
    assert_eq!(desk.code(&reader, "write_file", write), not_permitted);
}

#[test]
fn a_token_can_ask_for_more_questions_and_never_for_fewer() {
    let claims = [None, Some(Trust::Supervised), Some(Trust::Guided), Some(Trust::Autonomous)];
    let questions = |trust: Trust| match trust {
        Trust::Supervised => 2,
        Trust::Guided => 1,
        Trust::Autonomous => 0,
    };
    for given in [Trust::Supervised, Trust::Guided, Trust::Autonomous] {
        for claimed in claims {
            for agent in [None, Some("watched")] {
                let desk = Desk::new(Some(verifier()), [ApprovalReply::Once, ApprovalReply::Once]);
                let token = minted(&["git:read", "git:push"], agent, claimed);
                for tool in ["log", "push"] {
                    let called = desk.bench.call_as(credential(&token, given), tool, json!({}));
                    // An agent without a list only reads.
                    assert_eq!(called.failed.is_some(), agent.is_some() && tool == "push");
                }
                let mut expected = questions(given).max(claimed.map_or(0, questions));
                if agent.is_some() {
                    expected = 1;
                }
                assert_eq!(desk.approver.asked().len(), expected, "{given} {claimed:?} {agent:?}");
            }
        }
    }
}

/// An issuer whose keys never arrive.
struct Silent;

impl FetchKeys for Silent {
    fn fetch<'a>(&'a self, _url: &'a str) -> FetchFuture<'a> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn whoever_goes_away_while_a_token_is_verified_leaves_a_record() {
    let issuer = Issuer {
        issuer: "remote".to_owned(),
        audiences: vec!["gate".to_owned()],
        algorithms: vec![Algorithm::Rs256],
        keys: vec![KeySource::KeySetAddress { url: "https://issuer.example/keys".to_owned() }],
        ..Issuer::default()
    };
    let clock = Arc::new(|| UNIX_EPOCH + Duration::from_secs(NOW));
    let verifier = Verifier::new(VerifierOptions::new(vec![issuer], clock, Arc::new(Silent))).unwrap();
    let desk = Desk::new(Some(verifier), []);
    let token = signed(json!({"alg": "RS256", "kid": "k"}), json!({"iss": "remote"}), SECRET);
    let cancelled = CallOptions::default().cancelled;
    for (tool, goes_away) in [("log", true), ("log", false), ("lgo", true), ("lgo", false)] {
        let call = ToolCall::new(tool, json!({}));
        let id = call.id;
        let options = CallOptions { cancelled: cancelled.child_token(), ..CallOptions::default() };
        let token_of_call = options.cancelled.clone();
        let calling = desk.bench.front().call(call, credential(&token, Trust::Autonomous), options);
        desk.bench.wait(async {
            tokio::select! {
                biased;
                called = calling => assert!(!goes_away && code_of(&called) == Some(ErrorCode::Cancelled)),
                () = async {
                    tokio::task::yield_now().await;
                    if !goes_away {
                        token_of_call.cancel();
                        std::future::pending::<()>().await;
                    }
                } => assert!(goes_away),
            }
        });
        let record = desk.bench.record(id);
        let denial = record.denial.unwrap();
        assert_eq!((denial.stage, denial.code), (Stage::Auth, ErrorCode::Cancelled), "{tool} {goes_away}");
        assert_eq!(record.caller.sub, "unverified");
    }
    assert_eq!(desk.log.runs(), 0);
}

#[test]
fn a_yes_to_a_person_is_none_to_a_token_of_the_same_name() {
    let desk = Desk::new(Some(verifier()), [ApprovalReply::ForSession]);
    let alice = Caller { subject: "alice".to_owned(), trust: Trust::Guided, ..person("s1") };
    assert_eq!(code_of(&desk.bench.call_as(alice.clone(), "push", json!({}))), None);
    assert_eq!(code_of(&desk.bench.call_as(alice, "push", json!({}))), None);
    assert_eq!(desk.approver.asked().len(), 1);
    let token = credential(&minted(&["git:push"], None, None), Trust::Guided);
    let called = desk.bench.call_as(token, "push", json!({}));
    assert_eq!(refused_at(&called), Some((Stage::Approval, ErrorCode::ApprovalExpired)));
}
