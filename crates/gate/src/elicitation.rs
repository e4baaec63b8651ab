//! Questions of servers behind the gate to the person for whom a call runs (MCP elicitation).
//!
//! Such a question is in the server's own words. No answer to it approves anything: it has types of its own, and its answer goes to the server alone.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};
use toolgate_types::time::rfc3339_millis;
use toolgate_types::{CallId, Caller, Deadline};

use crate::approval::{ApprovalWait, Approver};
use crate::caller::SessionCaller;
use crate::touched::TouchedNames;

/// How many questions a server may ask during one call.
const MAX_QUESTIONS: u32 = 8;

/// A question of a server, sanitised and bounded.
#[derive(Clone, Debug)]
pub struct ServerQuestion {
    /// The call during which it is asked.
    pub call: CallId,
    /// The server.
    pub server: String,
    /// The tool that was called.
    pub tool: String,
    /// The caller.
    pub caller: Caller,
    /// The server's key for it, in protocols where a question has one.
    pub key: Option<String>,
    /// What the server says.
    pub message: String,
    /// What it wants.
    pub body: QuestionBody,
    /// How long to wait for an answer.
    pub timeout: Duration,
    /// When the timeout ends, by the wall clock.
    pub expires_at: SystemTime,
}

impl ServerQuestion {
    /// [`Self::expires_at`] in RFC 3339, for programs.
    #[must_use]
    pub fn expires_at_rfc3339(&self) -> String {
        jiff::Timestamp::try_from(self.expires_at).map(rfc3339_millis).unwrap_or_default()
    }

    /// The accepted content as far as the question asked for it; `None` if it does not fit the form.
    #[must_use]
    pub fn accept(&self, mut content: Map<String, Value>) -> Option<Map<String, Value>> {
        let QuestionBody::Form(fields) = &self.body else { return Some(Map::new()) };
        let mut accepted = Map::new();
        for field in fields {
            match content.remove(&field.name).filter(|value| !value.is_null()) {
                Some(value) if field.kind.accepts(&value) => drop(accepted.insert(field.name.clone(), value)),
                None if !field.is_required => {}
                _ => return None,
            }
        }
        Some(accepted)
    }
}

/// What a server wants of a person.
#[derive(Clone, Debug, PartialEq)]
pub enum QuestionBody {
    /// Values of a form.
    Form(Vec<FormField>),
    /// To visit a page, which is never opened without the person.
    Url {
        /// The page.
        url: String,
        /// The server's id for it.
        id: String,
    },
}

impl QuestionBody {
    /// The JSON Schema of the form's values.
    #[must_use]
    pub fn schema(&self) -> Value {
        let fields = match self {
            Self::Form(fields) => fields.as_slice(),
            Self::Url { .. } => &[],
        };
        let properties: Map<String, Value> =
            fields.iter().map(|field| (field.name.clone(), field.schema())).collect();
        let required: Vec<&str> =
            fields.iter().filter(|field| field.is_required).map(|field| field.name.as_str()).collect();
        json!({"type": "object", "properties": properties, "required": required})
    }
}

/// A field of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct FormField {
    /// Its key in the answer.
    pub name: String,
    /// Its display name.
    pub title: Option<String>,
    /// What the server says about it.
    pub description: Option<String>,
    /// Its values.
    pub kind: FieldKind,
    /// Whether an answer needs it.
    pub is_required: bool,
    /// The value that the server suggests.
    pub default: Option<Value>,
    /// Whether the display names of its values are in `enumNames` (before 2025-11-25).
    pub has_enum_names: bool,
}

/// The values of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    /// A text of so many characters.
    Text {
        /// The shortest.
        min: Option<u64>,
        /// The longest.
        max: Option<u64>,
        /// `email`, `uri`, `date` or `date-time`.
        format: Option<String>,
    },
    /// A number within bounds.
    Number {
        /// Whether it is a whole number.
        is_whole: bool,
        /// The least.
        min: Option<f64>,
        /// The greatest.
        max: Option<f64>,
    },
    /// Yes or no.
    Boolean,
    /// One of these values.
    Choice(Vec<FieldOption>),
    /// Several of these values.
    Choices {
        /// The values.
        options: Vec<FieldOption>,
        /// The least number of them.
        min: Option<u64>,
        /// The greatest number of them.
        max: Option<u64>,
    },
}

/// A value that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldOption {
    /// The value.
    pub value: String,
    /// Its display name.
    pub title: Option<String>,
}

/// The longest text in an answer.
const MAX_TEXT_CHARS: usize = 4_096;

impl FieldKind {
    /// Whether a value is one of these.
    #[must_use]
    pub fn accepts(&self, value: &Value) -> bool {
        let within = |number: u64, min: &Option<u64>, max: &Option<u64>| {
            min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max)
        };
        let is_option = |options: &[FieldOption], value: &Value| {
            value.as_str().is_some_and(|value| options.iter().any(|option| option.value == value))
        };
        match self {
            Self::Text { min, max, .. } => value.as_str().is_some_and(|text| {
                let count = text.chars().take(MAX_TEXT_CHARS + 1).count();
                count <= MAX_TEXT_CHARS && within(count as u64, min, max)
            }),
            Self::Number { is_whole, min, max } => value.as_f64().is_some_and(|number| {
                (!is_whole || number.fract() == 0.0)
                    && min.is_none_or(|min| number >= min)
                    && max.is_none_or(|max| number <= max)
            }),
            Self::Boolean => value.is_boolean(),
            Self::Choice(options) => is_option(options, value),
            Self::Choices { options, min, max } => value.as_array().is_some_and(|values| {
                values.len() <= options.len()
                    && within(values.len() as u64, min, max)
                    && values.iter().all(|value| is_option(options, value))
            }),
        }
    }
}

impl FormField {
    fn schema(&self) -> Value {
        let titled = |options: &[FieldOption]| {
            let titles = options.iter().map(|option| {
                json!({"const": option.value, "title": option.title.as_ref().unwrap_or(&option.value)})
            });
            titles.collect::<Vec<_>>()
        };
        let plain =
            |options: &[FieldOption]| options.iter().map(|option| option.value.clone()).collect::<Vec<_>>();
        let has_titles = |options: &[FieldOption]| options.iter().any(|option| option.title.is_some());
        let mut schema = match &self.kind {
            FieldKind::Text { min, max, format } => {
                json!({"type": "string", "minLength": min, "maxLength": max, "format": format})
            }
            FieldKind::Number { is_whole: true, min, max } => {
                json!({"type": "integer", "minimum": whole(*min), "maximum": whole(*max)})
            }
            FieldKind::Number { is_whole: false, min, max } => {
                json!({"type": "number", "minimum": min, "maximum": max})
            }
            FieldKind::Boolean => json!({"type": "boolean"}),
            FieldKind::Choice(options) if has_titles(options) && self.has_enum_names => {
                let titles = options.iter().map(|option| option.title.as_ref().unwrap_or(&option.value));
                json!({"type": "string", "enum": plain(options), "enumNames": titles.collect::<Vec<_>>()})
            }
            FieldKind::Choice(options) if has_titles(options) => {
                json!({"type": "string", "oneOf": titled(options)})
            }
            FieldKind::Choice(options) => json!({"type": "string", "enum": plain(options)}),
            FieldKind::Choices { options, min, max } => {
                let items = match has_titles(options) {
                    true => json!({"anyOf": titled(options)}),
                    false => json!({"type": "string", "enum": plain(options)}),
                };
                json!({"type": "array", "minItems": min, "maxItems": max, "items": items})
            }
        };
        if let Some(fields) = schema.as_object_mut() {
            fields.insert("title".to_owned(), json!(self.title));
            fields.insert("description".to_owned(), json!(self.description));
            fields.insert("default".to_owned(), json!(self.default));
            fields.retain(|_, value| !value.is_null());
        }
        schema
    }
}

/// A bound of whole numbers as one.
#[expect(clippy::cast_possible_truncation, reason = "bounds beyond an `i64` are those of an `i64`")]
fn whole(bound: Option<f64>) -> Option<i64> {
    bound.map(|bound| bound as i64)
}

/// A person's answer to a server.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerAnswer {
    /// The values of the form; none for a page.
    Accepted(Map<String, Value>),
    /// The person refused.
    Declined,
    /// The question was closed without an answer, or its time was up.
    Cancelled,
    /// No person can be asked.
    Unavailable,
}

impl fmt::Display for ServerAnswer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Accepted(_) => "accepted",
            Self::Declined => "declined",
            Self::Cancelled => "closed",
            Self::Unavailable => "nobody to ask",
        })
    }
}

/// What a server asks.
pub struct AskedQuestion<'a> {
    /// The server.
    pub server: &'a str,
    /// Its key for the question.
    pub key: Option<String>,
    /// What it says, sanitised.
    pub message: String,
    /// What it wants.
    pub body: QuestionBody,
    /// What the record says was asked.
    pub summary: &'a str,
}

/// Asks the person of one call on behalf of its server. Clones share the limits.
#[derive(Clone)]
pub struct CallElicitor(Arc<ElicitorState>);

struct ElicitorState {
    approver: Arc<dyn Approver>,
    call: CallId,
    caller: Arc<Caller>,
    identity: SessionCaller,
    tool: String,
    timeout: Duration,
    /// Of the call. It does not run while a question is open.
    deadline: Deadline,
    waited: Arc<ApprovalWait>,
    touched: TouchedNames,
    /// One question is open at a time.
    turn: tokio::sync::Mutex<()>,
    asked: AtomicU32,
    /// A person who did not answer one question is asked no other by this call.
    is_over: AtomicBool,
}

/// What an elicitor is made from.
pub(crate) struct ElicitorParts<'p> {
    pub(crate) approver: &'p Arc<dyn Approver>,
    pub(crate) call: CallId,
    pub(crate) caller: &'p Arc<Caller>,
    pub(crate) by_token: bool,
    pub(crate) tool: &'p str,
    pub(crate) timeout: Duration,
    pub(crate) deadline: &'p Deadline,
    pub(crate) waited: &'p Arc<ApprovalWait>,
    pub(crate) touched: &'p TouchedNames,
}

impl CallElicitor {
    pub(crate) fn new(parts: ElicitorParts<'_>) -> Self {
        Self(Arc::new(ElicitorState {
            approver: Arc::clone(parts.approver),
            call: parts.call,
            caller: Arc::clone(parts.caller),
            identity: SessionCaller::new(parts.caller, parts.by_token),
            tool: parts.tool.to_owned(),
            timeout: parts.timeout,
            deadline: parts.deadline.clone(),
            waited: Arc::clone(parts.waited),
            touched: parts.touched.clone(),
            turn: tokio::sync::Mutex::default(),
            asked: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
        }))
    }

    /// Whose call it is.
    #[must_use]
    pub fn identity(&self) -> &SessionCaller {
        &self.0.identity
    }

    /// Whether both ask for the same call.
    #[must_use]
    pub fn is_same_call(&self, other: &Self) -> bool {
        self.0.call == other.0.call
    }

    /// Asks, and waits for the answer. Dropping the future withdraws the question.
    pub async fn ask(&self, asked: AskedQuestion<'_>) -> ServerAnswer {
        let (state, AskedQuestion { server, key, message, body, summary: what }) = (&self.0, asked);
        let _turn = state.turn.lock().await;
        let is_too_much = state.asked.fetch_add(1, Ordering::Relaxed) >= MAX_QUESTIONS;
        if is_too_much || state.is_over.load(Ordering::Relaxed) {
            state.touched.add_question(&format!("{server}: {what}: not asked"));
            return ServerAnswer::Declined;
        }
        let question = ServerQuestion {
            call: state.call,
            server: server.to_owned(),
            tool: state.tool.clone(),
            caller: Caller::clone(&state.caller),
            key,
            message,
            body,
            timeout: state.timeout,
            expires_at: SystemTime::now() + state.timeout,
        };
        let (_waiting, _paused) = (state.waited.start(), state.deadline.pause());
        let noted = NotedQuestion { touched: &state.touched, words: format!("{server}: {what}") };
        let answer = tokio::select! {
            answer = tokio::time::timeout(state.timeout, state.approver.ask_for_server(question.clone())) => {
                answer.unwrap_or(ServerAnswer::Cancelled)
            }
            _ = state.deadline.over() => ServerAnswer::Cancelled,
        };
        let answer = match answer {
            ServerAnswer::Accepted(content) => {
                question.accept(content).map_or(ServerAnswer::Cancelled, ServerAnswer::Accepted)
            }
            other => other,
        };
        if !matches!(answer, ServerAnswer::Accepted(_)) {
            state.is_over.store(true, Ordering::Relaxed);
        }
        noted.settle(&answer);
        answer
    }

    /// Records a question that was not asked at all.
    pub fn note_refused(&self, server: &str, why: &str) {
        self.0.touched.add_question(&format!("{server}: refused: {why}"));
    }
}

impl fmt::Debug for CallElicitor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CallElicitor").field("call", &self.0.call).finish_non_exhaustive()
    }
}

/// A question that the record names however it ends.
struct NotedQuestion<'t> {
    touched: &'t TouchedNames,
    words: String,
}

impl NotedQuestion<'_> {
    fn settle(mut self, answer: &ServerAnswer) {
        self.touched.add_question(&format!("{}: {answer}", self.words));
        self.words.clear();
    }
}

impl Drop for NotedQuestion<'_> {
    fn drop(&mut self) {
        if !self.words.is_empty() {
            self.touched.add_question(&format!("{}: withdrawn", self.words));
        }
    }
}
