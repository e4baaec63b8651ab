//! Spans of calls and of their stages, for subscribers of [`SPAN_TARGET`].
//!
//! They hold the tool, the caller, the outcome and, by their times, the duration. They never hold arguments, output, paths or the name of a tool that
//! does not exist, which a model may have made up of anything. Attributes are named as the OpenTelemetry conventions for generative AI name them.
//! Where no subscriber wants them, a span costs one comparison with the maximum level.

use toolgate_types::{CallId, Caller, ErrorCode, Outcome, Stage};
use tracing::Span;
use tracing::field::Empty;
use tracing::instrument::{Instrument as _, Instrumented};

use crate::stages::StageRefusal;

/// The target of every span of the gate and of the agent loop.
pub const SPAN_TARGET: &str = "toolgate::span";

/// Recorded for a tool that does not exist.
const UNKNOWN_TOOL: &str = "(unknown)";

/// The span of one call. It ends when it is dropped.
pub(crate) struct CallSpan {
    span: Span,
    call: CallId,
}

impl CallSpan {
    /// A span is named when it starts: exporters do not rename one that has children.
    pub(crate) fn new(call: CallId, tool: &str, is_registered: impl Fn() -> bool) -> Self {
        let span = tracing::debug_span!(
            target: SPAN_TARGET,
            "execute_tool",
            "otel.name" = format!("execute_tool {}", if is_registered() { tool } else { UNKNOWN_TOOL }),
            "otel.status_code" = Empty,
            "gen_ai.operation.name" = "execute_tool",
            "gen_ai.tool.type" = "function",
            "gen_ai.tool.name" = Empty,
            "gen_ai.tool.call.id" = %call,
            "gen_ai.agent.name" = Empty,
            "user.id" = Empty,
            "session.id" = Empty,
            "toolgate.decision" = Empty,
            "toolgate.stage" = Empty,
            "error.type" = Empty,
        );
        Self { span, call }
    }

    /// The span of one stage of this call.
    pub(crate) fn stage(&self, stage: Stage) -> StageSpan {
        StageSpan(tracing::debug_span!(
            target: SPAN_TARGET,
            parent: &self.span,
            "stage",
            "otel.name" = stage.as_str(),
            "otel.status_code" = Empty,
            "gen_ai.tool.call.id" = %self.call,
            "toolgate.stage" = stage.as_str(),
            "toolgate.outcome" = Empty,
            "error.type" = Empty,
        ))
    }

    /// Records how the call ended. `tool` is the name of a registered tool.
    pub(crate) fn record(&self, tool: Option<&str>, caller: &Caller, outcome: &Outcome) {
        let span = &self.span;
        if span.is_disabled() {
            return;
        }
        span.record("gen_ai.tool.name", tool.unwrap_or(UNKNOWN_TOOL));
        span.record("user.id", caller.subject.as_str());
        span.record("session.id", caller.session.as_str());
        if let Some(agent) = &caller.agent {
            span.record("gen_ai.agent.name", agent.as_str());
        }
        span.record("toolgate.decision", outcome.decision().as_str());
        if let Outcome::Failed { stage, failure } = outcome {
            span.record("toolgate.stage", stage.as_str());
            record_error(span, failure.code);
        }
    }
}

/// Awaits the work of a stage in its span, which is only entered where a subscriber wants it, and then in a box: two copies of every stage's state
/// machine would make each call larger.
macro_rules! await_in_span {
    ($span:expr, $work:expr) => {
        match $span.is_enabled() {
            true => $span.instrument(Box::pin($work)).await,
            false => $work.await,
        }
    };
}
pub(crate) use await_in_span;

/// The span of one stage. It ends when it is dropped.
pub(crate) struct StageSpan(Span);

impl StageSpan {
    /// Whether a subscriber wants it.
    pub(crate) fn is_enabled(&self) -> bool {
        !self.0.is_disabled()
    }

    /// Work of the stage, which may wait.
    pub(crate) fn instrument<Work>(&self, work: Work) -> Instrumented<Work> {
        work.instrument(self.0.clone())
    }

    /// Records whether the stage let the call pass, and ends the span.
    pub(crate) fn end(self, error: Option<ErrorCode>) {
        let span = &self.0;
        // A disabled span would still look up each field by its name.
        if span.is_disabled() {
            return;
        }
        span.record("toolgate.outcome", if error.is_some() { "refused" } else { "passed" });
        if let Some(code) = error {
            record_error(span, code);
        }
    }

    /// The same for the result of a deciding stage.
    pub(crate) fn settle<Next>(self, result: Result<Next, StageRefusal>) -> Result<Next, StageRefusal> {
        self.end(result.as_ref().err().map(|refusal| refusal.failure.code));
        result
    }
}

fn record_error(span: &Span, code: ErrorCode) {
    span.record("error.type", code.as_str());
    span.record("otel.status_code", "ERROR");
}
