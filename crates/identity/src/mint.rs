//! Mints tokens for local use: HS256 with a secret of this machine.
//!
//! What is minted here is what the verifier accepts: the same names, the same limits, and a lifetime of at
//! most a day.

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

/// Maximum lifetime of a minted token.
pub const MAX_MINTED_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// The contents of a token.
#[derive(Clone, Debug)]
pub struct MintOptions<'a> {
    /// The secret to sign with.
    pub secret: &'a SharedSecret,
    /// The id of that secret in the verifier's configuration.
    pub key_id: &'a str,
    /// The `iss` claim.
    pub issuer: &'a str,
    /// The `aud` claim.
    pub audience: &'a str,
    /// The `sub` claim.
    pub subject: &'a str,
    /// The granted permissions.
    pub permissions: BTreeSet<String>,
    /// The agent that the caller acts for.
    pub agent: Option<AgentName>,
    /// The trust level.
    pub trust: Option<Trust>,
    /// When it is issued.
    pub now: SystemTime,
    /// Its lifetime: one second to [`MAX_MINTED_LIFETIME`].
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

/// Mints a signed token.
///
/// # Errors
/// The verifier would reject it, or there are no random bytes.
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

/// 32 random bytes, the full strength of HS256.
///
/// # Errors
/// The operating system provided no random bytes.
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
