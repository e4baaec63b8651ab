//! The limits of a conversation.

use std::time::Duration;

use tokio::time::Instant;
use toolgate_llm::{RetryPolicy, ThinkingMode};
use toolgate_tools::{ConversationDefaults, Profile};
use toolgate_types::{Deadline, OnFull, OnViolation};

use crate::system_prompt::PromptEnvironment;
use crate::turn::TurnDeadlines;

/// The settings of a conversation. Every limit ends in one final step without tools, so that the user gets an answer.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// The system prompt, instead of the built-in one.
    pub system: Option<String>,
    /// What the model learns of its environment, whatever the system prompt.
    pub environment: PromptEnvironment,
    /// The maximum number of steps with calls in a turn.
    pub max_tool_iterations: u32,
    /// The timeout of a turn, including its final step. Absent: [`TURN_TIMEOUT_WITHOUT_TOOLS`] or [`TURN_TIMEOUT_WITH_TOOLS`].
    pub time_limit: Option<Duration>,
    /// The part of it that is reserved for the final step: a quarter, and at most this.
    pub grace: Duration,
    /// How the context window is used, and when usage is warned about.
    pub context: ContextSettings,
    /// Whether read-only calls of one step run concurrently, if they need no approval.
    pub parallel_reads: bool,
    /// Whether malformed JSON arguments are repaired.
    pub repair: bool,
    /// What happens after a call that tried to leave its bounds.
    pub on_violation: OnViolation,
    /// The maximum number of attempts per step.
    pub max_attempts: u32,
    /// Whether and when a failed step is retried.
    pub retry: RetryPolicy,
    /// The maximum output of one step, in tokens.
    pub max_output_tokens: Option<u32>,
    /// Whether the model should think first.
    pub thinking: ThinkingMode,
}

/// How much of the model's context is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContextSettings {
    /// The context window in tokens, instead of the server's figure.
    pub window: Option<u64>,
    /// How many tokens are kept free. Absent: a tenth of the window, at most [`MAX_RESERVED_TOKENS`].
    pub reserve_tokens: Option<u64>,
    /// The fraction from which on the user is warned.
    pub warn_at: f64,
    /// How many of the newest results stay in full when older ones are elided.
    pub full_results: usize,
    /// What happens when only the reserve is left.
    pub on_full: OnFull,
    /// The maximum number of tokens of all requests and answers of a turn. Absent: unlimited if a full context ends the turn, else
    /// [`MAX_TURN_WINDOWS`] times the window.
    pub max_turn_tokens: Option<u64>,
}

/// The default timeout of a turn without tools.
pub const TURN_TIMEOUT_WITHOUT_TOOLS: Duration = Duration::from_secs(5 * 60);

/// The default timeout of a turn with tools.
pub const TURN_TIMEOUT_WITH_TOOLS: Duration = Duration::from_secs(30 * 60);

/// The default upper bound of the reserve.
pub const MAX_RESERVED_TOKENS: u64 = 8192;

/// The default token budget of a turn that compacts its context, in full windows: what the default number of steps could use.
pub const MAX_TURN_WINDOWS: u64 = 20;

impl Default for ContextSettings {
    fn default() -> Self {
        Self {
            window: None,
            reserve_tokens: None,
            warn_at: 0.75,
            full_results: 4,
            on_full: OnFull::Compact,
            max_turn_tokens: None,
        }
    }
}

impl ContextSettings {
    /// How many tokens of a window are kept free.
    #[must_use]
    pub fn reserve(&self, window: u64) -> u64 {
        self.reserve_tokens.unwrap_or((window / 10).min(MAX_RESERVED_TOKENS))
    }

    /// The token budget of a turn for this window.
    pub(crate) fn turn_tokens(&self, window: u64) -> u64 {
        let usual = match self.on_full {
            OnFull::Stop => u64::MAX,
            OnFull::Compact => window.saturating_mul(MAX_TURN_WINDOWS),
        };
        self.max_turn_tokens.unwrap_or(usual)
    }
}

impl AgentSettings {
    /// A profile's default settings.
    #[must_use]
    pub fn for_profile(profile: Profile) -> Self {
        let ConversationDefaults { max_tool_iterations, on_full, on_violation } = profile.conversation();
        Self {
            system: None,
            environment: PromptEnvironment::default(),
            max_tool_iterations,
            time_limit: None,
            grace: Duration::from_secs(60),
            context: ContextSettings { on_full, ..ContextSettings::default() },
            parallel_reads: false,
            repair: false,
            on_violation,
            max_attempts: 4,
            retry: RetryPolicy::default(),
            max_output_tokens: None,
            thinking: ThinkingMode::default(),
        }
    }

    /// The timeout of a turn.
    pub(crate) fn turn_timeout(&self, has_tools: bool) -> Duration {
        self.time_limit.unwrap_or(if has_tools {
            TURN_TIMEOUT_WITH_TOOLS
        } else {
            TURN_TIMEOUT_WITHOUT_TOOLS
        })
    }

    /// The deadlines of a turn that began at an instant, and ends with `base`. A part of the timeout is reserved for the final step, so that the turn
    /// with its final step stays within it.
    pub(crate) fn turn_deadlines(&self, base: &Deadline, began: Instant, has_tools: bool) -> TurnDeadlines {
        let total = self.turn_timeout(has_tools);
        let reserve = self.grace.min(total / 4);
        TurnDeadlines {
            steps: base.child_at(began.checked_add(total.saturating_sub(reserve))),
            final_step: base.child_at(began.checked_add(total)),
        }
    }
}
