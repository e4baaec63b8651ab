//! OpenAI Responses.

mod decode;
mod encode;
mod item;

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use self::decode::ResponsesDecoder;
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
    name: "openai",
    key: KeyHeader::Bearer,
    headers: &[("accept", "text/event-stream, application/json")],
    framing: Framing::ServerSentEvents,
    decoder: |collector| Box::new(ResponsesDecoder::new(collector)),
    provider: |endpoint, model| Arc::new(ResponsesProvider::new(endpoint, model)),
    list_models: |endpoint| super::list_models(endpoint, Wire::Openai, "/models", None),
    installed_models: None,
    vendors: &[ModelVendor {
        name: "openai",
        base_url: "https://api.openai.com/v1",
        base_variable: "OPENAI_BASE_URL",
        base_format: BaseUrlFormat::Url,
        key_variable: Some("OPENAI_API_KEY"),
        model_variable: None,
        suggested_model: Some("gpt-6-sol"),
        listing: Listing::Always,
    }],
};

/// A model over OpenAI Responses.
#[derive(Debug)]
struct ResponsesProvider {
    transport: Transport,
    model: ModelName,
    stated: StatedCapabilities,
    tool_names: ToolNames,
}

impl ResponsesProvider {
    /// A provider. Nothing is sent yet.
    fn new(endpoint: Endpoint, model: ModelName) -> Self {
        let (stated, tool_names) = (endpoint.stated, endpoint.tool_names);
        Self { transport: Transport::new(endpoint, Wire::Openai), model, stated, tool_names }
    }

    async fn ask_step(&self, request: StepRequest<'_>) -> Result<StepEvents, ProviderError> {
        let names = WireNames::of(&request, self.tool_names);
        let body = encode::body(&request, &self.model, &names);
        self.transport.stream("/responses", &body, &self.model, names).await
    }
}

impl Provider for ResponsesProvider {
    fn model(&self) -> &ModelName {
        &self.model
    }

    fn step<'p>(
        &'p self,
        request: StepRequest<'p>,
    ) -> Pin<Box<dyn Future<Output = Result<StepEvents, ProviderError>> + Send + 'p>> {
        Box::pin(self.ask_step(request))
    }

    /// The server does not state capabilities; every model of this wire supports tools.
    fn capabilities(&self) -> Pin<Box<dyn Future<Output = Result<Capabilities, ProviderError>> + Send + '_>> {
        let unknown = Capabilities {
            supports_tools: true,
            supports_images: false,
            context_window: None,
            max_output_tokens: None,
        };
        let known = known_models::known_capabilities(&self.model.name).unwrap_or(unknown);
        Box::pin(ready(Ok(self.stated.apply_over(known))))
    }
}
