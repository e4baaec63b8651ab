//! The interface to a model.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use serde::{Deserialize, Serialize};

use crate::capabilities::Capabilities;
use crate::endpoint::Endpoint;
use crate::error::ProviderError;
use crate::event::StepEvent;
use crate::request::StepRequest;
use crate::wires::Wire;

/// A model that can be asked for a step of a conversation.
pub trait Provider: Send + Sync {
    /// The model.
    fn model(&self) -> &ModelName;

    /// Requests one step. An error here or later in the stream means that the step did not happen; the caller decides whether to retry. Dropping the
    /// stream cancels the request.
    fn step<'p>(
        &'p self,
        request: StepRequest<'p>,
    ) -> Pin<Box<dyn Future<Output = Result<StepEvents, ProviderError>> + Send + 'p>>;

    /// The model's capabilities. Queried once and cached.
    fn capabilities(&self) -> Pin<Box<dyn Future<Output = Result<Capabilities, ProviderError>> + Send + '_>>;
}

/// The provider for a model at this endpoint, over this wire.
#[must_use]
pub fn provider(wire: Wire, endpoint: Endpoint, model: ModelName) -> Arc<dyn Provider> {
    (wire.spec().provider)(endpoint, model)
}

/// The events of one step.
pub struct StepEvents(Pin<Box<dyn Stream<Item = Result<StepEvent, ProviderError>> + Send>>);

impl StepEvents {
    /// Events from a stream.
    pub fn new(stream: impl Stream<Item = Result<StepEvent, ProviderError>> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }

    /// The next event; `None` after a finish or an error.
    pub async fn next(&mut self) -> Option<Result<StepEvent, ProviderError>> {
        poll_fn(|context| self.0.as_mut().poll_next(context)).await
    }
}

impl fmt::Debug for StepEvents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StepEvents(…)")
    }
}

/// A model's full name: `anthropic/claude-sonnet-4-5`, `ollama/llama3.2:3b`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelName {
    /// The provider, by its name in the configuration.
    pub provider: String,
    /// Its name at the provider. It may contain slashes.
    pub name: String,
}

impl fmt::Display for ModelName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.provider, self.name)
    }
}
