//! The format of a record: names and order of its fields.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use toolgate_types::{
    CallId, Caller, ChangeFate, Decision, ErrorCode, Repair, Sha256, Stage, StateKey, ToolClass,
};

use crate::digest::args_digest;
use crate::entry::{Denial, Intent};
use crate::record_body::RecordBody;
use crate::truncate::{truncate_list, truncate_name};
use crate::{AuditError, CallDetails, DetailsKey};

/// The current record version. Version 1 had unkeyed digests, and its lines carry no version.
pub(crate) const RECORD_VERSION: u32 = 2;
/// The current intent version.
const INTENT_VERSION: u32 = 1;

/// The version of a line without a version field.
fn first_version() -> u32 {
    1
}

/// One line of a day's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Format version.
    #[serde(default = "first_version")]
    pub v: u32,
    /// Sequence number in the whole log; never reset.
    pub seq: u64,
    /// Hash of the previous line.
    pub prev: Sha256,
    /// When it was written.
    #[serde(with = "moment")]
    pub timestamp: Timestamp,
    /// The call.
    pub trace_id: CallId,
    /// The caller.
    pub caller: RecordedCaller,
    /// The requested tool.
    pub tool: RecordedTool,
    /// The request.
    pub request: RecordedRequest,
    /// The decision.
    pub decision: Decision,
    /// The id of the lasting grant that answered the question about the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
    /// Where and why it was denied or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denial: Option<RecordedDenial>,
    /// Summary of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<RecordedResponse>,
    /// What the call touched, as far as the operator has it recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<CallDetails>,
    /// The same, encrypted for the holder of a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_details: Option<String>,
    /// The labels of the session, if it has some, and why information flow asked about the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<RecordedFlow>,
    /// Set in a gap record, which reports calls without a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<RecordedGap>,
    /// Duration in milliseconds, without `waited_ms`.
    pub duration: f64,
    /// How long a person was waited for, in milliseconds; absent if none was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<f64>,
    /// Hash of this line up to here.
    pub hash: Sha256,
}

/// The caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedCaller {
    /// The subject.
    pub sub: String,
    /// The permissions of the subject.
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

/// The requested tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedTool {
    /// The name as requested, truncated if very long.
    pub name: String,
    /// The class, if the tool exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classification: Option<ToolClass>,
    /// The version in its manifest, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRequest {
    /// Keyed digest of the arguments.
    pub args_hash: Sha256,
    /// Keyed digest of the model's arguments, if a person approved the call with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_from: Option<Sha256>,
    /// The client's id for the call, truncated if very long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_call_id: Option<String>,
    /// Repairs made to the arguments before they could be parsed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
    /// What a person allowed the call beyond the configuration: hosts, and a time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalation: Vec<String>,
}

/// Where and why a call was denied or failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDenial {
    /// The stage.
    pub stage: Stage,
    /// The stable error code.
    pub code: ErrorCode,
    /// The reason for the operator.
    pub reason: String,
    /// How many calls this record represents: rate-limited calls are counted.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u64,
}

fn one() -> u64 {
    1
}

fn is_one(count: &u64) -> bool {
    *count == 1
}

/// Summary of the output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedResponse {
    /// The field paths that were masked, redacted or dropped.
    pub redacted_fields: Vec<String>,
    /// Keyed digest of the raw output.
    pub output_hash: Sha256,
    /// The size of the raw output.
    pub output_bytes: u64,
}

/// Information flow: the labels of the session, which only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFlow {
    /// Before the call.
    #[serde(default)]
    pub before: Vec<Cow<'static, str>>,
    /// When its answer left.
    #[serde(default)]
    pub after: Vec<Cow<'static, str>>,
    /// Why a person had to be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
}

/// Calls without a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedGap {
    /// Links the end of a gap to its start.
    pub id: CallId,
    /// When the gap started.
    #[serde(with = "moment")]
    pub since: Timestamp,
    /// How many calls; absent in a record that starts a gap.
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

/// An intent, as stored until its call ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordedIntent {
    #[serde(default = "first_version")]
    pub(crate) v: u32,
    pub(crate) call: CallId,
    #[serde(with = "moment")]
    pub(crate) at: Timestamp,
    /// The newest day file when the call started: its record can be in no older one. `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<String>,
    pub(crate) caller: RecordedCaller,
    pub(crate) tool: RecordedTool,
    pub(crate) request: RecordedRequest,
    /// The id of the lasting grant that answered the question about the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) grant: Option<String>,
    /// What the call names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) details: Option<CallDetails>,
    /// The same, encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sealed_details: Option<String>,
}

impl RecordedIntent {
    pub(crate) fn new(
        intent: &Intent<'_>,
        at: Timestamp,
        since: Option<String>,
        (key, details_key): (&StateKey, Option<&DetailsKey>),
    ) -> Result<Self, AuditError> {
        let details = intent.details.filter(|details| !details.is_empty());
        let (plain, sealed_details) = plain_or_sealed(intent.call, details, details_key)?;
        let name = truncate_name(intent.tool).into_owned();
        let client_call_id = intent.client_call_id.map(|id| truncate_name(id).into_owned());
        Ok(Self {
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
                changed_from: None,
                client_call_id,
                repairs: Vec::new(),
                escalation: Vec::new(),
            },
            grant: intent.grant.map(|grant| truncate_name(grant).into_owned()),
            details: plain.map(CallDetails::truncated),
            sealed_details,
        })
    }

    /// Whether this version can interpret the line.
    pub(crate) fn is_supported(&self) -> bool {
        self.v == INTENT_VERSION
    }

    /// The record of a call that has an intent and no record, because its process died or its record could not be written.
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
            changed_from: None,
            escalation: &[],
            repairs: &self.request.repairs,
            grant: self.grant.as_deref(),
            denial: Some(Denial {
                stage: Stage::Execution,
                code: ErrorCode::Interrupted,
                reason: &reason,
                count: 1,
            }),
            response: None,
            details: self.details.as_ref(),
            sealed_details: self.sealed_details.as_deref().map(Cow::Borrowed),
            flow: None,
            gap: None,
            duration: Duration::ZERO,
            waited: Duration::ZERO,
        };
        body.encode()
    }
}

/// What a call touched, in clear or encrypted.
pub(crate) fn plain_or_sealed<'a>(
    call: CallId,
    details: Option<&'a CallDetails>,
    key: Option<&DetailsKey>,
) -> Result<(Option<&'a CallDetails>, Option<String>), AuditError> {
    match (details, key) {
        (Some(details), Some(key)) => Ok((None, Some(key.seal(call, details)?))),
        (details, _) => Ok((details, None)),
    }
}

/// The fields that chain a record to its neighbours.
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
    /// Whether this version can interpret the line.
    pub(crate) fn is_supported(&self) -> bool {
        (first_version()..=RECORD_VERSION).contains(&self.v)
    }
}

/// Timestamps in records: RFC 3339, UTC, milliseconds.
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
