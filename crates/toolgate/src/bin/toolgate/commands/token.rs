//! `toolgate token`: tokens for callers on this machine.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::json;
use toolgate_assembly::callers::{LOCAL_ISSUER, LOCAL_KEY_ID, local_secret};
use toolgate_assembly::secrets;
use toolgate_assembly::settings::Settings;
use toolgate_identity::{MintOptions, mint as sign};
use toolgate_manifest::{CallersConfig, ClaimsConfig, KeySourceConfig};
use toolgate_types::Trust;
use toolgate_types::time::rfc3339_millis;

use super::print;
use crate::arguments::GlobalOptions;
use crate::exit::{CliError, SUCCESS};
use crate::startup::resolve_settings;
use crate::terminal::warn;

/// The key and the claims of a signed token.
struct TokenSigner {
    secret: PathBuf,
    key_id: String,
    issuer: String,
    audience: String,
}

pub(crate) fn mint(
    common: &GlobalOptions,
    subject: &str,
    permissions: Vec<String>,
    lifetime: Duration,
    audience: Option<String>,
) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided)?;
    let signer = match &settings.loaded.config.callers {
        Some(callers) => configured_signer(callers, &settings, common, &permissions)?,
        None => TokenSigner {
            secret: local_secret(&settings),
            key_id: LOCAL_KEY_ID.to_owned(),
            issuer: LOCAL_ISSUER.to_owned(),
            audience: LOCAL_ISSUER.to_owned(),
        },
    };
    let audience = audience.unwrap_or(signer.audience);
    let now = SystemTime::now();
    let token = sign(&MintOptions {
        secret: &secrets::read_or_create(&signer.secret)?,
        key_id: &signer.key_id,
        issuer: &signer.issuer,
        audience: &audience,
        subject,
        permissions: permissions.iter().cloned().collect(),
        agent: common.agent.clone(),
        trust: common.trust,
        now,
        lifetime,
    })
    .map_err(|error| CliError::usage(error.to_string()))?;
    let expires = Timestamp::try_from(now + lifetime)
        .map(rfc3339_millis)
        .map_err(|error| CliError::error(error.to_string()))?;
    if common.json {
        let told = json!({
            "token": token, "subject": subject, "permissions": permissions, "agent": common.agent, "trust": common.trust,
            "issuer": signer.issuer, "audience": audience, "expires": expires,
        });
        print(&format!("{told}\n"))?;
    } else {
        print(&format!("{token}\n"))?;
    }
    warn(&format!("good until {expires}; use it with --token, or in the variable TOOLGATE_TOKEN"));
    Ok(SUCCESS)
}

/// A signer with the first shared secret in the configuration.
fn configured_signer(
    callers: &CallersConfig,
    settings: &Settings,
    common: &GlobalOptions,
    permissions: &[String],
) -> Result<TokenSigner, CliError> {
    let secret = callers.keys.iter().find_map(|key| match (&key.source, &key.kid) {
        (KeySourceConfig::Secret(at), Some(kid)) => Some((at, kid.value.clone())),
        _ => None,
    });
    let Some((at, key_id)) = secret else {
        return Err(CliError::usage("the configuration believes no secret that a token could be signed with").help(
            "add a key such as `{kid: local, algorithm: HS256, secret_file: callers.secret}` to `callers.keys`",
        ));
    };
    let standard = ClaimsConfig::default();
    let renamed = [
        ("permissions", !permissions.is_empty() && callers.claims.permissions != standard.permissions),
        ("agent", common.agent.is_some() && callers.claims.agent != standard.agent),
        ("trust", common.trust.is_some() && callers.claims.trust.as_deref() != Some("trust")),
    ];
    if let Some((claim, _)) = renamed.iter().find(|(_, renamed)| *renamed) {
        return Err(CliError::usage(format!("`callers.claims` reads `{claim}` elsewhere, or not at all"))
            .help(format!("write `{claim}: {claim}` there, or leave it out of the token")));
    }
    Ok(TokenSigner {
        secret: settings.resolve(&at.value)?,
        key_id,
        issuer: callers.issuer.value.clone(),
        audience: callers
            .audience
            .first()
            .map_or_else(|| LOCAL_ISSUER.to_owned(), |audience| audience.value.clone()),
    })
}
