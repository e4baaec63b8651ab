//! Records and the state of their chain, as the document describes them.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolgate_audit::{CallGap, IntegrityProblem, VerifyReport};
use toolgate_types::time::rfc3339_millis;

/// What the verification of the record found.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuditState")]
pub(crate) struct VerifyDto {
    /// Whether the chain is unbroken and no call is missing.
    pub(crate) ok: bool,
    /// Valid records before the first problem.
    pub(crate) records: u64,
    /// Day files with valid records.
    pub(crate) days: u64,
    /// When the first one was written.
    pub(crate) first_time: Option<String>,
    /// When the last one was written.
    pub(crate) last_time: Option<String>,
    /// The number of the last one.
    pub(crate) last_seq: Option<u64>,
    /// The hash of the last one.
    pub(crate) last_hash: Option<String>,
    /// Signed checkpoints that fit the chain.
    pub(crate) checkpoints: u64,
    /// Records after the last of them: their removal would not be detected.
    pub(crate) records_after_checkpoint: u64,
    /// How many calls are known to have no record.
    pub(crate) calls_without_record: u64,
    /// Calls that a gate announced and no running gate will record: the next start does.
    pub(crate) calls_cut_off: u64,
    /// The times in which calls were not recorded.
    pub(crate) gaps: Vec<GapDto>,
    /// The keys that signed the checkpoints.
    pub(crate) keys: Vec<String>,
    /// Where the chain is broken.
    pub(crate) problem: Option<ChainProblemDto>,
}

/// A time in which calls were not recorded.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuditGap")]
pub(crate) struct GapDto {
    /// When it began.
    pub(crate) since: String,
    /// When records were written again.
    pub(crate) until: Option<String>,
    /// How many calls, if that is known.
    pub(crate) calls: Option<u64>,
    /// The same in words.
    pub(crate) message: String,
}

/// Where the chain is broken.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChainProblem")]
pub(crate) struct ChainProblemDto {
    /// The name of the file.
    pub(crate) file: Option<String>,
    /// The line in it, from 1.
    pub(crate) line: u64,
    /// What is wrong.
    pub(crate) kind: String,
}

impl From<&VerifyReport> for VerifyDto {
    fn from(report: &VerifyReport) -> Self {
        let time = |at: Option<Timestamp>| at.map(rfc3339_millis);
        Self {
            ok: report.problem.is_none() && !report.is_incomplete(),
            records: report.records,
            days: report.days,
            first_time: time(report.first_time),
            last_time: time(report.last_time),
            last_seq: report.last_seq,
            last_hash: report.last_hash.map(|hash| hash.to_string()),
            checkpoints: report.checkpoints,
            records_after_checkpoint: report.records_after_checkpoint,
            calls_without_record: report.calls_without_record(),
            calls_cut_off: report.announced_by_ended_gates,
            gaps: report.gaps.iter().map(GapDto::from).collect(),
            keys: report.keys.iter().map(ToString::to_string).collect(),
            problem: report.problem.as_ref().map(ChainProblemDto::from),
        }
    }
}

impl From<&CallGap> for GapDto {
    fn from(gap: &CallGap) -> Self {
        Self {
            since: rfc3339_millis(gap.since),
            until: gap.until.map(rfc3339_millis),
            calls: gap.calls,
            message: gap.to_string(),
        }
    }
}

impl From<&IntegrityProblem> for ChainProblemDto {
    fn from(problem: &IntegrityProblem) -> Self {
        Self {
            file: problem.file.file_name().map(|name| name.to_string_lossy().into_owned()),
            line: problem.line,
            kind: problem.kind.as_str().to_owned(),
        }
    }
}

/// A record, as the log has it.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuditRecord")]
#[expect(dead_code, reason = "the shape for the OpenAPI document")]
pub(crate) struct RecordDto {
    /// The version of the format.
    v: u32,
    /// Its number.
    seq: u64,
    /// The hash of the line before.
    prev: String,
    /// When it was written.
    timestamp: String,
    /// The call.
    trace_id: String,
    /// The caller.
    caller: RecordedCallerDto,
    /// The tool.
    tool: RecordedToolDto,
    /// The request.
    request: RecordedRequestDto,
    /// `ALLOWED`, `DENIED` or `ERROR`.
    decision: RecordedDecision,
    /// The lasting grant that answered the question about the call.
    #[serde(default)]
    grant: Option<String>,
    /// Where and why it was denied or failed.
    #[serde(default)]
    denial: Option<RecordedDenialDto>,
    /// What left, as digests.
    #[serde(default)]
    response: Option<RecordedResponseDto>,
    /// What the call touched, as far as that is recorded.
    #[serde(default)]
    details: Option<serde_json::Map<String, Value>>,
    /// Instead of the details, where they are encrypted with a key that the gate does not have.
    #[serde(default)]
    sealed_details: Option<String>,
    /// The labels of the session.
    #[serde(default)]
    flow: Option<Value>,
    /// Set where calls have no record.
    #[serde(default)]
    gap: Option<Value>,
    /// How long it took, in milliseconds.
    duration: f64,
    /// How long a person was waited for, in milliseconds.
    #[serde(default)]
    waited_ms: Option<f64>,
    /// The hash of this line up to here.
    hash: String,
}

/// The decision of a record.
#[derive(JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[expect(dead_code, reason = "the shape for the OpenAPI document")]
enum RecordedDecision {
    Allowed,
    Denied,
    Error,
}

/// The caller of a record.
#[derive(JsonSchema)]
#[schemars(rename = "RecordedCaller")]
#[expect(dead_code, reason = "the shape for the OpenAPI document")]
struct RecordedCallerDto {
    /// The subject.
    sub: String,
    /// Its permissions.
    permissions: Vec<String>,
    /// The agent.
    #[serde(default)]
    agent: Option<String>,
    /// The session.
    session: String,
    /// The workflow run.
    #[serde(default)]
    run: Option<String>,
}

/// The tool of a record.
#[derive(JsonSchema)]
#[schemars(rename = "RecordedTool")]
#[expect(dead_code, reason = "the shape for the OpenAPI document")]
struct RecordedToolDto {
    /// Its name as requested.
    name: String,
    /// Its class.
    #[serde(default)]
    classification: Option<String>,
    /// Its version.
    #[serde(default)]
    version: Option<String>,
}

/// The request of a record.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RecordedRequest")]
#[expect(dead_code, reason = "the shape for the OpenAPI document")]
struct RecordedRequestDto {
    /// A keyed digest of the arguments.
    args_hash: String,
    /// The same of the model's arguments, if a person changed them.
    #[serde(default)]
    changed_from: Option<String>,
    /// The client's id for the call.
    #[serde(default)]
    client_call_id: Option<String>,
    /// Repairs of the arguments.
    #[serde(default)]
    repairs: Vec<Value>,
    /// What a person allowed beyond the configuration.
    #[serde(default)]
    escalation: Vec<String>,
}

/// Where and why a call was denied or failed.
#[derive(JsonSchema)]
#[schemars(rename = "RecordedDenial")]
#[expect(dead_code, reason = "the shape for the OpenAPI document")]
struct RecordedDenialDto {
    /// The stage.
    stage: String,
    /// The stable code.
    code: String,
    /// The reason for the operator.
    reason: String,
    /// How many calls the record stands for.
    #[serde(default)]
    count: Option<u64>,
}

/// What left, as digests.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RecordedResponse")]
#[expect(dead_code, reason = "the shape for the OpenAPI document")]
struct RecordedResponseDto {
    /// Fields that were masked, redacted or dropped.
    redacted_fields: Vec<String>,
    /// A keyed digest of the output.
    output_hash: String,
    /// Its size.
    output_bytes: u64,
}
