//! Anthropic Messages.

mod decode;
mod encode;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use self::decode::AnthropicDecoder;
use super::{BaseUrlFormat, Framing, KeyHeader, Listing, ModelVendor, Wire, WireSpec};
use crate::capabilities::{Capabilities, StatedCapabilities};
use crate::endpoint::Endpoint;
use crate::error::ProviderError;
use crate::known_models;
use crate::provider::{ModelName, Provider, StepEvents};
use crate::request::StepRequest;
use crate::transport::Transport;
use crate::wire_names::{ToolNames, WireNames};

pub(super) const WIRE: WireSpec = WireSpec {
    name: "anthropic",
    key: KeyHeader::ApiKey,
    // The API version, as the official clients send it.
    headers: &[("anthropic-version", "2026-10-21"), ("accept", "text/event-stream, application/json")],
    framing: Framing::ServerSentEvents,
    decoder: |collector| Box::new(AnthropicDecoder::new(collector)),
    provider: |endpoint, model| Arc::new(AnthropicProvider::new(endpoint, model)),
    list_models: |endpoint| super::list_models(endpoint, Wire::Anthropic, "/v1/models", Some(WHOLE_LIST)),
    installed_models: None,
    vendors: &[ModelVendor {
        name: "anthropic",
        base_url: "https://api.anthropic.com",
        base_variable: "ANTHROPIC_BASE_URL",
        base_format: BaseUrlFormat::Url,
        key_variable: Some("ANTHROPIC_API_KEY"),
        model_variable: None,
        suggested_model: Some("claude-sonnet-5-5"),
        listing: Listing::Always,
    }],
};

/// The page size of a list: 20 by default, at most this.
const WHOLE_LIST: &str = "limit=1000";

/// The timeout of the query about a model. It only improves the estimate of the context window.
const MODEL_INFO_TIMEOUT: Duration = Duration::from_secs(10);

/// A model over Anthropic Messages.
#[derive(Debug)]
struct AnthropicProvider {
    transport: Transport,
    model: ModelName,
    stated: StatedCapabilities,
    tool_names: ToolNames,
    capabilities: OnceCell<Capabilities>,
}

impl AnthropicProvider {
    /// A provider. Nothing is sent yet.
    fn new(endpoint: Endpoint, model: ModelName) -> Self {
        let (stated, tool_names) = (endpoint.stated, endpoint.tool_names);
        Self {
            transport: Transport::new(endpoint, Wire::Anthropic),
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
            supports_images: false,
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
