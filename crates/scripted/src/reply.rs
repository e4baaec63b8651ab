//! Resolves a step into a reply to one conversation: ids, tool names, templates and faults.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::conversation::{SentConversation, is_same_tool};
use crate::script::{
    Act, BreakEnd, FaultKind, Finish, Script, ScriptArguments, ScriptCall, ScriptFault, ScriptStep,
    ScriptUsage, StatusFault,
};

/// The reply when no step matches.
const NOTHING_LEFT: &str = "The script ends here.";

/// `{{last_result}}` is cut to this many characters.
const MAX_RESULT_CHARS: usize = 16_384;

/// One reply.
#[derive(Debug)]
pub(crate) struct ScriptedReply {
    /// The number of this step in the conversation, from 0.
    pub(crate) turn: usize,
    pub(crate) parts: Vec<ReplyPart>,
    pub(crate) finish: Finish,
    pub(crate) usage: ScriptUsage,
    /// The bytes per delta.
    pub(crate) chunk: usize,
    /// The delay before each delta.
    pub(crate) slow: Option<Duration>,
    pub(crate) index: IndexFault,
    /// Where the stream breaks, in bytes from its beginning.
    pub(crate) cut: Option<(usize, BreakEnd)>,
}

#[derive(Debug)]
pub(crate) enum ReplyPart {
    Text(String),
    Thinking { text: String, hidden: bool },
    Call { id: String, tool: String, arguments: String },
    Pause(Duration),
    Fault(StreamFault),
}

/// A fault within a stream.
#[derive(Clone, Debug)]
pub(crate) enum StreamFault {
    Break(BreakEnd),
    Garbage,
    UnknownEvent,
    Comment,
    Error { message: String, kind: Option<String> },
}

/// A fault in the indexes of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IndexFault {
    #[default]
    None,
    Duplicate,
    Missing,
}

/// What the wire contributes to a reply.
pub(crate) struct ReplyContext<'a> {
    pub(crate) conversation: &'a SentConversation,
    /// The prefix of call ids.
    pub(crate) prefix: &'static str,
    /// Whether the model may think.
    pub(crate) thinking: bool,
    /// The approximate number of input tokens.
    pub(crate) input_tokens: u64,
}

/// How often each fault has occurred.
#[derive(Debug)]
pub(crate) struct FaultCounts(Vec<AtomicU32>);

impl FaultCounts {
    pub(crate) fn new(script: &Script) -> Self {
        Self((0..script.faults).map(|_| AtomicU32::new(0)).collect())
    }

    /// Whether a fault occurs now; if so, it is counted.
    fn happens(&self, fault: &ScriptFault) -> bool {
        let Some(times) = fault.times else { return true };
        let Some(count) = self.0.get(fault.number) else { return true };
        let counted = count.try_update(Ordering::Relaxed, Ordering::Relaxed, |so_far| {
            (so_far < times).then_some(so_far.saturating_add(1))
        });
        counted.is_ok()
    }
}

/// The reply of a step, or the status fault that replaces it.
pub(crate) fn reply(
    script: &Script,
    number: Option<usize>,
    counts: &FaultCounts,
    asking: &ReplyContext<'_>,
) -> Result<ScriptedReply, StatusFault> {
    let step = number.and_then(|number| script.steps.get(number).map(|step| (number, step)));
    let turn = asking.conversation.steps();
    let Some((number, step)) = step else { return Ok(script_exhausted(turn, asking)) };
    let mut reply = ScriptedReply { chunk: step.chunk, slow: step.slow, ..empty(turn) };
    let mut writer = ReplyBuilder { number, turn, calls: 0, asking };
    for act in &step.acts {
        match act {
            Act::Fault(fault) if !counts.happens(fault) => {}
            Act::Fault(fault) => reply.add_fault(&fault.kind)?,
            Act::Think { .. } if !(asking.thinking && script.model.thinking) => {}
            act => reply.parts.extend(writer.part(act)),
        }
    }
    reply.finish = step.finish.unwrap_or(if step.has_calls() { Finish::ToolCalls } else { Finish::Stop });
    reply.usage = usage(step, &reply.parts, asking);
    Ok(reply)
}

fn empty(turn: usize) -> ScriptedReply {
    ScriptedReply {
        turn,
        parts: Vec::new(),
        finish: Finish::Stop,
        usage: ScriptUsage { input: 0, output: 0, cached: 0 },
        chunk: usize::MAX,
        slow: None,
        index: IndexFault::None,
        cut: None,
    }
}

fn script_exhausted(turn: usize, asking: &ReplyContext<'_>) -> ScriptedReply {
    let parts = vec![ReplyPart::Text(NOTHING_LEFT.to_owned())];
    let usage = ScriptUsage { input: asking.input_tokens, output: output_tokens(&parts), cached: 0 };
    ScriptedReply { parts, usage, ..empty(turn) }
}

fn usage(step: &ScriptStep, parts: &[ReplyPart], asking: &ReplyContext<'_>) -> ScriptUsage {
    step.usage.unwrap_or_else(|| ScriptUsage {
        input: asking.input_tokens,
        output: output_tokens(parts),
        cached: 0,
    })
}

/// About four bytes per token.
pub(crate) fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(4)
}

fn output_tokens(parts: &[ReplyPart]) -> u64 {
    let lengths = parts.iter().map(|part| match part {
        ReplyPart::Text(text) | ReplyPart::Thinking { text, .. } => text.len(),
        ReplyPart::Call { tool, arguments, .. } => tool.len() + arguments.len(),
        ReplyPart::Pause(_) | ReplyPart::Fault(_) => 0,
    });
    tokens(lengths.sum()).max(1)
}

impl ScriptedReply {
    fn add_fault(&mut self, kind: &FaultKind) -> Result<(), StatusFault> {
        let odd = match kind {
            FaultKind::Status(status) => return Err(status.clone()),
            FaultKind::Break { end, after: Some(bytes) } => {
                self.cut = Some((*bytes, *end));
                return Ok(());
            }
            FaultKind::DuplicateIndex => {
                self.index = IndexFault::Duplicate;
                return Ok(());
            }
            FaultKind::MissingIndex => {
                self.index = IndexFault::Missing;
                return Ok(());
            }
            FaultKind::Break { end, after: None } => StreamFault::Break(*end),
            FaultKind::Garbage => StreamFault::Garbage,
            FaultKind::UnknownEvent => StreamFault::UnknownEvent,
            FaultKind::Comment => StreamFault::Comment,
            FaultKind::ErrorInStream { message, kind } => {
                let message = message.clone().unwrap_or_else(|| "Overloaded".to_owned());
                StreamFault::Error { message, kind: kind.clone() }
            }
        };
        self.parts.push(ReplyPart::Fault(odd));
        Ok(())
    }

    /// The fault that prevents a complete answer, if there is one.
    pub(crate) fn stream_fault(&self) -> Option<&StreamFault> {
        self.parts.iter().find_map(|part| match part {
            ReplyPart::Fault(
                odd @ (StreamFault::Break(_) | StreamFault::Garbage | StreamFault::Error { .. }),
            ) => Some(odd),
            _ => None,
        })
    }

    /// The text in pieces of about one delta, never split within a character.
    pub(crate) fn deltas<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> + use<'t> {
        let (chunk, mut rest) = (self.chunk, text);
        std::iter::from_fn(move || {
            let most = rest.char_indices().map(|(at, character)| at + character.len_utf8());
            let end = most.enumerate().take_while(|(number, end)| *number == 0 || *end <= chunk).last()?.1;
            let (delta, behind) = rest.split_at_checked(end)?;
            rest = behind;
            Some(delta)
        })
    }
}

struct ReplyBuilder<'w> {
    number: usize,
    turn: usize,
    calls: usize,
    asking: &'w ReplyContext<'w>,
}

impl ReplyBuilder<'_> {
    fn part(&mut self, act: &Act) -> Option<ReplyPart> {
        match act {
            Act::Say(text) => Some(ReplyPart::Text(self.filled(text))),
            Act::Think { text, hidden } => {
                Some(ReplyPart::Thinking { text: self.filled(text), hidden: *hidden })
            }
            Act::Call(call) => Some(self.call(call)),
            Act::Pause(time) => Some(ReplyPart::Pause(*time)),
            Act::Fault(_) => None,
        }
    }

    fn call(&mut self, call: &ScriptCall) -> ReplyPart {
        let own = format!("{}_{:04}s{}c{}", self.asking.prefix, self.turn, self.number, self.calls);
        self.calls += 1;
        let offered = self.asking.conversation.offered.iter();
        // An exact match of the name takes precedence over one in the wire's restricted form.
        let exact = offered.clone().find(|offered| **offered == call.tool);
        let offered = exact.or_else(|| offered.clone().find(|offered| is_same_tool(offered, &call.tool)));
        let arguments = match &call.arguments {
            ScriptArguments::Object(value) => self.filled_value(value).to_string(),
            ScriptArguments::Text(text) => text.clone(),
        };
        ReplyPart::Call {
            id: call.id.clone().unwrap_or(own),
            tool: offered.unwrap_or(&call.tool).clone(),
            arguments,
        }
    }

    fn filled(&self, text: &str) -> String {
        if !text.contains("{{") {
            return text.to_owned();
        }
        let result: String = self.asking.conversation.last_result().chars().take(MAX_RESULT_CHARS).collect();
        // Inserted text is not expanded again.
        let pieces = text
            .split("{{last_result}}")
            .map(|piece| piece.replace("{{prompt}}", self.asking.conversation.last_prompt()));
        pieces.collect::<Vec<_>>().join(&result)
    }

    fn filled_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.filled(text)),
            Value::Array(values) => values.iter().map(|value| self.filled_value(value)).collect(),
            Value::Object(entries) => {
                entries.iter().map(|(key, value)| (key.clone(), self.filled_value(value))).collect()
            }
            other => other.clone(),
        }
    }
}

/// The step of a call, if its id is one of ours: `call_0002s1c0` is the first call of step 1.
pub(crate) fn step_of(id: &str) -> Option<usize> {
    let (_, mark) = id.split_once('_')?;
    let (turn, rest) = mark.split_once('s')?;
    let (step, call) = rest.split_once('c')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(turn) && is_number(call) && is_number(step)).then(|| step.parse().ok())?
}
