//! Records, for people: one line each, or everything about one call.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::IsTerminal as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use toolgate_assembly::settings::Settings;
use toolgate_assembly::state_dir::details_key_path;
use toolgate_audit::{CallDetails, DetailsKey, Record};
use toolgate_render::truncate_columns;
use toolgate_types::Decision;

use super::audit::pluralize;
use super::id_prefix::short_id;
use super::{StdoutStatus, print};
use crate::arguments::GlobalOptions;
use crate::exit::CliError;
use crate::terminal::{escape_json, escape_line, paint, screen, wants_colour};

/// The columns of a line; more if the terminal is wider.
const LINE_COLUMNS: usize = 100;
/// The columns of a tool's name in a line.
const TOOL_COLUMNS: usize = 16;
/// The columns of a heading.
const HEADING_COLUMNS: usize = 10;

/// A record as JSON. `duration` is the field of the line that is hashed; all other outputs of the gate name their unit.
#[derive(Serialize)]
struct ShownRecord<'r> {
    #[serde(flatten)]
    record: &'r Record,
    #[serde(rename = "durationMs")]
    duration_ms: f64,
}

/// How records are shown.
pub(super) struct RecordView {
    json: bool,
    colour: bool,
    columns: usize,
    zone: TimeZone,
    /// Opens details that are encrypted.
    details_key: Option<DetailsKey>,
    /// Why they stay closed.
    closed: String,
    /// The local user, whose name is left out of lines.
    user: String,
}

impl RecordView {
    pub(super) fn new(common: &GlobalOptions, settings: &Settings, utc: bool) -> Self {
        let stdout = std::io::stdout();
        let columns = if stdout.is_terminal() { screen(&stdout).columns } else { 0 };
        let path = details_key_path(settings);
        let (details_key, closed) = match DetailsKey::read(&path) {
            Ok(Some(key)) => (Some(key), format!("encrypted with another key than {}", path.display())),
            Ok(None) => (None, format!("encrypted, and the key {} is missing", path.display())),
            Err(error) => (None, format!("encrypted: {error}")),
        };
        Self {
            details_key,
            closed,
            json: common.json,
            colour: wants_colour(stdout.is_terminal()),
            columns: columns.max(LINE_COLUMNS),
            zone: if utc { TimeZone::UTC } else { TimeZone::system() },
            user: settings.caller.subject.clone(),
        }
    }

    /// Prints one line for each record.
    pub(super) fn print_lines(&self, records: &[Record]) -> Result<StdoutStatus, CliError> {
        self.print(records, |record| self.line(record) + "\n")
    }

    /// Prints everything about each record.
    pub(super) fn print_whole(&self, records: &[Record]) -> Result<StdoutStatus, CliError> {
        self.print(records, |record| self.whole(record))
    }

    fn print(&self, records: &[Record], shown: impl Fn(&Record) -> String) -> Result<StdoutStatus, CliError> {
        let mut text = String::new();
        for record in records {
            let mut record = record.clone();
            record.reveal(self.details_key.as_ref());
            let record = &record;
            if self.json {
                let shown = ShownRecord { record, duration_ms: record.duration };
                let line =
                    serde_json::to_string(&shown).map_err(|error| CliError::error(error.to_string()))?;
                let _ = writeln!(text, "{}", escape_json(&line));
            } else {
                text.push_str(&shown(record));
            }
        }
        print(&text)
    }

    fn time(&self, moment: Timestamp, format: &str) -> String {
        moment.to_zoned(self.zone.clone()).strftime(format).to_string()
    }

    fn line(&self, record: &Record) -> String {
        let tool = truncate_columns(&escape_line(&record.tool.name), TOOL_COLUMNS);
        let head = format!(
            "{:>5}  {}  {:<7}  {tool:<TOOL_COLUMNS$}  {}  ",
            record.seq,
            self.time(record.timestamp, "%m-%d %H:%M:%S"),
            record.decision.as_str(),
            short_id(record.trace_id),
        );
        let rest = escape_line(&self.rest(record));
        let line = truncate_columns(&format!("{head}{rest}"), self.columns);
        let decision = record.decision.as_str();
        line.trim_end().replacen(decision, &paint(decision, colour_of(record.decision), self.colour), 1)
    }

    /// Who called, why the call did not succeed, and what it touched, as far as that is known.
    fn rest(&self, record: &Record) -> String {
        if let Some(gap) = &record.gap {
            let calls = gap.calls.map_or_else(|| "calls".to_owned(), |calls| pluralize(calls, "call"));
            return format!("gap: {calls} without a record");
        }
        let mut parts = Vec::new();
        parts.extend(self.other_caller(record).map(|who| format!("{who}:")));
        if let Some(denial) = &record.denial {
            let times = if denial.count == 1 { String::new() } else { format!(" x{}", denial.count) };
            parts.push(format!("{}{times}", denial.code.as_str()));
        }
        parts.extend(record.details.as_ref().map(summary));
        parts.extend(record.sealed_details.as_ref().map(|_| "encrypted".to_owned()));
        if let Some(denial) = record.denial.as_ref().filter(|denial| denial.reason != denial.code.as_str()) {
            parts.push(format!("({})", denial.reason));
        }
        parts.join(" ")
    }

    /// Who called, if not simply the local user.
    fn other_caller(&self, record: &Record) -> Option<String> {
        match &record.caller.agent {
            Some(agent) if record.caller.sub == self.user => Some(agent.clone()),
            Some(agent) => Some(format!("{}/{agent}", record.caller.sub)),
            None => (record.caller.sub != self.user).then(|| record.caller.sub.clone()),
        }
    }

    fn whole(&self, record: &Record) -> String {
        let mut text = String::new();
        let mut row = |heading: &str, value: &str| {
            let _ = writeln!(text, "{heading:<HEADING_COLUMNS$}  {}", escape_line(value));
        };
        row("call", &record.trace_id.to_string());
        row("record", &record.seq.to_string());
        row("time", &self.time(record.timestamp, "%Y-%m-%d %H:%M:%S%.3f %:z"));
        let class = record.tool.classification.map(|class| format!(" ({})", class.as_str()));
        let version = record.tool.version.as_ref().map(|version| format!(" version {version}"));
        row(
            "tool",
            &format!("{}{}{}", record.tool.name, class.unwrap_or_default(), version.unwrap_or_default()),
        );
        let caller = &record.caller;
        row("caller", &caller.sub);
        caller.agent.iter().for_each(|agent| row("agent", agent));
        if !caller.permissions.is_empty() {
            row("holds", &caller.permissions.join(", "));
        }
        row("session", &caller.session);
        caller.run.iter().for_each(|run| row("run", run));
        row("decision", record.decision.as_str());
        if let Some(denial) = &record.denial {
            row(
                "refused",
                &format!("{} at {}: {}", denial.code.as_str(), denial.stage.as_str(), denial.reason),
            );
            if denial.count != 1 {
                row("calls", &denial.count.to_string());
            }
        }
        if let Some(flow) = &record.flow {
            let words = |labels: &[Cow<'_, str>]| {
                if labels.is_empty() { "none".to_owned() } else { labels.join(", ") }
            };
            row("labels", &format!("{} -> {}", words(&flow.before), words(&flow.after)));
            flow.asked.iter().for_each(|reason| row("asked", &format!("information flow: {reason}")));
        }
        record.grant.iter().for_each(|grant| row("grant", grant));
        let waited = record.waited_ms.map(|waited| format!(", and waited {waited:.1} ms for a person"));
        row("took", &format!("{:.1} ms{}", record.duration, waited.unwrap_or_default()));
        record.sealed_details.iter().for_each(|_| row("touched", &self.closed));
        for (heading, names) in record.details.iter().flat_map(lists) {
            names.iter().for_each(|name| row(heading, name));
        }
        let details = record.details.as_ref();
        details
            .and_then(|details| details.command.as_ref())
            .into_iter()
            .for_each(|line| row("command", line));
        let request = &record.request;
        row("arguments", &format!("keyed sha256 {}", request.args_hash));
        request.changed_from.iter().for_each(|from| row("changed", &format!("by a person, from {from}")));
        request.client_call_id.iter().for_each(|id| row("client id", id));
        request.repairs.iter().for_each(|repair| row("repaired", repair.as_str()));
        request.escalation.iter().for_each(|allowed| row("escalated", allowed));
        if let Some(response) = &record.response {
            row("answer", &format!("{} bytes, keyed sha256 {}", response.output_bytes, response.output_hash));
            response.redacted_fields.iter().for_each(|field| row("redacted", field));
        }
        if let Some(gap) = &record.gap {
            row("gap since", &self.time(gap.since, "%Y-%m-%d %H:%M:%S%.3f %:z"));
        }
        row("hash", &record.hash.to_string());
        text
    }
}

fn colour_of(decision: Decision) -> &'static str {
    match decision {
        Decision::Allowed => "32",
        Decision::Denied => "31",
        Decision::Error => "33",
    }
}

/// What a call touched, by kind, changes first.
fn lists(details: &CallDetails) -> [(&'static str, &[String]); 8] {
    [
        ("deleted", &details.deleted),
        ("created", &details.created),
        ("modified", &details.modified),
        ("moved", &details.moved),
        ("paths", &details.paths),
        ("reached", &details.hosts),
        ("no host", &details.refused_hosts),
        ("asked", &details.questions),
    ]
}

/// What a call touched, in a few words: the command, or the first name of each kind.
fn summary(details: &CallDetails) -> String {
    let mut parts: Vec<String> = details.command.iter().cloned().collect();
    for (heading, names) in lists(details) {
        let Some(first) = names.first() else { continue };
        let more = names.len() - 1;
        let more = if more == 0 { String::new() } else { format!(" +{more}") };
        let is_command = heading == "paths" && details.command.is_some();
        match heading {
            "paths" if is_command => {}
            "paths" => parts.push(format!("{first}{more}")),
            _ => parts.push(format!("{heading} {first}{more}")),
        }
    }
    parts.join(", ")
}
