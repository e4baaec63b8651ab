//! Output on standard error beside the results: notices to the operator, and with `--log` one line per call, as text or JSON.
//!
//! Only the gate's own events and spans are written. Libraries use `tracing` too, and some of them log what they send.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::time::Instant;

use clap::ValueEnum;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use toolgate_types::time::rfc3339_millis;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::set_global_default;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

use toolgate_assembly::notices::TARGET as NOTICES;
use toolgate_gate::SPAN_TARGET;

use crate::startup::env_var;
use crate::telemetry;
use crate::terminal::{escape_json, escape_line, is_verbose, warn};

/// The prefix of the gate's targets.
const TARGET_PREFIX: &str = "toolgate";
/// Which lines are written, in the syntax of `tracing_subscriber`.
const FILTER_VARIABLE: &str = "RUST_LOG";
/// Attributes that only exporters read.
const EXPORTER_FIELDS: &str = "otel.";

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// `name=value` pairs.
    Text,
    /// One JSON object.
    Json,
}

/// Which lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// Nothing of calls yet.
    Error,
    /// Calls that were refused or failed.
    Warn,
    /// Every call, when it has ended. The default.
    Info,
    /// Also when it begins.
    Debug,
}

/// Installs the subscriber for notices, for the export of spans, and for log lines of calls if a format was given. A level from the command line takes
/// precedence over `RUST_LOG`. Must be called once, after [`set_quiet`](crate::terminal::set_quiet) and [`set_verbose`](crate::terminal::set_verbose).
pub(crate) fn install(format: Option<LogFormat>, level: Option<LogLevel>) {
    let mut rejected = None;
    let filter = format.map(|format| {
        let filter = line_filter(level).unwrap_or_else(|error| {
            rejected = Some(error);
            default_filter(LogLevel::Info)
        });
        (format, filter)
    });
    // Fails only if a subscriber is already set, and this is the only one of the process.
    let _ = set_global_default(subscriber(is_verbose(), filter));
    if let Some(error) = rejected {
        toolgate_assembly::notices::warn(&format!("`{FILTER_VARIABLE}` is not used: {error}"));
    }
}

/// The layers of the subscriber, as a list: an `Option` of a layer counts as interested in every event while it is `None`, and then each call would
/// prepare a log line that is not written.
fn subscriber(is_verbose: bool, lines: Option<(LogFormat, EnvFilter)>) -> impl Subscriber + Send + Sync {
    let notices = if is_verbose { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let notices = NoticeWriter.with_filter(Targets::new().with_target(NOTICES, notices));
    let mut layers = vec![telemetry::exporter().boxed(), notices.boxed()];
    if let Some((format, filter)) = lines {
        // Regardless of the variable: no lines of libraries, and notices are written by their own layer.
        let ours = Targets::new().with_target(TARGET_PREFIX, LevelFilter::TRACE);
        let filter = filter.and(ours.with_target(NOTICES, LevelFilter::OFF));
        layers.push(LineWriter(format).with_filter(filter).boxed());
    }
    Registry::default().with(layers)
}

/// The filter of the command line, or else of the variable.
fn line_filter(level: Option<LogLevel>) -> Result<EnvFilter, String> {
    let wanted = env_var(FILTER_VARIABLE).filter(|wanted| !wanted.trim().is_empty());
    match (level, wanted) {
        (Some(level), _) => Ok(default_filter(level)),
        (None, Some(wanted)) => EnvFilter::builder().parse(wanted).map_err(|error| error.to_string()),
        (None, None) => Ok(default_filter(LogLevel::Info)),
    }
}

/// Lines of calls from a level on, without their spans.
fn default_filter(level: LogLevel) -> EnvFilter {
    let level = match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
    };
    EnvFilter::builder().parse_lossy(format!("{TARGET_PREFIX}={level},{SPAN_TARGET}=off"))
}

/// Writes notices as the terminal shows them.
struct NoticeWriter;

impl<S: Subscriber> Layer<S> for NoticeWriter {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = LineFields::default();
        event.record(&mut fields);
        warn(fields.0.get("message").and_then(Value::as_str).unwrap_or_default());
    }
}

/// Writes a line for each event, and one for each span when it ends.
struct LineWriter(LogFormat);

/// A span that has not ended yet.
struct OpenSpan {
    fields: LineFields,
    since: Instant,
}

impl LineWriter {
    fn write(&self, metadata: &Metadata<'_>, fields: Map<String, Value>) {
        let line = match self.0 {
            LogFormat::Text => format_text(metadata, &fields),
            LogFormat::Json => format_json(metadata, fields),
        };
        // An error is ignored, as there is nowhere to report it.
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for LineWriter {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = LineFields::default();
        event.record(&mut fields);
        self.write(event.metadata(), fields.0);
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = LineFields::default();
        fields.0.insert("message".to_owned(), json!(span.name()));
        attributes.record(&mut fields);
        span.extensions_mut().insert(OpenSpan { fields, since: Instant::now() });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            values.record(&mut open.fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(OpenSpan { mut fields, since }) = span.extensions_mut().remove() else { return };
        fields.0.retain(|name, _| !name.starts_with(EXPORTER_FIELDS));
        let duration_ms = since.elapsed().as_micros() as f64 / 1000.0;
        fields.0.insert("duration_ms".to_owned(), json!(duration_ms));
        self.write(span.metadata(), fields.0);
    }
}

/// The fields of an event or a span, in order.
#[derive(Default)]
struct LineFields(Map<String, Value>);

impl LineFields {
    fn add(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for LineFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, json!(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, json!(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, json!(value));
    }
}

fn format_json(metadata: &Metadata<'_>, fields: Map<String, Value>) -> String {
    let mut line = Map::new();
    line.insert("ts".to_owned(), json!(rfc3339_millis(Timestamp::now())));
    line.insert("level".to_owned(), json!(metadata.level().as_str()));
    line.insert("target".to_owned(), json!(metadata.target()));
    line.extend(fields);
    escape_json(&format!("{}\n", Value::Object(line)))
}

fn format_text(metadata: &Metadata<'_>, fields: &Map<String, Value>) -> String {
    let now = rfc3339_millis(Timestamp::now());
    let message = fields.get("message").and_then(Value::as_str).unwrap_or_default();
    let mut line = format!("{now} {} {} {message}", metadata.level(), metadata.target());
    for (name, value) in fields.iter().filter(|(name, _)| *name != "message") {
        let _ = match value.as_str().filter(|text| needs_no_quotes(text)) {
            Some(word) => write!(line, " {name}={word}"),
            None => write!(line, " {name}={value}"),
        };
    }
    escape_line(&line) + "\n"
}

/// Whether a text can be written without quotes.
fn needs_no_quotes(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|letter| letter.is_ascii_graphic() && !matches!(letter, '"' | '=' | '\\'))
}

#[cfg(test)]
mod tests {
    use tracing::callsite::Callsite as _;

    use super::*;

    #[test]
    fn without_a_log_no_event_of_a_call_is_prepared() {
        let callsite = tracing::callsite! {
            name: "call",
            kind: tracing::metadata::Kind::EVENT,
            target: "toolgate::call",
            level: tracing::Level::ERROR,
            fields: message
        };
        for level in [LogLevel::Error, LogLevel::Debug] {
            let with_log = subscriber(false, Some((LogFormat::Text, default_filter(level))));
            assert!(!with_log.register_callsite(callsite.metadata()).is_never(), "{level:?}");
        }
        for is_verbose in [false, true] {
            assert!(subscriber(is_verbose, None).register_callsite(callsite.metadata()).is_never());
        }
    }
}
