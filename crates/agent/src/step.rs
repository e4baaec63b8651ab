//! One step of a model, with retries.

use std::collections::{HashMap, HashSet};
use std::pin::{Pin, pin};
use std::time::Duration;

use toolgate_llm::{
    AssistantMessage, CallKey, ErrorKind, FinishReason, Provider, ProviderError, RetryPolicy, StepEvent,
    StepEvents, StepRequest, Usage,
};
use toolgate_types::{CallId, CancellationReason, Deadline};
use tracing::{Instrument as _, Span};

use crate::event::{ChatEvent, EventSink, MessageId};
use crate::trace::{chat_span, record_error, record_usage};

/// The gate's ids for the calls of a message, by the model's ids. They are assigned when a call begins to stream, so that its input can be followed.
pub(crate) type CallIds = HashMap<String, CallId>;

/// How a step ended.
pub(crate) enum StepOutcome {
    /// A complete message, with the usage of the attempt that produced it. Only a complete message contains calls.
    Finished { id: MessageId, calls: CallIds, reason: FinishReason, message: AssistantMessage, usage: Usage },
    /// Interrupted; with the text until then.
    Stopped { stopped: CancellationReason, text: String },
    /// Failed after all attempts.
    Failed(ProviderError),
}

/// Requests steps from a model.
pub(crate) struct ModelClient<'a> {
    pub(crate) provider: &'a dyn Provider,
    pub(crate) events: &'a EventSink,
    pub(crate) max_attempts: u32,
    pub(crate) retry: RetryPolicy,
    /// Whether deltas are emitted.
    pub(crate) emits_deltas: bool,
}

/// One attempt.
struct StepAttempt<'a> {
    client: &'a ModelClient<'a>,
    id: MessageId,
    text: String,
    /// The calls in the order in which they began, with their tools.
    started_calls: Vec<(CallId, String)>,
    calls: CallIds,
    /// Whether any delta was emitted.
    was_shown: bool,
    usage: Usage,
}

enum AttemptResult {
    Finished { reason: FinishReason, message: AssistantMessage },
    Stopped(CancellationReason),
    Failed(ProviderError),
}

impl ModelClient<'_> {
    /// One step. Also returns the total usage of all attempts: failed ones are paid for too.
    pub(crate) async fn step(&self, request: StepRequest<'_>, deadline: &Deadline) -> (StepOutcome, Usage) {
        let mut attempt = 1;
        let mut all = Usage::default();
        loop {
            let mut this = StepAttempt {
                client: self,
                id: MessageId::fresh(),
                text: String::new(),
                started_calls: Vec::new(),
                calls: CallIds::new(),
                was_shown: false,
                usage: Usage::default(),
            };
            let span = chat_span(self.provider.model());
            let tried = this.run(request, deadline).instrument(span.clone()).await;
            record_attempt(&span, &tried, this.usage);
            drop(span);
            let StepAttempt { id, text, calls, was_shown, usage, .. } = this;
            all = add_usage(all, usage);
            let error = match tried {
                AttemptResult::Finished { reason, message } => {
                    return (StepOutcome::Finished { id, calls, reason, message, usage }, all);
                }
                AttemptResult::Stopped(stopped) => return (StepOutcome::Stopped { stopped, text }, all),
                AttemptResult::Failed(error) => error,
            };
            let wait = self.retry_delay(&error, attempt, deadline);
            // A conversation that is too long is compacted by the caller, so this is not an error yet.
            if error.kind != ErrorKind::ContextExceeded || was_shown {
                (self.events)(ChatEvent::Error {
                    code: error.kind.as_str(),
                    message: explain(&error),
                    retryable: wait.is_some(),
                    attempt: Some(attempt),
                    wait_ms: wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
                    voided: was_shown.then_some(id),
                });
            }
            let Some(wait) = wait else { return (StepOutcome::Failed(error), all) };
            if let Err(stopped) = deadline.wait(tokio::time::sleep(wait)).await {
                return (StepOutcome::Stopped { stopped, text: String::new() }, all);
            }
            attempt += 1;
        }
    }

    /// The delay before the next attempt; `None` without one.
    fn retry_delay(&self, error: &ProviderError, attempt: u32, deadline: &Deadline) -> Option<Duration> {
        if attempt >= self.max_attempts {
            return None;
        }
        self.retry.delay(attempt, error).filter(|wait| deadline.left().is_none_or(|left| *wait < left))
    }
}

impl StepAttempt<'_> {
    async fn run(&mut self, request: StepRequest<'_>, deadline: &Deadline) -> AttemptResult {
        // No attempt starts after the deadline.
        if let Some(stopped) = deadline.reason() {
            return AttemptResult::Stopped(stopped);
        }
        // One timer for the whole step: a stream has thousands of events.
        let mut over = pin!(deadline.over());
        let events = tokio::select! {
            biased;
            stopped = &mut over => return AttemptResult::Stopped(stopped),
            events = self.client.provider.step(request) => events,
        };
        match events {
            Ok(mut events) => self.consume(&mut events, over).await,
            Err(error) => AttemptResult::Failed(error),
        }
    }

    async fn consume(
        &mut self,
        events: &mut StepEvents,
        mut over: Pin<&mut impl Future<Output = CancellationReason>>,
    ) -> AttemptResult {
        loop {
            let event = tokio::select! {
                biased;
                stopped = &mut over => return AttemptResult::Stopped(stopped),
                event = events.next() => event,
            };
            match event {
                Some(Ok(StepEvent::Finish { reason, message })) => {
                    return check_unique_call_ids(reason, message);
                }
                Some(Ok(event)) => self.emit(event),
                Some(Err(error)) => return AttemptResult::Failed(error),
                None => {
                    let message = "the answer ended before the model had finished";
                    return AttemptResult::Failed(ProviderError::new(ErrorKind::Truncated, message));
                }
            }
        }
    }

    fn emit(&mut self, event: StepEvent) {
        let is_shown = self.client.emits_deltas;
        let told = match event {
            StepEvent::TextDelta(text) => {
                self.text.push_str(&text);
                ChatEvent::TextDelta { message_id: self.id.clone(), text }
            }
            StepEvent::ThinkingDelta(text) => ChatEvent::ThinkingDelta { message_id: self.id.clone(), text },
            StepEvent::Usage(usage) => {
                self.usage = usage;
                return;
            }
            StepEvent::CallStart { id, name, .. } => {
                let call = CallId::fresh();
                self.started_calls.push((call, name));
                self.calls.insert(id, call);
                return;
            }
            // Only for display: calls are taken from the complete message.
            StepEvent::CallDelta { call, json } => match self.input_delta(call, json) {
                Some(delta) => delta,
                None => return,
            },
            StepEvent::CallEnd { .. } | StepEvent::Finish { .. } => return,
        };
        if is_shown {
            self.was_shown = true;
            (self.client.events)(told);
        }
    }
}

impl StepAttempt<'_> {
    fn input_delta(&self, call: CallKey, chunk: String) -> Option<ChatEvent> {
        let (tool_id, tool_name) = self.started_calls.get(usize::try_from(call.0).ok()?)?.clone();
        Some(ChatEvent::ToolInputDelta { message_id: self.id.clone(), tool_id, tool_name, chunk })
    }
}

fn record_attempt(span: &Span, tried: &AttemptResult, usage: Usage) {
    record_usage(span, usage);
    match tried {
        AttemptResult::Finished { .. } => {}
        AttemptResult::Stopped(CancellationReason::Cancelled) => record_error(span, "cancelled"),
        AttemptResult::Stopped(CancellationReason::Deadline) => record_error(span, "timeout"),
        AttemptResult::Failed(error) => record_error(span, error.kind.as_str()),
    }
}

/// Results refer to calls by id, so two calls with one id could not be answered.
fn check_unique_call_ids(reason: FinishReason, message: AssistantMessage) -> AttemptResult {
    let mut ids = HashSet::new();
    if message.calls().all(|call| ids.insert(call.id.as_str())) {
        return AttemptResult::Finished { reason, message };
    }
    AttemptResult::Failed(ProviderError::new(ErrorKind::Garbled, "two calls of one message have the same id"))
}

pub(crate) fn add_usage(one: Usage, other: Usage) -> Usage {
    Usage {
        input_tokens: one.input_tokens.saturating_add(other.input_tokens),
        output_tokens: one.output_tokens.saturating_add(other.output_tokens),
        cached_tokens: one.cached_tokens.saturating_add(other.cached_tokens),
    }
}

/// The message and the help.
pub(crate) fn explain(error: &ProviderError) -> String {
    match &error.help {
        Some(help) => format!("{}; {help}", error.message),
        None => error.message.clone(),
    }
}
