//! Events of a conversation, for frontends.
//!
//! Names and fields are a contract: programs read them as JSON, one event per line or per WebSocket message.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use toolgate_gate::{ApprovalCard, GrantOffer};
use toolgate_llm::Usage;
use toolgate_tools::PlanStep;
use toolgate_types::{CallId, SessionId, ToolClass, fresh_uuid};

use crate::turn_outcome::EndReason;

/// Receives every event as it happens. It must not block for long: the model and the tools wait for it.
pub type EventSink = Arc<dyn Fn(ChatEvent) + Send + Sync>;

/// An event of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", content = "data", rename_all_fields = "camelCase")]
pub enum ChatEvent {
    /// A piece of the model's answer.
    #[serde(rename = "chat:text-delta")]
    TextDelta {
        /// The message that it belongs to.
        message_id: MessageId,
        /// The text.
        text: String,
    },
    /// A piece of the model's thinking.
    #[serde(rename = "chat:thinking-delta")]
    ThinkingDelta {
        /// The message that it belongs to.
        message_id: MessageId,
        /// The text.
        text: String,
    },
    /// A piece of a call that the model is still writing. The call is only made once the message is complete, after [`Self::ToolStart`].
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
    /// A call of a complete message is about to be sent to the gate.
    #[serde(rename = "chat:tool-start")]
    ToolStart {
        /// The message that contains it.
        message_id: MessageId,
        /// The gate's id for the call, globally unique.
        tool_id: CallId,
        /// The tool, as the model named it.
        tool_name: String,
        /// The arguments; empty if they cannot be parsed.
        input: Value,
        /// The model's text, if it cannot be parsed as arguments.
        #[serde(skip_serializing_if = "Option::is_none")]
        input_text: Option<String>,
    },
    /// Output of a call that is still running.
    #[serde(rename = "chat:tool-delta")]
    ToolDelta {
        /// The message that contains the call.
        message_id: MessageId,
        /// The call.
        tool_id: CallId,
        /// The output since the last event. The colours of a command are SGR sequences in it, each chunk complete in itself.
        chunk: String,
    },
    /// A call needs a person's approval.
    #[serde(rename = "chat:tool-confirm")]
    ToolConfirm(Box<ToolConfirm>),
    /// A question is withdrawn: its call ended before an answer came.
    #[serde(rename = "chat:tool-withdrawn")]
    ToolWithdrawn {
        /// The message that contains the call.
        message_id: MessageId,
        /// The call.
        tool_id: CallId,
    },
    /// The result of a call.
    #[serde(rename = "chat:tool-result")]
    ToolResult {
        /// The message that contains it.
        message_id: MessageId,
        /// The call.
        tool_id: CallId,
        /// The tool, as the model named it.
        tool_name: String,
        /// How it ended.
        status: ToolStatus,
        /// The text that the model receives.
        result: String,
        /// The same text with the colours of a command as SGR sequences, for people; absent if it has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        coloured: Option<String>,
        /// Further data about the call.
        metadata: Box<ResultMetadata>,
    },
    /// The model changed its plan. Follows the result of the call that did.
    #[serde(rename = "chat:plan")]
    Plan {
        /// The message that contains the call.
        message_id: MessageId,
        /// The call.
        tool_id: CallId,
        /// All steps, in order.
        steps: Vec<PlanStep>,
    },
    /// The usage of the model's context, after each step.
    #[serde(rename = "chat:context")]
    Context {
        /// Tokens of the whole conversation including the tool definitions.
        used_tokens: u64,
        /// The model's context window, if known.
        context_window: Option<u64>,
        /// `used_tokens` divided by `context_window`.
        fraction: Option<f64>,
        /// Whether the warning threshold is exceeded.
        warning: bool,
    },
    /// A notice for the user that is not from the model.
    #[serde(rename = "chat:notice")]
    Notice {
        /// The text.
        text: String,
    },
    /// The model could not be reached, or its answer was invalid.
    #[serde(rename = "chat:error")]
    Error {
        /// A stable code.
        code: &'static str,
        /// What is wrong, and what helps.
        message: String,
        /// Whether there will be a retry.
        retryable: bool,
        /// The number of the failed attempt, from 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
        /// The delay before the next attempt.
        #[serde(skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
        /// The message whose deltas are void: it was never completed, and no part of it is kept.
        #[serde(skip_serializing_if = "Option::is_none")]
        voided: Option<MessageId>,
    },
    /// The turn is over. No event follows.
    #[serde(rename = "chat:stream-end")]
    StreamEnd {
        /// The reason.
        reason: EndReason,
        /// The final answer.
        text: String,
        /// The total usage of all steps.
        usage: Usage,
        /// The number of steps with calls.
        iterations: u32,
        /// The conversation; `None` if the turn could not start.
        #[serde(skip_serializing_if = "Option::is_none")]
        session_id: Option<SessionId>,
    },
}

/// A request to approve one exact call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolConfirm {
    /// The message that contains the call.
    pub message_id: MessageId,
    /// The call.
    pub tool_id: CallId,
    /// The tool.
    pub tool_name: String,
    /// The arguments.
    pub input: Value,
    /// The effect class of the tool.
    pub class: ToolClass,
    /// What would happen, line by line.
    pub summary: Vec<String>,
    /// The preview body as text, such as a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The preview body as a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The question as shown to a person: escaped and wrapped as on a terminal, so that no two calls look the same.
    pub card: ApprovalCard,
    /// The approval timeout.
    pub timeout_ms: u64,
    /// When the question expires, in RFC 3339.
    pub expires_at: String,
    /// What the same call lacked before, and may be allowed now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub escalations: Vec<EscalationChoice>,
    /// Whether an approval may cover the rest of the session.
    pub may_last: bool,
    /// The lasting grants that can be chosen as the answer.
    pub grants: Vec<GrantOffer>,
}

/// One thing that may be allowed beyond the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EscalationChoice {
    /// Its id, for the answer.
    pub id: String,
    /// In words, for a person.
    pub text: String,
}

/// The status of a call. Programs read `success` or `error`; the decision and the code beside it say more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolStatus {
    /// It succeeded.
    Success,
    /// It failed.
    Error,
    /// It was denied.
    Denied,
    /// It was cancelled, or never made.
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

/// Data about a call besides its answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultMetadata {
    /// The gate's id for the call, as audited.
    pub call_id: CallId,
    /// How long it took, without `waitedMs`.
    pub duration_ms: u64,
    /// How long a person was waited for; absent if none was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// The decision, as audited.
    pub decision: &'static str,
    /// The stage that denied the call, or where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<&'static str>,
    /// The stable error code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// The structured result, if it is short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// The arguments that a person approved in place of the model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_input: Option<Value>,
    /// Facts that a built-in tool reports, such as `exitCode`, `path` or `bytes`; never under one of the names above.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
    /// The full output, if the model receives only a part. Only for consumers in this process; not serialised.
    #[serde(skip)]
    pub full_output: Option<String>,
    /// The reason for the operator only. Only for consumers in this process; not serialised.
    #[serde(skip)]
    pub operator_note: Option<String>,
}

impl ResultMetadata {
    /// The names of the metadata's own fields, which a tool's fact may not use.
    pub(crate) const FIELD_NAMES: [&'static str; 8] =
        ["callId", "durationMs", "waitedMs", "decision", "stage", "code", "structured", "changedInput"];
}

/// The id of a model's message, unique over all conversations.
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

impl From<&str> for MessageId {
    fn from(id: &str) -> Self {
        Self(id.into())
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

/// An event with a sequence number, so that a client that reconnects knows what it missed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SequencedEvent {
    /// The sequence number, from 1 without gaps.
    pub seq: u64,
    /// The event.
    #[serde(flatten)]
    pub event: ChatEvent,
}

/// A sink that numbers events, and forwards them one at a time in that order.
pub fn sequenced(tell: impl FnMut(SequencedEvent) + Send + 'static) -> EventSink {
    let counted = Mutex::new((0, tell));
    Arc::new(move |event| {
        let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
        let (told, tell) = &mut *counted;
        *told += 1;
        tell(SequencedEvent { seq: *told, event });
    })
}

/// The input of a call whose arguments cannot be parsed.
pub(crate) fn no_input() -> Value {
    Value::Object(Map::new())
}
