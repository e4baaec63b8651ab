//! A script: what the model does, step by step.

mod problem;
mod raw;
mod read;
mod when;

use std::time::Duration;

use serde_json::Value;

use crate::wire::Wire;

pub use problem::{ScriptProblem, ScriptProblems};
pub(crate) use when::{Switch, When};

/// What a model does, step by step.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) model: Model,
    pub(crate) memory: Memory,
    pub(crate) steps: Vec<ScriptStep>,
    /// How many faults there are in all steps; each has a number below this.
    pub(crate) faults: usize,
}

impl Script {
    /// Reads a script. `file` is what problems call it.
    ///
    /// # Errors
    /// Every mistake that was found, with its line and what to do about it.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScriptProblems> {
        read::script(file, text)
    }

    /// The name that the model goes by. A script that names none answers to any.
    #[must_use]
    pub fn model_name(&self) -> &str {
        self.model.name.as_deref().unwrap_or("scripted")
    }

    /// The wire that the script would rather be spoken to in.
    #[must_use]
    pub fn wire(&self) -> Option<Wire> {
        self.model.wire
    }
}

/// What the servers say about the model.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) name: Option<String>,
    pub(crate) wire: Option<Wire>,
    pub(crate) tools: bool,
    pub(crate) thinking: bool,
    pub(crate) context_window: u64,
    pub(crate) max_output_tokens: u64,
    pub(crate) reasoning: Reasoning,
}

/// How servers of Chat Completions tell what a model thinks: nobody agreed on one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reasoning {
    /// `reasoning_content`, as DeepSeek and vLLM do.
    #[default]
    ReasoningContent,
    /// `reasoning` and `reasoning_details`, as `OpenRouter` does; the details are wanted back.
    ReasoningDetails,
}

/// Which steps count as used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Memory {
    /// Those since the last prompt: every prompt begins the script anew.
    #[default]
    Prompt,
    /// Those of the whole conversation.
    Conversation,
}

/// One answer of the model.
#[derive(Clone, Debug)]
pub(crate) struct ScriptStep {
    pub(crate) when: Option<When>,
    pub(crate) acts: Vec<Act>,
    /// Whether it can be used again.
    pub(crate) repeat: bool,
    pub(crate) finish: Option<Finish>,
    pub(crate) usage: Option<ScriptUsage>,
    /// How many bytes one delta has, at least one character.
    pub(crate) chunk: usize,
    /// How long to wait before each delta.
    pub(crate) slow: Option<Duration>,
}

impl ScriptStep {
    pub(crate) fn has_calls(&self) -> bool {
        self.acts.iter().any(|act| matches!(act, Act::Call(_)))
    }

    /// How many times the model thinks in it.
    pub(crate) fn thoughts(&self) -> usize {
        self.acts.iter().filter(|act| matches!(act, Act::Think { .. })).count()
    }
}

/// Something that happens in a step.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Say(String),
    Think { text: String, hidden: bool },
    Call(ScriptCall),
    Pause(Duration),
    Fault(ScriptFault),
}

#[derive(Clone, Debug)]
pub(crate) struct ScriptCall {
    pub(crate) tool: String,
    pub(crate) arguments: ScriptArguments,
    /// The id that it has instead of one of ours.
    pub(crate) id: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum ScriptArguments {
    Object(Value),
    /// Exactly these characters, which may be no JSON.
    Text(String),
}

/// Why a step ends, where the calls in it do not already say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Finish {
    Stop,
    ToolCalls,
    Length,
    Refusal,
    Pause,
}

/// Tokens that the server says were used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScriptUsage {
    pub(crate) input: u64,
    pub(crate) output: u64,
    /// How many of the first came from a cache.
    #[serde(default)]
    pub(crate) cached: u64,
}

/// Something that goes wrong.
#[derive(Clone, Debug)]
pub(crate) struct ScriptFault {
    /// Which of the script's faults this is, for counting.
    pub(crate) number: usize,
    /// How often it happens before it passes; `None` is always.
    pub(crate) times: Option<u32>,
    pub(crate) kind: FaultKind,
}

#[derive(Clone, Debug)]
pub(crate) enum FaultKind {
    /// The stream ends; `after` that many bytes of it where that is said.
    Break { end: BreakEnd, after: Option<usize> },
    /// Bytes that nobody can read, and then the stream goes on.
    Garbage,
    /// An event of a kind that is not in any documentation.
    UnknownEvent,
    /// A line that is only there to keep the connection alive.
    Comment,
    /// All calls of the step have the same index.
    DuplicateIndex,
    /// No call of the step has an index.
    MissingIndex,
    /// The server refuses before it says anything.
    Status(StatusFault),
    /// The server fails after it has begun.
    ErrorInStream { message: Option<String>, kind: Option<String> },
}

/// How a stream ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakEnd {
    /// The connection is gone.
    Reset,
    /// The response ends in order, without the wire's terminator.
    Truncate,
    /// Nothing more comes, and the connection stays open.
    Idle,
}

/// A response that is no success, with the hints that go with it.
#[derive(Clone, Debug)]
pub(crate) struct StatusFault {
    pub(crate) status: u16,
    pub(crate) message: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) retry_after_ms: Option<Duration>,
    pub(crate) should_retry: Option<bool>,
}
