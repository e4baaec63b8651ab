//! One turn of a conversation: a prompt, then steps and calls until an answer or a limit.

use std::borrow::Cow;
use std::time::Duration;

use tokio::time::Instant;
use toolgate_llm::{
    AssistantMessage, Capabilities, ErrorKind, FinishReason, Message, MessagePart, ModelCall, ProviderError,
    StepRequest, ToolChoice, Usage,
};
use toolgate_session::Session;
use toolgate_types::{CancellationReason, Deadline, Failure, OnFull, OnViolation};
use tracing::Instrument as _;

use crate::agent::{Agent, TurnContext};
use crate::call::{AnsweredCall, CallRunner, raw_arguments};
use crate::compaction::Compaction;
use crate::context_window::ContextBudget;
use crate::event::{ChatEvent, MessageId};
use crate::loop_detection::{LoopDetector, Repetition};
use crate::messages;
use crate::step::{CallIds, ModelClient, StepOutcome, add_usage, explain};
use crate::system_prompt::system_prompt;
use crate::tool_catalogue::ToolCatalogue;
use crate::trace::{record_error, record_usage, turn_span};
use crate::turn_outcome::{AgentError, EndReason, TurnOutcome};

/// The maximum number of concurrent read-only calls.
const MAX_PARALLEL_READS: usize = 8;

/// A turn in progress.
pub(crate) struct TurnRunner<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) session: &'a mut Session,
    pub(crate) turn: TurnContext,
    pub(crate) prompt: &'a str,
    pub(crate) deadlines: TurnDeadlines,
    pub(crate) system: String,
    pub(crate) supports_tools: bool,
    supports_images: bool,
    pub(crate) tools: ToolCatalogue,
    pub(crate) context: ContextBudget,
    /// Whether a summary may still be tried: one that saved nothing is not tried again.
    pub(crate) may_summarise: bool,
    /// Whether the notice about elided output was emitted.
    pub(crate) has_reported_elision: bool,
    /// Whether the turn's token budget is used up.
    pub(crate) is_budget_spent: bool,
    totals: &'a mut TurnTotals,
    loop_detector: LoopDetector,
}

/// The deadlines of a turn. A pause of one pauses both.
pub(crate) struct TurnDeadlines {
    /// Of its steps and their calls.
    pub(crate) steps: Deadline,
    /// Of the final step: the end of the whole timeout.
    pub(crate) final_step: Deadline,
}

/// The totals of a turn so far.
#[derive(Clone, Copy, Debug, Default)]
struct TurnTotals {
    usage: Usage,
    iterations: u32,
    /// Tokens of all requests and answers; estimated if the server reports no usage.
    tokens: u64,
}

/// A turn before its first step.
enum Begun<'a> {
    Ready(Box<TurnRunner<'a>>),
    /// It was interrupted while the model's capabilities were asked for.
    Interrupted(&'a mut Session, CancellationReason),
}

/// The end of a turn, and the answer.
pub(crate) type TurnEnd = (EndReason, String);

/// The result of a step.
enum TurnProgress {
    /// A message, which is persisted.
    Message { id: MessageId, calls: CallIds, reason: FinishReason, message: AssistantMessage },
    /// The end of the turn.
    End(TurnEnd),
}

/// How the calls of a message went.
enum CallsOutcome {
    Continue,
    Interrupted(CancellationReason),
    /// A call tried to leave its bounds, and that ends the conversation.
    Violation(String),
    /// The calls repeated themselves.
    LoopDetected,
}

impl<'a> TurnRunner<'a> {
    /// Runs a turn, and always emits its end.
    pub(crate) async fn run(
        agent: &Agent,
        session: &mut Session,
        turn: TurnContext,
        prompt: &str,
    ) -> Result<TurnOutcome, AgentError> {
        let (events, session_id) = (turn.events.clone(), Some(session.id().clone()));
        let mut spent = TurnTotals::default();
        let span = turn_span(agent.model(), session.id());
        let turn = TurnRunner::run_inner(agent, session, turn, prompt, &mut spent);
        let held = turn.instrument(span.clone()).await;
        let (reason, text) = match &held {
            Ok(end) => end.clone(),
            Err(error) => {
                events(session_error_event(error));
                (EndReason::Failed, error.to_string())
            }
        };
        let TurnTotals { usage, iterations, .. } = spent;
        record_usage(&span, usage);
        span.record("toolgate.end", reason.as_str());
        if let Err(error) = &held {
            record_error(&span, error.code());
        }
        events(ChatEvent::StreamEnd { reason, text, usage, iterations, session_id });
        held.map(|(reason, text)| TurnOutcome { reason, text, usage, iterations })
    }

    async fn run_inner(
        agent: &'a Agent,
        session: &'a mut Session,
        turn: TurnContext,
        prompt: &'a str,
        spent: &'a mut TurnTotals,
    ) -> Result<TurnEnd, AgentError> {
        let stored = turn.prompt_stored.clone();
        let mut conversation = match Self::begin(agent, session, turn, prompt, spent).await? {
            Begun::Ready(conversation) => conversation,
            // There is nothing that a final step could report, and a server that does not answer this would not answer that.
            Begun::Interrupted(session, stopped) => {
                session.append(Message::user(prompt.to_owned())).await?;
                stored.inspect(|stored| stored.notify_one());
                return Ok(interrupted_before_start(stopped, agent.settings.turn_timeout(true)));
            }
        };
        let images = std::mem::take(&mut conversation.turn.images);
        if !images.is_empty() && !conversation.supports_images {
            return Err(no_images(agent));
        }
        let prompt_message = Message::User { text: prompt.to_owned(), images };
        conversation.check_window()?;
        if let Some(text) = conversation.prompt_too_long(&prompt_message) {
            return Ok((EndReason::ContextLimit, text));
        }
        conversation.session.append(prompt_message).await?;
        stored.inspect(|stored| stored.notify_one());
        let end = conversation.run_steps().await?;
        let total = add_usage(conversation.session.summary().usage, conversation.totals.usage);
        conversation.session.set_usage(total).await?;
        Ok(end)
    }

    /// What precedes the first step of a turn.
    async fn begin(
        agent: &'a Agent,
        session: &'a mut Session,
        turn: TurnContext,
        prompt: &'a str,
        spent: &'a mut TurnTotals,
    ) -> Result<Begun<'a>, AgentError> {
        let settings = &agent.settings;
        // The timeout starts here.
        let (began, base) =
            (Instant::now(), Deadline::never().with_cancellation(turn.cancelled.clone()).pausable());
        let deadlines = settings.turn_deadlines(&base, began, true);
        let left_open = session.interrupt(messages::INTERRUPTED_RESULT).await?;
        if !left_open.is_empty() {
            (turn.events)(ChatEvent::Notice { text: messages::interrupted_notice(left_open.len()) });
        }
        let gate = agent.gate.gate();
        let offer = ToolCatalogue::for_caller(gate, &turn.credential).await.map_err(AgentError::Caller)?;
        let asked = capabilities(agent, &deadlines.steps).await;
        let Capabilities { supports_tools, supports_images, context_window, .. } = match asked {
            Ok(capabilities) => capabilities,
            Err(stopped) => return Ok(Begun::Interrupted(session, stopped)),
        };
        if !supports_tools && session.messages().is_empty() && !offer.definitions.is_empty() {
            let text = format!("{} cannot use tools; this conversation goes on without them", agent.model());
            (turn.events)(ChatEvent::Notice { text });
        }
        let offer = if supports_tools { offer } else { ToolCatalogue::empty() };
        let has_tools = !offer.definitions.is_empty();
        Ok(Begun::Ready(Box::new(Self {
            system: system_prompt(settings, has_tools),
            deadlines: settings.turn_deadlines(&base, began, has_tools),
            context: ContextBudget::new(settings.context, context_window),
            agent,
            session,
            turn,
            prompt,
            supports_tools,
            supports_images,
            tools: offer,
            may_summarise: true,
            has_reported_elision: false,
            is_budget_spent: false,
            totals: spent,
            loop_detector: LoopDetector::default(),
        })))
    }

    /// Summarises the conversation because a person asked for it.
    pub(crate) async fn compact(
        agent: &Agent,
        session: &mut Session,
        turn: TurnContext,
    ) -> Result<Compaction, AgentError> {
        let mut spent = TurnTotals::default();
        let mut conversation = match TurnRunner::begin(agent, session, turn, "", &mut spent).await? {
            Begun::Ready(conversation) => conversation,
            Begun::Interrupted(..) => return Ok(Compaction::Stopped),
        };
        let compacted = conversation.compact_on_request().await?;
        let total = add_usage(conversation.session.summary().usage, conversation.totals.usage);
        conversation.session.set_usage(total).await?;
        Ok(compacted)
    }

    /// Why the prompt is not even persisted, if it leaves no room for an answer: every later turn would include it.
    fn prompt_too_long(&self, prompt: &Message) -> Option<String> {
        let prompt = std::slice::from_ref(prompt);
        let fits = |messages: &[Message]| {
            self.context.fits(self.context.estimate(messages, self.overhead_bytes()), 1)
        };
        // If not even the tools fit, a shorter prompt would not help.
        (fits(&[]) && !fits(prompt)).then(|| {
            messages::prompt_too_long(self.context.estimate(prompt, 0), self.context.assumed_window())
        })
    }

    /// A configured window or reserve with which not even the instructions fit is a configuration error, not a full context. If it is the server that
    /// reports so small a context, the model is still asked for an answer without tools.
    fn check_window(&self) -> Result<(), AgentError> {
        let beside = self.context.estimate(&[], self.overhead_bytes());
        if let Some(window) = self.context.small_window(beside) {
            let message = messages::small_window(window, beside);
            let help = "state a larger window, or offer fewer tools".to_owned();
            return Err(AgentError::Settings { message, help });
        }
        let Some((reserve, window)) = self.context.excessive_reserve(beside) else { return Ok(()) };
        let message = messages::excessive_reserve(reserve, window, beside);
        let help = "keep less free, or use a model with a larger context".to_owned();
        Err(AgentError::Settings { message, help })
    }

    async fn run_steps(&mut self) -> Result<TurnEnd, AgentError> {
        loop {
            self.refresh_tools().await?;
            if !self.compact_if_needed().await? || !self.can_afford_step() {
                return self.final_step(EndReason::ContextLimit).await;
            }
            let (id, ids, reason, message) = match self.ask_model().await? {
                TurnProgress::Message { id, calls, reason, message } => (id, calls, reason, message),
                TurnProgress::End(end) => return Ok(end),
            };
            let calls: Vec<ModelCall> = message.calls().cloned().collect();
            if calls.is_empty() && reason != FinishReason::Pause {
                self.report_unusual_finish(&reason, &message);
                return Ok((EndReason::Done, message.text()));
            }
            self.totals.iterations += 1;
            match self.run_calls(&calls, (&id, &ids), messages::skipped_after_finish(&reason)).await? {
                CallsOutcome::Continue
                    if self.totals.iterations < self.agent.settings.max_tool_iterations => {}
                CallsOutcome::Continue => return self.final_step(EndReason::IterationLimit).await,
                CallsOutcome::LoopDetected => return self.final_step(EndReason::Loop).await,
                CallsOutcome::Interrupted(CancellationReason::Deadline) => {
                    return self.final_step(EndReason::Timeout).await;
                }
                CallsOutcome::Interrupted(CancellationReason::Cancelled) => {
                    return Ok((EndReason::Cancelled, message.text()));
                }
                CallsOutcome::Violation(text) => return Ok((EndReason::Violation, text)),
            }
        }
    }

    /// Reloads the tool catalogue if the gate's configuration has changed.
    async fn refresh_tools(&mut self) -> Result<(), AgentError> {
        let gate = self.agent.gate.gate();
        if self.supports_tools && self.tools.is_stale(gate) {
            let offer = ToolCatalogue::for_caller(gate, &self.turn.credential).await;
            self.tools = offer.map_err(AgentError::Caller)?;
        }
        Ok(())
    }

    /// One step with tools, repeated with a compacted conversation if the server reports an overflow.
    async fn ask_model(&mut self) -> Result<TurnProgress, AgentError> {
        loop {
            let (stepped, used) = self.step().await;
            self.add_usage(used);
            match stepped {
                StepOutcome::Finished { id, calls, reason, message, usage } => {
                    self.persist(&message, usage).await?;
                    return Ok(TurnProgress::Message { id, calls, reason, message });
                }
                StepOutcome::Stopped { stopped, text } => {
                    return self.finish_interrupted(stopped, text).await.map(TurnProgress::End);
                }
                StepOutcome::Failed(error) if error.kind == ErrorKind::ContextExceeded => {
                    if !self.compact_after_overflow().await? {
                        return self.final_step(EndReason::ContextLimit).await.map(TurnProgress::End);
                    }
                }
                StepOutcome::Failed(error) => {
                    return Ok(TurnProgress::End((EndReason::ProviderError, explain(&error))));
                }
            }
        }
    }

    /// What the model is shown of the conversation. A model that takes no images, in a conversation that was begun with another, gets their names.
    pub(crate) fn shown_messages(&self) -> Cow<'_, [Message]> {
        let has_images =
            |message: &Message| matches!(message, Message::User { images, .. } if !images.is_empty());
        let shown = self.context.view(self.session.messages());
        if self.supports_images || !shown.iter().any(has_images) {
            return shown;
        }
        let without = |message: &Message| match message {
            Message::User { text, images } => Message::user(messages::without_images(text, images)),
            other => other.clone(),
        };
        Cow::Owned(shown.iter().map(without).collect())
    }

    async fn step(&self) -> (StepOutcome, Usage) {
        let messages = self.shown_messages();
        let request = self.request(&messages, ToolChoice::Auto);
        self.model_client(true).step(request, &self.deadlines.steps).await
    }

    pub(crate) fn request<'r>(&'r self, messages: &'r [Message], tool_choice: ToolChoice) -> StepRequest<'r> {
        let settings = &self.agent.settings;
        StepRequest {
            system: Some(&self.system),
            messages,
            tools: &self.tools.definitions,
            tool_choice,
            max_output_tokens: settings.max_output_tokens,
            thinking: settings.thinking,
        }
    }

    pub(crate) fn model_client(&self, is_shown: bool) -> ModelClient<'_> {
        let Agent { provider, settings, .. } = self.agent;
        let (tries, retry) = (settings.max_attempts, settings.retry);
        ModelClient {
            provider: provider.as_ref(),
            events: &self.turn.events,
            max_attempts: tries,
            retry,
            emits_deltas: is_shown,
        }
    }

    /// Persists a complete message, and emits the context usage.
    async fn persist(&mut self, message: &AssistantMessage, usage: Usage) -> Result<(), AgentError> {
        // Servers reject a message without content.
        if !message.parts.is_empty() {
            self.session.append(Message::Assistant(message.clone())).await?;
        }
        let estimate = self.estimate();
        self.context.record_usage(usage, estimate);
        (self.turn.events)(self.context.usage_event(estimate));
        Ok(())
    }

    pub(crate) fn add_usage(&mut self, usage: Usage) {
        let tokens = if usage.input_tokens > 0 { usage.context_tokens() } else { self.estimate() };
        self.totals.tokens = self.totals.tokens.saturating_add(tokens);
        self.totals.usage = add_usage(self.totals.usage, usage);
    }

    /// The tokens used by the turn so far.
    pub(crate) fn turn_tokens(&self) -> u64 {
        self.totals.tokens
    }

    /// The estimated tokens that the model is shown.
    pub(crate) fn estimate(&self) -> u64 {
        self.context.estimate(self.session.messages(), self.overhead_bytes())
    }

    /// The bytes that the model is shown besides the messages.
    pub(crate) fn overhead_bytes(&self) -> u64 {
        self.tools.bytes + self.system.len() as u64
    }

    /// Persists the text until an interruption.
    async fn finish_interrupted(
        &mut self,
        stopped: CancellationReason,
        text: String,
    ) -> Result<TurnEnd, AgentError> {
        self.persist_text(&text).await?;
        match stopped {
            CancellationReason::Cancelled => Ok((EndReason::Cancelled, text)),
            CancellationReason::Deadline => self.final_step(EndReason::Timeout).await,
        }
    }

    async fn persist_text(&mut self, text: &str) -> Result<(), AgentError> {
        if !text.is_empty() {
            let parts = vec![MessagePart::Text { text: text.to_owned() }];
            let model = Some(self.agent.model().clone());
            self.session.append(Message::Assistant(AssistantMessage { parts, model })).await?;
        }
        Ok(())
    }

    /// Runs the calls of a message, or answers that they are not made.
    async fn run_calls(
        &mut self,
        calls: &[ModelCall],
        (message_id, ids): (&MessageId, &CallIds),
        mut not_made: Option<Failure>,
    ) -> Result<CallsOutcome, AgentError> {
        let Self { agent, session, turn, tools: offer, loop_detector: repeats, deadlines, .. } = self;
        let deadline = &deadlines.steps;
        let settings = &agent.settings;
        let maker = CallRunner {
            gate: &agent.gate,
            credential: &turn.credential,
            approver: &turn.approver,
            events: &turn.events,
            tools: offer,
            repair: settings.repair,
            message_id,
            ids,
            deadline,
        };
        let together =
            settings.parallel_reads && calls.iter().all(|call| offer.can_run_in_parallel(&call.name));
        let (mut went, mut fault) = (CallsOutcome::Continue, None);
        for batch in calls.chunks(if together { MAX_PARALLEL_READS } else { 1 }) {
            if matches!(went, CallsOutcome::Continue)
                && let Some(stopped) = deadline.reason()
            {
                (went, not_made) =
                    (CallsOutcome::Interrupted(stopped), Some(messages::skipped_after_interruption(stopped)));
            }
            if let Some(failure) = &not_made {
                for call in batch {
                    let mut answered = maker.skip(call, failure.clone()).await;
                    fault = fault.or(answered.fault.take());
                    persist_result(session, &maker, answered).await?;
                }
                continue;
            }
            let started: Vec<_> = batch.iter().map(|call| maker.start(call)).collect();
            for (call, started) in batch.iter().zip(started) {
                let mut answered = maker.finish(started, deadline).await;
                if let Some(found) = answered.fault.take() {
                    (fault, not_made) = (Some(found), Some(messages::skipped_after_fault()));
                }
                let repetition =
                    repeats.record(&call.name, &raw_arguments(call).to_string(), &answered.result.text);
                if repetition == Repetition::Noticed {
                    answered.result.text.push_str(messages::REPETITION_NOTICE);
                }
                if let (Some(failure), OnViolation::Stop) = (&answered.violation, settings.on_violation) {
                    not_made = Some(messages::skipped_after_violation());
                    went = CallsOutcome::Violation(messages::violation_message(&call.name, failure));
                } else if repetition == Repetition::Stuck && matches!(went, CallsOutcome::Continue) {
                    (went, not_made) = (CallsOutcome::LoopDetected, Some(messages::skipped_after_loop()));
                }
                persist_result(session, &maker, answered).await?;
            }
        }
        if let Some(fault) = fault {
            return Err(AgentError::Fault(fault));
        }
        Ok(match (went, deadline.reason()) {
            (CallsOutcome::Continue, Some(stopped)) => CallsOutcome::Interrupted(stopped),
            (went, _) => went,
        })
    }

    /// One final step without tools, so that the user gets an answer.
    pub(crate) async fn final_step(&mut self, reason: EndReason) -> Result<TurnEnd, AgentError> {
        let compacts = self.agent.settings.context.on_full == OnFull::Compact;
        if reason == EndReason::ContextLimit && compacts && !self.is_budget_spent {
            self.context.elide_results(self.session.messages(), 0);
        }
        let deadline = self.deadlines.final_step.clone();
        let mut stepped = self.step_without_tools(reason, &deadline).await?;
        if matches!(&stepped, StepOutcome::Failed(error) if error.kind == ErrorKind::ContextExceeded)
            && self.context.elide_results(self.session.messages(), 0)
        {
            stepped = self.step_without_tools(reason, &deadline).await?;
        }
        let text = match stepped {
            StepOutcome::Finished { id, calls: ids, message, .. } => {
                let calls: Vec<ModelCall> = message.calls().cloned().collect();
                self.run_calls(&calls, (&id, &ids), Some(messages::tools_disabled())).await?;
                message.text()
            }
            StepOutcome::Stopped { stopped, text } => {
                self.persist_text(&text).await?;
                if stopped == CancellationReason::Cancelled {
                    return Ok((EndReason::Cancelled, text));
                }
                text
            }
            StepOutcome::Failed(ProviderError { .. }) => String::new(),
        };
        if !text.trim().is_empty() {
            return Ok((reason, text));
        }
        if self.is_budget_spent {
            return Ok((reason, messages::TURN_TOKENS_SPENT.to_owned()));
        }
        let time = self.agent.settings.turn_timeout(!self.tools.definitions.is_empty());
        Ok((reason, messages::fallback_answer(reason, self.totals.iterations, time)))
    }

    async fn step_without_tools(
        &mut self,
        reason: EndReason,
        deadline: &Deadline,
    ) -> Result<StepOutcome, AgentError> {
        self.elide_to_fit();
        let mut messages = self.shown_messages().into_owned();
        messages.push(Message::user(messages::final_step_prompt(reason)));
        let request = self.request(&messages, ToolChoice::None);
        let (stepped, used) = self.model_client(true).step(request, deadline).await;
        self.add_usage(used);
        if let StepOutcome::Finished { message, usage, .. } = &stepped {
            self.persist(message, *usage).await?;
        }
        Ok(stepped)
    }

    /// Emits a notice for an end that the text alone does not show.
    fn report_unusual_finish(&self, reason: &FinishReason, message: &AssistantMessage) {
        let text = match reason {
            FinishReason::Length => "the answer was cut off at the model's output limit".to_owned(),
            FinishReason::Refusal => "the model declined to go on".to_owned(),
            FinishReason::Other(word) => format!("the model stopped: {word:?}"),
            _ if message.text().trim().is_empty() => "the model said nothing".to_owned(),
            FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Pause => return,
        };
        (self.turn.events)(ChatEvent::Notice { text });
    }
}

/// The model's capabilities. If they cannot be queried, the defaults apply, and the step itself reports what is wrong.
async fn capabilities(agent: &Agent, deadline: &Deadline) -> Result<Capabilities, CancellationReason> {
    deadline.check()?;
    let asked = deadline.wait(agent.provider.capabilities()).await?;
    let unknown = Capabilities {
        supports_tools: true,
        supports_images: false,
        context_window: None,
        max_output_tokens: None,
    };
    Ok(asked.unwrap_or(unknown))
}

fn interrupted_before_start(stopped: CancellationReason, time: Duration) -> TurnEnd {
    match stopped {
        CancellationReason::Cancelled => (EndReason::Cancelled, String::new()),
        CancellationReason::Deadline => {
            (EndReason::Timeout, messages::fallback_answer(EndReason::Timeout, 0, time))
        }
    }
}

/// Persists the result of a call, and only then emits it.
async fn persist_result(
    session: &mut Session,
    maker: &CallRunner<'_>,
    answered: AnsweredCall,
) -> Result<(), AgentError> {
    session.add_result(answered.result.clone()).await?;
    maker.emit_result(answered);
    Ok(())
}

fn no_images(agent: &Agent) -> AgentError {
    let message = format!("{} takes no images, as far as is known", agent.model());
    let help = "use another model, or set `supports_images` of its server under `models`".to_owned();
    AgentError::Settings { message, help }
}

fn session_error_event(error: &AgentError) -> ChatEvent {
    ChatEvent::Error {
        code: error.code(),
        message: error.to_string(),
        retryable: false,
        attempt: None,
        wait_ms: None,
        voided: None,
    }
}
