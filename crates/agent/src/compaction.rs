//! Making room in a model's context: first old output is left out, then a summary takes the place of what came first.
//!
//! The session keeps everything; what changes is what the model is shown.

use toolgate_llm::{Message, ToolChoice};
use toolgate_manifest::OnFull;

use crate::context_window::estimate;
use crate::event::ChatEvent;
use crate::messages;
use crate::step::StepOutcome;
use crate::turn::TurnRunner;
use crate::turn_outcome::AgentError;

/// A summary must bring the conversation below this many tenths of what it was, or it was not worth it.
const MAX_SUMMARY_TENTHS: u64 = 7;

impl TurnRunner<'_> {
    /// Makes room where there is little. Says whether there is enough.
    pub(crate) async fn compact_if_needed(&mut self) -> Result<bool, AgentError> {
        if self.context.fits(self.estimate(), 1) {
            return Ok(true);
        }
        if self.agent.settings.context.on_full == OnFull::Stop {
            return Ok(false);
        }
        // Twice the reserve, or the next step would have to do it again.
        if self.elide_results(self.agent.settings.context.full_results)
            && self.context.fits(self.estimate(), 2)
        {
            return Ok(true);
        }
        // What just came may be too much all together, also for a summary: the model can ask for it again, one at a time.
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

    /// Makes the conversation shorter because the server says so, whatever we count. Says whether it is.
    pub(crate) async fn compact_after_overflow(&mut self) -> Result<bool, AgentError> {
        if self.agent.settings.context.on_full == OnFull::Stop {
            return Ok(false);
        }
        if self.elide_results(self.agent.settings.context.full_results) || self.summarise().await? {
            return Ok(true);
        }
        Ok(self.elide_results(0))
    }

    /// Leaves out as much output as has to be, so that what is said last can be said at all.
    pub(crate) fn elide_to_fit(&mut self) {
        for whole in (0..=self.agent.settings.context.full_results).rev() {
            if !self.context.can_answer(self.estimate()) {
                self.elide_results(whole);
            }
        }
    }

    /// Shows the model of all results but the newest few only that there were some.
    fn elide_results(&mut self, whole: usize) -> bool {
        let is_new = self.context.elide_results(self.session.messages(), whole);
        if is_new && !std::mem::replace(&mut self.has_reported_elision, true) {
            self.emit_notice("tool output is left out from here on, to save room in the model's context");
        }
        is_new
    }

    /// Lets the model write down what matters, and goes on from that. Says whether that saved a fair part.
    async fn summarise(&mut self) -> Result<bool, AgentError> {
        let Some(front) = summarisable_prefix(self.session.messages()).filter(|_| self.may_summarise) else {
            return Ok(false);
        };
        // Whatever comes of it but a good summary, it is not tried again.
        self.may_summarise = false;
        let Some(summary) = self.ask_for_summary().await else { return Ok(false) };
        let messages = self.session.messages();
        let (replaced, kept) = messages.split_at_checked(front).unwrap_or((messages, &[]));
        // The person's own words stay as they are.
        let holds_prompt = !kept.iter().any(|message| matches!(message, Message::User { .. }));
        let text = messages::summary_preamble(&summary, holds_prompt.then_some(self.prompt));
        let summary = Message::User { text };
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
        let mut messages = self.context.view(self.session.messages()).into_owned();
        messages.push(Message::User { text: messages::SUMMARY_PROMPT.to_owned() });
        let request = self.request(&messages, ToolChoice::None);
        let (stepped, usage) = self.model_client(false).step(request, &self.deadline).await;
        self.add_usage(usage);
        match stepped {
            StepOutcome::Finished { message, .. } if message.calls().next().is_none() => {
                Some(message.text()).filter(|summary| !summary.trim().is_empty())
            }
            _ => None,
        }
    }

    /// Whether the turn may take another step beside its last one. Where not, the person is told why.
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

/// How many messages a summary may stand for: all but the newest question, or the newest calls with their results.
fn summarisable_prefix(messages: &[Message]) -> Option<usize> {
    let newest = messages.iter().rposition(|message| !matches!(message, Message::Results { .. }))?;
    (newest >= 2).then_some(newest)
}
