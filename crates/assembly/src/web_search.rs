//! `web_search`: its backend and key.

use std::sync::Arc;

use toolgate_egress::SystemDialer;
use toolgate_manifest::{ConfigProblem, ConfigWarning, WebSearchConfig};
use toolgate_tools::{
    Profile, SearchKey, WEB_SEARCH, WebSearch, WebSearchError, WebSearchOptions, default_key_variable,
};

use crate::notices::debug;
use crate::settings::Settings;

/// The tool, if the configuration declares a backend. Without its key the tool is registered but suspended: visible to the operator, offered to no
/// caller.
pub fn tool(settings: &Settings) -> Result<Option<Arc<WebSearch>>, Vec<ConfigProblem>> {
    let Some(declared) = declared(settings) else { return Ok(None) };
    let suspended = missing_key(settings, declared);
    if let Some(reason) = &suspended {
        debug(|| format!("`{WEB_SEARCH}` is offered to nobody: {reason}"));
    }
    let made = WebSearch::new(WebSearchOptions {
        backend: declared.backend.value,
        url: declared.url.as_ref().map(|url| url.value.clone()),
        key: key_variable(declared).and_then(|name| key(settings, name)).map(|key| SearchKey::new(&key)),
        max_results: declared.max_results,
        suspended,
        resolver: settings.supplied.resolver.clone().unwrap_or_else(|| Arc::new(SystemDialer)),
    });
    made.map(Some).map_err(|error| vec![problem(settings, declared, &error)])
}

/// The name of the tool, if it is declared.
pub fn names(settings: &Settings) -> impl Iterator<Item = &str> {
    declared(settings).map(|_| WEB_SEARCH).into_iter()
}

/// What keeps the tool from being used.
pub fn warnings(settings: &Settings) -> impl Iterator<Item = ConfigWarning> {
    let missing = declared(settings).and_then(|declared| Some((declared, missing_key(settings, declared)?)));
    let warning = missing.map(|(declared, reason)| {
        let help =
            Some("set the variable for whoever runs the gate, or name another one with `key_env`".to_owned());
        settings.loaded.config.problem_at(&declared.backend, reason, help)
    });
    warning.or_else(|| without_effect(settings)).map(ConfigWarning::from).into_iter()
}

/// A warning for `web_search` in a profile that has no such tool.
fn without_effect(settings: &Settings) -> Option<ConfigProblem> {
    let ignored = settings.loaded.config.web_search.as_ref().filter(|_| !settings.profile.searches_web())?;
    let message =
        format!("`{WEB_SEARCH}` has no effect: profile `{}` has no such tool", settings.profile.name());
    let others = Profile::all().filter(|profile| profile.searches_web());
    let others: Vec<String> = others.map(|profile| format!("`{profile}`")).collect();
    let help = format!("remove it, or use profile {}", others.join(" or "));
    Some(settings.loaded.config.problem_at(&ignored.backend, message, Some(help)))
}

fn declared(settings: &Settings) -> Option<&WebSearchConfig> {
    settings.loaded.config.web_search.as_ref().filter(|_| settings.profile.searches_web())
}

/// The environment variable of the key, if the backend needs one.
fn key_variable(declared: &WebSearchConfig) -> Option<&str> {
    let named = declared.key_env.as_ref().map(|name| name.value.as_str());
    named.or(default_key_variable(declared.backend.value))
}

fn key(settings: &Settings, name: &str) -> Option<String> {
    settings.environment.var(name).filter(|key| !key.trim().is_empty())
}

fn missing_key(settings: &Settings, declared: &WebSearchConfig) -> Option<String> {
    let name = key_variable(declared).filter(|name| key(settings, name).is_none())?;
    let backend = declared.backend.value.as_str();
    Some(format!("the variable `{name}` is not set, so there is no key for `{backend}`"))
}

fn problem(settings: &Settings, declared: &WebSearchConfig, error: &WebSearchError) -> ConfigProblem {
    let config = &settings.loaded.config;
    let (message, help) = (error.to_string(), Some(error.help().to_owned()));
    match (&declared.url, error) {
        (Some(url), WebSearchError::Address(_)) => config.problem_at(url, message, help),
        _ => config.problem_at(&declared.backend, message, help),
    }
}
