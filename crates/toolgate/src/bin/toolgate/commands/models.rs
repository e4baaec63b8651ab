//! `toolgate models`: the available models, and why a provider is unavailable.

use serde_json::{Value, json};
use toolgate_conversation::ModelError;
use toolgate_conversation::models::{ProviderModels, list_models};
use toolgate_llm::ListedModel;
use toolgate_types::Trust;

use super::{print, print_json, serving_runtime};
use crate::arguments::GlobalOptions;
use crate::conversation::rows;
use crate::exit::{CliError, SUCCESS};
use crate::interrupt::Interrupt;
use crate::startup::resolve_settings;

pub(crate) fn run(common: &GlobalOptions, provider: Option<&str>) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided)?;
    let interrupt = Interrupt::install();
    let runtime = serving_runtime()?;
    let listed = runtime.block_on(async {
        let _watching = interrupt.watch()?;
        Ok::<_, CliError>(list_models(&settings, provider, &interrupt.token()).await?)
    })?;
    match common.json {
        true => print_json(&Value::Array(listed.iter().map(json).collect()))?,
        false => {
            let lines = listed.iter().flat_map(|provider| rows(provider, usize::MAX));
            print(&lines.map(|row| row + "\n").collect::<String>())?
        }
    };
    // With a single provider, its failure is the exit code; with all of them, each failure is listed and the command succeeds.
    let only = listed.into_iter().next().filter(|_| provider.is_some());
    Ok(only.and_then(|provider| provider.models.err()).map_or(SUCCESS, |failed| CliError::from(failed).code))
}

fn json(provider: &ProviderModels) -> Value {
    let ProviderModels { name, models, .. } = provider;
    match models {
        Ok(models) => {
            let models: Vec<Value> = models.iter().map(|model| of_model(name, model)).collect();
            json!({"provider": name, "reachable": true, "models": models})
        }
        Err(ModelError { message, help, .. }) => {
            json!({"provider": name, "reachable": false, "problem": message, "help": help, "models": []})
        }
    }
}

fn of_model(provider: &str, ListedModel { name, capabilities }: &ListedModel) -> Value {
    json!({
        "name": format!("{provider}/{name}"),
        "supportsTools": capabilities.supports_tools, "supportsImages": capabilities.supports_images,
        "contextWindow": capabilities.context_window,
        "maxOutputTokens": capabilities.max_output_tokens,
    })
}
