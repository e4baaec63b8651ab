//! Spans of turns and of requests to models, beside the gate's spans of calls. Never a prompt or an answer.

use toolgate_gate::SPAN_TARGET;
use toolgate_llm::{ModelName, Usage};
use toolgate_types::SessionId;
use tracing::Span;
use tracing::field::Empty;

/// The span of one turn: the parent of its requests and calls.
pub(crate) fn turn_span(model: &ModelName, session: &SessionId) -> Span {
    tracing::debug_span!(
        target: SPAN_TARGET,
        "invoke_agent",
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = "invoke_agent",
        "gen_ai.provider.name" = model.provider,
        "gen_ai.request.model" = model.name,
        "gen_ai.conversation.id" = session.as_str(),
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
        "toolgate.end" = Empty,
        "error.type" = Empty,
    )
}

/// The span of one request to a model.
pub(crate) fn chat_span(model: &ModelName) -> Span {
    tracing::debug_span!(
        target: SPAN_TARGET,
        "chat",
        "otel.kind" = "client",
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = "chat",
        "gen_ai.provider.name" = model.provider,
        "gen_ai.request.model" = model.name,
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
        "error.type" = Empty,
    )
}

pub(crate) fn record_usage(span: &Span, usage: Usage) {
    // Attributes of OpenTelemetry are signed; exporters turn an unsigned number into text.
    let signed = |tokens| i64::try_from(tokens).unwrap_or(i64::MAX);
    span.record("gen_ai.usage.input_tokens", signed(usage.input_tokens));
    span.record("gen_ai.usage.output_tokens", signed(usage.output_tokens));
}

pub(crate) fn record_error(span: &Span, kind: &str) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
}
