//! Verifies tokens.
//!
//! The order matters: size, form, header, issuer, algorithm, key, signature, and only then the claims. The issuer is
//! read before it is verified, because it determines which keys could verify it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::Algorithm;
use crate::claims::{ClaimRules, claimed_issuer};
use crate::error::{SetupError, TokenError};
use crate::identity::Identity;
use crate::issuer_keys::IssuerKeys;
use crate::name_rules::is_name;
use crate::options::{Clock, Issuer, MAX_LEEWAY, VerifierOptions};
use crate::remote_key_set::{FetchedKeys, RemoteKeySet, StaleKeys};
use crate::token::ParsedToken;

/// Verifies tokens.
pub struct Verifier {
    issuers: HashMap<String, TrustedIssuer>,
    clock: Clock,
    max_token_bytes: usize,
}

/// A configured issuer.
struct TrustedIssuer {
    algorithms: Vec<Algorithm>,
    keys: IssuerKeys,
    rules: ClaimRules,
}

impl Verifier {
    /// Checks the configuration and loads the configured keys. Nothing is fetched before the first token that needs
    /// it.
    ///
    /// # Errors
    /// What is wrong with the configuration or a key.
    pub fn new(options: VerifierOptions) -> Result<Self, SetupError> {
        let mut issuers = HashMap::new();
        for issuer in &options.issuers {
            check_issuer(issuer)?;
            if issuers.insert(issuer.issuer.clone(), trusted_issuer(issuer, &options)?).is_some() {
                return Err(SetupError::SameIssuer { issuer: issuer.issuer.clone() });
            }
        }
        if issuers.is_empty() {
            return Err(SetupError::NoIssuer);
        }
        Ok(Self { issuers, clock: options.clock, max_token_bytes: options.max_token_bytes })
    }

    /// The identity that this token proves. Waits only if an issuer's keys must be fetched; that needs a tokio
    /// runtime with time and I/O enabled.
    ///
    /// # Errors
    /// Why the token was rejected.
    pub async fn verify(&self, token: &str) -> Result<Identity, TokenError> {
        let token = ParsedToken::parse(token, self.max_token_bytes)?;
        let known = self.issuers.get(claimed_issuer(&token.claims)?).ok_or(TokenError::WrongIssuer)?;
        if !known.algorithms.contains(&token.algorithm) {
            return Err(TokenError::WrongAlgorithm);
        }
        known.keys.verify_signature(&token).await?;
        known.rules.identity(&token.claims, (self.clock)())
    }

    /// Key sets that could not be fetched again, so that keys are still accepted that their issuer may have revoked.
    #[must_use]
    pub fn stale_keys(&self) -> Vec<StaleKeys> {
        self.remotes().filter_map(|remote| remote.stale()).collect()
    }

    /// Fetches every published key set once, as a check. Needs a tokio runtime with time and I/O enabled.
    pub async fn probe_key_sets(&self) -> Vec<FetchedKeys> {
        let mut probed = Vec::new();
        for remote in self.remotes() {
            probed.push(remote.probe().await);
        }
        probed
    }

    fn remotes(&self) -> impl Iterator<Item = &Arc<RemoteKeySet>> {
        self.issuers.values().flat_map(|known| known.keys.remotes())
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Verifier").field("issuers", &self.issuers.keys()).finish_non_exhaustive()
    }
}

fn trusted_issuer(issuer: &Issuer, options: &VerifierOptions) -> Result<TrustedIssuer, SetupError> {
    Ok(TrustedIssuer {
        algorithms: issuer.algorithms.clone(),
        keys: IssuerKeys::load(issuer, options)?,
        rules: ClaimRules {
            issuer: issuer.issuer.clone(),
            audiences: issuer.audiences.clone(),
            leeway: issuer.leeway,
            max_lifetime: issuer.max_lifetime,
            names: issuer.claims.clone(),
        },
    })
}

fn check_issuer(issuer: &Issuer) -> Result<(), SetupError> {
    check_name("issuer", &issuer.issuer)?;
    issuer.audiences.iter().try_for_each(|audience| check_name("audience", audience))?;
    let claims = &issuer.claims;
    let names = [Some(&claims.permissions), claims.agent.as_ref(), claims.trust.as_ref()];
    names.into_iter().flatten().try_for_each(|name| check_name("claim", name))?;
    let lists = [
        ("audience", issuer.audiences.is_empty()),
        ("algorithm", issuer.algorithms.is_empty()),
        ("key", issuer.keys.is_empty()),
    ];
    if let Some((what, _)) = lists.into_iter().find(|(_, is_empty)| *is_empty) {
        return Err(SetupError::EmptyList { issuer: issuer.issuer.clone(), what });
    }
    if issuer.leeway > MAX_LEEWAY {
        return Err(SetupError::Leeway { issuer: issuer.issuer.clone(), leeway: issuer.leeway });
    }
    Ok(())
}

fn check_name(what: &'static str, text: &str) -> Result<(), SetupError> {
    match is_name(text) {
        true => Ok(()),
        false => Err(SetupError::BadName { what, text: text.to_owned() }),
    }
}
