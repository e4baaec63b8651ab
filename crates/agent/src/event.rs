//! What happens in a conversation, as whoever looks on is told it.
//!
//! Names and fields are a contract: programs read them as JSON, one event per line or per message of a socket.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use toolgate_gate::ApprovalCard;
use toolgate_llm::Usage;
use toolgate_types::{CallId, SessionId, ToolClass, fresh_uuid};

use crate::turn_outcome::EndReason;

/// Is told of everything as it happens. It must not block for long: the model and the tools wait for it.
pub type EventSink = Arc<dyn Fn(ChatEvent) + Send + Sync>;

/// Something that happened in a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", content = "data", rename_all_fields = "camelCase")]
pub enum ChatEvent {
    /// More words of the model for the person.
    #[serde(rename = "chat:text-delta")]
    TextDelta {
        /// The message that they belong to.
        message_id: MessageId,
        /// The words.
        text: String,
    },
    /// More words of the model for itself.
    #[serde(rename = "chat:thinking-delta")]
    ThinkingDelta {
        /// The message that they belong to.
        message_id: MessageId,
        /// The words.
        text: String,
    },
    /// More of a call that the model is still writing. It counts, and [`Self::ToolStart`] follows, once the message is finished.
    #[serde(rename = "chat:tool-input-delta")]
    ToolInputDelta {
        /// The message that it belongs to.
        message_id: MessageId,
        /// The gate's id for the call.
        tool_id: CallId,
        /// The tool, as the model named it.
        tool_name: String,
        /// A piece of JSON.
        chunk: String,
    },
    /// A call of a finished message is about to go to the gate.
    #[serde(rename = "chat:tool-start")]
    ToolStart {
        /// The message that asked for it.
        message_id: MessageId,
        /// The gate's id for the call, unlike any other.
        tool_id: CallId,
        /// The tool, as the model named it.
        tool_name: String,
        /// The arguments; empty where they cannot be read.
        input: Value,
        /// What the model wrote in place of arguments that can be read.
        #[serde(skip_serializing_if = "Option::is_none")]
        input_text: Option<String>,
    },
    /// Output of a call that is still running.
    #[serde(rename = "chat:tool-delta")]
    ToolDelta {
        /// The message that asked for the call.
        message_id: MessageId,
        /// The call.
        tool_id: CallId,
        /// The output since the last one.
        chunk: String,
    },
    /// A person has to agree to a call first.
    #[serde(rename = "chat:tool-confirm")]
    ToolConfirm(Box<ToolConfirm>),
    /// What became of a call.
    #[serde(rename = "chat:tool-result")]
    ToolResult {
        /// The message that asked for it.
        message_id: MessageId,
        /// The call.
        tool_id: CallId,
        /// The tool, as the model named it.
        tool_name: String,
        /// How it ended.
        status: ToolStatus,
        /// What the model is told.
        result: String,
        /// What is known beside it.
        metadata: Box<ResultMetadata>,
    },
    /// How full the model's context is, after each step.
    #[serde(rename = "chat:context")]
    Context {
        /// Tokens of the whole conversation, tools and all.
        used_tokens: u64,
        /// How many the model can look at, where that is known.
        context_window: Option<u64>,
        /// The first of these over the second.
        fraction: Option<f64>,
        /// Whether it is time to think of the end.
        warning: bool,
    },
    /// Something that the person should know and the model did not say.
    #[serde(rename = "chat:notice")]
    Notice {
        /// What.
        text: String,
    },
    /// The model could not be asked, or its answer not be used.
    #[serde(rename = "chat:error")]
    Error {
        /// A stable code.
        code: &'static str,
        /// What is wrong, and what would help.
        message: String,
        /// Whether it will be tried again.
        retryable: bool,
        /// Which try failed, counted from one.
        #[serde(skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
        /// How long until the next one.
        #[serde(skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
        /// The message whose deltas are void: it was never finished, and no part of it counts.
        #[serde(skip_serializing_if = "Option::is_none")]
        voided: Option<MessageId>,
    },
    /// The turn is over. Nothing comes after it.
    #[serde(rename = "chat:stream-end")]
    StreamEnd {
        /// Why.
        reason: EndReason,
        /// The final answer.
        text: String,
        /// What all steps of the turn used together.
        usage: Usage,
        /// How many steps had calls.
        iterations: u32,
        /// The conversation; none where the turn could not begin.
        #[serde(skip_serializing_if = "Option::is_none")]
        session_id: Option<SessionId>,
    },
}

/// A question about one exact call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolConfirm {
    /// The message that asked for the call.
    pub message_id: MessageId,
    /// The call.
    pub tool_id: CallId,
    /// The tool.
    pub tool_name: String,
    /// The arguments.
    pub input: Value,
    /// What the tool can do to the world.
    pub class: ToolClass,
    /// What would happen, line by line.
    pub summary: Vec<String>,
    /// The whole of it in words, such as a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The whole of it as a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The question as a person is to see it: escaped and folded as on a terminal, so that no two calls look the same.
    pub card: ApprovalCard,
    /// How long an answer is waited for.
    pub timeout_ms: u64,
    /// Whether a yes may be for the rest of the session.
    pub may_last: bool,
}

/// How a call ended. Programs read `success` or `error`; the rest is said by the decision and the code beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolStatus {
    /// It did what was asked.
    Success,
    /// It could not.
    Error,
    /// It was not allowed to.
    Denied,
    /// It was ended, or never made.
    Cancelled,
}

impl Serialize for ToolStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Success => "success",
            Self::Error | Self::Denied | Self::Cancelled => "error",
        })
    }
}

/// What is known of a call beside its answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultMetadata {
    /// The gate's id for it, as the record has it.
    pub call_id: CallId,
    /// How long it took.
    pub duration_ms: u64,
    /// What the record says.
    pub decision: &'static str,
    /// The stage that refused it, or where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<&'static str>,
    /// The stable code of why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// The same as the result, for programs, where it is short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// What a built-in tool says of its own work, such as `exitCode`, `path` or `bytes`; never under a name of those above.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
    /// The whole output, where the model gets a part of it. For those who look on in this process.
    #[serde(skip)]
    pub full_output: Option<String>,
    /// Why, in words that only the operator may see. For those who look on in this process.
    #[serde(skip)]
    pub operator_note: Option<String>,
}

impl ResultMetadata {
    /// The names of its own fields, which no tool's fact may have.
    pub(crate) const FIELD_NAMES: [&'static str; 6] =
        ["callId", "durationMs", "decision", "stage", "code", "structured"];
}

/// One message of a model, within all conversations.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct MessageId(Arc<str>);

impl MessageId {
    pub(crate) fn fresh() -> Self {
        Self(fresh_uuid().to_string().into())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Serialize for MessageId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// An event with its number, so that whoever was away knows what was missed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SequencedEvent {
    /// The number; counted from one without gaps.
    pub seq: u64,
    /// The event.
    #[serde(flatten)]
    pub event: ChatEvent,
}

/// A sink that numbers what it is told, and tells it on one at a time, in that order.
pub fn sequenced(tell: impl FnMut(SequencedEvent) + Send + 'static) -> EventSink {
    let counted = Mutex::new((0, tell));
    Arc::new(move |event| {
        let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
        let (told, tell) = &mut *counted;
        *told += 1;
        tell(SequencedEvent { seq: *told, event });
    })
}

/// Arguments that cannot be read, as programs see them.
pub(crate) fn no_input() -> Value {
    Value::Object(Map::new())
}
