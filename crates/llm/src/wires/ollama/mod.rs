//! Ollama's native API.

mod decode;
mod encode;
mod show;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use self::decode::OllamaDecoder;
use self::show::ModelInfo;
use super::{BaseUrlFormat, Framing, KeyHeader, Listing, ModelQuery, ModelVendor, Wire, WireSpec};
use crate::capabilities::{Capabilities, StatedCapabilities};
use crate::endpoint::Endpoint;
use crate::error::{ErrorKind, ProviderError};
use crate::listed::ListedModel;
use crate::provider::{ModelName, Provider, StepEvents};
use crate::request::StepRequest;
use crate::transport::Transport;
use crate::wire_names::{ToolNames, WireNames};

pub(super) const WIRE: WireSpec = WireSpec {
    name: "ollama",
    key: KeyHeader::Bearer,
    headers: &[],
    framing: Framing::JsonLines,
    decoder: |collector| Box::new(OllamaDecoder::new(collector)),
    provider: |endpoint, model| Arc::new(OllamaProvider::new(endpoint, model)),
    list_models,
    installed_models: Some(|endpoint| Box::pin(installed_models(endpoint))),
    vendors: &[ModelVendor {
        name: "ollama",
        base_url: "http://127.0.0.1:11434",
        base_variable: "OLLAMA_HOST",
        base_format: BaseUrlFormat::Host { default_port: "11434" },
        key_variable: None,
        model_variable: None,
        suggested_model: None,
        listing: Listing::Always,
    }],
};

/// The maximum number of models in a list whose capabilities are queried, each with a request of its own.
const MAX_ASKED_ABOUT: usize = 100;

/// A model on an Ollama server.
#[derive(Debug)]
struct OllamaProvider {
    transport: Transport,
    model: ModelName,
    stated: StatedCapabilities,
    model_info: OnceCell<ModelInfo>,
}

impl OllamaProvider {
    /// A provider. The requested context size is what the endpoint states, else what the model's `num_ctx` sets, else 32,768 tokens; never more than
    /// the model was trained for, unless stated.
    fn new(endpoint: Endpoint, model: ModelName) -> Self {
        let stated = endpoint.stated;
        Self { transport: Transport::new(endpoint, Wire::Ollama), model, stated, model_info: OnceCell::new() }
    }

    async fn model_info(&self) -> Result<ModelInfo, ProviderError> {
        let ask = || async {
            let question = json!({ "model": self.model.name });
            let answer = self.transport.ask(Method::POST, "/api/show", Some(&question)).await;
            Ok(show::read(&answer.map_err(|failed| self.explain(failed))?, self.stated))
        };
        self.model_info.get_or_try_init(ask).await.copied()
    }

    fn explain(&self, failed: ProviderError) -> ProviderError {
        match failed.kind {
            ErrorKind::UnknownModel => failed.help(format!("get it with `ollama pull {}`", self.model.name)),
            _ => explain(failed),
        }
    }
}

impl Provider for OllamaProvider {
    fn model(&self) -> &ModelName {
        &self.model
    }

    fn step<'p>(
        &'p self,
        request: StepRequest<'p>,
    ) -> Pin<Box<dyn Future<Output = Result<StepEvents, ProviderError>> + Send + 'p>> {
        Box::pin(async move {
            let shown = self.model_info().await?;
            let names = WireNames::of(&request, ToolNames::Exact);
            let body = encode::encode(&request, &self.model, &names, &shown);
            let events = self.transport.stream("/api/chat", &body, &self.model, names).await;
            events.map_err(|failed| self.explain(failed))
        })
    }

    fn capabilities(&self) -> Pin<Box<dyn Future<Output = Result<Capabilities, ProviderError>> + Send + '_>> {
        Box::pin(async move { Ok(self.model_info().await?.capabilities) })
    }
}

/// Capabilities are stated per model only.
fn list_models(endpoint: &Endpoint) -> ModelQuery<'_, ListedModel> {
    Box::pin(async {
        let transport = Transport::new(endpoint.clone(), Wire::Ollama);
        let mut listed = Vec::new();
        for name in installed_models(endpoint).await?.into_iter().take(MAX_ASKED_ABOUT) {
            let answer = transport.ask(Method::POST, "/api/show", Some(&json!({ "model": name }))).await;
            // A model that was removed since, or that the server cannot read, does not fail the whole list.
            let capabilities = answer.map_or_else(
                |_| endpoint.stated.apply_over(UNKNOWN),
                |answer| show::read(&answer, endpoint.stated).capabilities,
            );
            listed.push(ListedModel { name, capabilities });
        }
        Ok(listed)
    })
}

/// The assumption for a model that the server cannot describe. It cannot be relied upon for tools.
const UNKNOWN: Capabilities = Capabilities {
    supports_tools: false,
    supports_images: false,
    context_window: None,
    max_output_tokens: None,
};

/// The models of a server, newest first.
async fn installed_models(endpoint: &Endpoint) -> Result<Vec<String>, ProviderError> {
    let transport = Transport::new(endpoint.clone(), Wire::Ollama);
    let answer = transport.ask(Method::GET, "/api/tags", None).await;
    Ok(names(&answer.map_err(explain)?))
}

fn explain(failed: ProviderError) -> ProviderError {
    match failed.kind {
        ErrorKind::Unreachable => {
            failed.help("start it with `ollama serve`, or say where it runs with OLLAMA_HOST")
        }
        _ => failed,
    }
}

fn names(answer: &Value) -> Vec<String> {
    let listed = answer.get("models").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |model: &Value, field: &str| model.get(field).and_then(Value::as_str).map(str::to_owned);
    let mut found: Vec<(Option<String>, String)> = listed
        .iter()
        .filter_map(|model| {
            let name = text(model, "model").or_else(|| text(model, "name"))?;
            Some((text(model, "modified_at"), name))
        })
        .collect();
    found.sort_by(|one, other| other.0.cmp(&one.0));
    found.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_named_the_newest_first() {
        let answer = json!({"models": [
            {"name": "old:1b", "model": "old:1b", "modified_at": "2025-01-01T00:00:00Z"},
            {"name": "new:1b", "modified_at": "2026-01-01T00:00:00Z"},
            {"modified_at": "2027-01-01T00:00:00Z"},
        ]});
        assert_eq!(names(&answer), ["new:1b", "old:1b"]);
        assert!(names(&json!({"models": null})).is_empty());
    }
}
