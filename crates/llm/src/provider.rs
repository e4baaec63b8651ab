//! Who is asked.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use serde::{Deserialize, Serialize};

use crate::anthropic::AnthropicProvider;
use crate::capabilities::Capabilities;
use crate::chat::ChatProvider;
use crate::endpoint::Endpoint;
use crate::error::ProviderError;
use crate::event::StepEvent;
use crate::ollama::OllamaProvider;
use crate::request::StepRequest;
use crate::responses::ResponsesProvider;

/// Somebody who can be asked for a step of a conversation.
pub trait Provider: Send + Sync {
    /// The model.
    fn model(&self) -> &ModelName;

    /// Asks for one step. An error here or later in the stream means that the step did not happen; whether to try again is the asker's to decide.
    /// Dropping the stream ends the request at once.
    fn step<'p>(
        &'p self,
        request: StepRequest<'p>,
    ) -> Pin<Box<dyn Future<Output = Result<StepEvents, ProviderError>> + Send + 'p>>;

    /// What the model can do. Asked once and remembered.
    fn capabilities(&self) -> Pin<Box<dyn Future<Output = Result<Capabilities, ProviderError>> + Send + '_>>;
}

/// The model at this address, over this wire.
#[must_use]
pub fn provider(wire: Wire, endpoint: Endpoint, model: ModelName) -> Arc<dyn Provider> {
    match wire {
        Wire::Anthropic => Arc::new(AnthropicProvider::new(endpoint, model)),
        Wire::Openai => Arc::new(ResponsesProvider::new(endpoint, model)),
        Wire::OpenaiChat => Arc::new(ChatProvider::new(endpoint, model)),
        Wire::Ollama => Arc::new(OllamaProvider::new(endpoint, model)),
    }
}

/// The events of one step.
pub struct StepEvents(Pin<Box<dyn Stream<Item = Result<StepEvent, ProviderError>> + Send>>);

impl StepEvents {
    /// Events that come from here.
    pub fn new(stream: impl Stream<Item = Result<StepEvent, ProviderError>> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }

    /// The next one; `None` after a finish or an error.
    pub async fn next(&mut self) -> Option<Result<StepEvent, ProviderError>> {
        poll_fn(|context| self.0.as_mut().poll_next(context)).await
    }
}

impl fmt::Debug for StepEvents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Events(…)")
    }
}

/// A model as people write it: `anthropic/claude-sonnet-4-5`, `ollama/llama3.2:3b`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelName {
    /// Who serves it, as the configuration calls them.
    pub provider: String,
    /// Its name there. It may hold slashes of its own.
    pub name: String,
}

impl fmt::Display for ModelName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.provider, self.name)
    }
}

/// A way to speak with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Openai,
    /// OpenAI Chat Completions and everything that speaks it.
    OpenaiChat,
    /// Ollama's own.
    Ollama,
}
