//! Which tokens are accepted: those of the declared issuer, or those signed with this machine's own secret.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use toolgate_identity::{
    Algorithm, ClaimNames, HttpKeyFetcher, Issuer, KeySource, SetupError, Verifier, VerifierOptions,
};
use toolgate_manifest::{
    CallerKey, CallersConfig, Config, ConfigProblem, ConfigWarning, KeySourceConfig as Declared,
};

use crate::ambient::exists;
use crate::config_files::unreadable;
use crate::error::BuildError;
use crate::load::LoadError;
use crate::notices::warn;
use crate::ownership::{OwnershipError, check_file};
use crate::secrets;
use crate::settings::Settings;

/// The issuer and the audience of tokens that this machine signs itself.
pub const LOCAL_ISSUER: &str = "toolgate";
/// The id of the secret that they are signed with.
pub const LOCAL_KEY_ID: &str = "local";

/// The file of this machine's own secret.
pub fn local_secret(settings: &Settings) -> PathBuf {
    settings.state_dir.join("keys/callers.key")
}

/// The verifier of tokens: as the configuration declares it, else with this machine's secret, if it exists.
pub fn verifier(settings: &Settings) -> Result<Option<Arc<Verifier>>, LoadError> {
    if let Some(verifier) = &settings.supplied.verifier {
        return Ok(Some(Arc::clone(verifier)));
    }
    let config = &settings.loaded.config;
    let Some(callers) = &config.callers else { return local(settings) };
    let issuer = issuer(callers, settings)?;
    let mut options = options(issuer);
    options.cache.max_stale = callers.stale_keys.unwrap_or(options.cache.max_stale);
    let verifier = Verifier::new(options).map_err(|error| vec![setup_problem(config, callers, &error)])?;
    Ok(Some(Arc::new(verifier)))
}

/// The verifier of one issuer's tokens.
///
/// # Errors
/// The issuer's keys or their address cannot be used.
pub fn issuer_verifier(issuer: Issuer) -> Result<Arc<Verifier>, SetupError> {
    Verifier::new(options(issuer)).map(Arc::new)
}

fn options(issuer: Issuer) -> VerifierOptions {
    let fetch = Arc::new(HttpKeyFetcher::new());
    let options = VerifierOptions::new(vec![issuer], Arc::new(SystemTime::now), fetch);
    VerifierOptions { notify: Arc::new(warn), ..options }
}

fn local(settings: &Settings) -> Result<Option<Arc<Verifier>>, LoadError> {
    let path = local_secret(settings);
    if !exists(&path) {
        return Ok(None);
    }
    let shown = path.display().to_string();
    let secret = secrets::read(&path)
        .map_err(|error| BuildError::usage(error.message(&shown)).help(error.help(&shown)))?;
    let issuer = Issuer {
        issuer: LOCAL_ISSUER.to_owned(),
        audiences: vec![LOCAL_ISSUER.to_owned()],
        algorithms: vec![Algorithm::Hs256],
        keys: vec![KeySource::Secret { key_id: LOCAL_KEY_ID.to_owned(), secret }],
        claims: ClaimNames::minted(),
        ..Issuer::default()
    };
    let verifier = issuer_verifier(issuer)
        .map_err(|error| BuildError::usage(format!("`{shown}`: {error}")).help(error.help()))?;
    Ok(Some(verifier))
}

fn issuer(callers: &CallersConfig, settings: &Settings) -> Result<Issuer, LoadError> {
    let config = &settings.loaded.config;
    let (mut keys, mut problems) = (Vec::new(), Vec::new());
    for key in &callers.keys {
        match key_source(key, settings)? {
            Ok(source) => keys.push(source),
            Err(problem) => problems.push(problem),
        }
    }
    let algorithms = algorithms(callers);
    if algorithms.is_empty() {
        let help = Some("say which signatures count, such as `algorithms: [EdDSA]`".to_owned());
        problems.push(config.problem_at(&callers.issuer, "`callers` names no algorithm", help));
    }
    if !problems.is_empty() {
        return Err(problems.into());
    }
    let standard = Issuer::default();
    Ok(Issuer {
        issuer: callers.issuer.value.clone(),
        audiences: callers.audience.iter().map(|audience| audience.value.clone()).collect(),
        algorithms,
        keys,
        leeway: callers.leeway.unwrap_or(standard.leeway),
        claims: ClaimNames {
            permissions: callers.claims.permissions.clone(),
            agent: Some(callers.claims.agent.clone()),
            trust: callers.claims.trust.clone(),
        },
        ..standard
    })
}

/// The listed algorithms, else those that the keys name.
fn algorithms(callers: &CallersConfig) -> Vec<Algorithm> {
    let named: Vec<&str> = match &callers.algorithms {
        Some(listed) => listed.iter().map(|algorithm| algorithm.value.as_str()).collect(),
        None => {
            let of_keys = callers.keys.iter().filter_map(|key| key.algorithm.as_ref());
            of_keys.map(|algorithm| algorithm.value.as_str()).collect()
        }
    };
    let mut algorithms: Vec<Algorithm> = named.iter().filter_map(|name| name.parse().ok()).collect();
    algorithms.sort_unstable();
    algorithms.dedup();
    algorithms
}

/// The key, or the problem in its declaration.
fn key_source(key: &CallerKey, settings: &Settings) -> Result<Result<KeySource, ConfigProblem>, BuildError> {
    let config = &settings.loaded.config;
    let key_id = || key.kid.as_ref().map(|kid| kid.value.clone());
    let nameless = |at| {
        let help = Some("write the `kid` that its tokens name, such as `kid: main`".to_owned());
        config.problem_at(at, "a key without `kid`", help)
    };
    Ok(match &key.source {
        Declared::PublicKey(at) => {
            match (key_id(), settings.loaded.file_source.read(&settings.resolve(&at.value)?)) {
                (_, Err(error)) => Err(unreadable(config, at, &error)),
                (None, _) => Err(nameless(at)),
                (Some(key_id), Ok(pem)) => Ok(KeySource::Pem { key_id, pem }),
            }
        }
        Declared::Secret(at) => match (key_id(), secrets::read(&settings.resolve(&at.value)?)) {
            (_, Err(error)) => {
                let shown = at.value.as_str();
                Err(config.problem_at(at, error.message(shown), Some(error.help(shown))))
            }
            (None, _) => Err(nameless(at)),
            (Some(key_id), Ok(secret)) => Ok(KeySource::Secret { key_id, secret }),
        },
        Declared::KeySetFile(at) => match settings.loaded.file_source.read(&settings.resolve(&at.value)?) {
            Err(error) => Err(unreadable(config, at, &error)),
            Ok(json) => Ok(KeySource::KeySet { json }),
        },
        Declared::KeySetUrl(url) => Ok(KeySource::KeySetAddress { url: url.value.clone() }),
    })
}

/// The problem with its position in the file, where the error names a key.
fn setup_problem(config: &Config, callers: &CallersConfig, error: &SetupError) -> ConfigProblem {
    let help = Some(error.help().to_owned());
    let place = callers.keys.iter().find(|key| match (error, &key.source) {
        (SetupError::Key { key_id, .. }, _) => key.kid.as_ref().is_some_and(|kid| kid.value == *key_id),
        (SetupError::KeySet { .. }, Declared::KeySetFile(_)) => true,
        (SetupError::Address { .. }, Declared::KeySetUrl(_)) => true,
        _ => false,
    });
    match place.map(|key| &key.source) {
        Some(Declared::PublicKey(at) | Declared::Secret(at) | Declared::KeySetFile(at)) => {
            config.problem_at(at, error.to_string(), help)
        }
        Some(Declared::KeySetUrl(at)) => config.problem_at(at, error.to_string(), help),
        None => config.problem_at(&callers.issuer, error.to_string(), help),
    }
}

/// Warns of key files that another user could replace.
pub fn warnings(settings: &Settings) -> Result<Vec<ConfigWarning>, BuildError> {
    let config = &settings.loaded.config;
    let mut warnings = Vec::new();
    for key in config.callers.iter().flat_map(|callers| &callers.keys) {
        let (Declared::PublicKey(at) | Declared::KeySetFile(at)) = &key.source else { continue };
        let checked = check_file(&settings.resolve(&at.value)?);
        if let Err(problem @ (OwnershipError::OtherOwner { .. } | OwnershipError::WritableByOthers { .. })) =
            checked
        {
            let message = format!(
                "others may change `{}`, and so whose tokens are believed: {problem}",
                at.value.as_str()
            );
            let help = Some(
                "let only its user write the file and its directory, such as with `chmod go-w`".to_owned(),
            );
            warnings.push(config.problem_at(at, message, help).into());
        }
    }
    Ok(warnings)
}
