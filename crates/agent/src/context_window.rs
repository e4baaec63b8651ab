//! The usage of the model's context window, and the view of a conversation when it is nearly full.

use std::borrow::Cow;

use toolgate_llm::{AssistantMessage, CallResult, Message, MessagePart, Usage};

use crate::event::ChatEvent;
use crate::settings::ContextSettings;

/// The estimated bytes per token, before the server has reported a count.
const BYTES_PER_TOKEN: u64 = 4;

/// The estimated overhead of a message.
const MESSAGE_OVERHEAD_BYTES: u64 = 16;

/// What an image counts as, in bytes of text: about 1,600 tokens, what vendors state for one of a megapixel.
const IMAGE_BYTES: usize = 6400;

/// Shorter results are not elided.
const MIN_ELIDED_BYTES: usize = 256;

/// One result may take at most this fraction of the window: a tool's output limit does not depend on the model's context size.
const MIN_RESULTS_PER_WINDOW: u64 = 4;

/// The assumed window of a model whose context size is unknown. Hardly any model has a larger one, and its operator can configure it; without a bound
/// everything would be sent, again with each step, and be rejected or paid for.
const MAX_TOKENS_IF_UNKNOWN: u64 = 2_000_000;

/// The budget of the context window.
#[derive(Clone, Debug)]
pub(crate) struct ContextBudget {
    /// The model's context window in tokens, if known.
    window: Option<u64>,
    settings: ContextSettings,
    /// The server's last token count, and our estimate for the same conversation.
    last_count: Option<TokenCount>,
    /// Results of messages before this index are elided.
    elided_before: usize,
}

#[derive(Clone, Copy, Debug)]
struct TokenCount {
    tokens: u64,
    estimate: u64,
}

impl ContextBudget {
    pub(crate) fn new(settings: ContextSettings, window: Option<u64>) -> Self {
        Self { window: settings.window.or(window), settings, last_count: None, elided_before: 0 }
    }

    /// The maximum number of tokens that the model is shown.
    fn max_tokens(&self) -> u64 {
        self.window.unwrap_or(MAX_TOKENS_IF_UNKNOWN)
    }

    /// The assumed window, if the real one is unknown.
    pub(crate) fn assumed_window(&self) -> Option<u64> {
        self.window.is_none().then_some(MAX_TOKENS_IF_UNKNOWN)
    }

    /// Records the server's token count of a step; `estimate` is ours for the same, including the answer.
    pub(crate) fn record_usage(&mut self, usage: Usage, estimate: u64) {
        // Some servers do not report usage.
        if usage.input_tokens > 0 {
            self.last_count = Some(TokenCount { tokens: usage.context_tokens(), estimate });
        }
    }

    /// The tokens of a conversation with this estimate: the server's count, plus the estimated difference since.
    pub(crate) fn used(&self, estimate: u64) -> u64 {
        match self.last_count {
            Some(counted) => counted.tokens.saturating_add(estimate).saturating_sub(counted.estimate),
            None => estimate,
        }
    }

    /// Whether a conversation with this estimate leaves `times` the reserve free.
    pub(crate) fn fits(&self, estimate: u64, times: u64) -> bool {
        let bound = self.max_tokens();
        let reserve = self.settings.reserve(bound).saturating_mul(times);
        self.used(estimate).saturating_add(reserve) <= bound
    }

    /// Whether a final answer fits: half of the reserve is free for it.
    pub(crate) fn can_answer(&self, estimate: u64) -> bool {
        let bound = self.max_tokens();
        self.used(estimate).saturating_add(self.settings.reserve(bound) / 2) <= bound
    }

    /// Whether a turn that has used this many tokens can afford one more step and the final one, for a conversation with this estimate.
    pub(crate) fn can_afford(&self, spent: u64, estimate: u64) -> bool {
        let both = self.used(estimate).saturating_mul(2);
        spent.saturating_add(both) <= self.turn_tokens()
    }

    /// The token budget of a turn.
    pub(crate) fn turn_tokens(&self) -> u64 {
        self.settings.turn_tokens(self.max_tokens())
    }

    /// The configured reserve, if a conversation with this estimate only fits without it.
    pub(crate) fn excessive_reserve(&self, estimate: u64) -> Option<(u64, u64)> {
        let reserve = self.settings.reserve_tokens?;
        (!self.fits(estimate, 1) && self.fits(estimate, 0)).then(|| (reserve, self.max_tokens()))
    }

    /// The configured window, if a conversation with this estimate does not fit even without a reserve.
    pub(crate) fn small_window(&self, estimate: u64) -> Option<u64> {
        self.settings.window.filter(|_| !self.fits(estimate, 0))
    }

    /// The estimated tokens that the model is shown, with this many bytes besides the messages.
    pub(crate) fn estimate(&self, messages: &[Message], beside: u64) -> u64 {
        let shown = |(place, message)| message_bytes(message, self.max_result_bytes(place));
        Self::tokens(messages.iter().enumerate().map(shown).sum(), beside)
    }

    /// How many bytes of each result of the message at this index are shown.
    fn max_result_bytes(&self, place: usize) -> usize {
        if place < self.elided_before {
            return MIN_ELIDED_BYTES;
        }
        let share = (self.max_tokens() / MIN_RESULTS_PER_WINDOW).saturating_mul(BYTES_PER_TOKEN);
        usize::try_from(share).unwrap_or(usize::MAX).max(MIN_ELIDED_BYTES)
    }

    fn tokens(bytes: u64, beside: u64) -> u64 {
        (bytes + beside).div_ceil(BYTES_PER_TOKEN)
    }

    /// The usage as an event.
    pub(crate) fn usage_event(&self, estimate: u64) -> ChatEvent {
        let used_tokens = self.used(estimate);
        #[allow(clippy::cast_precision_loss, reason = "a fraction for people to look at")]
        let fraction = self.window.map(|window| used_tokens as f64 / window.max(1) as f64);
        let warning = fraction.is_some_and(|fraction| fraction >= self.settings.warn_at);
        ChatEvent::Context { used_tokens, context_window: self.window, fraction, warning }
    }

    /// Elides all results but the newest few from now on. Returns whether that elides more than before.
    pub(crate) fn elide_results(&mut self, messages: &[Message], whole: usize) -> bool {
        let results = messages.iter().enumerate().rev();
        let mut results = results.filter(|(_, message)| matches!(message, Message::Results { .. }));
        let newest_left_out = results.nth(whole).map(|(place, _)| place + 1).unwrap_or_default();
        let newly = messages.get(self.elided_before..newest_left_out).unwrap_or_default();
        let is_new = newly.iter().any(has_elidable_result);
        self.elided_before = self.elided_before.max(newest_left_out);
        is_new
    }

    /// The oldest messages were replaced: the rest is shown in full.
    pub(crate) fn reset(&mut self) {
        self.elided_before = 0;
    }

    /// The messages as the model is shown them.
    pub(crate) fn view<'m>(&self, messages: &'m [Message]) -> Cow<'m, [Message]> {
        let is_whole = |(place, message): (usize, &Message)| match message {
            Message::Results { results } => {
                results.iter().all(|result| result.text.len() <= self.max_result_bytes(place))
            }
            _ => true,
        };
        if messages.iter().enumerate().all(is_whole) {
            return Cow::Borrowed(messages);
        }
        let show = |(place, message): (usize, &Message)| match message {
            Message::Results { results } if place < self.elided_before => {
                Message::Results { results: results.iter().map(elided).collect() }
            }
            Message::Results { results } => {
                let most = self.max_result_bytes(place);
                Message::Results { results: results.iter().map(|result| truncated(result, most)).collect() }
            }
            other => other.clone(),
        };
        Cow::Owned(messages.iter().enumerate().map(show).collect())
    }
}

/// The estimated tokens of these messages, with this many bytes besides.
pub(crate) fn estimate(messages: &[Message], beside: u64) -> u64 {
    ContextBudget::tokens(messages.iter().map(|message| message_bytes(message, usize::MAX)).sum(), beside)
}

fn has_elidable_result(message: &Message) -> bool {
    match message {
        Message::Results { results } => results.iter().any(|result| result.text.len() > MIN_ELIDED_BYTES),
        _ => false,
    }
}

fn elided(result: &CallResult) -> CallResult {
    if result.text.len() <= MIN_ELIDED_BYTES {
        return result.clone();
    }
    let (name, size) = (&result.name, human_size(result.text.len()));
    let text = format!("[output of {name}, {size}, left out to save room; call it again if you need it]");
    CallResult { text, ..result.clone() }
}

/// The beginning of a result that would fill the context alone.
fn truncated(result: &CallResult, most: usize) -> CallResult {
    if result.text.len() <= most {
        return result.clone();
    }
    let beginning = result.text.get(..result.text.floor_char_boundary(most)).unwrap_or_default();
    let rest = human_size(result.text.len().saturating_sub(beginning.len()));
    let text = format!(
        "{beginning}\n[{rest} more of this output do not fit your context; ask for a smaller part of it]"
    );
    CallResult { text, ..result.clone() }
}

fn human_size(bytes: usize) -> String {
    match bytes / 1024 {
        0 => format!("{bytes} bytes"),
        kibibytes => format!("{kibibytes} KiB"),
    }
}

/// The bytes of a message with each result cut to this length.
fn message_bytes(message: &Message, most_of_a_result: usize) -> u64 {
    let words = match message {
        Message::User { text, images } => text.len() + images.len() * IMAGE_BYTES,
        Message::Assistant(AssistantMessage { parts, .. }) => parts.iter().map(part_bytes).sum(),
        Message::Results { results } => {
            results.iter().map(|result| result.text.len().min(most_of_a_result) + result.name.len()).sum()
        }
    };
    words as u64 + MESSAGE_OVERHEAD_BYTES
}

fn part_bytes(part: &MessagePart) -> usize {
    match part {
        MessagePart::Text { text } | MessagePart::Thinking { text, .. } => text.len(),
        MessagePart::Call(call) => call.name.len() + call.arguments.len(),
    }
}
