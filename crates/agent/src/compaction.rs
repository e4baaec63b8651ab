//! Frees context: first old tool output is elided, then a summary replaces the oldest messages.
//!
//! The session keeps everything; only what the model is shown changes.

use toolgate_llm::{Message, ToolChoice};
use toolgate_types::OnFull;

use crate::context_window::estimate;
use crate::event::ChatEvent;
use crate::messages;
use crate::step::StepOutcome;
use crate::turn::TurnRunner;
use crate::turn_outcome::AgentError;

/// A summary is used only if the conversation shrinks below this many tenths.
const MAX_SUMMARY_TENTHS: u64 = 7;

/// What came of a summary that a person asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// The conversation goes on from a summary.
    Done {
        /// The estimated tokens of the context before.
        before: u64,
        /// And now.
        after: u64,
    },
    /// A summary would not make the conversation shorter, or the model gave none.
    NothingSaved,
    /// The request was cancelled, or its time was over.
    Stopped,
}

impl TurnRunner<'_> {
    /// Summarises because a person wants it, however full the context is.
    pub(crate) async fn compact_on_request(&mut self) -> Result<Compaction, AgentError> {
        let before = self.estimate();
        let is_done = self.summarise().await?;
        let after = self.estimate();
        (self.turn.events)(self.context.usage_event(after));
        Ok(match (is_done, self.deadlines.steps.reason()) {
            (true, _) => Compaction::Done { before, after },
            (false, Some(_)) => Compaction::Stopped,
            (false, None) => Compaction::NothingSaved,
        })
    }

    /// Compacts if the context is nearly full. Returns whether there is enough room.
    pub(crate) async fn compact_if_needed(&mut self) -> Result<bool, AgentError> {
        if self.context.fits(self.estimate(), 1) {
            return Ok(true);
        }
        if self.agent.settings.context.on_full == OnFull::Stop {
            return Ok(false);
        }
        // Twice the reserve must be free, or the next step would compact again.
        if self.elide_results(self.agent.settings.context.full_results)
            && self.context.fits(self.estimate(), 2)
        {
            return Ok(true);
        }
        // The newest results may be too long together, even for a summary: all are elided, and the model can request them again one at a time.
        if !self.context.fits(self.estimate(), 0)
            && self.elide_results(0)
            && self.context.fits(self.estimate(), 1)
        {
            return Ok(true);
        }
        if self.summarise().await? && self.context.fits(self.estimate(), 1) {
            return Ok(true);
        }
        self.elide_results(0);
        Ok(self.context.fits(self.estimate(), 1))
    }

    /// Shortens the conversation because the server reports an overflow, whatever the estimate. Returns whether it did.
    pub(crate) async fn compact_after_overflow(&mut self) -> Result<bool, AgentError> {
        if self.agent.settings.context.on_full == OnFull::Stop {
            return Ok(false);
        }
        if self.elide_results(self.agent.settings.context.full_results) || self.summarise().await? {
            return Ok(true);
        }
        Ok(self.elide_results(0))
    }

    /// Elides as many results as necessary for the final step to fit.
    pub(crate) fn elide_to_fit(&mut self) {
        for whole in (0..=self.agent.settings.context.full_results).rev() {
            if !self.context.can_answer(self.estimate()) {
                self.elide_results(whole);
            }
        }
    }

    /// Elides all results but the newest few.
    fn elide_results(&mut self, whole: usize) -> bool {
        let is_new = self.context.elide_results(self.session.messages(), whole);
        if is_new && !std::mem::replace(&mut self.has_reported_elision, true) {
            self.emit_notice("tool output is left out from here on, to save room in the model's context");
        }
        is_new
    }

    /// Asks the model for a summary, and continues from it. Returns whether that saved enough.
    async fn summarise(&mut self) -> Result<bool, AgentError> {
        let Some(front) = summarisable_prefix(self.session.messages()).filter(|_| self.may_summarise) else {
            return Ok(false);
        };
        // A summary is not tried again unless this one is good.
        self.may_summarise = false;
        let Some(summary) = self.ask_for_summary().await else { return Ok(false) };
        let messages = self.session.messages();
        let (replaced, kept) = messages.split_at_checked(front).unwrap_or((messages, &[]));
        // The user's own prompt is kept verbatim.
        let holds_prompt = !kept.iter().any(|message| matches!(message, Message::User { .. }));
        let text = messages::summary_preamble(
            &summary,
            holds_prompt.then_some(self.prompt).filter(|prompt| !prompt.is_empty()),
        );
        let summary = Message::user(text);
        let before = self.estimate();
        let after = estimate(std::slice::from_ref(&summary), 0) + estimate(kept, self.overhead_bytes());
        if replaced.is_empty() || after * 10 > before * MAX_SUMMARY_TENTHS {
            return Ok(false);
        }
        self.session.replace_front(front, summary).await?;
        self.context.reset();
        self.may_summarise = true;
        self.emit_notice("the conversation so far was summarised, to save room in the model's context");
        Ok(true)
    }

    async fn ask_for_summary(&mut self) -> Option<String> {
        let mut messages = self.shown_messages().into_owned();
        messages.push(Message::user(messages::SUMMARY_PROMPT.to_owned()));
        let request = self.request(&messages, ToolChoice::None);
        let (stepped, usage) = self.model_client(false).step(request, &self.deadlines.steps).await;
        self.add_usage(usage);
        match stepped {
            StepOutcome::Finished { message, .. } if message.calls().next().is_none() => {
                Some(message.text()).filter(|summary| !summary.trim().is_empty())
            }
            _ => None,
        }
    }

    /// Whether the token budget allows another step besides the final one. If not, emits a notice.
    pub(crate) fn can_afford_step(&mut self) -> bool {
        let (spent, most) = (self.turn_tokens(), self.context.turn_tokens());
        self.is_budget_spent = !self.context.can_afford(spent, self.estimate());
        if self.is_budget_spent {
            self.emit_notice(&messages::turn_tokens_spent(spent, most));
        }
        !self.is_budget_spent
    }

    fn emit_notice(&self, text: &str) {
        (self.turn.events)(ChatEvent::Notice { text: text.to_owned() });
    }
}

/// How many messages a summary may replace: all but the newest prompt, or the newest calls with their results.
fn summarisable_prefix(messages: &[Message]) -> Option<usize> {
    let newest = messages.iter().rposition(|message| !matches!(message, Message::Results { .. }))?;
    (newest >= 2).then_some(newest)
}
