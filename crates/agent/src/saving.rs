//! Making room in a model's context: first old output is left out, then a summary takes the place of what came first.
//!
//! The session keeps everything; what changes is what the model is shown.

use toolgate_llm::{Message, ToolChoice};
use toolgate_manifest::OnFull;

use crate::conversation::Conversation;
use crate::ended::AgentError;
use crate::event::ChatEvent;
use crate::room::estimate;
use crate::step::Stepped;
use crate::words;

/// A summary must bring the conversation below this many tenths of what it was, or it was not worth it.
const WORTH_IT: u64 = 7;

impl Conversation<'_> {
    /// Makes room where there is little. Says whether there is enough.
    pub(crate) async fn make_room(&mut self) -> Result<bool, AgentError> {
        if self.room.has_room(self.estimate(), 1) {
            return Ok(true);
        }
        if self.agent.settings.context.on_full == OnFull::Stop {
            return Ok(false);
        }
        // Twice the reserve, or the next step would have to do it again.
        if self.leave_out(self.agent.settings.context.whole_results) && self.room.has_room(self.estimate(), 2)
        {
            return Ok(true);
        }
        // What just came may be too much all together, also for a summary: the model can ask for it again, one at a time.
        if !self.room.has_room(self.estimate(), 0)
            && self.leave_out(0)
            && self.room.has_room(self.estimate(), 1)
        {
            return Ok(true);
        }
        if self.summarise().await? && self.room.has_room(self.estimate(), 1) {
            return Ok(true);
        }
        self.leave_out(0);
        Ok(self.room.has_room(self.estimate(), 1))
    }

    /// Makes the conversation shorter because the server says so, whatever we count. Says whether it is.
    pub(crate) async fn shrink(&mut self) -> Result<bool, AgentError> {
        if self.agent.settings.context.on_full == OnFull::Stop {
            return Ok(false);
        }
        if self.leave_out(self.agent.settings.context.whole_results) || self.summarise().await? {
            return Ok(true);
        }
        Ok(self.leave_out(0))
    }

    /// Leaves out as much output as has to be, so that what is said last can be said at all.
    pub(crate) fn fit(&mut self) {
        for whole in (0..=self.agent.settings.context.whole_results).rev() {
            if !self.room.can_answer(self.estimate()) {
                self.leave_out(whole);
            }
        }
    }

    /// Shows the model of all results but the newest few only that there were some.
    fn leave_out(&mut self, whole: usize) -> bool {
        let is_new = self.room.leave_out(self.session.messages(), whole);
        if is_new && !std::mem::replace(&mut self.has_told_leaving_out, true) {
            self.notice("tool output is left out from here on, to save room in the model's context");
        }
        is_new
    }

    /// Lets the model write down what matters, and goes on from that. Says whether that saved a fair part.
    async fn summarise(&mut self) -> Result<bool, AgentError> {
        let Some(front) = front_of(self.session.messages()).filter(|_| self.may_summarise) else {
            return Ok(false);
        };
        // Whatever comes of it but a good summary, it is not tried again.
        self.may_summarise = false;
        let Some(summary) = self.ask_for_summary().await else { return Ok(false) };
        let messages = self.session.messages();
        let (replaced, kept) = messages.split_at_checked(front).unwrap_or((messages, &[]));
        // The person's own words stay as they are.
        let holds_prompt = !kept.iter().any(|message| matches!(message, Message::User { .. }));
        let text = words::front(&summary, holds_prompt.then_some(self.prompt));
        let summary = Message::User { text };
        let before = self.estimate();
        let after = estimate(std::slice::from_ref(&summary), 0) + estimate(kept, self.beside());
        if replaced.is_empty() || after * 10 > before * WORTH_IT {
            return Ok(false);
        }
        self.session.replace_front(front, summary).await?;
        self.room.begin_anew();
        self.may_summarise = true;
        self.notice("the conversation so far was summarised, to save room in the model's context");
        Ok(true)
    }

    async fn ask_for_summary(&mut self) -> Option<String> {
        let mut messages = self.room.view(self.session.messages()).into_owned();
        messages.push(Message::User { text: words::SUMMARISE.to_owned() });
        let request = self.request(&messages, ToolChoice::None);
        let (stepped, usage) = self.asker(false).step(request, &self.patience).await;
        self.used(usage);
        match stepped {
            Stepped::Finished { message, .. } if message.calls().next().is_none() => {
                Some(message.text()).filter(|summary| !summary.trim().is_empty())
            }
            _ => None,
        }
    }

    /// Whether the turn may take another step beside its last one. Where not, the person is told why.
    pub(crate) fn can_afford_step(&mut self) -> bool {
        let (spent, most) = (self.turn_tokens(), self.room.turn_tokens());
        self.is_spent = !self.room.can_afford(spent, self.estimate());
        if self.is_spent {
            self.notice(&words::turn_tokens_spent(spent, most));
        }
        !self.is_spent
    }

    fn notice(&self, text: &str) {
        (self.turn.events)(ChatEvent::Notice { text: text.to_owned() });
    }
}

/// How many messages a summary may stand for: all but the newest question, or the newest calls with their results.
fn front_of(messages: &[Message]) -> Option<usize> {
    let newest = messages.iter().rposition(|message| !matches!(message, Message::Results { .. }))?;
    (newest >= 2).then_some(newest)
}
