//! One turn of a conversation: the person speaks, the model answers or calls, and so on until one of them has enough.

use std::time::Duration;

use toolgate_llm::{
    AssistantMessage, Capabilities, ErrorKind, FinishReason, Message, ModelCall, Part, ProviderError,
    Request, ToolChoice, Usage,
};
use toolgate_manifest::{OnFull, OnViolation};
use toolgate_session::Session;
use toolgate_types::Failure;

use crate::agent::{Agent, Turn};
use crate::call::{Answered, Calls, as_written};
use crate::ended::{AgentError, EndReason, Ended};
use crate::event::{ChatEvent, MessageId};
use crate::offer::Offer;
use crate::patience::{Patience, Stopped};
use crate::repeat::{Repeats, Repetition};
use crate::room::Room;
use crate::step::{Asker, CallIds, Stepped, in_words, sum};
use crate::system::system_text;
use crate::words;

/// At most so many calls that read are made together.
const MOST_TOGETHER: usize = 8;

/// A turn under way.
pub(crate) struct Conversation<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) session: &'a mut Session,
    pub(crate) turn: Turn,
    pub(crate) prompt: &'a str,
    pub(crate) patience: Patience,
    pub(crate) system: String,
    pub(crate) supports_tools: bool,
    pub(crate) offer: Offer,
    pub(crate) room: Room,
    /// Whether a summary may still be tried: one that saved nothing is not tried again.
    pub(crate) may_summarise: bool,
    /// Whether the person knows already that output is left out.
    pub(crate) has_told_leaving_out: bool,
    /// Whether the turn has taken as many tokens as it may.
    pub(crate) is_spent: bool,
    spent: &'a mut Spent,
    repeats: Repeats,
}

/// What a turn took so far.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    usage: Usage,
    iterations: u32,
    /// Tokens of all requests and answers; estimated where a server counts none.
    tokens: u64,
}

/// The end of a turn, and what the person is told.
pub(crate) type End = (EndReason, String);

/// What the model has come to in a step.
enum Said {
    /// A message, which is kept.
    Message { id: MessageId, calls: CallIds, reason: FinishReason, message: AssistantMessage },
    /// The end.
    End(End),
}

/// How the calls of a message went.
enum Went {
    On,
    Stopped(Stopped),
    /// One tried to leave its bounds, and that ends the conversation.
    Violated(String),
    /// They went round and round.
    Round,
}

impl<'a> Conversation<'a> {
    /// Holds a turn, and tells its end, whatever that is.
    pub(crate) async fn hold(
        agent: &Agent,
        session: &mut Session,
        turn: Turn,
        prompt: &str,
    ) -> Result<Ended, AgentError> {
        let (events, session_id) = (turn.events.clone(), Some(session.id().clone()));
        let mut spent = Spent::default();
        let held = Conversation::hold_within(agent, session, turn, prompt, &mut spent).await;
        let (reason, text) = match &held {
            Ok(end) => end.clone(),
            Err(error) => {
                events(cannot_be_held(error));
                (EndReason::Failed, error.to_string())
            }
        };
        let Spent { usage, iterations, .. } = spent;
        events(ChatEvent::StreamEnd { reason, text, usage, iterations, session_id });
        held.map(|(reason, text)| Ended { reason, text, usage, iterations })
    }

    async fn hold_within(
        agent: &'a Agent,
        session: &'a mut Session,
        turn: Turn,
        prompt: &'a str,
        spent: &'a mut Spent,
    ) -> Result<End, AgentError> {
        let settings = &agent.settings;
        // From here on the person waits, whatever for.
        let patience = Patience::new(turn.cancelled.clone(), settings.turn_time(true));
        let left_open = session.interrupt(words::INTERRUPTED).await?;
        if !left_open.is_empty() {
            (turn.events)(ChatEvent::Notice { text: words::left_open(left_open.len()) });
        }
        let gate = agent.front.gate();
        let offer = Offer::of(gate, &turn.credential).await.map_err(AgentError::Caller)?;
        let prompt_message = Message::User { text: prompt.to_owned() };
        let asked = capabilities(agent, &patience).await;
        let Capabilities { supports_tools, context_window, .. } = match asked {
            Ok(capabilities) => capabilities,
            // Nothing was done that a last step could tell of, and whoever does not answer this would not answer that.
            Err(stopped) => {
                session.append(prompt_message).await?;
                return Ok(ended_before_it_began(stopped, settings.time(true)));
            }
        };
        if !supports_tools && session.messages().is_empty() && !offer.definitions.is_empty() {
            let text = format!("{} cannot use tools; this conversation goes on without them", agent.model());
            (turn.events)(ChatEvent::Notice { text });
        }
        let offer = if supports_tools { offer } else { Offer::nothing() };
        let has_tools = !offer.definitions.is_empty();
        let mut conversation = Self {
            system: system_text(settings, has_tools),
            patience: patience.lasting(settings.turn_time(has_tools)),
            room: Room::new(settings.context, context_window),
            agent,
            session,
            turn,
            prompt,
            supports_tools,
            offer,
            may_summarise: true,
            has_told_leaving_out: false,
            is_spent: false,
            spent,
            repeats: Repeats::default(),
        };
        conversation.check_window()?;
        if let Some(text) = conversation.too_long(&prompt_message) {
            return Ok((EndReason::ContextLimit, text));
        }
        conversation.session.append(prompt_message).await?;
        let end = conversation.go_on().await?;
        let total = sum(conversation.session.summary().usage, conversation.spent.usage);
        conversation.session.set_usage(total).await?;
        Ok(end)
    }

    /// Why the prompt is not even kept, where it leaves no room for an answer: every later turn would have to carry it along.
    fn too_long(&self, prompt: &Message) -> Option<String> {
        let prompt = std::slice::from_ref(prompt);
        let fits = |messages: &[Message]| self.room.has_room(self.room.estimate(messages, self.beside()), 1);
        // Where not even the tools fit, a shorter prompt would not help.
        (fits(&[]) && !fits(prompt))
            .then(|| words::too_long(self.room.estimate(prompt, 0), self.room.assumed()))
    }

    /// A window or a reserve with which not even the instructions fit is a mistake of the configuration, not a full context. A model whose server states so small
    /// a context is still asked for an answer without tools.
    fn check_window(&self) -> Result<(), AgentError> {
        let beside = self.room.estimate(&[], self.beside());
        if let Some(window) = self.room.small_window(beside) {
            let message = words::small_window(window, beside);
            let help = "state a larger window, or offer fewer tools".to_owned();
            return Err(AgentError::Settings { message, help });
        }
        let Some((reserve, window)) = self.room.excessive_reserve(beside) else { return Ok(()) };
        let message = words::excessive_reserve(reserve, window, beside);
        let help = "keep less free, or use a model with a larger context".to_owned();
        Err(AgentError::Settings { message, help })
    }

    async fn go_on(&mut self) -> Result<End, AgentError> {
        loop {
            self.offer_again().await?;
            if !self.make_room().await? || !self.can_afford_step() {
                return self.last_step(EndReason::ContextLimit).await;
            }
            let (id, ids, reason, message) = match self.ask().await? {
                Said::Message { id, calls, reason, message } => (id, calls, reason, message),
                Said::End(end) => return Ok(end),
            };
            let calls: Vec<ModelCall> = message.calls().cloned().collect();
            if calls.is_empty() && reason != FinishReason::Pause {
                self.tell_odd_end(&reason, &message);
                return Ok((EndReason::Done, message.text()));
            }
            self.spent.iterations += 1;
            match self.make(&calls, (&id, &ids), words::not_made_after(&reason)).await? {
                Went::On if self.spent.iterations < self.agent.settings.max_tool_iterations => {}
                Went::On => return self.last_step(EndReason::IterationLimit).await,
                Went::Round => return self.last_step(EndReason::Loop).await,
                Went::Stopped(Stopped::TimedOut) => return self.last_step(EndReason::Timeout).await,
                Went::Stopped(Stopped::Cancelled) => return Ok((EndReason::Cancelled, message.text())),
                Went::Violated(text) => return Ok((EndReason::Violation, text)),
            }
        }
    }

    /// Looks again at what may be used, where the gate decides by something else by now.
    async fn offer_again(&mut self) -> Result<(), AgentError> {
        let gate = self.agent.front.gate();
        if self.supports_tools && self.offer.is_outdated(gate) {
            let offer = Offer::of(gate, &self.turn.credential).await;
            self.offer = offer.map_err(AgentError::Caller)?;
        }
        Ok(())
    }

    /// One step with tools, and with less of the conversation where the server says that it is too long.
    async fn ask(&mut self) -> Result<Said, AgentError> {
        loop {
            let (stepped, used) = self.step().await;
            self.used(used);
            match stepped {
                Stepped::Finished { id, calls, reason, message, usage } => {
                    self.keep(&message, usage).await?;
                    return Ok(Said::Message { id, calls, reason, message });
                }
                Stepped::Stopped { stopped, text } => {
                    return self.stopped(stopped, text).await.map(Said::End);
                }
                Stepped::Failed(error) if error.kind == ErrorKind::ContextExceeded => {
                    if !self.shrink().await? {
                        return self.last_step(EndReason::ContextLimit).await.map(Said::End);
                    }
                }
                Stepped::Failed(error) => return Ok(Said::End((EndReason::ProviderError, in_words(&error)))),
            }
        }
    }

    async fn step(&self) -> (Stepped, Usage) {
        let messages = self.room.view(self.session.messages());
        let request = self.request(&messages, ToolChoice::Auto);
        self.asker(true).step(request, &self.patience).await
    }

    pub(crate) fn request<'r>(&'r self, messages: &'r [Message], tool_choice: ToolChoice) -> Request<'r> {
        let settings = &self.agent.settings;
        Request {
            system: Some(&self.system),
            messages,
            tools: &self.offer.definitions,
            tool_choice,
            max_output_tokens: settings.max_output_tokens,
            thinking: settings.thinking,
        }
    }

    pub(crate) fn asker(&self, is_shown: bool) -> Asker<'_> {
        let Agent { provider, settings, .. } = self.agent;
        let (tries, backoff) = (settings.tries, settings.backoff);
        Asker { provider: provider.as_ref(), events: &self.turn.events, tries, backoff, is_shown }
    }

    /// Keeps a whole message, and tells how much room is left.
    async fn keep(&mut self, message: &AssistantMessage, usage: Usage) -> Result<(), AgentError> {
        // Servers do not take a message back that says nothing.
        if !message.parts.is_empty() {
            self.session.append(Message::Assistant(message.clone())).await?;
        }
        let estimate = self.estimate();
        self.room.count(usage, estimate);
        (self.turn.events)(self.room.told(estimate));
        Ok(())
    }

    pub(crate) fn used(&mut self, usage: Usage) {
        let tokens = if usage.input_tokens > 0 { usage.context_tokens() } else { self.estimate() };
        self.spent.tokens = self.spent.tokens.saturating_add(tokens);
        self.spent.usage = sum(self.spent.usage, usage);
    }

    /// Tokens that the turn has taken so far.
    pub(crate) fn turn_tokens(&self) -> u64 {
        self.spent.tokens
    }

    /// About how many tokens the model is shown.
    pub(crate) fn estimate(&self) -> u64 {
        self.room.estimate(self.session.messages(), self.beside())
    }

    /// How many bytes the model is shown beside the messages.
    pub(crate) fn beside(&self) -> u64 {
        self.offer.bytes + self.system.len() as u64
    }

    /// Keeps what was said until somebody had enough.
    async fn stopped(&mut self, stopped: Stopped, text: String) -> Result<End, AgentError> {
        self.keep_text(&text).await?;
        match stopped {
            Stopped::Cancelled => Ok((EndReason::Cancelled, text)),
            Stopped::TimedOut => self.last_step(EndReason::Timeout).await,
        }
    }

    async fn keep_text(&mut self, text: &str) -> Result<(), AgentError> {
        if !text.is_empty() {
            let parts = vec![Part::Text { text: text.to_owned() }];
            let model = Some(self.agent.model().clone());
            self.session.append(Message::Assistant(AssistantMessage { parts, model })).await?;
        }
        Ok(())
    }

    /// Makes the calls of a message one after the other, or answers that they are not made.
    async fn make(
        &mut self,
        calls: &[ModelCall],
        (message_id, ids): (&MessageId, &CallIds),
        mut not_made: Option<Failure>,
    ) -> Result<Went, AgentError> {
        let Self { agent, session, turn, offer, repeats, patience, .. } = self;
        let settings = &agent.settings;
        let maker = Calls {
            front: &agent.front,
            credential: &turn.credential,
            approver: &turn.approver,
            events: &turn.events,
            offer,
            repair: settings.repair,
            message_id,
            ids,
        };
        let together =
            settings.parallel_reads && calls.iter().all(|call| offer.can_be_made_together(&call.name));
        let (mut went, mut fault) = (Went::On, None);
        for batch in calls.chunks(if together { MOST_TOGETHER } else { 1 }) {
            if matches!(went, Went::On)
                && let Some(stopped) = patience.check()
            {
                (went, not_made) = (Went::Stopped(stopped), Some(words::not_made(stopped)));
            }
            if let Some(failure) = &not_made {
                for call in batch {
                    let mut answered = maker.not_made(call, failure.clone()).await;
                    fault = fault.or(answered.fault.take());
                    settle(session, &maker, answered).await?;
                }
                continue;
            }
            let started: Vec<_> = batch.iter().map(|call| maker.start(call)).collect();
            for (call, started) in batch.iter().zip(started) {
                let mut answered = maker.finish(started, patience).await;
                if let Some(found) = answered.fault.take() {
                    (fault, not_made) = (Some(found), Some(words::not_made_after_fault()));
                }
                let repetition =
                    repeats.add(&call.name, &as_written(call).to_string(), &answered.result.text);
                if repetition == Repetition::Noticed {
                    answered.result.text.push_str(words::REPEATED);
                }
                if let (Some(failure), OnViolation::Stop) = (&answered.violation, settings.on_violation) {
                    not_made = Some(words::not_made_after_violation());
                    went = Went::Violated(words::violated(&call.name, failure));
                } else if repetition == Repetition::Stuck && matches!(went, Went::On) {
                    (went, not_made) = (Went::Round, Some(words::not_made_after_repetition()));
                }
                settle(session, &maker, answered).await?;
            }
        }
        if let Some(fault) = fault {
            return Err(AgentError::Fault(fault));
        }
        Ok(match (went, patience.check()) {
            (Went::On, Some(stopped)) => Went::Stopped(stopped),
            (went, _) => went,
        })
    }

    /// One last step without tools, so that the person gets an answer.
    pub(crate) async fn last_step(&mut self, reason: EndReason) -> Result<End, AgentError> {
        let compacts = self.agent.settings.context.on_full == OnFull::Compact;
        if reason == EndReason::ContextLimit && compacts && !self.is_spent {
            self.room.leave_out(self.session.messages(), 0);
        }
        let patience = self.patience.of_last_step();
        let mut stepped = self.step_without_tools(reason, &patience).await?;
        if matches!(&stepped, Stepped::Failed(error) if error.kind == ErrorKind::ContextExceeded)
            && self.room.leave_out(self.session.messages(), 0)
        {
            stepped = self.step_without_tools(reason, &patience).await?;
        }
        let text = match stepped {
            Stepped::Finished { id, calls: ids, message, .. } => {
                let calls: Vec<ModelCall> = message.calls().cloned().collect();
                self.make(&calls, (&id, &ids), Some(words::switched_off())).await?;
                message.text()
            }
            Stepped::Stopped { stopped, text } => {
                self.keep_text(&text).await?;
                if stopped == Stopped::Cancelled {
                    return Ok((EndReason::Cancelled, text));
                }
                text
            }
            Stepped::Failed(ProviderError { .. }) => String::new(),
        };
        if !text.trim().is_empty() {
            return Ok((reason, text));
        }
        if self.is_spent {
            return Ok((reason, words::TURN_TOKENS_SPENT.to_owned()));
        }
        let time = self.agent.settings.time(!self.offer.definitions.is_empty());
        Ok((reason, words::instead_of_an_answer(reason, self.spent.iterations, time)))
    }

    async fn step_without_tools(
        &mut self,
        reason: EndReason,
        patience: &Patience,
    ) -> Result<Stepped, AgentError> {
        self.fit();
        let mut messages = self.room.view(self.session.messages()).into_owned();
        messages.push(Message::User { text: words::last_words(reason) });
        let request = self.request(&messages, ToolChoice::None);
        let (stepped, used) = self.asker(true).step(request, patience).await;
        self.used(used);
        if let Stepped::Finished { message, usage, .. } = &stepped {
            self.keep(message, *usage).await?;
        }
        Ok(stepped)
    }

    /// Tells the person of an end that the words alone do not show.
    fn tell_odd_end(&self, reason: &FinishReason, message: &AssistantMessage) {
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

/// What the model can do. Whoever cannot be asked that cannot be asked for a step either, and says there what is wrong.
async fn capabilities(agent: &Agent, patience: &Patience) -> Result<Capabilities, Stopped> {
    let asked = patience.wait(agent.provider.capabilities()).await?;
    let unknown = Capabilities { supports_tools: true, context_window: None, max_output_tokens: None };
    Ok(asked.unwrap_or(unknown))
}

fn ended_before_it_began(stopped: Stopped, time: Duration) -> End {
    match stopped {
        Stopped::Cancelled => (EndReason::Cancelled, String::new()),
        Stopped::TimedOut => (EndReason::Timeout, words::instead_of_an_answer(EndReason::Timeout, 0, time)),
    }
}

/// Keeps what became of a call, and only then tells it.
async fn settle(session: &mut Session, maker: &Calls<'_>, answered: Answered) -> Result<(), AgentError> {
    session.add_result(answered.result.clone()).await?;
    maker.tell_result(answered);
    Ok(())
}

fn cannot_be_held(error: &AgentError) -> ChatEvent {
    ChatEvent::Error {
        code: error.code(),
        message: error.to_string(),
        retryable: false,
        attempt: None,
        wait_ms: None,
        voided: None,
    }
}
