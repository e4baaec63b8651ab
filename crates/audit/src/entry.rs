//! What the gate hands over: how a call ended, and what a call is about to do.

use std::time::Duration;

use toolgate_types::{CallId, Caller, ErrorCode, Repair, Sha256, Stage, ToolClass};

/// How one call ended. Becomes exactly one record.
///
/// There is no place for arguments or output in clear, only for their digests.
#[derive(Clone, Copy, Debug)]
pub struct AuditEntry<'a> {
    /// The gate's id for the call.
    pub call: CallId,
    /// The id the client gave it, never trusted.
    pub client_call_id: Option<&'a str>,
    /// Who called.
    pub caller: &'a Caller,
    /// The tool's name as it was asked for, whether or not there is such a tool.
    pub tool: &'a str,
    /// The tool's class, if there is such a tool.
    pub class: Option<ToolClass>,
    /// The tool's version, where its manifest names one.
    pub version: Option<&'a str>,
    /// SHA-256 of the arguments. The record holds a [keyed digest](crate::args_digest) of it.
    pub args_hash: Sha256,
    /// What was mended in the arguments before they could be read.
    pub repairs: &'a [Repair],
    /// Why it did not do what was asked; `None` is a call that was allowed and answered.
    /// The code decides whether the record says `DENIED` or `ERROR`.
    pub denial: Option<Denial<'a>>,
    /// What was answered, if there was output.
    pub response: Option<ResponseSummary<'a>>,
    /// How long the call took.
    pub duration: Duration,
}

/// Where and why a call ended without doing what was asked.
#[derive(Clone, Copy, Debug)]
pub struct Denial<'a> {
    /// Where.
    pub stage: Stage,
    /// Why, as a stable code.
    pub code: ErrorCode,
    /// Why, for the operator. May name missing permissions; must not quote arguments.
    pub reason: &'a str,
    /// How many calls of this kind ended so. More than one is refusals above a bound, which have one record together.
    pub count: u64,
}

/// What left the gate.
#[derive(Clone, Copy, Debug)]
pub struct ResponseSummary<'a> {
    /// The field paths that were masked, redacted or dropped.
    pub redacted_fields: &'a [String],
    /// SHA-256 of the raw output. The record holds a [keyed digest](crate::output_digest) of it.
    pub output_hash: Sha256,
    /// The size of the raw output.
    pub output_bytes: u64,
}

/// What a call is about to do. Durable before the effect begins, so that no effect goes without a record.
#[derive(Clone, Copy, Debug)]
pub struct Intent<'a> {
    /// The gate's id for the call.
    pub call: CallId,
    /// The id the client gave it, never trusted.
    pub client_call_id: Option<&'a str>,
    /// Who called.
    pub caller: &'a Caller,
    /// The tool.
    pub tool: &'a str,
    /// The tool's class.
    pub class: ToolClass,
    /// The tool's version, where its manifest names one.
    pub version: Option<&'a str>,
    /// SHA-256 of the arguments, likewise.
    pub args_hash: Sha256,
}
