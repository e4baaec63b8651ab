//! Anthropic Messages.

mod decode;
mod encode;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use reqwest::Method;
use tokio::sync::OnceCell;
use tokio::time::timeout;

pub(crate) use self::decode::AnthropicDecoder;
use crate::capabilities::{Capabilities, StatedCapabilities};
use crate::endpoint::Endpoint;
use crate::error::ProviderError;
use crate::known_models;
use crate::provider::{ModelName, Provider, StepEvents, Wire};
use crate::request::StepRequest;
use crate::transport::{Dialect, KeyHeader, Transport};
use crate::wire_names::{ToolNames, WireNames};

/// The API version, as the official clients send it.
pub(crate) const DIALECT: Dialect = Dialect {
    wire: Wire::Anthropic,
    key: KeyHeader::ApiKey,
    headers: &[("anthropic-version", "2026-10-21"), ("accept", "text/event-stream, application/json")],
};

/// The timeout of the query about a model. It only improves the estimate of the context window.
const MODEL_INFO_TIMEOUT: Duration = Duration::from_secs(10);

/// A model over Anthropic Messages.
#[derive(Debug)]
pub struct AnthropicProvider {
    transport: Transport,
    model: ModelName,
    stated: StatedCapabilities,
    tool_names: ToolNames,
    capabilities: OnceCell<Capabilities>,
}

impl AnthropicProvider {
    /// A provider. Nothing is sent yet.
    #[must_use]
    pub fn new(endpoint: Endpoint, model: ModelName) -> Self {
        let (stated, tool_names) = (endpoint.stated, endpoint.tool_names);
        Self {
            transport: Transport::new(endpoint, DIALECT),
            model,
            stated,
            tool_names,
            capabilities: OnceCell::new(),
        }
    }

    async fn ask_step(&self, request: StepRequest<'_>) -> Result<StepEvents, ProviderError> {
        let names = WireNames::of(&request, self.tool_names);
        let body = encode::body(&request, &self.model, self.stated.max_output_tokens, &names);
        self.transport.stream("/v1/messages", &body, &self.model, names).await
    }

    /// The configured capabilities, else those of the table, else the server's. A server that does not answer is no obstacle.
    async fn discover_capabilities(&self) -> Capabilities {
        if let Some(known) = known_models::known_capabilities(&self.model.name) {
            return self.stated.apply_over(known);
        }
        let path = format!("/v1/models/{}", self.model.name);
        let asked = timeout(MODEL_INFO_TIMEOUT, self.transport.ask(Method::GET, &path, None)).await;
        let info = asked.ok().and_then(Result::ok).unwrap_or_default();
        let number = |field: &str| info.get(field)?.as_u64();
        self.stated.apply_over(Capabilities {
            supports_tools: true,
            context_window: number("max_input_tokens"),
            max_output_tokens: number("max_tokens"),
        })
    }
}

impl Provider for AnthropicProvider {
    fn model(&self) -> &ModelName {
        &self.model
    }

    fn step<'p>(
        &'p self,
        request: StepRequest<'p>,
    ) -> Pin<Box<dyn Future<Output = Result<StepEvents, ProviderError>> + Send + 'p>> {
        Box::pin(self.ask_step(request))
    }

    fn capabilities(&self) -> Pin<Box<dyn Future<Output = Result<Capabilities, ProviderError>> + Send + '_>> {
        Box::pin(async { Ok(*self.capabilities.get_or_init(|| self.discover_capabilities()).await) })
    }
}
