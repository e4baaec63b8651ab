//! Output on standard error beside the results: notices to the operator, and with `--log` one line per call, as text or JSON.
//!
//! Only the gate's own events are written. Libraries use `tracing` too, and some of them log what they send.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};

use clap::ValueEnum;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use toolgate_types::time::rfc3339_millis;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::set_global_default;
use tracing::{Event, Metadata, Subscriber};

use toolgate_assembly::notices::TARGET as NOTICES;

use crate::terminal::{escape_json, escape_line, is_verbose, warn};

/// The prefix of the gate's event targets.
const TARGET_PREFIX: &str = "toolgate";

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// `name=value` pairs.
    Text,
    /// One JSON object.
    Json,
}

/// Which lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// Nothing of calls yet.
    Error,
    /// Calls that were refused or failed.
    Warn,
    /// Every call, when it has ended.
    #[default]
    Info,
    /// Also when it begins.
    Debug,
}

/// Installs the subscriber for notices, and for log lines of calls if a format was given. Must be called once, after
/// [`set_quiet`](crate::terminal::set_quiet) and [`set_verbose`](crate::terminal::set_verbose).
pub(crate) fn install(format: Option<LogFormat>, level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let notices = if is_verbose() { LevelFilter::DEBUG } else { LevelFilter::WARN };
    // Fails only if a subscriber is already set, and this is the only one of the process.
    let _ = set_global_default(StderrLog { calls: format.map(|format| (format, level)), notices });
}

struct StderrLog {
    /// The format and level of log lines about calls.
    calls: Option<(LogFormat, LevelFilter)>,
    /// The level of notices to the operator.
    notices: LevelFilter,
}

impl Subscriber for StderrLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let level = match metadata.target() {
            NOTICES => self.notices,
            target if target.starts_with(TARGET_PREFIX) => {
                self.calls.map_or(LevelFilter::OFF, |(_, level)| level)
            }
            _ => LevelFilter::OFF,
        };
        *metadata.level() <= level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.calls.map_or(self.notices, |(_, level)| level.max(self.notices)))
    }

    /// The gate has no spans, so one id serves for all.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let line = match self.calls {
            _ if event.metadata().target() == NOTICES => {
                return warn(fields.0.get("message").and_then(Value::as_str).unwrap_or_default());
            }
            Some((LogFormat::Text, _)) => format_text(event.metadata(), &fields.0),
            Some((LogFormat::Json, _)) => format_json(event.metadata(), fields.0),
            None => return,
        };
        // An error is ignored, as there is nowhere to report it.
        let _ = io::stderr().write_all(line.as_bytes());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of one event, in order.
#[derive(Default)]
struct EventFields(Map<String, Value>);

impl EventFields {
    fn add(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for EventFields {
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
