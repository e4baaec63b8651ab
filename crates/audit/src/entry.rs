//! What the gate passes to the log: how a call ended, and what a call is about to do.

use std::time::Duration;

use toolgate_types::{CallId, Caller, ErrorCode, Repair, Sha256, Stage, ToolClass};

use crate::{CallDetails, RecordedFlow};

/// How one call ended. Becomes exactly one record.
///
/// It has no field for arguments or output in clear, only for their digests, and for the names of what was touched.
#[derive(Clone, Copy, Debug)]
pub struct AuditEntry<'a> {
    /// The gate's id for the call.
    pub call: CallId,
    /// The client's id for the call; untrusted.
    pub client_call_id: Option<&'a str>,
    /// The caller.
    pub caller: &'a Caller,
    /// The tool's name as requested, whether or not the tool exists.
    pub tool: &'a str,
    /// The tool's class, if the tool exists.
    pub class: Option<ToolClass>,
    /// The tool's version, if its manifest declares one.
    pub version: Option<&'a str>,
    /// SHA-256 of the arguments. The record holds a [keyed digest](crate::args_digest) of it.
    pub args_hash: Sha256,
    /// The same of the model's arguments, if a person approved the call with others.
    pub changed_from: Option<Sha256>,
    /// What a person allowed the call beyond the configuration: hosts, and a time.
    pub escalation: &'a [String],
    /// Repairs made to the arguments before they could be parsed.
    pub repairs: &'a [Repair],
    /// The id of the lasting grant that answered the question about the call.
    pub grant: Option<&'a str>,
    /// Why the call was denied or failed; `None` for a successful call. The code decides whether the record says `DENIED` or `ERROR`.
    pub denial: Option<Denial<'a>>,
    /// The output, if there was one.
    pub response: Option<ResponseSummary<'a>>,
    /// What the call touched, as far as the operator has it recorded.
    pub details: Option<&'a CallDetails>,
    /// The labels of the session, if it has some, and why information flow asked about the call.
    pub flow: Option<&'a RecordedFlow>,
    /// How long the call took, without `waited`.
    pub duration: Duration,
    /// How long a person was waited for.
    pub waited: Duration,
}

/// Where and why a call was denied or failed.
#[derive(Clone, Copy, Debug)]
pub struct Denial<'a> {
    /// The stage.
    pub stage: Stage,
    /// The stable error code.
    pub code: ErrorCode,
    /// The reason for the operator. May name missing permissions; must not quote arguments.
    pub reason: &'a str,
    /// How many calls this record represents. More than one only for rate-limited calls, which share a record.
    pub count: u64,
}

/// Summary of an output.
#[derive(Clone, Copy, Debug)]
pub struct ResponseSummary<'a> {
    /// The field paths that were masked, redacted or dropped.
    pub redacted_fields: &'a [String],
    /// SHA-256 of the raw output. The record holds a [keyed digest](crate::output_digest) of it.
    pub output_hash: Sha256,
    /// The size of the raw output.
    pub output_bytes: u64,
}

/// What a call is about to do. Durable before the effect starts, so that no effect is without a record.
#[derive(Clone, Copy, Debug)]
pub struct Intent<'a> {
    /// The gate's id for the call.
    pub call: CallId,
    /// The client's id for the call; untrusted.
    pub client_call_id: Option<&'a str>,
    /// The caller.
    pub caller: &'a Caller,
    /// The tool.
    pub tool: &'a str,
    /// The tool's class.
    pub class: ToolClass,
    /// The tool's version, if its manifest declares one.
    pub version: Option<&'a str>,
    /// SHA-256 of the arguments; recorded as a [keyed digest](crate::args_digest).
    pub args_hash: Sha256,
    /// The id of the lasting grant that answered the question about the call.
    pub grant: Option<&'a str>,
    /// What the call names, in case it leaves no other record.
    pub details: Option<&'a CallDetails>,
}
