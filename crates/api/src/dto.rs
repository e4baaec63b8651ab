//! What goes over the wire. Names and fields are a contract; the OpenAPI document is generated from these types.

pub(crate) mod audited;
mod recorded;
pub(crate) mod traffic;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_conversation::models::token_cost;
use toolgate_conversation::{AnsweredQuestion, CallQuestion, ConversationState, Participant};
use toolgate_gate::{ChangeSet, PreviewBody};
use toolgate_llm::{Message, MessagePart};
use toolgate_session::TranscriptEntry;
use toolgate_text::confusables::Charset;
use toolgate_types::Trust;
use toolgate_types::time::rfc3339_millis;

use self::recorded::RecordedDto;

/// A part of a list.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "{T}List")]
pub(crate) struct Page<T> {
    /// The items.
    pub(crate) items: Vec<T>,
    /// The `cursor` of the next part, if there is one.
    pub(crate) next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// A list that is complete.
    pub(crate) fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None }
    }
}

/// How much a person is asked.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Trust")]
pub(crate) enum TrustDto {
    /// About every call.
    Supervised,
    /// About calls that change something.
    Guided,
    /// About none that is declared.
    Autonomous,
}

impl From<Trust> for TrustDto {
    fn from(trust: Trust) -> Self {
        match trust {
            Trust::Supervised => Self::Supervised,
            Trust::Guided => Self::Guided,
            Trust::Autonomous => Self::Autonomous,
        }
    }
}

impl From<TrustDto> for Trust {
    fn from(trust: TrustDto) -> Self {
        match trust {
            TrustDto::Supervised => Self::Supervised,
            TrustDto::Guided => Self::Guided,
            TrustDto::Autonomous => Self::Autonomous,
        }
    }
}

/// The caller of this request, and what it can use.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Me")]
pub(crate) struct MeDto {
    /// The authenticated subject.
    pub(crate) subject: String,
    /// How callers authenticate: `token`, `jwt` or `none`.
    pub(crate) auth: &'static str,
    /// The agent on whose behalf it calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
    /// The trust level of new sessions.
    pub(crate) trust: TrustDto,
    /// The version of the gate.
    pub(crate) version: &'static str,
    /// The profile of the tools.
    pub(crate) profile: &'static str,
    /// Distinguishes this workspace from others, without naming its path.
    pub(crate) workspace: String,
    /// The names of the mounts, the workspace first.
    pub(crate) mounts: Vec<String>,
    /// The model of new sessions, if one is configured.
    pub(crate) default_model: Option<String>,
}

/// Tokens that were used.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Usage")]
pub(crate) struct UsageDto {
    /// Tokens of requests.
    pub(crate) input_tokens: u64,
    /// Tokens of answers.
    pub(crate) output_tokens: u64,
    /// Of the requests' tokens, those that the model's server had cached.
    pub(crate) cached_tokens: u64,
}

/// What tokens cost.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Cost")]
pub(crate) struct CostDto {
    /// How much.
    pub(crate) amount: f64,
    /// The currency, as the configuration names it.
    pub(crate) currency: String,
}

/// A conversation.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
pub(crate) struct SessionDto {
    /// Its id.
    pub(crate) id: String,
    /// Its title; empty until its first message gives it one.
    pub(crate) title: String,
    /// The declared agent that the model runs as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
    /// Its model, `provider/name`.
    pub(crate) model: String,
    /// How much a person is asked in it.
    pub(crate) trust: TrustDto,
    /// The profile of its tools.
    pub(crate) profile: String,
    /// When it was created.
    pub(crate) created_at: String,
    /// When something was last added.
    pub(crate) used_at: String,
    /// How many messages of people and models it has.
    pub(crate) messages: u64,
    /// What it used so far.
    pub(crate) usage: UsageDto,
    /// What that cost, if the configuration has a price for its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<CostDto>,
    /// Whether the model is at work.
    pub(crate) running: bool,
    /// How many of its calls wait for an approval.
    pub(crate) open_approvals: usize,
}

impl From<ConversationState> for SessionDto {
    fn from(state: ConversationState) -> Self {
        let ConversationState { summary, trust, running, open_questions, price } = state;
        let cost = price
            .map(|price| CostDto { amount: token_cost(summary.usage, &price), currency: price.currency });
        Self {
            id: summary.id.to_string(),
            title: summary.title,
            agent: summary.agent.map(|agent| agent.to_string()),
            model: summary.model.to_string(),
            trust: trust.into(),
            profile: summary.profile,
            created_at: rfc3339_millis(summary.created_at),
            used_at: rfc3339_millis(summary.changed_at),
            messages: summary.messages,
            usage: UsageDto {
                input_tokens: summary.usage.input_tokens,
                output_tokens: summary.usage.output_tokens,
                cached_tokens: summary.usage.cached_tokens,
            },
            cost,
            running,
            open_approvals: open_questions,
        }
    }
}

/// A session to be created.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewSessionBody {
    /// The declared agent that the model runs as.
    #[serde(default)]
    pub(crate) agent: Option<String>,
    /// The model, `provider/name`.
    #[serde(default)]
    pub(crate) model: Option<String>,
    /// How much a person is asked.
    #[serde(default)]
    pub(crate) trust: Option<TrustDto>,
    /// The title.
    #[serde(default)]
    pub(crate) title: Option<String>,
}

/// What is to be changed of a session.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SessionUpdateBody {
    /// The title.
    #[serde(default)]
    pub(crate) title: Option<String>,
    /// The model, from the next message on.
    #[serde(default)]
    pub(crate) model: Option<String>,
    /// How much a person is asked, from the next message on.
    #[serde(default)]
    pub(crate) trust: Option<TrustDto>,
}

/// A message to the model.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MessageBody {
    /// The text.
    pub(crate) text: String,
    /// Texts that come with it.
    #[serde(default)]
    pub(crate) attachments: Vec<AttachmentBody>,
}

/// A text that comes with a message.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Attachment")]
pub(crate) struct AttachmentBody {
    /// Its name.
    pub(crate) name: String,
    /// Its content.
    pub(crate) text: String,
}

/// A message that was taken.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageSent {
    /// The id that its event carries.
    pub(crate) message_id: String,
}

/// Whether a turn was running.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cancelled {
    /// Whether there was something to cancel.
    pub(crate) cancelled: bool,
}

/// The stored messages of a session.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionMessages {
    /// What was said before the running turn; everything if none runs.
    pub(crate) messages: Vec<MessageDto>,
    /// The events after this number add to it.
    pub(crate) seq: u64,
    /// Whether the model is at work.
    pub(crate) running: bool,
}

/// A stored message.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Message")]
pub(crate) struct MessageDto {
    /// Its position in the session.
    pub(crate) position: u64,
    /// When it was added.
    pub(crate) at: String,
    /// What it says.
    #[serde(flatten)]
    pub(crate) said: SaidDto,
}

/// What a message says.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "role", rename_all = "lowercase")]
#[schemars(rename = "MessageContent")]
pub(crate) enum SaidDto {
    /// A person's message.
    User {
        /// The text.
        text: String,
    },
    /// A message of the model.
    Assistant {
        /// Its parts, in order.
        parts: Vec<PartDto>,
        /// The model that wrote it.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// The results of the calls of the message before.
    Results {
        /// One for each call.
        results: Vec<ResultDto>,
    },
    /// From here on the model is shown this in place of what came before.
    Summary {
        /// The text.
        text: String,
    },
}

/// A part of the model's message.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[schemars(rename = "MessagePart")]
pub(crate) enum PartDto {
    /// Text for the person.
    Text {
        /// The text.
        text: String,
    },
    /// What the model thought.
    Thinking {
        /// The text.
        text: String,
    },
    /// A call.
    Call {
        /// Joins the call and its result.
        id: String,
        /// The tool.
        tool_name: String,
        /// The arguments; a string if they are not JSON.
        input: Value,
    },
}

/// The result of a call.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CallResult")]
pub(crate) struct ResultDto {
    /// The call.
    pub(crate) id: String,
    /// The tool.
    pub(crate) tool_name: String,
    /// What the model was given.
    pub(crate) text: String,
    /// Whether the call failed.
    pub(crate) is_error: bool,
    /// How it went, as it is on record; absent if it was interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) recorded: Option<RecordedDto>,
}

impl From<TranscriptEntry> for MessageDto {
    fn from(entry: TranscriptEntry) -> Self {
        let at = rfc3339_millis(entry.at());
        let (position, said) = match entry {
            TranscriptEntry::Message { position, message, .. } => (position, message.into()),
            TranscriptEntry::PartialResults { position, results, .. } => {
                (position, Message::Results { results }.into())
            }
            TranscriptEntry::Front { replaced, message, .. } => {
                let text = match message {
                    Message::User { text, .. } => text,
                    Message::Assistant(said) => said.text(),
                    Message::Results { .. } => String::new(),
                };
                (replaced, SaidDto::Summary { text })
            }
        };
        Self { position, at, said }
    }
}

impl From<Message> for SaidDto {
    fn from(message: Message) -> Self {
        match message {
            Message::User { text, .. } => Self::User { text },
            Message::Assistant(said) => {
                let part = |part| match part {
                    MessagePart::Text { text } => PartDto::Text { text },
                    MessagePart::Thinking { text, .. } => PartDto::Thinking { text },
                    MessagePart::Call(call) => {
                        let input = call.parse().unwrap_or(Value::String(call.arguments));
                        PartDto::Call { id: call.id, tool_name: call.name, input }
                    }
                };
                let model = said.model.map(|model| model.to_string());
                Self::Assistant { parts: said.parts.into_iter().map(part).collect(), model }
            }
            Message::Results { results } => {
                let result = |result: toolgate_llm::CallResult| ResultDto {
                    id: result.call,
                    tool_name: result.name,
                    text: result.text,
                    is_error: result.is_error,
                    recorded: result.recorded.map(Into::into),
                };
                Self::Results { results: results.into_iter().map(result).collect() }
            }
        }
    }
}

/// Who said or answered something.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "By")]
pub(crate) struct ParticipantDto {
    /// The authenticated subject.
    pub(crate) subject: String,
    /// The connection, if it is one that stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<String>,
    /// How it came: `web` or `api`.
    pub(crate) via: String,
}

impl From<&Participant> for ParticipantDto {
    fn from(by: &Participant) -> Self {
        Self { subject: by.subject.clone(), client: by.client.clone(), via: by.via.to_owned() }
    }
}

/// Who makes a call.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Caller")]
pub(crate) struct CallerDto {
    /// The subject.
    pub(crate) subject: String,
    /// The agent on whose behalf it calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
}

/// One thing that may be allowed beyond the configuration.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Escalation")]
pub(crate) struct EscalationDto {
    /// Its id, for the answer.
    pub(crate) id: String,
    /// In words.
    pub(crate) text: String,
}

/// An open question about one exact call.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Approval")]
pub(crate) struct ApprovalDto {
    /// The id of the call.
    pub(crate) id: String,
    /// The session that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    /// The tool.
    pub(crate) tool_name: String,
    /// The arguments.
    pub(crate) input: Value,
    /// What effect the tool can have: `read`, `write` or `destructive`.
    pub(crate) class: String,
    /// What would happen, line by line.
    pub(crate) summary: Vec<String>,
    /// The whole of it as text, such as a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// The whole of it as a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) diff: Option<String>,
    /// The question as a person should be shown it: escaped, so that no two calls look alike.
    pub(crate) card: Value,
    /// Who makes the call.
    pub(crate) caller: CallerDto,
    /// When it was asked.
    pub(crate) created_at: String,
    /// When it is denied without an answer.
    pub(crate) expires_at: String,
    /// How long an answer is waited for.
    pub(crate) timeout_ms: u64,
    /// Whether an approval may cover the rest of the session.
    pub(crate) may_last: bool,
    /// The lasting grants that can be chosen.
    pub(crate) grants: Vec<Value>,
    /// What may be allowed beyond the configuration.
    pub(crate) escalations: Vec<EscalationDto>,
    /// Where the call comes from: `chat`, `api` or `mcp`.
    pub(crate) source: String,
}

impl From<&CallQuestion> for ApprovalDto {
    fn from(question: &CallQuestion) -> Self {
        let request = &question.request;
        let (text, diff) = match &request.preview.body {
            PreviewBody::Nothing => (None, None),
            PreviewBody::Text(text) => (Some(text.clone()), None),
            PreviewBody::Diff(diff) => (None, Some(diff.clone())),
        };
        let asked_at = jiff::Timestamp::try_from(question.asked_at).map(rfc3339_millis);
        let escalation = |offer: &toolgate_gate::EscalationOffer| EscalationDto {
            id: offer.id.clone(),
            text: offer.text(),
        };
        Self {
            id: request.call.to_string(),
            session: question.session.as_ref().map(ToString::to_string),
            tool_name: request.tool.clone(),
            input: request.input.clone(),
            class: request.class.as_str().to_owned(),
            summary: request.preview.summary.clone(),
            text,
            diff,
            card: to_json(&request.card(Charset::Unicode)),
            caller: CallerDto {
                subject: request.caller.subject.clone(),
                agent: request.caller.agent.as_ref().map(ToString::to_string),
            },
            created_at: asked_at.unwrap_or_default(),
            expires_at: request.expires_at_rfc3339(),
            timeout_ms: u64::try_from(request.timeout.as_millis()).unwrap_or(u64::MAX),
            may_last: request.can_grant_session,
            grants: request.grants.iter().map(to_json).collect(),
            escalations: request.escalations.iter().map(escalation).collect(),
            source: question.source.as_str().to_owned(),
        }
    }
}

/// A value of another crate as JSON. Its types rule out that this fails.
pub(crate) fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// How far an approval reaches.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ApprovalScope")]
pub(crate) enum ScopeDto {
    /// This call.
    Once,
    /// Every later call of the tool in this session.
    Session,
    /// What a lasting grant covers.
    Grant,
}

/// An answer to a question. Its parts are checked by `toolgate_conversation::GivenAnswer`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "the shape for the OpenAPI document")]
pub(crate) struct AnswerBody {
    /// Whether the call may be made.
    pub(crate) approved: bool,
    /// How far the approval reaches; `once` unless said.
    #[serde(default)]
    pub(crate) scope: Option<ScopeDto>,
    /// The id of a lasting grant, with the scope `grant`.
    #[serde(default)]
    pub(crate) grant: Option<String>,
    /// Why not, for the model.
    #[serde(default)]
    pub(crate) reason: Option<String>,
    /// The arguments to run the call with, in place of the model's.
    #[serde(default)]
    pub(crate) input: Option<Map<String, Value>>,
    /// The ids of what is allowed beyond the configuration.
    #[serde(default)]
    pub(crate) escalate: Vec<String>,
}

/// An answer that counted.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnswerGiven {
    /// Whether the call was approved.
    pub(crate) approved: bool,
    /// How far the approval reaches.
    pub(crate) scope: String,
    /// Who gave it.
    pub(crate) by: ParticipantDto,
}

impl From<&AnsweredQuestion> for AnswerGiven {
    fn from(answer: &AnsweredQuestion) -> Self {
        let AnsweredQuestion { approved, scope, by } = answer;
        Self { approved: *approved, scope: scope.as_str().to_owned(), by: by.into() }
    }
}

/// A tool.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Tool")]
pub(crate) struct ToolDto {
    /// Its name.
    pub(crate) name: String,
    /// What it does.
    pub(crate) description: String,
    /// What effect it can have: `read`, `write` or `destructive`.
    pub(crate) class: String,
    /// Where it comes from: `built_in`, `manifest` or `server`.
    pub(crate) source: String,
    /// The MCP server that offers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
    /// Its version, if it declares one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// The JSON Schema of its arguments.
    pub(crate) input_schema: Value,
    /// The permissions that it needs.
    pub(crate) permissions: Vec<String>,
    /// Whether this caller may use it.
    pub(crate) available: bool,
    /// Whether a person would be asked at the caller's trust level.
    pub(crate) asks: bool,
    /// Why it may not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// A call.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CallBody {
    /// The tool.
    pub(crate) tool: String,
    /// Its arguments.
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
    /// The session that its changes belong to.
    #[serde(default)]
    pub(crate) session: Option<String>,
    /// A timeout that is shorter than the tool's own.
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
}

/// The outcome of a call.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallOutcome {
    /// Its id, as recorded.
    pub(crate) call_id: String,
    /// `ALLOWED`, `DENIED` or `ERROR`.
    pub(crate) decision: String,
    /// The stage that refused it, or where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stage: Option<String>,
    /// The stable code of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
    /// What a model would be given.
    pub(crate) text: String,
    /// The same for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) structured: Option<Value>,
    /// Whether the call failed.
    pub(crate) is_error: bool,
    /// How long it took, without the wait below.
    pub(crate) duration_ms: u64,
    /// How long a person was waited for.
    pub(crate) waited_ms: u64,
}

/// A lasting grant.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Grant")]
pub(crate) struct GrantDto {
    /// Its id.
    pub(crate) id: String,
    /// The tool.
    pub(crate) tool: String,
    /// What it covers, in words.
    pub(crate) covers: String,
    /// Who it was given to.
    pub(crate) subject: String,
    /// The agent on whose behalf the subject calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
    /// How long it lasts: `until` or `workspace`.
    pub(crate) lasts: String,
    /// When it was given.
    pub(crate) given_at: String,
    /// The call that the question was about.
    pub(crate) given_by: String,
    /// When it ends; absent until it is revoked.
    pub(crate) expires_at: Option<String>,
}

/// What a call changed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Change")]
pub(crate) struct ChangeDto {
    /// The call.
    pub(crate) call_id: String,
    /// The session that it belongs to.
    pub(crate) session: String,
    /// The tool.
    pub(crate) tool: String,
    /// When.
    pub(crate) at: String,
    /// The files.
    pub(crate) files: Vec<ChangedFileDto>,
    /// The call that undid it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) undone_by: Option<String>,
    /// The call that it undid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) undoes: Option<String>,
    /// The differences, where one change is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) diffs: Option<Vec<FileDiffDto>>,
}

/// A changed file.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ChangedFile")]
pub(crate) struct ChangedFileDto {
    /// Its path, with the alias of its mount.
    pub(crate) path: String,
    /// `create`, `modify`, `delete` or `move`.
    pub(crate) kind: String,
    /// Where it was moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) moved_to: Option<String>,
}

/// What changed in a file.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FileDiff")]
pub(crate) struct FileDiffDto {
    /// Its path, with the alias of its mount.
    pub(crate) path: String,
    /// `create`, `modify`, `delete` or `move`.
    pub(crate) kind: String,
    /// A unified diff; absent if the content is binary, too large or no longer there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) diff: Option<String>,
    /// Whether the content is not text.
    pub(crate) binary: bool,
    /// Whether the content is too large for a diff.
    pub(crate) too_large: bool,
    /// Whether the file still is as the call left it: `same`, `changed` or `missing`.
    pub(crate) current: String,
}

impl From<&ChangeSet> for ChangeDto {
    fn from(set: &ChangeSet) -> Self {
        let file = |change: &toolgate_gate::FileChange| ChangedFileDto {
            path: change.display_path(),
            kind: change.kind.as_str().to_owned(),
            moved_to: change.display_destination(),
        };
        Self {
            call_id: set.call.to_string(),
            session: set.session.to_string(),
            tool: set.tool.clone(),
            at: set.at.clone(),
            files: set.changes.iter().map(file).collect(),
            undone_by: set.undone_by.map(|call| call.to_string()),
            undoes: set.undoes.map(|call| call.to_string()),
            diffs: None,
        }
    }
}

/// How a change is undone.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UndoBody {
    /// Only says what would be restored.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// Restores also over what was changed since.
    #[serde(default)]
    pub(crate) force: bool,
}

/// What was undone, or would be.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "UndoOutcome")]
pub(crate) struct UndoOutcomeDto {
    /// The call whose changes they were.
    pub(crate) call_id: String,
    /// Whether nothing was done.
    pub(crate) dry_run: bool,
    /// The call that undid them, which can be undone in turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) undo_call: Option<String>,
    /// The files.
    pub(crate) paths: Vec<String>,
    /// What would be restored, with `dryRun`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) diffs: Option<Vec<FileDiffDto>>,
}

/// One call in full.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditedCall {
    /// Its record, as the log has it.
    #[schemars(with = "audited::RecordDto")]
    pub(crate) record: Value,
    /// What it changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) change: Option<ChangeDto>,
}

/// A model.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Model")]
pub(crate) struct ModelDto {
    /// Its provider.
    pub(crate) provider: String,
    /// Its name there.
    pub(crate) name: String,
    /// Both, as sessions name it.
    pub(crate) model: String,
    /// Whether it can call tools.
    pub(crate) supports_tools: bool,
    /// Its context window in tokens.
    pub(crate) context_window: Option<u64>,
    /// Whether new sessions use it.
    pub(crate) default: bool,
}

/// A provider of models.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Provider")]
pub(crate) struct ProviderDto {
    /// Its name.
    pub(crate) name: String,
    /// Whether the operator set it up.
    pub(crate) configured: bool,
    /// Whether it lists its models.
    pub(crate) reachable: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// The models that can be used.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ModelsAndProviders")]
pub(crate) struct ModelList {
    /// The models.
    pub(crate) items: Vec<ModelDto>,
    /// Their providers.
    pub(crate) providers: Vec<ProviderDto>,
}

/// A declared agent.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Agent")]
pub(crate) struct AgentDto {
    /// Its name.
    pub(crate) name: String,
    /// The trust level of its sessions, unless they choose another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trust: Option<TrustDto>,
    /// Its model, if it declares one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// The tools that it may use.
    pub(crate) tools: Vec<String>,
}

/// An MCP server behind the gate.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Server")]
pub(crate) struct ServerDto {
    /// Its name.
    pub(crate) name: String,
    /// `starting`, `ready`, `backing off`, `failed` or `needs login`.
    pub(crate) state: String,
    /// The protocol version that it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) protocol: Option<String>,
    /// How many tools it offers.
    pub(crate) tools: usize,
    /// How many of them wait for agreement.
    pub(crate) suspended: usize,
    /// How often it was restarted.
    pub(crate) restarts: u32,
    /// Its last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// The pinned definition of a server's tool.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Pin")]
pub(crate) struct PinDto {
    /// The server.
    pub(crate) server: String,
    /// The tool, by the server's name for it.
    pub(crate) tool: String,
    /// `agreed`, `new`, `changed` or `gone`.
    pub(crate) status: String,
    /// The digest of the definition that is offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
    /// What the server says about it, with hidden characters escaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// What is new or different, where agreement is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) diff: Option<String>,
    /// What an operator should look at.
    pub(crate) advice: Vec<Value>,
}

/// The definition that is agreed to.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PinBody {
    /// Its digest, as it was shown.
    pub(crate) digest: String,
}

/// A counter with two labels.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CallCount {
    /// The class of the tool.
    pub(crate) class: String,
    /// The decision.
    pub(crate) decision: String,
    /// How many.
    pub(crate) count: u64,
}

/// A counter of refusals and failures.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RefusalCount")]
pub(crate) struct RefusalCountDto {
    /// The stage.
    pub(crate) stage: String,
    /// The code.
    pub(crate) code: String,
    /// How many.
    pub(crate) count: u64,
}

/// How the gate is.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Health {
    /// `ok` or `degraded`.
    pub(crate) status: &'static str,
    /// The version of the gate.
    pub(crate) version: &'static str,
    /// How long it has been running.
    pub(crate) uptime_seconds: u64,
    /// Whether calls can be recorded.
    pub(crate) recording: bool,
    /// Calls under way.
    pub(crate) calls_in_flight: usize,
    /// Connections.
    pub(crate) connections: usize,
    /// Questions that wait for an answer.
    pub(crate) open_approvals: usize,
    /// Turns under way.
    pub(crate) sessions_running: usize,
    /// Calls that ended, since the start.
    pub(crate) calls: Vec<CallCount>,
    /// Calls that were refused or failed, since the start.
    pub(crate) refusals: Vec<RefusalCountDto>,
}
