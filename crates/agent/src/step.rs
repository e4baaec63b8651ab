//! One step of a model, tried again where that may help.

use std::collections::{HashMap, HashSet};
use std::pin::{Pin, pin};
use std::time::Duration;

use toolgate_llm::{
    AssistantMessage, Backoff, CallKey, ErrorKind, Event, Events, FinishReason, Provider, ProviderError,
    Request, Usage,
};
use toolgate_types::CallId;

use crate::event::{ChatEvent, EventSink, MessageId};
use crate::patience::{Patience, Stopped};

/// The gate's ids for the calls of a message, by the ids that the model gave them. They are given when a call begins to be written, so that its
/// input can be followed.
pub(crate) type CallIds = HashMap<String, CallId>;

/// How a step ended.
pub(crate) enum Stepped {
    /// With a whole message, and what the try used that it came of. Only such a one holds calls.
    Finished { id: MessageId, calls: CallIds, reason: FinishReason, message: AssistantMessage, usage: Usage },
    /// Somebody had enough; what was said until then.
    Stopped { stopped: Stopped, text: String },
    /// Not at all.
    Failed(ProviderError),
}

/// Asks a model.
pub(crate) struct Asker<'a> {
    pub(crate) provider: &'a dyn Provider,
    pub(crate) events: &'a EventSink,
    pub(crate) tries: u32,
    pub(crate) backoff: Backoff,
    /// Whether the person is shown what is said.
    pub(crate) is_shown: bool,
}

/// One try.
struct Try<'a> {
    asker: &'a Asker<'a>,
    id: MessageId,
    text: String,
    /// The calls in the order in which they began, with their tools.
    begun: Vec<(CallId, String)>,
    calls: CallIds,
    /// Whether anything of it was shown.
    was_shown: bool,
    usage: Usage,
}

enum Tried {
    Finished { reason: FinishReason, message: AssistantMessage },
    Stopped(Stopped),
    Failed(ProviderError),
}

impl Asker<'_> {
    /// One step. Says also what all its tries used together: those that came to nothing are paid for too.
    pub(crate) async fn step(&self, request: Request<'_>, patience: &Patience) -> (Stepped, Usage) {
        let mut attempt = 1;
        let mut all = Usage::default();
        loop {
            let mut this = Try {
                asker: self,
                id: MessageId::fresh(),
                text: String::new(),
                begun: Vec::new(),
                calls: CallIds::new(),
                was_shown: false,
                usage: Usage::default(),
            };
            let tried = this.run(request, patience).await;
            let Try { id, text, calls, was_shown, usage, .. } = this;
            all = sum(all, usage);
            let error = match tried {
                Tried::Finished { reason, message } => {
                    return (Stepped::Finished { id, calls, reason, message, usage }, all);
                }
                Tried::Stopped(stopped) => return (Stepped::Stopped { stopped, text }, all),
                Tried::Failed(error) => error,
            };
            let wait = self.wait_before_next(&error, attempt, patience);
            // A conversation that is too long is made shorter by whoever asked, and only then is it known whether that helps.
            if error.kind != ErrorKind::ContextExceeded || was_shown {
                (self.events)(ChatEvent::Error {
                    code: error.kind.as_str(),
                    message: in_words(&error),
                    retryable: wait.is_some(),
                    attempt: Some(attempt),
                    wait_ms: wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
                    voided: was_shown.then_some(id),
                });
            }
            let Some(wait) = wait else { return (Stepped::Failed(error), all) };
            if let Err(stopped) = patience.wait(tokio::time::sleep(wait)).await {
                return (Stepped::Stopped { stopped, text: String::new() }, all);
            }
            attempt += 1;
        }
    }

    /// How long to wait before another try; `None` where there is none.
    fn wait_before_next(&self, error: &ProviderError, attempt: u32, patience: &Patience) -> Option<Duration> {
        if attempt >= self.tries {
            return None;
        }
        self.backoff.wait(attempt, error).filter(|wait| *wait < patience.left())
    }
}

impl Try<'_> {
    async fn run(&mut self, request: Request<'_>, patience: &Patience) -> Tried {
        // What nobody waits for any more is not begun.
        if let Some(stopped) = patience.check() {
            return Tried::Stopped(stopped);
        }
        // One timer for the whole step: a stream has thousands of events.
        let mut over = pin!(patience.over());
        let events = tokio::select! {
            biased;
            stopped = &mut over => return Tried::Stopped(stopped),
            events = self.asker.provider.step(request) => events,
        };
        match events {
            Ok(mut events) => self.listen(&mut events, over).await,
            Err(error) => Tried::Failed(error),
        }
    }

    async fn listen(
        &mut self,
        events: &mut Events,
        mut over: Pin<&mut impl Future<Output = Stopped>>,
    ) -> Tried {
        loop {
            let event = tokio::select! {
                biased;
                stopped = &mut over => return Tried::Stopped(stopped),
                event = events.next() => event,
            };
            match event {
                Some(Ok(Event::Finish { reason, message })) => return finished(reason, message),
                Some(Ok(event)) => self.tell(event),
                Some(Err(error)) => return Tried::Failed(error),
                None => {
                    let message = "the answer ended before the model had finished";
                    return Tried::Failed(ProviderError::new(ErrorKind::Truncated, message));
                }
            }
        }
    }

    fn tell(&mut self, event: Event) {
        let is_shown = self.asker.is_shown;
        let told = match event {
            Event::TextDelta(text) => {
                self.text.push_str(&text);
                ChatEvent::TextDelta { message_id: self.id.clone(), text }
            }
            Event::ThinkingDelta(text) => ChatEvent::ThinkingDelta { message_id: self.id.clone(), text },
            Event::Usage(usage) => {
                self.usage = usage;
                return;
            }
            Event::CallStart { id, name, .. } => {
                let call = CallId::fresh();
                self.begun.push((call, name));
                self.calls.insert(id, call);
                return;
            }
            // For those who watch: what is made of a call comes from the whole message.
            Event::CallDelta { call, json } => match self.input_delta(call, json) {
                Some(delta) => delta,
                None => return,
            },
            Event::CallEnd { .. } | Event::Finish { .. } => return,
        };
        if is_shown {
            self.was_shown = true;
            (self.asker.events)(told);
        }
    }
}

impl Try<'_> {
    fn input_delta(&self, call: CallKey, chunk: String) -> Option<ChatEvent> {
        let (tool_id, tool_name) = self.begun.get(usize::try_from(call.0).ok()?)?.clone();
        Some(ChatEvent::ToolInputDelta { message_id: self.id.clone(), tool_id, tool_name, chunk })
    }
}

/// Results go back by id, so that two calls with one id could not be answered.
fn finished(reason: FinishReason, message: AssistantMessage) -> Tried {
    let mut ids = HashSet::new();
    if message.calls().all(|call| ids.insert(call.id.as_str())) {
        return Tried::Finished { reason, message };
    }
    Tried::Failed(ProviderError::new(ErrorKind::Garbled, "two calls of one message have the same id"))
}

pub(crate) fn sum(one: Usage, other: Usage) -> Usage {
    Usage {
        input_tokens: one.input_tokens.saturating_add(other.input_tokens),
        output_tokens: one.output_tokens.saturating_add(other.output_tokens),
        cached_tokens: one.cached_tokens.saturating_add(other.cached_tokens),
    }
}

/// What is wrong, and what would help.
pub(crate) fn in_words(error: &ProviderError) -> String {
    match &error.help {
        Some(help) => format!("{}; {help}", error.message),
        None => error.message.clone(),
    }
}
