//! The available models of each provider, or why it is unavailable.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use toolgate_assembly::ambient::HostEnvironment;
use toolgate_assembly::settings::Settings;
use toolgate_llm::{ListedModel, Timeouts, list_models as ask};

use super::catalogue::{ModelRoute, ModelSource, ProviderCatalogue};
use super::handle::{endpoint, nonempty_variable};
use super::keys;
use crate::agent_settings;
use crate::model_error::ModelError;

/// The connect timeout of a provider, and below the timeout for all of its responses.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const LIST_TIMEOUT: Duration = Duration::from_secs(20);

/// A provider, and its models.
pub struct ProviderModels {
    /// Its name.
    pub name: String,
    /// Whether the operator set it up; if not, an unreachable provider is no problem.
    pub is_set_up: bool,
    /// Its models, or why they cannot be listed.
    pub models: Result<Vec<ListedModel>, ModelError>,
}

/// The declared providers whose keys cannot be used, and why. Nothing is sent.
pub fn unusable_keys(settings: &Settings) -> Result<Vec<(String, ModelError)>, ModelError> {
    let variable = |name: &str| nonempty_variable(&settings.environment, name);
    let declared = agent_settings::providers(settings)?.into_iter();
    let unusable = declared.filter_map(|declared| {
        let failed = keys::read(&declared.key?, &variable).err()?;
        Some((declared.name, failed))
    });
    Ok(unusable.collect())
}

/// Queries the named provider, or all of them concurrently.
pub async fn list_models(
    settings: &Settings,
    only: Option<&str>,
    stop: &CancellationToken,
) -> Result<Vec<ProviderModels>, ModelError> {
    let asked = ask_providers(settings, only)?;
    let all = tokio::select! {
        all = asked.join_all() => all,
        () = stop.cancelled() => {
            return Err(ModelError::cancelled("stopped before all providers had answered"));
        }
    };
    let mut all = all;
    all.sort_by_key(|(place, _)| *place);
    Ok(all.into_iter().map(|(_, provider)| provider).collect())
}

/// Starts one request to each provider.
fn ask_providers(
    settings: &Settings,
    only: Option<&str>,
) -> Result<JoinSet<(usize, ProviderModels)>, ModelError> {
    let declared = agent_settings::providers(settings)?;
    let variable = |name: &str| nonempty_variable(&settings.environment, name);
    let offer = ProviderCatalogue { declared: &declared, variable: &variable };
    let providers = match only {
        // An unknown name is reported by `find`.
        Some(name) => vec![(name.to_owned(), true)],
        None => offer.listed(),
    };
    let mut asked = JoinSet::new();
    for (place, (name, is_set_up)) in providers.into_iter().enumerate() {
        let route = match offer.find(&format!("{name}/any")) {
            Ok(ModelSource::Route(route)) => Ok(route),
            Ok(ModelSource::Script(_)) => {
                Err(ModelError::usage("scripts are files, and no server lists them")
                    .help("name one as scripted/FILE, or scripted/demo for the one that came along"))
            }
            Err(failed) if only.is_some() => return Err(failed),
            Err(failed) => Err(failed),
        };
        let environment = settings.environment.clone();
        asked.spawn(async move {
            let models = match route {
                Ok(route) => models_of_route(route, &environment).await,
                Err(failed) => Err(failed),
            };
            (place, ProviderModels { name, is_set_up, models })
        });
    }
    Ok(asked)
}

async fn models_of_route(
    route: ModelRoute,
    environment: &HostEnvironment,
) -> Result<Vec<ListedModel>, ModelError> {
    let wire = route.wire;
    let usual = endpoint(route, environment)?;
    let timeouts = Timeouts { connect: CONNECT_TIMEOUT, first_byte: LIST_TIMEOUT, idle: LIST_TIMEOUT };
    let endpoint = toolgate_llm::Endpoint { timeouts, ..usual };
    match timeout(LIST_TIMEOUT, ask(wire, &endpoint)).await {
        Ok(Ok(models)) => Ok(models),
        Ok(Err(error)) => Err(ModelError { help: error.help, ..ModelError::provider(error.message) }),
        Err(_) => Err(ModelError::provider(format!("it did not answer within {LIST_TIMEOUT:?}"))),
    }
}

/// The model that would be used, if one is configured or suggested by the environment.
pub fn chosen_model(settings: &Settings) -> Option<String> {
    let declared = agent_settings::providers(settings).ok()?;
    let variable = |name: &str| nonempty_variable(&settings.environment, name);
    let offer = ProviderCatalogue { declared: &declared, variable: &variable };
    agent_settings::model(settings, settings.caller.agent.as_ref()).or_else(|| offer.suggested())
}
