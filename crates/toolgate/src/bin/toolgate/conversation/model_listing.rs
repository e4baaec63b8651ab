//! The available models of each provider, or why it is unavailable.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use toolgate_assembly::settings::Settings;
use toolgate_llm::{Capabilities, ListedModel, Timeouts, list_models as ask};

use super::conversation_settings;
use super::model::{ModelRoute, ModelSource, ProviderCatalogue};
use super::model_handle::{self, endpoint};
use super::model_keys;
use crate::exit::{CliError, INTERRUPTED, PROVIDER};
use crate::terminal::escape_line;

/// The connect timeout of a provider, and below the timeout for all of its responses.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const LIST_TIMEOUT: Duration = Duration::from_secs(20);

/// A provider, and its models.
pub(crate) struct ProviderModels {
    pub(crate) name: String,
    /// Whether the operator set it up; if not, an unreachable provider is no problem.
    pub(crate) is_set_up: bool,
    /// Its models, or why they cannot be listed.
    pub(crate) models: Result<Vec<ListedModel>, CliError>,
}

impl ProviderModels {
    /// One line per model, at most this many, or one that says why there are none.
    pub(crate) fn rows(&self, most: usize) -> Vec<String> {
        let models = match &self.models {
            Ok(models) if models.is_empty() => return vec![format!("{}: no models", self.name)],
            Ok(models) => models,
            Err(failed) => {
                return vec![escape_line(&format!("{}: {}", self.name, failed.with_help()))];
            }
        };
        let row = |model: &ListedModel| {
            let (tools, window) = (tools_label(model.capabilities), window_label(model.capabilities));
            escape_line(&format!("{:<44} {tools:<8} {window}", format!("{}/{}", self.name, model.name)))
        };
        let mut rows: Vec<String> = models.iter().take(most).map(row).collect();
        if let Some(more @ 1..) = models.len().checked_sub(most) {
            rows.push(format!("{more} more: `toolgate models {}` lists them", self.name));
        }
        rows
    }
}

/// Whether a model can call tools.
pub(crate) fn tools_label(capabilities: Capabilities) -> &'static str {
    if capabilities.supports_tools { "tools" } else { "no tools" }
}

/// The context window of a model.
pub(crate) fn window_label(capabilities: Capabilities) -> String {
    capabilities.context_window.map_or("unknown".to_owned(), |tokens| format!("{tokens} tokens"))
}

/// The declared providers whose keys cannot be used, and why. Nothing is sent.
pub(crate) fn unusable_keys(settings: &Settings) -> Result<Vec<(String, CliError)>, CliError> {
    let declared = conversation_settings::providers(settings)?.into_iter();
    let unusable = declared.filter_map(|declared| {
        let failed = model_keys::read(&declared.key?, &model_handle::nonempty_variable).err()?;
        Some((declared.name, failed))
    });
    Ok(unusable.collect())
}

/// Queries the named provider, or all of them concurrently.
pub(crate) async fn list_models(
    settings: &Settings,
    only: Option<&str>,
    stop: &CancellationToken,
) -> Result<Vec<ProviderModels>, CliError> {
    let declared = conversation_settings::providers(settings)?;
    let offer = ProviderCatalogue { declared: &declared, variable: &model_handle::nonempty_variable };
    let providers = match only {
        // An unknown name is reported by `find`.
        Some(name) => vec![(name.to_owned(), true)],
        None => offer.listed(),
    };
    let mut asked = JoinSet::new();
    for (place, (name, is_set_up)) in providers.into_iter().enumerate() {
        let route = match offer.find(&format!("{name}/any")) {
            Ok(ModelSource::Route(route)) => Ok(route),
            Ok(ModelSource::Script(_)) => Err(CliError::usage("scripts are files, and no server lists them")
                .help("name one as scripted/FILE, or scripted/demo for the one that came along")),
            Err(failed) if only.is_some() => return Err(failed),
            Err(failed) => Err(failed),
        };
        asked.spawn(async move {
            let models = match route {
                Ok(route) => models_of_route(route).await,
                Err(failed) => Err(failed),
            };
            (place, ProviderModels { name, is_set_up, models })
        });
    }
    let all = tokio::select! {
        all = asked.join_all() => all,
        () = stop.cancelled() => {
            return Err(CliError { code: INTERRUPTED, ..CliError::error("stopped before all providers had answered") });
        }
    };
    let mut all = all;
    all.sort_by_key(|(place, _)| *place);
    Ok(all.into_iter().map(|(_, provider)| provider).collect())
}

async fn models_of_route(route: ModelRoute) -> Result<Vec<ListedModel>, CliError> {
    let wire = route.wire;
    let usual = endpoint(route)?;
    let timeouts = Timeouts { connect: CONNECT_TIMEOUT, first_byte: LIST_TIMEOUT, idle: LIST_TIMEOUT };
    let endpoint = toolgate_llm::Endpoint { timeouts, ..usual };
    let failed = |message: String| CliError { code: PROVIDER, ..CliError::error(message) };
    match timeout(LIST_TIMEOUT, ask(wire, &endpoint)).await {
        Ok(Ok(models)) => Ok(models),
        Ok(Err(error)) => Err(CliError { help: error.help, ..failed(error.message) }),
        Err(_) => Err(failed(format!("it did not answer within {LIST_TIMEOUT:?}"))),
    }
}

/// The model that would be used, if one is configured or suggested by the environment.
pub(crate) fn chosen_model(settings: &Settings) -> Option<String> {
    let declared = conversation_settings::providers(settings).ok()?;
    let offer = ProviderCatalogue { declared: &declared, variable: &model_handle::nonempty_variable };
    conversation_settings::model(settings).or_else(|| offer.suggested())
}
