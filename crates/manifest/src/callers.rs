//! `callers`: whose tokens are accepted.

use std::time::Duration;

use crate::decode::{
    ConfigField, KeySpec, Section, duration_or_none, key, list, located_text, path, text, word,
};
use crate::keyword_enum::words;
use crate::path::DeclaredPath;
use crate::problem::Located;
use crate::problem_report::ProblemReport;
use crate::url::url;
use crate::yaml_tree::NodeKind;

/// Maximum time that cached keys stay valid while the issuer is unreachable.
const MAX_STALE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Maximum clock skew between an issuer and this machine.
const MAX_LEEWAY: Duration = Duration::from_secs(60);

const CALLERS: &[KeySpec] = &[
    key("issuer", "issuer: https://login.example.com"),
    key("audience", "audience: toolgate"),
    key("algorithms", "algorithms: [EdDSA]"),
    key("keys", "keys: [{kid: main, algorithm: EdDSA, file: issuer.pem}]"),
    key("leeway", "leeway: 30s"),
    key("stale_keys", "stale_keys: 24h"),
    key("claims", "claims: {agent: agent, permissions: permissions}"),
];

const KEY: &[KeySpec] = &[
    key("kid", "kid: main"),
    key("algorithm", "algorithm: EdDSA"),
    key("file", "file: issuer.pem"),
    key("secret_file", "secret_file: ~/.config/toolgate/callers.secret"),
    key("jwks_file", "jwks_file: issuer.jwks.json"),
    key("jwks_url", "jwks_url: https://login.example.com/.well-known/jwks.json"),
];

const CLAIMS: &[KeySpec] =
    &[key("agent", "agent: agent"), key("permissions", "permissions: scope"), key("trust", "trust: trust")];

/// `callers`: whose tokens are accepted.
#[derive(Clone, Debug)]
pub struct CallersConfig {
    /// `issuer`: the required `iss` claim.
    pub issuer: Located<String>,
    /// `audience`: accepted values of the `aud` claim; never empty.
    pub audience: Vec<Located<String>>,
    /// `algorithms`: the accepted signature algorithms; absent means those of the keys.
    pub algorithms: Option<Vec<Located<TokenAlgorithm>>>,
    /// `keys`: never empty.
    pub keys: Vec<CallerKey>,
    /// `leeway`: allowed clock skew; from `0s` to a minute.
    pub leeway: Option<Duration>,
    /// `stale_keys`: how long a fetched key set stays valid when it cannot be refreshed; at most a
    /// week.
    pub stale_keys: Option<Duration>,
    /// `claims`: the names of the claims.
    pub claims: ClaimsConfig,
}

/// `keys`, one entry: a verification key.
#[derive(Clone, Debug)]
pub struct CallerKey {
    /// `kid`: the key id in tokens.
    pub kid: Option<Located<String>>,
    /// `algorithm`: absent only for key sets, which contain it.
    pub algorithm: Option<Located<TokenAlgorithm>>,
    /// Where to load the key from.
    pub source: KeySourceConfig,
}

/// Where to load a key from.
#[derive(Clone, Debug)]
pub enum KeySourceConfig {
    /// `file`: a public key in PEM format.
    PublicKey(Located<DeclaredPath>),
    /// `secret_file`: a shared secret.
    Secret(Located<DeclaredPath>),
    /// `jwks_file`: a key set in a file.
    KeySetFile(Located<DeclaredPath>),
    /// `jwks_url`: a key set that is fetched.
    KeySetUrl(Located<String>),
}

/// `claims`: the names of the claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimsConfig {
    /// `agent`: the agent's name; `agent` by default.
    pub agent: String,
    /// `permissions`: the granted permissions; `permissions` by default.
    pub permissions: String,
    /// `trust`: the trust level; absent means that tokens have none.
    pub trust: Option<String>,
}

impl Default for ClaimsConfig {
    fn default() -> Self {
        Self { agent: "agent".to_owned(), permissions: "permissions".to_owned(), trust: None }
    }
}

words! {
    /// A signature algorithm (RFC 7518).
    TokenAlgorithm, "a signature algorithm" {
        /// HMAC with SHA-256: a shared secret.
        Hs256 = "HS256",
        /// RSA PKCS#1 with SHA-256.
        Rs256 = "RS256",
        /// RSA PKCS#1 with SHA-384.
        Rs384 = "RS384",
        /// RSA PKCS#1 with SHA-512.
        Rs512 = "RS512",
        /// RSA PSS with SHA-256.
        Ps256 = "PS256",
        /// RSA PSS with SHA-384.
        Ps384 = "PS384",
        /// RSA PSS with SHA-512.
        Ps512 = "PS512",
        /// ECDSA over P-256.
        Es256 = "ES256",
        /// ECDSA over P-384.
        Es384 = "ES384",
        /// Ed25519.
        EdDsa = "EdDSA",
    }
}

pub(crate) fn callers(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<CallersConfig> {
    let section = Section::read(field, CALLERS, report)?;
    for name in ["issuer", "audience", "keys"] {
        if section.lacks(name) {
            let example = CALLERS.iter().find(|key| key.name == name).map_or("", |key| key.example);
            report.node(
                &field.node,
                format!("`callers` without `{name}`"),
                Some(format!("for example `{example}`")),
            );
        }
    }
    let issuer = section.get("issuer", report, some_text);
    let audience = section.get("audience", report, audience);
    let algorithms = section.get("algorithms", report, algorithms);
    let keys = section.get("keys", report, keys);
    let leeway = section.get("leeway", report, leeway);
    let stale_keys = section.get("stale_keys", report, stale_keys);
    let claims = section.get("claims", report, claims).unwrap_or_default();
    Some(CallersConfig {
        issuer: issuer?,
        audience: audience?,
        algorithms,
        keys: keys?,
        leeway,
        stale_keys,
        claims,
    })
}

fn some_text(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<String>> {
    let text = located_text(field, report)?;
    if text.value.trim().is_empty() {
        report.node(
            &field.node,
            format!("{} is empty", field.name),
            Some(format!("for example `{}`", field.example)),
        );
        return None;
    }
    Some(text)
}

fn audience(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<Located<String>>> {
    if !matches!(field.node.kind, NodeKind::List(_)) {
        return some_text(field, report).map(|text| vec![text]);
    }
    let audiences = list(field, "audience", report, some_text)?;
    not_empty(&audiences, field, report);
    Some(audiences)
}

fn not_empty<T>(items: &[T], field: &ConfigField, report: &mut ProblemReport<'_>) {
    if items.is_empty() {
        let help = Some(format!("for example `{}`", field.example));
        report.node(&field.node, format!("{} is empty, so no token would be believed", field.name), help);
    }
}

fn algorithms(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<Located<TokenAlgorithm>>> {
    let algorithms = list(field, "algorithm", report, word)?;
    not_empty(&algorithms, field, report);
    Some(algorithms)
}

fn keys(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<CallerKey>> {
    let before = report.count();
    let keys = list(field, "key", report, caller_key)?;
    if report.count() == before {
        not_empty(&keys, field, report);
    }
    Some(keys)
}

fn caller_key(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<CallerKey> {
    let section = Section::read(field, KEY, report)?;
    let sources = ["file", "secret_file", "jwks_file", "jwks_url"];
    let given = sources.iter().filter(|name| section.field(name).is_some()).count();
    if given > 1 || sources.iter().all(|name| section.lacks(name)) {
        let help = "give one of `file`, `secret_file`, `jwks_file` and `jwks_url`".to_owned();
        let message = if given > 1 { "a key with more than one source" } else { "a key without a source" };
        report.node(&field.node, message, Some(help));
    }
    let source = section.get("file", report, path).map(KeySourceConfig::PublicKey);
    let source = source.or_else(|| section.get("secret_file", report, path).map(KeySourceConfig::Secret));
    let source = source.or_else(|| section.get("jwks_file", report, path).map(KeySourceConfig::KeySetFile));
    let source = source.or_else(|| section.get("jwks_url", report, url).map(KeySourceConfig::KeySetUrl));
    let algorithm = section.get("algorithm", report, word);
    let key = CallerKey { kid: section.get("kid", report, some_text), algorithm, source: source? };
    check_algorithm(&key, &section, field, report);
    Some(key)
}

/// Taking a public key for an HMAC secret lets an attacker forge signatures (algorithm confusion), so
/// every key must name its algorithm.
fn check_algorithm(key: &CallerKey, section: &Section, field: &ConfigField, report: &mut ProblemReport<'_>) {
    let secret = matches!(key.source, KeySourceConfig::Secret(_));
    let in_set = matches!(key.source, KeySourceConfig::KeySetFile(_) | KeySourceConfig::KeySetUrl(_));
    match &key.algorithm {
        None if !in_set && section.lacks("algorithm") => {
            let help = if secret { "write `algorithm: HS256`" } else { "for example `algorithm: EdDSA`" };
            report.node(&field.node, "a key without `algorithm`", Some(help.to_owned()));
        }
        Some(algorithm) if secret != (algorithm.value == TokenAlgorithm::Hs256) => {
            let help = if secret { "a secret signs with `HS256`" } else { "`HS256` needs a `secret_file`" };
            let message = format!("`{}` does not fit this kind of key", algorithm.value.as_str());
            report.located(algorithm, message, Some(help.to_owned()));
        }
        _ => {}
    }
}

fn leeway(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Duration> {
    let leeway = duration_or_none(field, report)?;
    if leeway > MAX_LEEWAY {
        report.node(&field.node, "`leeway` is longer than a minute", Some("write at most `60s`".to_owned()));
    }
    Some(leeway)
}

fn stale_keys(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Duration> {
    let stale = duration_or_none(field, report)?;
    if stale > MAX_STALE {
        report.node(
            &field.node,
            "`stale_keys` is longer than a week",
            Some("write at most `168h`".to_owned()),
        );
    }
    Some(stale)
}

fn claims(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<ClaimsConfig> {
    let section = Section::read(field, CLAIMS, report)?;
    let standard = ClaimsConfig::default();
    Some(ClaimsConfig {
        agent: section.get("agent", report, text).unwrap_or(standard.agent),
        permissions: section.get("permissions", report, text).unwrap_or(standard.permissions),
        trust: section.get("trust", report, text),
    })
}
