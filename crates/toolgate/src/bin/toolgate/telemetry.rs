//! Spans to an OpenTelemetry collector, where one is configured: OTLP over HTTP, as protobuf.
//!
//! The variables of OpenTelemetry name the collector, or else `telemetry` in the configuration. Spans go to a bounded queue, and a thread of the SDK sends
//! them in batches: a collector that is slow or gone costs spans, never a call. Only spans of [`SPAN_TARGET`] are exported, and no events: some of those
//! name paths.

use std::sync::OnceLock;
use std::time::Duration;

use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry::{Context as TraceContext, KeyValue};
use opentelemetry_otlp::{
    ExporterBuildError, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use toolgate_assembly::notices::warn;
use toolgate_gate::SPAN_TARGET;
use toolgate_manifest::Config;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber, callsite};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::layer::{Context, Filter, Layer};
use tracing_subscriber::registry::Registry;

use crate::startup::env_var;
use crate::telemetry::collector::{Collector, HeaderSource};

mod collector;

/// The collector for all signals, and for traces alone.
const ENDPOINT_VARIABLES: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
/// The path that the specification appends to the endpoint for all signals.
const TRACES_PATH: &str = "/v1/traces";
/// How long the end of the process waits for the last batch.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// How long one batch may take. On the SDK's thread, so that no call waits for it.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The field of a span of an HTTP request with the `traceparent` of its client, which the HTTP server validated.
const TRACEPARENT_FIELD: &str = "toolgate.traceparent";

/// Set once a collector is known, which may be after the subscriber was installed.
static EXPORT: OnceLock<Export> = OnceLock::new();

struct Export {
    layer: OpenTelemetryLayer<Registry, SdkTracer>,
    provider: SdkTracerProvider,
}

/// The layer of the subscriber that exports. Without a collector it is interested in nothing.
pub(crate) fn exporter() -> impl Layer<Registry> {
    ExportLayer.with_filter(WhileExporting)
}

/// Starts to export if the variables of OpenTelemetry name a collector.
pub(crate) fn start_from_environment() {
    if is_named_by_environment() && !is_switched_off() {
        start(&EndpointSource::Environment);
    }
}

/// Starts to export to the collector of a configuration, unless the environment names one.
pub(crate) fn start_configured(config: &Config) {
    let endpoint =
        config.telemetry.endpoint.as_ref().filter(|_| !is_named_by_environment() && !is_switched_off());
    if let Some(endpoint) = endpoint {
        start(&EndpointSource::Configured(&endpoint.value));
    }
}

/// Sends what is left. For the end of the process.
pub(crate) fn flush() {
    if let Some(export) = EXPORT.get() {
        // Failures were reported when they happened.
        let _ = export.provider.shutdown_with_timeout(FLUSH_TIMEOUT);
    }
}

/// Where a collector is named.
enum EndpointSource<'e> {
    Environment,
    Configured(&'e str),
}

fn is_named_by_environment() -> bool {
    ENDPOINT_VARIABLES.iter().any(|name| env_var(name).is_some_and(|value| !value.trim().is_empty()))
}

/// The variables with which OpenTelemetry is switched off.
fn is_switched_off() -> bool {
    env_var("OTEL_SDK_DISABLED").is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
        || env_var("OTEL_TRACES_EXPORTER").is_some_and(|value| value.trim() == "none")
}

fn start(endpoint: &EndpointSource<'_>) {
    if EXPORT.get().is_some() {
        return;
    }
    match build(endpoint) {
        Ok(export) => {
            let _ = EXPORT.set(export);
            // Callsites that were seen before are asked again.
            callsite::rebuild_interest_cache();
        }
        Err(error) => warn(&format!("spans are not exported: {error}")),
    }
}

fn build(endpoint: &EndpointSource<'_>) -> Result<Export, ExporterBuildError> {
    let headers = match endpoint {
        EndpointSource::Environment => HeaderSource::Environment,
        EndpointSource::Configured(_) => HeaderSource::None,
    };
    // A batch that fails is lost, so that a process ends without delay while its collector is gone.
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Collector::new(headers, EXPORT_TIMEOUT))
        .with_retry_policy(RetryPolicy::disabled())
        .with_timeout(EXPORT_TIMEOUT);
    if let EndpointSource::Configured(endpoint) = endpoint {
        exporter = exporter.with_endpoint(format!("{}{TRACES_PATH}", endpoint.trim_end_matches('/')));
    }
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter.build()?)
        .with_resource(resource(endpoint))
        .build();
    let tracer = provider.tracer(env!("CARGO_PKG_NAME"));
    let layer = OpenTelemetryLayer::new(tracer)
        .with_location(false)
        .with_threads(false)
        .with_level(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_context_activation(false);
    Ok(Export { layer, provider })
}

/// What sends the spans. `OTEL_RESOURCE_ATTRIBUTES` is for the collector that the environment names.
fn resource(endpoint: &EndpointSource<'_>) -> Resource {
    let builder = match endpoint {
        EndpointSource::Environment => Resource::builder(),
        EndpointSource::Configured(_) => Resource::builder_empty(),
    };
    let name = env_var("OTEL_SERVICE_NAME").filter(|name| !name.trim().is_empty());
    builder
        .with_service_name(name.unwrap_or_else(|| env!("CARGO_PKG_NAME").to_owned()))
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Forwards spans, and no events.
struct ExportLayer;

impl Layer<Registry> for ExportLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, Registry>) {
        if let Some(export) = EXPORT.get() {
            // A span without a parent in this process stands in the context of its thread.
            let _remote = RemoteParent::of(attributes).map(TraceContext::attach);
            export.layer.on_new_span(attributes, id, context);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, Registry>) {
        if let Some(export) = EXPORT.get() {
            export.layer.on_record(id, values, context);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, Registry>) {
        if let Some(export) = EXPORT.get() {
            export.layer.on_close(id, context);
        }
    }
}

/// Finds the span of a client that a span of an HTTP request continues.
#[derive(Default)]
struct RemoteParent(Option<TraceContext>);

impl RemoteParent {
    fn of(attributes: &Attributes<'_>) -> Option<TraceContext> {
        attributes.metadata().fields().field(TRACEPARENT_FIELD)?;
        let mut parent = Self::default();
        attributes.record(&mut parent);
        parent.0
    }
}

impl Visit for RemoteParent {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() != TRACEPARENT_FIELD {
            return;
        }
        let mut fields = value.split('-').skip(1);
        let trace = fields.next().and_then(|trace| TraceId::from_hex(trace).ok());
        let span = fields.next().and_then(|span| SpanId::from_hex(span).ok());
        self.0 = trace.zip(span).map(|(trace, span)| {
            let context = SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::default());
            TraceContext::new().with_remote_span_context(context)
        });
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

struct WhileExporting;

impl WhileExporting {
    fn wants(metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target() == SPAN_TARGET && EXPORT.get().is_some()
    }
}

impl<S: Subscriber> Filter<S> for WhileExporting {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        Self::wants(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if Self::wants(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if EXPORT.get().is_some() { LevelFilter::DEBUG } else { LevelFilter::OFF })
    }
}
