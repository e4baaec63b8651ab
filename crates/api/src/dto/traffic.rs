//! What operators see: who is connected, and what becomes of their calls.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_conversation::CallQuestion;
use toolgate_serve::{CallTotals, CallerName, ReasonTraffic, ToolTraffic};
use toolgate_types::time::rfc3339_millis;

use super::CallerDto;

/// The calls of all callers: live, and of the last minute.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Traffic")]
pub(crate) struct TrafficDto {
    /// When this was counted.
    pub(crate) at: String,
    /// How long the gate has been running.
    pub(crate) uptime_seconds: u64,
    /// Calls that ended in each of the last 60 seconds, the oldest first. The last number is of the second that is not over.
    pub(crate) calls_per_second: Vec<u32>,
    /// Of these, denied ones.
    pub(crate) refused_per_second: Vec<u32>,
    /// Of these, failed ones.
    pub(crate) failed_per_second: Vec<u32>,
    /// Calls of MCP clients and of the API that are under way. Those of conversations are among `sessionsRunning`.
    pub(crate) calls_in_flight: usize,
    /// Connections.
    pub(crate) connections: usize,
    /// Conversations whose model is at work.
    pub(crate) sessions_running: usize,
    /// Callers that are connected or made calls, connected ones first, then the busiest.
    pub(crate) callers: Vec<CallerTrafficDto>,
    /// Refusals and failures by reason, the most frequent of the last minute first.
    pub(crate) reasons: Vec<ReasonTrafficDto>,
    /// Tools that were called, the busiest of the last minute first.
    pub(crate) tools: Vec<ToolTrafficDto>,
    /// Questions that wait for an answer, oldest first, without their arguments.
    pub(crate) waiting: Vec<WaitingQuestionDto>,
}

/// A caller, and its calls since the start.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CallerTraffic")]
pub(crate) struct CallerTrafficDto {
    /// The subject.
    pub(crate) subject: String,
    /// The agent on whose behalf it calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
    /// Whether it has a stream open, or sent a request in the last minute.
    pub(crate) connected: bool,
    /// Its WebSockets and event streams.
    pub(crate) streams: usize,
    /// Its HTTP requests.
    pub(crate) requests: u64,
    /// When it was last heard of.
    pub(crate) last_at: String,
    /// Its calls.
    #[serde(flatten)]
    pub(crate) totals: CallTotalsDto,
}

/// Calls by how they ended.
#[derive(Clone, Copy, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CallTotals")]
pub(crate) struct CallTotalsDto {
    /// All.
    pub(crate) calls: u64,
    /// Denied ones.
    pub(crate) refused: u64,
    /// Failed ones.
    pub(crate) failed: u64,
    /// Calls of the last minute.
    pub(crate) last_minute: u64,
}

/// A reason of refusals or failures.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ReasonTraffic")]
pub(crate) struct ReasonTrafficDto {
    /// The stage.
    pub(crate) stage: String,
    /// The code.
    pub(crate) code: String,
    /// How many since the start.
    pub(crate) count: u64,
    /// How many in the last minute.
    pub(crate) last_minute: u64,
}

/// A tool, its calls since the start, and how long the last 128 that ran took.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ToolTraffic")]
pub(crate) struct ToolTrafficDto {
    /// The tool.
    pub(crate) name: String,
    /// Its calls.
    #[serde(flatten)]
    pub(crate) totals: CallTotalsDto,
    /// When the last one ended.
    pub(crate) last_at: String,
    /// The median, in milliseconds.
    pub(crate) median_ms: f64,
    /// The 95th percentile.
    pub(crate) p95_ms: f64,
    /// The longest.
    pub(crate) longest_ms: f64,
    /// The code of the last denial or failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_failure: Option<String>,
    /// When that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_failure_at: Option<String>,
}

/// A question that waits, as an operator sees it who may not be the one to answer.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WaitingQuestion")]
pub(crate) struct WaitingQuestionDto {
    /// The id of the call.
    pub(crate) id: String,
    /// The tool.
    pub(crate) tool_name: String,
    /// Who makes the call.
    pub(crate) caller: CallerDto,
    /// Where the call comes from: `chat`, `api` or `mcp`.
    pub(crate) source: String,
    /// When it was asked.
    pub(crate) created_at: String,
    /// When it is denied without an answer.
    pub(crate) expires_at: String,
    /// Whether the caller of this request can answer it.
    pub(crate) mine: bool,
}

pub(crate) fn time(at: SystemTime) -> String {
    Timestamp::try_from(at).map(rfc3339_millis).unwrap_or_default()
}

impl From<CallTotals> for CallTotalsDto {
    fn from(totals: CallTotals) -> Self {
        let CallTotals { calls, refused, failed, last_minute } = totals;
        Self { calls, refused, failed, last_minute }
    }
}

impl CallerTrafficDto {
    /// A caller of whom nothing else is known.
    pub(crate) fn new(caller: &CallerName, last_at: SystemTime) -> Self {
        Self {
            subject: caller.subject.clone(),
            agent: caller.agent.as_ref().map(ToString::to_string),
            connected: false,
            streams: 0,
            requests: 0,
            last_at: time(last_at),
            totals: CallTotalsDto::default(),
        }
    }
}

impl From<ReasonTraffic> for ReasonTrafficDto {
    fn from(reason: ReasonTraffic) -> Self {
        let ReasonTraffic { stage, code, count, last_minute } = reason;
        Self { stage: stage.to_owned(), code: code.to_owned(), count, last_minute }
    }
}

impl From<ToolTraffic> for ToolTrafficDto {
    fn from(traffic: ToolTraffic) -> Self {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        Self {
            name: traffic.tool,
            totals: traffic.totals.into(),
            last_at: time(traffic.last_at),
            median_ms: millis(traffic.median),
            p95_ms: millis(traffic.p95),
            longest_ms: millis(traffic.longest),
            last_failure: traffic.last_failure.map(|(code, _)| code.to_owned()),
            last_failure_at: traffic.last_failure.map(|(_, at)| time(at)),
        }
    }
}

impl WaitingQuestionDto {
    pub(crate) fn new(question: &CallQuestion, mine: bool) -> Self {
        let request = &question.request;
        Self {
            id: request.call.to_string(),
            tool_name: request.tool.clone(),
            caller: CallerDto {
                subject: request.caller.subject.clone(),
                agent: request.caller.agent.as_ref().map(ToString::to_string),
            },
            source: question.source.as_str().to_owned(),
            created_at: time(question.asked_at),
            expires_at: request.expires_at_rfc3339(),
            mine,
        }
    }
}
