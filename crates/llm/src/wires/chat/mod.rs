//! OpenAI Chat Completions, as OpenAI, OpenRouter, vLLM and many others serve it.

mod chunk;
mod call_assembler;
mod decode;
mod reasoning_details;
mod encode;
mod model_list;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, Url};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use self::decode::ChatDecoder;
pub(super) use self::model_list::listed;
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
    name: "openai-chat",
    key: KeyHeader::Bearer,
    headers: &[],
    framing: Framing::ServerSentEvents,
    decoder: |collector| Box::new(ChatDecoder::new(collector)),
    provider: |endpoint, model| Arc::new(ChatProvider::new(endpoint, model)),
    list_models: |endpoint| super::list_models(endpoint, Wire::OpenaiChat, "/models", None),
    installed_models: None,
    vendors: &[
        ModelVendor {
            name: "openai-chat",
            base_url: "https://api.openai.com/v1",
            base_variable: "OPENAI_BASE_URL",
            base_format: BaseUrlFormat::Url,
            key_variable: Some("OPENAI_API_KEY"),
            model_variable: None,
            suggested_model: None,
            listing: Listing::IfMoved,
        },
        ModelVendor {
            name: "openrouter",
            base_url: "https://openrouter.ai/api/v1",
            base_variable: "OPENROUTER_BASE_URL",
            base_format: BaseUrlFormat::Url,
            key_variable: Some("OPENROUTER_API_KEY"),
            model_variable: Some("OPENROUTER_MODEL"),
            suggested_model: Some("openrouter/auto"),
            listing: Listing::Always,
        },
    ],
};

/// The timeout of the model list query. It only improves the estimate of the context window.
const MODEL_LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// A model over Chat Completions.
#[derive(Debug)]
struct ChatProvider {
    transport: Transport,
    model: ModelName,
    flavour: Flavour,
    stated: StatedCapabilities,
    tool_names: ToolNames,
    capabilities: OnceCell<Capabilities>,
}

/// Differences between servers of this wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// OpenAI itself.
    Openai,
    /// OpenRouter.
    Openrouter,
    /// All others.
    Compatible,
}

impl Flavour {
    /// Recognised by the address, or by the provider's name if OpenRouter is reached through another address.
    fn of(base_url: &str, provider: &str) -> Self {
        let url = Url::parse(base_url).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        if provider == "openrouter" || host == "openrouter.ai" || host.ends_with(".openrouter.ai") {
            Self::Openrouter
        } else if host == "api.openai.com" || host.ends_with(".openai.azure.com") {
            Self::Openai
        } else {
            Self::Compatible
        }
    }
}

impl ChatProvider {
    /// A provider; `/chat/completions` is appended to the endpoint's base URL.
    fn new(endpoint: Endpoint, model: ModelName) -> Self {
        let flavour = Flavour::of(&endpoint.base_url, &model.provider);
        let (stated, tool_names) = (endpoint.stated, endpoint.tool_names);
        Self {
            transport: Transport::new(endpoint, Wire::OpenaiChat),
            model,
            flavour,
            stated,
            tool_names,
            capabilities: OnceCell::new(),
        }
    }

    /// The model's capabilities; as an `Err` if the server could not be queried, so that the result is not cached.
    async fn discover_capabilities(&self) -> Result<Capabilities, Capabilities> {
        let known = known_models::known_capabilities(&self.model.name).unwrap_or(Capabilities {
            supports_tools: true,
            supports_images: false,
            context_window: None,
            max_output_tokens: None,
        });
        let known = self.stated.apply_over(known);
        // OpenAI's list contains only names.
        if self.flavour == Flavour::Openai || self.stated.is_complete() {
            return Ok(known);
        }
        match timeout(MODEL_LIST_TIMEOUT, self.transport.ask(Method::GET, "/models", None)).await {
            Ok(Ok(answer)) => {
                let listed = model_list::find_model(&answer, &self.model.name).unwrap_or_default();
                Ok(self.stated.apply_over(listed.apply_over(known)))
            }
            Ok(Err(refused)) if !refused.is_retryable() => Ok(known),
            _ => Err(known),
        }
    }
}

impl Provider for ChatProvider {
    fn model(&self) -> &ModelName {
        &self.model
    }

    fn step<'p>(
        &'p self,
        request: StepRequest<'p>,
    ) -> Pin<Box<dyn Future<Output = Result<StepEvents, ProviderError>> + Send + 'p>> {
        Box::pin(async move {
            let names = WireNames::of(&request, self.tool_names);
            let body = encode::encode(&request, &self.model, &names, self.flavour);
            self.transport.stream("/chat/completions", &body, &self.model, names).await
        })
    }

    /// A server that does not list its models, or cannot be reached, is not an error here: the next step reports the cause.
    fn capabilities(&self) -> Pin<Box<dyn Future<Output = Result<Capabilities, ProviderError>> + Send + '_>> {
        Box::pin(async move {
            let found = self.capabilities.get_or_try_init(|| self.discover_capabilities()).await;
            Ok(found.copied().unwrap_or_else(|known| known))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_apart_by_their_address() {
        for (base_url, provider, flavour) in [
            ("https://api.openai.com/v1", "openai-chat", Flavour::Openai),
            ("https://x.openai.azure.com/openai/v1", "azure", Flavour::Openai),
            ("https://openrouter.ai/api/v1", "router", Flavour::Openrouter),
            ("http://127.0.0.1:8080/v1", "openrouter", Flavour::Openrouter),
            ("http://127.0.0.1:8080/v1", "openai-chat", Flavour::Compatible),
            ("https://api.openai.com.example.org/v1", "openai-chat", Flavour::Compatible),
            ("https://notopenrouter.ai/v1", "x", Flavour::Compatible),
            ("not an address", "x", Flavour::Compatible),
        ] {
            assert_eq!(Flavour::of(base_url, provider), flavour, "{base_url}");
        }
    }
}
