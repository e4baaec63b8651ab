//! Ollama's native API.

mod decode;
mod encode;
mod show;

use std::future::Future;
use std::pin::Pin;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

pub(crate) use decode::OllamaDecoder;

use self::show::ModelInfo;
use crate::capabilities::{Capabilities, StatedCapabilities};
use crate::endpoint::Endpoint;
use crate::error::{ErrorKind, ProviderError};
use crate::provider::{ModelName, Provider, StepEvents, Wire};
use crate::request::StepRequest;
use crate::transport::{Dialect, KeyHeader, Transport};
use crate::wire_names::{ToolNames, WireNames};

pub(crate) const DIALECT: Dialect = Dialect { wire: Wire::Ollama, key: KeyHeader::Bearer, headers: &[] };

/// A model on an Ollama server.
#[derive(Debug)]
pub struct OllamaProvider {
    transport: Transport,
    model: ModelName,
    stated: StatedCapabilities,
    model_info: OnceCell<ModelInfo>,
}

impl OllamaProvider {
    /// A provider. The requested context size is what the endpoint states, else what the model's `num_ctx` sets, else 32,768 tokens; never more than
    /// the model was trained for, unless stated.
    #[must_use]
    pub fn new(endpoint: Endpoint, model: ModelName) -> Self {
        let stated = endpoint.stated;
        Self { transport: Transport::new(endpoint, DIALECT), model, stated, model_info: OnceCell::new() }
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

/// A model's capabilities in an answer to `/api/show`.
pub(crate) fn capabilities(answer: &Value, stated: StatedCapabilities) -> Capabilities {
    show::read(answer, stated).capabilities
}

/// The models of an Ollama server, newest first.
///
/// # Errors
/// The server cannot be reached.
pub async fn installed_models(endpoint: &Endpoint) -> Result<Vec<String>, ProviderError> {
    let answer = Transport::new(endpoint.clone(), DIALECT).ask(Method::GET, "/api/tags", None).await;
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
