//! A record as it is written and read: the names and the order of its fields.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use toolgate_types::{
    CallId, Caller, ChangeFate, Decision, ErrorCode, Repair, Sha256, Stage, StateKey, ToolClass,
};

use crate::AuditError;
use crate::digest::args_digest;
use crate::entry::{Denial, Intent};
use crate::record_body::RecordBody;
use crate::truncate::{truncate_list, truncate_name};

/// The version of records that this gate writes. One is the first, in which digests had no key; its lines do not say so.
pub(crate) const RECORD_VERSION: u32 = 2;
/// The version of intents that this gate writes.
const INTENT_VERSION: u32 = 1;

/// What a line that names no version is.
fn first_version() -> u32 {
    1
}

/// One line of a day's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The version of its format.
    #[serde(default = "first_version")]
    pub v: u32,
    /// Its place in the whole log; never starts again.
    pub seq: u64,
    /// The hash of the line before.
    pub prev: Sha256,
    /// When it was written.
    #[serde(with = "moment")]
    pub timestamp: Timestamp,
    /// The call.
    pub trace_id: CallId,
    /// Who called.
    pub caller: RecordedCaller,
    /// What was asked for.
    pub tool: RecordedTool,
    /// With what.
    pub request: RecordedRequest,
    /// What became of it.
    pub decision: Decision,
    /// Where and why it was refused or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denial: Option<RecordedDenial>,
    /// What was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<RecordedResponse>,
    /// That calls have no record, where this is not the record of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<RecordedGap>,
    /// How long it took, in milliseconds.
    pub duration: f64,
    /// The hash of this line up to here.
    pub hash: Sha256,
}

/// Who called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedCaller {
    /// The subject.
    pub sub: String,
    /// What the subject was granted.
    pub permissions: Vec<String>,
    /// The agent, if not a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The session.
    pub session: String,
    /// The workflow run, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// The tool that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedTool {
    /// The name as asked for, cut if it was very long.
    pub name: String,
    /// The class, if there is such a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classification: Option<ToolClass>,
    /// The version that its manifest names, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// What the tool was asked with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRequest {
    /// The digest of the arguments.
    pub args_hash: Sha256,
    /// The client's id for the call, cut if it was very long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_call_id: Option<String>,
    /// What was mended in the arguments before they could be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
}

/// Where and why a call was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDenial {
    /// Where.
    pub stage: Stage,
    /// Why, as a stable code.
    pub code: ErrorCode,
    /// Why, for the operator.
    pub reason: String,
    /// How many calls this record stands for: refusals above a bound are counted.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u64,
}

fn one() -> u64 {
    1
}

fn is_one(count: &u64) -> bool {
    *count == 1
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedResponse {
    /// The field paths that were masked, redacted or dropped.
    pub redacted_fields: Vec<String>,
    /// The digest of the raw output.
    pub output_hash: Sha256,
    /// The size of the raw output.
    pub output_bytes: u64,
}

/// Calls that have no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedGap {
    /// What ties the end of a gap to its beginning.
    pub id: CallId,
    /// Since when calls have no record.
    #[serde(with = "moment")]
    pub since: Timestamp,
    /// How many they are; not known in the record that begins a gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
}

impl From<&Caller> for RecordedCaller {
    fn from(caller: &Caller) -> Self {
        Self {
            sub: truncate_name(&caller.subject).into_owned(),
            permissions: truncate_list(&caller.permissions).map(Cow::into_owned).collect(),
            agent: caller.agent.as_ref().map(|agent| agent.as_str().to_owned()),
            session: caller.session.as_str().to_owned(),
            run: caller.run.as_ref().map(|run| run.as_str().to_owned()),
        }
    }
}

/// An intent as it is kept until the call ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordedIntent {
    #[serde(default = "first_version")]
    pub(crate) v: u32,
    pub(crate) call: CallId,
    #[serde(with = "moment")]
    pub(crate) at: Timestamp,
    /// The newest day file when the call began: its record can be in no older one. `None` when there was
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<String>,
    pub(crate) caller: RecordedCaller,
    pub(crate) tool: RecordedTool,
    pub(crate) request: RecordedRequest,
}

impl RecordedIntent {
    pub(crate) fn new(intent: &Intent<'_>, at: Timestamp, since: Option<String>, key: &StateKey) -> Self {
        let name = truncate_name(intent.tool).into_owned();
        let client_call_id = intent.client_call_id.map(|id| truncate_name(id).into_owned());
        Self {
            v: INTENT_VERSION,
            call: intent.call,
            at,
            since,
            caller: intent.caller.into(),
            tool: RecordedTool {
                name,
                classification: Some(intent.class),
                version: intent.version.map(|version| truncate_name(version).into_owned()),
            },
            request: RecordedRequest {
                args_hash: args_digest(key, intent.args_hash),
                client_call_id,
                repairs: Vec::new(),
            },
        }
    }

    /// Whether this gate knows what such a line means.
    pub(crate) fn is_supported(&self) -> bool {
        self.v == INTENT_VERSION
    }

    /// The record of a call that was announced and has none, because its process ended or its record could not be written.
    pub(crate) fn interrupted_record(&self, fate: ChangeFate) -> Result<Vec<u8>, AuditError> {
        let began = toolgate_types::time::rfc3339_millis(self.at);
        let fate = fate.describe();
        let reason = format!("the call that began at {began} left no record; {fate}");
        let body = RecordBody {
            call: self.call,
            client_call_id: self.request.client_call_id.as_deref(),
            caller: (&self.caller).into(),
            tool: &self.tool.name,
            class: self.tool.classification,
            version: self.tool.version.as_deref(),
            args_hash: self.request.args_hash,
            repairs: &self.request.repairs,
            denial: Some(Denial {
                stage: Stage::Execution,
                code: ErrorCode::Interrupted,
                reason: &reason,
                count: 1,
            }),
            response: None,
            gap: None,
            duration: Duration::ZERO,
        };
        body.encode()
    }
}

/// The part of a record that ties it to its neighbours.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChainLink {
    #[serde(default = "first_version")]
    pub(crate) v: u32,
    pub(crate) seq: u64,
    pub(crate) prev: Sha256,
    #[serde(with = "moment")]
    pub(crate) timestamp: Timestamp,
    pub(crate) trace_id: CallId,
    #[serde(default)]
    pub(crate) gap: Option<RecordedGap>,
}

impl ChainLink {
    /// Whether this gate knows what such a line means.
    pub(crate) fn is_supported(&self) -> bool {
        (first_version()..=RECORD_VERSION).contains(&self.v)
    }
}

/// Time stamps in records: RFC 3339, UTC, milliseconds.
pub(crate) mod moment {
    use jiff::Timestamp;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(crate) fn serialize<S: Serializer>(moment: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&toolgate_types::time::rfc3339_millis(*moment))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}
