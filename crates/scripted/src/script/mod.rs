//! A script: the model's steps.

mod problem;
mod raw;
mod read;
mod when;

use std::time::Duration;

use serde_json::Value;

use crate::wires::Wire;

pub use problem::{ScriptProblem, ScriptProblems};
pub(crate) use when::{Switch, When};

/// A scripted model.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) model: Model,
    pub(crate) memory: Memory,
    pub(crate) steps: Vec<ScriptStep>,
    /// The number of faults in all steps; each has a number below this.
    pub(crate) faults: usize,
}

impl Script {
    /// Parses a script. `file` is its name in problems.
    ///
    /// # Errors
    /// Every mistake that was found, with its line and a remedy.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScriptProblems> {
        read::script(file, text)
    }

    /// The model's name. A script without one accepts any.
    #[must_use]
    pub fn model_name(&self) -> &str {
        self.model.name.as_deref().unwrap_or("scripted")
    }

    /// The wire that the script prefers.
    #[must_use]
    pub fn wire(&self) -> Option<Wire> {
        self.model.wire
    }
}

/// The model's properties, as servers report them.
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

/// How servers of Chat Completions send reasoning: there is no standard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reasoning {
    /// `reasoning_content`, as DeepSeek and vLLM do.
    #[default]
    ReasoningContent,
    /// `reasoning` and `reasoning_details`, as `OpenRouter` does; the details must be sent back.
    ReasoningDetails,
}

/// Which steps count as used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Memory {
    /// Those since the last prompt: every prompt restarts the script.
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
    /// The bytes per delta, at least one character.
    pub(crate) chunk: usize,
    /// The delay before each delta.
    pub(crate) slow: Option<Duration>,
}

impl ScriptStep {
    pub(crate) fn has_calls(&self) -> bool {
        self.acts.iter().any(|act| matches!(act, Act::Call(_)))
    }

    /// The number of thinking blocks.
    pub(crate) fn thoughts(&self) -> usize {
        self.acts.iter().filter(|act| matches!(act, Act::Think { .. })).count()
    }
}

/// One action of a step.
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
    /// The id instead of a generated one.
    pub(crate) id: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum ScriptArguments {
    Object(Value),
    /// Exactly this text, which may not be JSON.
    Text(String),
}

/// Why a step ends, unless its calls imply it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Finish {
    Stop,
    ToolCalls,
    Length,
    Refusal,
    Pause,
}

/// The usage that the server reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScriptUsage {
    pub(crate) input: u64,
    pub(crate) output: u64,
    /// How many of the input tokens came from a cache.
    #[serde(default)]
    pub(crate) cached: u64,
}

/// A fault.
#[derive(Clone, Debug)]
pub(crate) struct ScriptFault {
    /// The number of the fault in the script, for counting.
    pub(crate) number: usize,
    /// How often it occurs; `None` for always.
    pub(crate) times: Option<u32>,
    pub(crate) kind: FaultKind,
}

#[derive(Clone, Debug)]
pub(crate) enum FaultKind {
    /// The stream ends; `after` this many bytes if given.
    Break { end: BreakEnd, after: Option<usize> },
    /// Bytes that cannot be parsed; the stream goes on.
    Garbage,
    /// An event of an undocumented type.
    UnknownEvent,
    /// A keep-alive comment.
    Comment,
    /// All calls of the step have the same index.
    DuplicateIndex,
    /// No call of the step has an index.
    MissingIndex,
    /// An error status instead of an answer.
    Status(StatusFault),
    /// An error within the stream.
    ErrorInStream { message: Option<String>, kind: Option<String> },
}

/// How a stream breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakEnd {
    /// The connection is reset.
    Reset,
    /// The response ends regularly, without the wire's terminator.
    Truncate,
    /// Nothing more is sent, and the connection stays open.
    Idle,
}

/// An error response with its retry headers.
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
