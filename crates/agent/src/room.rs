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

/// One result takes at most one part in so many of the window: what a tool may answer is bounded without knowing how little a model can look at.
const RESULTS_IN_A_WINDOW: u64 = 4;

/// So many tokens are sent at most to a model of which nobody says how many it can look at. Hardly any can look at more, and whoever has one that
/// can is able to say so; without a bound everything would go out, again with each step, and be refused or paid for.
const MOST_UNASKED: u64 = 2_000_000;

/// How much room there is.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// How many tokens the model can look at, where that is known.
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

    /// How many tokens are shown to the model at most.
    fn bound(&self) -> u64 {
        self.window.unwrap_or(MOST_UNASKED)
    }

    /// The bound that was set because nobody knows how many tokens the model can look at.
    pub(crate) fn assumed(&self) -> Option<u64> {
        self.window.is_none().then_some(MOST_UNASKED)
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
        let bound = self.bound();
        let reserve = self.settings.reserve(bound).saturating_mul(times);
        self.used(estimate).saturating_add(reserve) <= bound
    }

    /// Whether the model can be asked for a last answer: half of the reserve is free for it.
    pub(crate) fn can_answer(&self, estimate: u64) -> bool {
        let bound = self.bound();
        self.used(estimate).saturating_add(self.settings.reserve(bound) / 2) <= bound
    }

    /// Whether a turn that took so many tokens can make one more step and the last one, with a conversation that is estimated at so many.
    pub(crate) fn can_afford(&self, spent: u64, estimate: u64) -> bool {
        let both = self.used(estimate).saturating_mul(2);
        spent.saturating_add(both) <= self.turn_tokens()
    }

    /// How many tokens the turn may take.
    pub(crate) fn turn_tokens(&self) -> u64 {
        self.settings.turn_tokens(self.bound())
    }

    /// The configured reserve, where a conversation that is estimated at so many tokens does not fit beside it but would fit without it.
    pub(crate) fn excessive_reserve(&self, estimate: u64) -> Option<(u64, u64)> {
        let reserve = self.settings.reserve_tokens?;
        (!self.has_room(estimate, 1) && self.has_room(estimate, 0)).then(|| (reserve, self.bound()))
    }

    /// The configured context, where a conversation that is estimated at so many tokens does not fit even without a reserve.
    pub(crate) fn small_window(&self, estimate: u64) -> Option<u64> {
        self.settings.window.filter(|_| !self.has_room(estimate, 0))
    }

    /// About how many tokens the model is shown, with so many bytes beside the messages.
    pub(crate) fn estimate(&self, messages: &[Message], beside: u64) -> u64 {
        let shown = |(place, message)| bytes_of(message, self.most_of_a_result(place));
        Self::tokens(messages.iter().enumerate().map(shown).sum(), beside)
    }

    /// How many bytes of each result of the message at this place are shown.
    fn most_of_a_result(&self, place: usize) -> usize {
        if place < self.left_out {
            return WORTH_LEAVING_OUT;
        }
        let share = (self.bound() / RESULTS_IN_A_WINDOW).saturating_mul(BYTES_PER_TOKEN);
        usize::try_from(share).unwrap_or(usize::MAX).max(WORTH_LEAVING_OUT)
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
        let is_whole = |(place, message): (usize, &Message)| match message {
            Message::Results { results } => {
                results.iter().all(|result| result.text.len() <= self.most_of_a_result(place))
            }
            _ => true,
        };
        if messages.iter().enumerate().all(is_whole) {
            return Cow::Borrowed(messages);
        }
        let show = |(place, message): (usize, &Message)| match message {
            Message::Results { results } if place < self.left_out => {
                Message::Results { results: results.iter().map(shortened).collect() }
            }
            Message::Results { results } => {
                let most = self.most_of_a_result(place);
                Message::Results { results: results.iter().map(|result| cut(result, most)).collect() }
            }
            other => other.clone(),
        };
        Cow::Owned(messages.iter().enumerate().map(show).collect())
    }
}

/// About how many tokens messages are, with so many bytes beside them.
pub(crate) fn estimate(messages: &[Message], beside: u64) -> u64 {
    Room::tokens(messages.iter().map(|message| bytes_of(message, usize::MAX)).sum(), beside)
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

/// The beginning of a result that would fill the context by itself.
fn cut(result: &CallResult, most: usize) -> CallResult {
    if result.text.len() <= most {
        return result.clone();
    }
    let beginning = result.text.get(..result.text.floor_char_boundary(most)).unwrap_or_default();
    let rest = size(result.text.len().saturating_sub(beginning.len()));
    let text = format!(
        "{beginning}\n[{rest} more of this output do not fit your context; ask for a smaller part of it]"
    );
    CallResult { text, ..result.clone() }
}

fn size(bytes: usize) -> String {
    match bytes / 1024 {
        0 => format!("{bytes} bytes"),
        kibibytes => format!("{kibibytes} KiB"),
    }
}

/// The bytes of a message of which so much of each result is shown.
fn bytes_of(message: &Message, most_of_a_result: usize) -> u64 {
    let words = match message {
        Message::User { text } => text.len(),
        Message::Assistant(AssistantMessage { parts, .. }) => parts.iter().map(bytes_of_part).sum(),
        Message::Results { results } => {
            results.iter().map(|result| result.text.len().min(most_of_a_result) + result.name.len()).sum()
        }
    };
    words as u64 + BYTES_AROUND
}

fn bytes_of_part(part: &Part) -> usize {
    match part {
        Part::Text { text } | Part::Thinking { text, .. } => text.len(),
        Part::Call(call) => call.name.len() + call.arguments.len(),
    }
}
