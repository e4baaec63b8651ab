//! OpenAI Responses.

mod decode;
mod encode;
mod item;

use std::future::{Future, ready};
use std::pin::Pin;

pub(crate) use self::decode::ResponsesDecoder;
use crate::capabilities::{Capabilities, StatedCapabilities};
use crate::endpoint::Endpoint;
use crate::error::ProviderError;
use crate::known_models;
use crate::provider::{ModelName, Provider, StepEvents, Wire};
use crate::request::StepRequest;
use crate::transport::{Dialect, KeyHeader, Transport};
use crate::wire_names::{ToolNames, WireNames};

pub(crate) const DIALECT: Dialect = Dialect {
    wire: Wire::Openai,
    key: KeyHeader::Bearer,
    headers: &[("accept", "text/event-stream, application/json")],
};

/// A model over OpenAI Responses.
#[derive(Debug)]
pub struct ResponsesProvider {
    transport: Transport,
    model: ModelName,
    stated: StatedCapabilities,
    tool_names: ToolNames,
}

impl ResponsesProvider {
    /// A provider. Nothing is sent yet.
    #[must_use]
    pub fn new(endpoint: Endpoint, model: ModelName) -> Self {
        let (stated, tool_names) = (endpoint.stated, endpoint.tool_names);
        Self { transport: Transport::new(endpoint, DIALECT), model, stated, tool_names }
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
        let unknown = Capabilities { supports_tools: true, context_window: None, max_output_tokens: None };
        let known = known_models::known_capabilities(&self.model.name).unwrap_or(unknown);
        Box::pin(ready(Ok(self.stated.apply_over(known))))
    }
}
