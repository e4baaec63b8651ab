//! How full the model's context is, and what of a conversation it is shown when there is little room.

use std::borrow::Cow;

use toolgate_llm::{AssistantMessage, CallResult, Message, Part, Usage};

use crate::event::ChatEvent;
use crate::settings::ContextSettings;

/// About so many bytes are one token, before a server has counted.
const BYTES_PER_TOKEN: u64 = 4;

/// What a message costs beside its words.
const BYTES_AROUND: u64 = 16;

/// A result that is not longer than this is not left out.
const WORTH_LEAVING_OUT: usize = 256;

/// How much room there is.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    window: Option<u64>,
    settings: ContextSettings,
    /// What the server counted last, and what we would have estimated then.
    counted: Option<Counted>,
    /// Results of messages before this one are left out.
    left_out: usize,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    tokens: u64,
    estimate: u64,
}

impl Room {
    pub(crate) fn new(settings: ContextSettings, window: Option<u64>) -> Self {
        Self { window: settings.window.or(window), settings, counted: None, left_out: 0 }
    }

    /// The server has counted a step; `estimate` is what we take it for, with the answer.
    pub(crate) fn count(&mut self, usage: Usage, estimate: u64) {
        // Some servers count nothing.
        if usage.input_tokens > 0 {
            self.counted = Some(Counted { tokens: usage.context_tokens(), estimate });
        }
    }

    /// Tokens of a conversation that is estimated at so many: what the server counted, and what came or went since.
    pub(crate) fn used(&self, estimate: u64) -> u64 {
        match self.counted {
            Some(counted) => counted.tokens.saturating_add(estimate).saturating_sub(counted.estimate),
            None => estimate,
        }
    }

    /// Whether a conversation that is estimated at so many tokens leaves so many times the reserve free.
    pub(crate) fn has_room(&self, estimate: u64, times: u64) -> bool {
        self.window.is_none_or(|window| {
            let reserve = self.settings.reserve(window).saturating_mul(times);
            self.used(estimate).saturating_add(reserve) <= window
        })
    }

    /// About how many tokens the model is shown, with so many bytes beside the messages.
    pub(crate) fn estimate(&self, messages: &[Message], beside: u64) -> u64 {
        let (left_out, whole) = messages.split_at_checked(self.left_out).unwrap_or((messages, &[]));
        let shown = |message: &Message| match message {
            Message::Results { results } => {
                let words: usize = results.iter().map(|result| bytes_of_result(result, true)).sum();
                words as u64 + BYTES_AROUND
            }
            other => bytes_of(other),
        };
        let left_out: u64 = left_out.iter().map(shown).sum();
        Self::tokens(left_out + whole.iter().map(bytes_of).sum::<u64>(), beside)
    }

    fn tokens(bytes: u64, beside: u64) -> u64 {
        (bytes + beside).div_ceil(BYTES_PER_TOKEN)
    }

    /// How full it is, to be told.
    pub(crate) fn told(&self, estimate: u64) -> ChatEvent {
        let used_tokens = self.used(estimate);
        #[allow(clippy::cast_precision_loss, reason = "a fraction for people to look at")]
        let fraction = self.window.map(|window| used_tokens as f64 / window.max(1) as f64);
        let warning = fraction.is_some_and(|fraction| fraction >= self.settings.warn_at);
        ChatEvent::Context { used_tokens, context_window: self.window, fraction, warning }
    }

    /// Leaves out all results but the newest few from now on. Says whether that is anything new.
    pub(crate) fn leave_out(&mut self, messages: &[Message], whole: usize) -> bool {
        let results = messages.iter().enumerate().rev();
        let mut results = results.filter(|(_, message)| matches!(message, Message::Results { .. }));
        let newest_left_out = results.nth(whole).map(|(place, _)| place + 1).unwrap_or_default();
        let newly = messages.get(self.left_out..newest_left_out).unwrap_or_default();
        let is_new = newly.iter().any(is_shortened);
        self.left_out = self.left_out.max(newest_left_out);
        is_new
    }

    /// The front of the conversation was replaced: what is left is shown whole.
    pub(crate) fn begin_anew(&mut self) {
        self.left_out = 0;
    }

    /// What the model is shown.
    pub(crate) fn view<'m>(&self, messages: &'m [Message]) -> Cow<'m, [Message]> {
        if self.left_out == 0 {
            return Cow::Borrowed(messages);
        }
        let show = |(place, message): (usize, &Message)| match message {
            Message::Results { results } if place < self.left_out => {
                Message::Results { results: results.iter().map(shortened).collect() }
            }
            other => other.clone(),
        };
        Cow::Owned(messages.iter().enumerate().map(show).collect())
    }
}

/// About how many tokens messages are, with so many bytes beside them.
pub(crate) fn estimate(messages: &[Message], beside: u64) -> u64 {
    Room::tokens(messages.iter().map(bytes_of).sum(), beside)
}

fn is_shortened(message: &Message) -> bool {
    match message {
        Message::Results { results } => results.iter().any(|result| result.text.len() > WORTH_LEAVING_OUT),
        _ => false,
    }
}

fn shortened(result: &CallResult) -> CallResult {
    if result.text.len() <= WORTH_LEAVING_OUT {
        return result.clone();
    }
    let (name, size) = (&result.name, size(result.text.len()));
    let text = format!("[output of {name}, {size}, left out to save room; call it again if you need it]");
    CallResult { text, ..result.clone() }
}

fn size(bytes: usize) -> String {
    match bytes / 1024 {
        0 => format!("{bytes} bytes"),
        kibibytes => format!("{kibibytes} KiB"),
    }
}

fn bytes_of(message: &Message) -> u64 {
    let words = match message {
        Message::User { text } => text.len(),
        Message::Assistant(AssistantMessage { parts, .. }) => parts.iter().map(bytes_of_part).sum(),
        Message::Results { results } => results.iter().map(|result| bytes_of_result(result, false)).sum(),
    };
    words as u64 + BYTES_AROUND
}

fn bytes_of_part(part: &Part) -> usize {
    match part {
        Part::Text { text } | Part::Thinking { text, .. } => text.len(),
        Part::Call(call) => call.name.len() + call.arguments.len(),
    }
}

fn bytes_of_result(result: &CallResult, is_left_out: bool) -> usize {
    let most = if is_left_out { WORTH_LEAVING_OUT } else { usize::MAX };
    result.text.len().min(most) + result.name.len()
}
