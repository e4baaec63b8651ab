//! Within which bounds a conversation is held.

use std::time::Duration;

use toolgate_llm::{Backoff, ThinkingMode};
use toolgate_manifest::{OnFull, OnViolation};
use toolgate_tools::Profile;

use crate::system_prompt::PromptEnvironment;
use crate::turn_deadline::TurnTimeout;

/// How a conversation is held. Every bound ends in one last step without tools, so that the person gets an answer.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// What stands before the conversation, in place of our own words.
    pub system: Option<String>,
    /// What the model is told of the place it works in, whatever stands before it.
    pub environment: PromptEnvironment,
    /// How many steps of a turn may have calls.
    pub max_tool_iterations: u32,
    /// How long a turn may take, with its last step. Absent: [`TURN_TIMEOUT_WITHOUT_TOOLS`] or [`TURN_TIMEOUT_WITH_TOOLS`].
    pub time_limit: Option<Duration>,
    /// How much of that is kept for the last step: a quarter, and no more than this.
    pub grace: Duration,
    /// How much of the context is kept free, and when that is warned about.
    pub context: ContextSettings,
    /// Whether calls of one step that only read are made together, where nobody is asked about them.
    pub parallel_reads: bool,
    /// Whether arguments that are nearly JSON are read as what they were meant to be.
    pub repair: bool,
    /// What happens after a call that tried to leave its bounds.
    pub on_violation: OnViolation,
    /// How often one step is tried, all in all.
    pub max_attempts: u32,
    /// How long is waited between two tries.
    pub backoff: Backoff,
    /// How much the model may say in one step, in tokens.
    pub max_output_tokens: Option<u32>,
    /// Whether it should think first.
    pub thinking: ThinkingMode,
}

/// How much of the model's context is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContextSettings {
    /// How many tokens the model can look at, in place of what its server says.
    pub window: Option<u64>,
    /// How many of them are kept free. Absent: a tenth of them, [`MAX_RESERVED_TOKENS`] at most.
    pub reserve_tokens: Option<u64>,
    /// The fraction from which on the person is warned.
    pub warn_at: f64,
    /// How many of the newest results stay whole when older ones are left out to save room.
    pub full_results: usize,
    /// What follows when nothing but the reserve is left.
    pub on_full: OnFull,
    /// How many tokens all requests and answers of a turn may have together. Absent: no bound where a full context ends the turn, else
    /// [`MAX_TURN_WINDOWS`] times the window.
    pub max_turn_tokens: Option<u64>,
}

/// A turn without tools takes no longer, unless it is said otherwise.
pub const TURN_TIMEOUT_WITHOUT_TOOLS: Duration = Duration::from_secs(5 * 60);

/// A turn with tools takes no longer, unless it is said otherwise.
pub const TURN_TIMEOUT_WITH_TOOLS: Duration = Duration::from_secs(30 * 60);

/// No more tokens than this are kept free, unless it is said otherwise.
pub const MAX_RESERVED_TOKENS: u64 = 8192;

/// A turn that compacts its context takes no more tokens than this many full windows, unless it is said otherwise: what the usual number of steps could take.
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

    /// How many tokens a turn may take with a model of this window.
    pub(crate) fn turn_tokens(&self, window: u64) -> u64 {
        let usual = match self.on_full {
            OnFull::Stop => u64::MAX,
            OnFull::Compact => window.saturating_mul(MAX_TURN_WINDOWS),
        };
        self.max_turn_tokens.unwrap_or(usual)
    }
}

impl AgentSettings {
    /// The bounds that go with a profile before the operator changes them.
    #[must_use]
    pub fn for_profile(profile: Profile) -> Self {
        let is_studio = profile == Profile::Studio;
        Self {
            system: None,
            environment: PromptEnvironment::default(),
            max_tool_iterations: if is_studio { 200 } else { 20 },
            time_limit: None,
            grace: Duration::from_secs(60),
            context: ContextSettings {
                on_full: if is_studio { OnFull::Stop } else { OnFull::Compact },
                ..ContextSettings::default()
            },
            parallel_reads: false,
            repair: false,
            on_violation: if is_studio { OnViolation::Stop } else { OnViolation::Answer },
            max_attempts: 4,
            backoff: Backoff::default(),
            max_output_tokens: None,
            thinking: ThinkingMode::default(),
        }
    }

    /// How long a turn may take.
    pub(crate) fn turn_timeout(&self, has_tools: bool) -> Duration {
        self.time_limit.unwrap_or(if has_tools {
            TURN_TIMEOUT_WITH_TOOLS
        } else {
            TURN_TIMEOUT_WITHOUT_TOOLS
        })
    }

    /// The same, divided.
    pub(crate) fn turn_timeouts(&self, has_tools: bool) -> TurnTimeout {
        let whole = self.turn_timeout(has_tools);
        TurnTimeout { total: whole, final_step_reserve: self.grace.min(whole / 4) }
    }
}
