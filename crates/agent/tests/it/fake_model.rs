//! A fake model: its answers depend on the request.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_core::Stream;
use toolgate_llm::{
    AssistantMessage, Capabilities, ErrorKind, FinishReason, Message, MessagePart, ModelCall, ModelName,
    Provider, ProviderError, StepEvent, StepEvents, StepRequest, ToolChoice, Usage,
};

/// The request of one step.
#[derive(Clone, Debug)]
pub(crate) struct ModelRequest {
    pub(crate) system: String,
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<String>,
    pub(crate) tool_choice: ToolChoice,
}

/// One step of the model.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) parts: Vec<MessagePart>,
    pub(crate) usage: Usage,
    pub(crate) end: StepEnd,
}

#[derive(Clone, Debug)]
pub(crate) enum StepEnd {
    Finish(FinishReason),
    Fail(ProviderError),
    /// The stream hangs.
    Hang,
    /// The stream ends without a finish event.
    Break,
}

/// A final answer.
pub(crate) fn say(text: &str) -> Step {
    let parts = vec![MessagePart::Text { text: text.to_owned() }];
    Step { parts, usage: Usage::default(), end: StepEnd::Finish(FinishReason::Stop) }
}

/// One tool call.
pub(crate) fn call(tool: &str, arguments: &str) -> Step {
    calls(&[(tool, arguments)])
}

/// Several tool calls.
pub(crate) fn calls(calls: &[(&str, &str)]) -> Step {
    let call = |(number, (tool, arguments)): (usize, &(&str, &str))| {
        let (name, arguments) = ((*tool).to_owned(), (*arguments).to_owned());
        MessagePart::Call(ModelCall { id: format!("call_{number}"), name, arguments })
    };
    let parts = calls.iter().enumerate().map(call).collect();
    Step { parts, usage: Usage::default(), end: StepEnd::Finish(FinishReason::ToolCalls) }
}

/// Fails without output.
pub(crate) fn fail(kind: ErrorKind, message: &str) -> Step {
    Step { parts: Vec::new(), usage: Usage::default(), end: StepEnd::Fail(ProviderError::new(kind, message)) }
}

impl Step {
    /// With text before everything else.
    pub(crate) fn after(mut self, text: &str) -> Self {
        self.parts.insert(0, MessagePart::Text { text: text.to_owned() });
        self
    }

    pub(crate) fn ends(mut self, end: StepEnd) -> Self {
        self.end = end;
        self
    }

    pub(crate) fn finishes(self, reason: FinishReason) -> Self {
        self.ends(StepEnd::Finish(reason))
    }

    pub(crate) fn uses(mut self, input_tokens: u64, output_tokens: u64) -> Self {
        self.usage = Usage { input_tokens, output_tokens, cached_tokens: 0 };
        self
    }

    fn play(self, model: &ModelName) -> ScriptedStream {
        let mut events = VecDeque::new();
        for part in &self.parts {
            match part {
                // In two deltas, as in a stream.
                MessagePart::Text { text } => {
                    let (one, other) = text.split_at(text.floor_char_boundary(text.len() / 2));
                    events.extend([one, other].map(|piece| Ok(StepEvent::TextDelta(piece.to_owned()))));
                }
                MessagePart::Thinking { text, .. } => {
                    events.push_back(Ok(StepEvent::ThinkingDelta(text.clone())))
                }
                MessagePart::Call(_) => {}
            }
        }
        events.push_back(Ok(StepEvent::Usage(self.usage)));
        let mut hangs = false;
        match self.end {
            StepEnd::Finish(reason) => {
                let message = AssistantMessage { parts: self.parts, model: Some(model.clone()) };
                events.push_back(Ok(StepEvent::Finish { reason, message }));
            }
            StepEnd::Fail(error) => events.push_back(Err(error)),
            StepEnd::Hang => hangs = true,
            StepEnd::Break => {}
        }
        ScriptedStream { events, hangs }
    }
}

struct ScriptedStream {
    events: VecDeque<Result<StepEvent, ProviderError>>,
    hangs: bool,
}

impl Stream for ScriptedStream {
    type Item = Result<StepEvent, ProviderError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.events.pop_front() {
            None if self.hangs => Poll::Pending,
            next => Poll::Ready(next),
        }
    }
}

type Act = dyn Fn(usize, &ModelRequest) -> Step + Send + Sync;

/// The model.
pub(crate) struct FakeModel {
    model: ModelName,
    /// `None`: the server never answers the query.
    capabilities: Option<Capabilities>,
    act: Box<Act>,
    asked: Mutex<Vec<ModelRequest>>,
}

impl FakeModel {
    /// A model that answers by the request and its number.
    pub(crate) fn by(act: impl Fn(usize, &ModelRequest) -> Step + Send + Sync + 'static) -> Arc<Self> {
        Self::with(Some(CAPABLE), act)
    }

    /// The same with other capabilities.
    pub(crate) fn able(
        capabilities: Capabilities,
        act: impl Fn(usize, &ModelRequest) -> Step + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::with(Some(capabilities), act)
    }

    /// A model whose server never answers the capabilities query.
    pub(crate) fn unknown(act: impl Fn(usize, &ModelRequest) -> Step + Send + Sync + 'static) -> Arc<Self> {
        Self::with(None, act)
    }

    fn with(
        capabilities: Option<Capabilities>,
        act: impl Fn(usize, &ModelRequest) -> Step + Send + Sync + 'static,
    ) -> Arc<Self> {
        let model = ModelName { provider: "played".to_owned(), name: "model".to_owned() };
        Arc::new(Self { model, capabilities, act: Box::new(act), asked: Mutex::default() })
    }

    /// A model that takes these steps in turn, and repeats the last.
    pub(crate) fn steps(steps: Vec<Step>) -> Arc<Self> {
        Self::by(move |number, _| steps.get(number).or(steps.last()).unwrap().clone())
    }

    /// The requests so far.
    pub(crate) fn asked(&self) -> Vec<ModelRequest> {
        self.asked.lock().unwrap().clone()
    }
}

pub(crate) const CAPABLE: Capabilities = Capabilities {
    supports_tools: true,
    supports_images: false,
    context_window: Some(100_000),
    max_output_tokens: None,
};

impl Provider for FakeModel {
    fn model(&self) -> &ModelName {
        &self.model
    }

    fn step<'p>(
        &'p self,
        request: StepRequest<'p>,
    ) -> Pin<Box<dyn Future<Output = Result<StepEvents, ProviderError>> + Send + 'p>> {
        let asked = ModelRequest {
            system: request.system.unwrap_or_default().to_owned(),
            messages: request.messages.to_vec(),
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            tool_choice: request.tool_choice,
        };
        let number = {
            let mut all = self.asked.lock().unwrap();
            all.push(asked.clone());
            all.len() - 1
        };
        let step = (self.act)(number, &asked);
        Box::pin(async move { Ok(StepEvents::new(step.play(&self.model))) })
    }

    fn capabilities(&self) -> Pin<Box<dyn Future<Output = Result<Capabilities, ProviderError>> + Send + '_>> {
        Box::pin(async {
            match self.capabilities {
                Some(capabilities) => Ok(capabilities),
                None => std::future::pending().await,
            }
        })
    }
}
