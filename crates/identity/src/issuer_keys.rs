//! All keys of one issuer, and the lookup by key id.

use std::sync::Arc;

use crate::error::{KeyProblem, SetupError, TokenError};
use crate::fetch::{is_allowed_address, redact_password};
use crate::key::VerifyingKey;
use crate::key_set::KeySet;
use crate::name_rules::is_name;
use crate::options::{Issuer, KeySource, VerifierOptions};
use crate::remote_key_set::RemoteKeySet;
use crate::token::ParsedToken;
use crate::{Algorithm, pem};

/// Configured keys, and fetched key sets.
pub(crate) struct IssuerKeys {
    local: KeySet,
    remotes: Vec<Arc<RemoteKeySet>>,
}

impl IssuerKeys {
    /// Loads and checks the keys of an issuer; nothing is fetched.
    pub(crate) fn load(issuer: &Issuer, options: &VerifierOptions) -> Result<Self, SetupError> {
        let mut keys = Self { local: KeySet::default(), remotes: Vec::new() };
        for source in &issuer.keys {
            match source {
                KeySource::Secret { key_id, secret } => {
                    keys.add(issuer, key_id, VerifyingKey::secret(secret))?
                }
                KeySource::Pem { key_id, pem } => keys.add(issuer, key_id, pem::public_key(pem))?,
                KeySource::KeySet { json } => keys.add_set(issuer, json)?,
                KeySource::KeySetAddress { url } => keys.add_remote(issuer, url, options)?,
            }
        }
        keys.check_algorithms(issuer)?;
        Ok(keys)
    }

    /// Adds a configured key, which must be usable.
    fn add(
        &mut self,
        issuer: &Issuer,
        key_id: &str,
        key: Result<VerifyingKey, KeyProblem>,
    ) -> Result<(), SetupError> {
        let refuse =
            |problem| SetupError::Key { issuer: issuer.issuer.clone(), key_id: key_id.to_owned(), problem };
        let key = key.map_err(refuse)?.restrict(|algorithm| issuer.algorithms.contains(&algorithm));
        if !is_name(key_id) {
            return Err(refuse(KeyProblem::BadId));
        }
        if self.local.get(key_id).is_some() {
            return Err(refuse(KeyProblem::SameId));
        }
        if key.algorithms().is_empty() {
            return Err(refuse(KeyProblem::Unused));
        }
        self.local.insert(key_id, key);
        Ok(())
    }

    fn add_set(&mut self, issuer: &Issuer, json: &[u8]) -> Result<(), SetupError> {
        let set = KeySet::parse(json, &issuer.algorithms)
            .filter(|set| !set.is_empty())
            .ok_or_else(|| SetupError::KeySet { issuer: issuer.issuer.clone() })?;
        for (key_id, keys) in set.into_keys() {
            if self.local.get(&key_id).is_some() {
                let (issuer, problem) = (issuer.issuer.clone(), KeyProblem::SameId);
                return Err(SetupError::Key { issuer, key_id, problem });
            }
            keys.into_iter().for_each(|key| self.local.insert(&key_id, key));
        }
        Ok(())
    }

    fn add_remote(
        &mut self,
        issuer: &Issuer,
        url: &str,
        options: &VerifierOptions,
    ) -> Result<(), SetupError> {
        if !is_allowed_address(url) {
            return Err(SetupError::Address { issuer: issuer.issuer.clone(), url: redact_password(url) });
        }
        self.remotes.push(Arc::new(RemoteKeySet::new(
            url.to_owned(),
            issuer.algorithms.clone(),
            Arc::clone(&options.fetch),
            Arc::clone(&options.clock),
            options.cache,
            Arc::clone(&options.notify),
        )));
        Ok(())
    }

    /// An algorithm without a key is a mistake in the configuration. HS256 always needs a configured secret.
    fn check_algorithms(&self, issuer: &Issuer) -> Result<(), SetupError> {
        let fetched = |algorithm: Algorithm| !self.remotes.is_empty() && algorithm != Algorithm::Hs256;
        let served =
            |algorithm| fetched(algorithm) || self.local.algorithms().any(|local| local == algorithm);
        match issuer.algorithms.iter().find(|algorithm| !served(**algorithm)) {
            None => Ok(()),
            Some(algorithm) => {
                Err(SetupError::NoKeyFor { issuer: issuer.issuer.clone(), algorithm: *algorithm })
            }
        }
    }

    /// Verifies the signature with the key that the token names. A token without `kid` can only mean the single key of an issuer that has
    /// exactly one.
    pub(crate) async fn verify_signature(&self, token: &ParsedToken<'_>) -> Result<(), TokenError> {
        let Some(key_id) = &token.key_id else { return self.verify_without_key_id(token) };
        if let Some(keys) = self.local.get(key_id) {
            return signed_by_one_of(keys, token);
        }
        for remote in &self.remotes {
            if let Some(keys) = remote.keys().await.get(key_id) {
                return signed_by_one_of(keys, token);
            }
        }
        for remote in &self.remotes {
            if let Some(keys) = remote.refetch_keys().await.get(key_id) {
                return signed_by_one_of(keys, token);
            }
        }
        Err(self.unknown_key_error())
    }

    /// Fetched key sets are excluded: the issuer can change them at any time, and a token without `kid` must not trigger a fetch.
    fn verify_without_key_id(&self, token: &ParsedToken<'_>) -> Result<(), TokenError> {
        let only = self.local.sole_key().filter(|_| self.remotes.is_empty());
        signed_by_one_of(only.ok_or(TokenError::MissingKeyId)?, token)
    }

    pub(crate) fn remotes(&self) -> impl Iterator<Item = &Arc<RemoteKeySet>> {
        self.remotes.iter()
    }

    /// If not all key sets could be fetched, the issuer may still have the key.
    fn unknown_key_error(&self) -> TokenError {
        match self.remotes.iter().find_map(|remote| remote.problem()) {
            Some(cause) => TokenError::KeysUnavailable { cause },
            None => TokenError::UnknownKey,
        }
    }
}

fn signed_by_one_of(keys: &[VerifyingKey], token: &ParsedToken<'_>) -> Result<(), TokenError> {
    if !keys.iter().any(|key| key.algorithms().contains(&token.algorithm)) {
        return Err(TokenError::WrongAlgorithm);
    }
    match keys.iter().any(|key| key.verifies(token)) {
        true => Ok(()),
        false => Err(TokenError::BadSignature),
    }
}
