//! The models of a server, with their capabilities.

use reqwest::Method;
use serde_json::{Value, json};

use crate::capabilities::{Capabilities, StatedCapabilities};
use crate::endpoint::Endpoint;
use crate::error::ProviderError;
use crate::known_models;
use crate::provider::Wire;
use crate::transport::Transport;
use crate::wires::{anthropic, chat, ollama, responses};

/// The maximum number of Ollama models that are queried, each with a request of its own.
const MAX_ASKED_ABOUT: usize = 100;

/// Anthropic's page size: 20 by default, at most this.
const WHOLE_LIST: &str = "limit=1000";

/// A model of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedModel {
    /// Its name on the server.
    pub name: String,
    /// Its capabilities: as configured, else from the server, else from the built-in table.
    pub capabilities: Capabilities,
}

/// The models of a server, in its own order.
///
/// # Errors
/// The server cannot be reached, or rejects the request.
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

/// Ollama states capabilities per model only.
async fn of_ollama(
    transport: &Transport,
    endpoint: &Endpoint,
    stated: StatedCapabilities,
) -> Result<Vec<ListedModel>, ProviderError> {
    let mut listed = Vec::new();
    for name in ollama::installed_models(endpoint).await?.into_iter().take(MAX_ASKED_ABOUT) {
        let answer = transport.ask(Method::POST, "/api/show", Some(&json!({ "model": name }))).await;
        // A model that was removed since, or that the server cannot read, does not fail the whole list.
        let capabilities =
            answer.map_or_else(|_| stated.apply_over(UNKNOWN), |answer| shown(&answer, stated));
        listed.push(ListedModel { name, capabilities });
    }
    Ok(listed)
}

fn shown(answer: &Value, stated: StatedCapabilities) -> Capabilities {
    ollama::capabilities(answer, stated)
}

/// The assumption for an unknown model. It cannot be relied upon for tools.
const UNKNOWN: Capabilities =
    Capabilities { supports_tools: false, context_window: None, max_output_tokens: None };

fn known(name: &str, said: StatedCapabilities, stated: StatedCapabilities) -> Capabilities {
    // Nearly all of the vendors' own models support tool calls, and compatible servers accept requests with tools for whatever they serve.
    let otherwise = Capabilities { supports_tools: true, ..UNKNOWN };
    stated.apply_over(said.apply_over(known_models::known_capabilities(name).unwrap_or(otherwise)))
}
