//! Making tokens for local use: HS256 with a secret that this machine keeps.
//!
//! What is made here is what the verifier accepts: the same names, the same bounds, never longer than a day.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{EncodingKey, Header};
use serde::Serialize;
use toolgate_types::{AgentName, Trust};

use crate::Algorithm;
use crate::error::MintError;
use crate::key::{MIN_SECRET_BYTES, check_secret};
use crate::name_rules::{is_name, is_reserved, is_word};
use crate::options::SharedSecret;

/// The longest that a minted token lives.
pub const MAX_MINTED_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// What a token shall say.
#[derive(Clone, Debug)]
pub struct MintOptions<'a> {
    /// What it is signed with.
    pub secret: &'a SharedSecret,
    /// The id of that secret in the verifier's configuration.
    pub key_id: &'a str,
    /// Who says so.
    pub issuer: &'a str,
    /// Who shall believe it.
    pub audience: &'a str,
    /// Who it is about.
    pub subject: &'a str,
    /// What the subject is granted.
    pub permissions: BTreeSet<String>,
    /// The agent it calls for.
    pub agent: Option<AgentName>,
    /// How much it is asked.
    pub trust: Option<Trust>,
    /// When it is issued.
    pub now: SystemTime,
    /// How long it lives: one second to [`MAX_MINTED_LIFETIME`].
    pub lifetime: Duration,
}

#[derive(Serialize)]
struct MintedClaims<'a> {
    iss: &'a str,
    aud: &'a str,
    sub: &'a str,
    iat: u64,
    exp: u64,
    jti: String,
    permissions: &'a BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a AgentName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trust: Option<Trust>,
}

/// A signed token.
///
/// # Errors
/// What the verifier would refuse, or no random bytes.
pub fn mint(options: &MintOptions<'_>) -> Result<String, MintError> {
    check_secret(options.secret).map_err(MintError::Secret)?;
    check_names(options)?;
    let issued = options.now.duration_since(UNIX_EPOCH).map_err(|_| MintError::ClockUnusable)?.as_secs();
    let claims = MintedClaims {
        iss: options.issuer,
        aud: options.audience,
        sub: options.subject,
        iat: issued,
        exp: issued.saturating_add(lifetime_seconds(options.lifetime)?),
        jti: URL_SAFE_NO_PAD.encode(random::<16>()?),
        permissions: &options.permissions,
        agent: options.agent.as_ref(),
        trust: options.trust,
    };
    let mut header = Header::new(Algorithm::Hs256.for_signature());
    header.kid = Some(options.key_id.to_owned());
    let key = EncodingKey::from_secret(options.secret.expose());
    jsonwebtoken::encode(&header, &claims, &key).map_err(|_| MintError::NoCryptography)
}

/// 32 random bytes, as good as HS256 can use.
///
/// # Errors
/// The operating system gave no random bytes.
pub fn generate_secret() -> Result<SharedSecret, MintError> {
    random::<MIN_SECRET_BYTES>().map(|bytes| bytes.to_vec().into())
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES], MintError> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|_| MintError::NoCryptography)?;
    Ok(bytes)
}

fn lifetime_seconds(lifetime: Duration) -> Result<u64, MintError> {
    match lifetime.as_secs() {
        0 => Err(MintError::Lifetime(lifetime)),
        _ if lifetime > MAX_MINTED_LIFETIME => Err(MintError::Lifetime(lifetime)),
        seconds => Ok(seconds),
    }
}

fn check_names(options: &MintOptions<'_>) -> Result<(), MintError> {
    let named = [
        ("key id", options.key_id),
        ("issuer", options.issuer),
        ("audience", options.audience),
        ("subject", options.subject),
    ];
    if is_reserved(options.subject) {
        return Err(MintError::BadName { what: "subject" });
    }
    if let Some((what, _)) = named.into_iter().find(|(_, text)| !is_name(text)) {
        return Err(MintError::BadName { what });
    }
    match options.permissions.iter().all(|permission| is_word(permission)) {
        true => Ok(()),
        false => Err(MintError::BadName { what: "permission" }),
    }
}
