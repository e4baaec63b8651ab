//! Checks verified claims and turns them into an identity.
//!
//! A claim of the wrong type is rejected, never ignored: a parser that ignores what it does not understand
//! turns a restricted token into an unrestricted one.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use toolgate_types::AgentName;

use crate::error::{Claim, TokenError};
use crate::identity::Identity;
use crate::name_rules::{is_name, is_reserved, is_word};
use crate::options::ClaimNames;

/// The last second of the year 9999: later times are mistakes, such as milliseconds.
const MAX_TIMESTAMP_SECONDS: u64 = 253_402_300_799;

/// The rules for the claims of one issuer.
#[derive(Debug)]
pub(crate) struct ClaimRules {
    pub(crate) issuer: String,
    pub(crate) audiences: Vec<String>,
    pub(crate) leeway: Duration,
    pub(crate) max_lifetime: Duration,
    pub(crate) names: ClaimNames,
}

/// The issuer that a token claims. Only used to find the keys that can verify it.
pub(crate) fn claimed_issuer(claims: &Map<String, Value>) -> Result<&str, TokenError> {
    Claims(claims).required_text(Claim::Issuer)
}

impl ClaimRules {
    /// The identity that these claims describe.
    pub(crate) fn identity(
        &self,
        claims: &Map<String, Value>,
        now: SystemTime,
    ) -> Result<Identity, TokenError> {
        let claims = Claims(claims);
        let expires = self.check_times(&claims, now)?;
        self.check_audience(&claims)?;
        let subject = claims.required_text(Claim::Subject)?;
        if is_reserved(subject) {
            return Err(TokenError::BadClaim { claim: Claim::Subject });
        }
        Ok(Identity {
            subject: subject.to_owned(),
            issuer: self.issuer.clone(),
            permissions: claims.permissions(&self.names.permissions)?,
            agent: claims.parsed::<AgentName>(self.names.agent.as_deref(), Claim::Agent)?,
            trust: claims.parsed(self.names.trust.as_deref(), Claim::Trust)?,
            expires: UNIX_EPOCH + Duration::from_secs(expires),
            token_id: claims.text(Claim::TokenId)?.map(str::to_owned),
        })
    }

    fn check_times(&self, claims: &Claims<'_>, now: SystemTime) -> Result<u64, TokenError> {
        let now = now.duration_since(UNIX_EPOCH).map_err(|_| TokenError::ClockUnusable)?.as_secs();
        let leeway = self.leeway.as_secs();
        let expires =
            claims.time(Claim::Expires)?.ok_or(TokenError::MissingClaim { claim: Claim::Expires })?;
        let issued = claims.time(Claim::IssuedAt)?;
        let soonest = now.saturating_add(leeway);
        if expires.saturating_add(leeway) <= now {
            return Err(TokenError::Expired);
        }
        if claims.time(Claim::NotBefore)?.is_some_and(|start| start > soonest) {
            return Err(TokenError::NotYetValid);
        }
        if issued.is_some_and(|issued| issued > soonest) {
            return Err(TokenError::IssuedInFuture);
        }
        // Without `iat`, the token was issued now at the latest.
        let begin = issued.unwrap_or(soonest);
        if expires.saturating_sub(begin) > self.max_lifetime.as_secs() {
            return Err(TokenError::LivesTooLong);
        }
        Ok(expires)
    }

    fn check_audience(&self, claims: &Claims<'_>) -> Result<(), TokenError> {
        let bad = TokenError::BadClaim { claim: Claim::Audience };
        let found = match claims.0.get(Claim::Audience.as_str()) {
            None => return Err(TokenError::MissingClaim { claim: Claim::Audience }),
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(several)) => {
                several.iter().map(|item| item.as_str().ok_or(bad)).collect::<Result<_, _>>()?
            }
            Some(_) => return Err(bad),
        };
        if found.is_empty() || !found.iter().all(|audience| is_name(audience)) {
            return Err(bad);
        }
        match found.iter().any(|audience| self.audiences.iter().any(|ours| ours == audience)) {
            true => Ok(()),
            false => Err(TokenError::WrongAudience),
        }
    }
}

/// Typed access to claims.
struct Claims<'a>(&'a Map<String, Value>);

impl<'a> Claims<'a> {
    fn text(&self, claim: Claim) -> Result<Option<&'a str>, TokenError> {
        self.text_named(claim.as_str(), claim)
    }

    fn text_named(&self, name: &str, claim: Claim) -> Result<Option<&'a str>, TokenError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if is_name(text) => Ok(Some(text)),
            Some(_) => Err(TokenError::BadClaim { claim }),
        }
    }

    fn required_text(&self, claim: Claim) -> Result<&'a str, TokenError> {
        self.text(claim)?.ok_or(TokenError::MissingClaim { claim })
    }

    /// Seconds since the Unix epoch.
    fn time(&self, claim: Claim) -> Result<Option<u64>, TokenError> {
        match self.0.get(claim.as_str()) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(second) if second <= MAX_TIMESTAMP_SECONDS => Ok(Some(second)),
                _ => Err(TokenError::BadClaim { claim }),
            },
        }
    }

    /// A claim that must parse as this type, if the issuer is configured to have it.
    fn parsed<T: std::str::FromStr>(
        &self,
        name: Option<&str>,
        claim: Claim,
    ) -> Result<Option<T>, TokenError> {
        let Some(name) = name else { return Ok(None) };
        match self.text_named(name, claim)? {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| TokenError::BadClaim { claim }),
        }
    }

    fn permissions(&self, name: &str) -> Result<BTreeSet<String>, TokenError> {
        let bad = TokenError::BadClaim { claim: Claim::Permissions };
        let words: Vec<&str> = match self.0.get(name) {
            None => Vec::new(),
            Some(Value::String(text)) if text.is_empty() => Vec::new(),
            Some(Value::String(text)) => text.split(' ').collect(),
            Some(Value::Array(items)) => {
                items.iter().map(|item| item.as_str().ok_or(bad)).collect::<Result<_, _>>()?
            }
            Some(_) => return Err(bad),
        };
        words.into_iter().map(|word| is_word(word).then(|| word.to_owned()).ok_or(bad)).collect()
    }
}
