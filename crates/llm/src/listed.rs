//! The models that a server has, with what each can do.

use reqwest::Method;
use serde_json::{Value, json};

use crate::capabilities::{Capabilities, StatedCapabilities};
use crate::endpoint::Endpoint;
use crate::error::ProviderError;
use crate::provider::Wire;
use crate::transport::Transport;
use crate::{anthropic, chat, known_models, ollama, responses};

/// Ollama is asked about no more models than this, each with a request of its own.
const MAX_ASKED_ABOUT: usize = 100;

/// Anthropic lists 20 models unless it is asked for more, and never more than this.
const WHOLE_LIST: &str = "limit=1000";

/// A model of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedModel {
    /// Its name there.
    pub name: String,
    /// What it can do: as the configuration says, else the server, else a small table.
    pub capabilities: Capabilities,
}

/// The models that a server has, in its own order.
///
/// # Errors
/// It cannot be asked, or refuses to say.
pub async fn list_models(wire: Wire, endpoint: &Endpoint) -> Result<Vec<ListedModel>, ProviderError> {
    let stated = endpoint.stated;
    let transport = |dialect| Transport::new(endpoint.clone(), dialect);
    let answer = match wire {
        Wire::Anthropic => {
            transport(anthropic::DIALECT).ask_for(Method::GET, "/v1/models", Some(WHOLE_LIST), None).await?
        }
        Wire::Openai => transport(responses::DIALECT).ask(Method::GET, "/models", None).await?,
        Wire::OpenaiChat => transport(chat::DIALECT).ask(Method::GET, "/models", None).await?,
        Wire::Ollama => return of_ollama(&transport(ollama::DIALECT), endpoint, stated).await,
    };
    let listed = chat::listed(&answer).into_iter();
    Ok(listed.map(|(name, said)| ListedModel { capabilities: known(&name, said, stated), name }).collect())
}

/// Ollama says of each model by itself what it can do.
async fn of_ollama(
    transport: &Transport,
    endpoint: &Endpoint,
    stated: StatedCapabilities,
) -> Result<Vec<ListedModel>, ProviderError> {
    let mut listed = Vec::new();
    for name in ollama::installed_models(endpoint).await?.into_iter().take(MAX_ASKED_ABOUT) {
        let answer = transport.ask(Method::POST, "/api/show", Some(&json!({ "model": name }))).await;
        // One that was removed meanwhile, or that the server cannot read, is no reason to list none.
        let capabilities =
            answer.map_or_else(|_| stated.apply_over(UNKNOWN), |answer| shown(&answer, stated));
        listed.push(ListedModel { name, capabilities });
    }
    Ok(listed)
}

fn shown(answer: &Value, stated: StatedCapabilities) -> Capabilities {
    ollama::capabilities(answer, stated)
}

/// What is assumed of a model of which nobody says anything. It cannot be relied upon for tools.
const UNKNOWN: Capabilities =
    Capabilities { supports_tools: false, context_window: None, max_output_tokens: None };

fn known(name: &str, said: StatedCapabilities, stated: StatedCapabilities) -> Capabilities {
    // Of the vendors' own models nearly all call tools, and servers of others take a request with tools for whatever they serve.
    let otherwise = Capabilities { supports_tools: true, ..UNKNOWN };
    stated.apply_over(said.apply_over(known_models::known_capabilities(name).unwrap_or(otherwise)))
}
