//! `toolgate audit`: reads and verifies the audit log.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use toolgate_assembly::ambient::{HostEnvironment, read_file};
use toolgate_assembly::settings::Settings;
use toolgate_audit::{AuditError, Follower, PublicKey, Record, RecordFilter, VerifyOptions, VerifyReport};
use toolgate_types::time::rfc3339_millis;
use toolgate_types::{CallId, ErrorCode, Trust};

use super::audit_view::RecordView;
use super::id_prefix::find_by_prefix;
use super::{StdoutStatus, print, sleep_while_open};
use crate::arguments::{AuditCommand, AuditFilter, GlobalOptions};
use crate::exit::{CliError, GAPS, SUCCESS, TOOL_ERROR};
use crate::startup::resolve_settings;

/// How often a followed log is polled.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) fn run(common: &GlobalOptions, command: AuditCommand) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided)?;
    match command {
        AuditCommand::Verify { checkpoints, public_key } => {
            verify(common, &settings, checkpoints.as_deref(), public_key.as_deref())
        }
        AuditCommand::Show { filter, limit, utc } => {
            let view = RecordView::new(common, &settings, utc);
            show(&view, &settings, filter, limit)
        }
        AuditCommand::Tail { lines, follow, utc } => {
            let view = RecordView::new(common, &settings, utc);
            tail(&view, &settings, lines, follow)
        }
    }
}

fn failed(error: AuditError) -> CliError {
    let help = match error.code() {
        ErrorCode::NotFound => {
            "nothing was recorded there yet, or the record is elsewhere: see --state-dir and `audit.directory`"
        }
        _ => error.help(),
    };
    CliError::error(error.to_string()).help(help)
}

fn verify(
    common: &GlobalOptions,
    settings: &Settings,
    checkpoints: Option<&Path>,
    public_key: Option<&str>,
) -> Result<u8, CliError> {
    let surroundings = HostEnvironment::detect()?;
    let wants_proof = checkpoints.is_some() || public_key.is_some();
    let checkpoints = match checkpoints {
        Some(path) => Some(surroundings.absolute(path)?),
        None => settings.checkpoints.clone(),
    };
    let trusted = public_key.map(|key| read_key(key, &surroundings)).transpose()?;
    let options = VerifyOptions {
        checkpoints,
        trusted: trusted.into_iter().collect(),
        key: Some(toolgate_assembly::gate_builder::log_options(settings).key_path()),
        ..VerifyOptions::default()
    };
    let report = toolgate_audit::verify(&settings.audit_dir, &options).map_err(failed)?;
    // With given checkpoints or a given key the user expects more than an intact hash chain, so a log without any checkpoint is reported.
    let unproven = wants_proof && report.problem.is_none() && report.checkpoints == 0;
    let text = match common.json {
        true => format!("{}\n", report_json(&report, unproven)),
        false => report_text(&report, unproven),
    };
    print(&text)?;
    Ok(match (report.problem.is_none() && !unproven, report.is_incomplete()) {
        (true, false) => SUCCESS,
        (true, true) => GAPS,
        (false, _) => TOOL_ERROR,
    })
}

/// A public key in hexadecimal digits, or the file that holds it.
fn read_key(text: &str, surroundings: &HostEnvironment) -> Result<PublicKey, CliError> {
    if let Ok(key) = text.trim().parse() {
        return Ok(key);
    }
    let path = surroundings.absolute(Path::new(text))?;
    let wrong = |reason: String| {
        CliError::usage(format!("`{text}` is not a public key: {reason}"))
            .help("give 64 hexadecimal digits, or a file that holds them, such as keys/audit.pub in the state directory")
    };
    let bytes = read_file(&path).map_err(|error| wrong(error.to_string()))?;
    String::from_utf8_lossy(&bytes)
        .trim()
        .parse()
        .map_err(|_| wrong("the file holds something else".to_owned()))
}

const UNSIGNED_NOTE: &str = "no checkpoint was found, so nothing but the record itself says that it is whole";

fn report_json(report: &VerifyReport, unproven: bool) -> Value {
    let problem = report.problem.as_ref().map(|problem| {
        json!({
            "file": problem.file.file_name().map(|name| name.to_string_lossy()), "line": problem.line,
            "kind": problem.kind.as_str(), "message": problem.to_string(),
        })
    });
    let unproven = unproven.then(|| json!({"kind": "unproven", "message": UNSIGNED_NOTE}));
    let gaps = report.gaps.iter().map(|gap| {
        json!({
            "since": rfc3339_millis(gap.since), "until": gap.until.map(rfc3339_millis),
            "calls": gap.calls, "message": gap.to_string(),
        })
    });
    json!({
        "ok": problem.is_none() && unproven.is_none() && !report.is_incomplete(),
        "records": report.records, "days": report.days,
        "firstTime": report.first_time.map(rfc3339_millis), "lastTime": report.last_time.map(rfc3339_millis),
        "lastSeq": report.last_seq, "lastHash": report.last_hash,
        "checkpoints": report.checkpoints, "recordsAfterCheckpoint": report.records_after_checkpoint,
        "callsWithoutRecord": report.calls_without_record(), "gaps": gaps.collect::<Vec<_>>(),
        "announcedWithoutRecord": report.announced_without_record,
        "announcedByEndedGates": report.announced_by_ended_gates,
        "keys": report.keys.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "notes": report.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "problem": problem.or(unproven),
    })
}

fn report_text(report: &VerifyReport, unproven: bool) -> String {
    let mut text = String::new();
    match &report.problem {
        Some(problem) => {
            let _ = writeln!(text, "BROKEN: {problem}");
            let _ = writeln!(text, "good before it: {}", pluralize(report.records, "record"));
        }
        None => {
            if unproven {
                let _ = writeln!(text, "UNPROVEN: {UNSIGNED_NOTE}");
            }
            let verdict = match (unproven, report.is_incomplete()) {
                (true, _) => "chained",
                (false, true) => "INCOMPLETE",
                (false, false) => "ok",
            };
            let _ = writeln!(
                text,
                "{verdict}: {} in {}, {}, {} after the last checkpoint",
                pluralize(report.records, "record"),
                pluralize(report.days, "day"),
                pluralize(report.checkpoints, "checkpoint"),
                pluralize(report.records_after_checkpoint, "record"),
            );
        }
    }
    for gap in &report.gaps {
        let _ = writeln!(text, "gap: {gap}");
    }
    let ended = report.announced_by_ended_gates;
    for (calls, why) in [
        (report.announced_without_record.saturating_sub(ended), "being made by a running gate"),
        (ended, "left by a gate that ended; the next start of a gate adds what is missing"),
    ] {
        if calls > 0 {
            let _ = writeln!(text, "announced: {} without a record yet, {why}", pluralize(calls, "call"));
        }
    }
    for key in &report.keys {
        let _ = writeln!(text, "signed by {key}");
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// `1 record`, `2 records`.
pub(super) fn pluralize(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn show(view: &RecordView, settings: &Settings, filter: AuditFilter, limit: usize) -> Result<u8, CliError> {
    let call = filter.call.as_deref().map(|text| find_call(text, settings)).transpose()?;
    let is_one_call = call.is_some();
    let session = filter.session.map(|text| find_session(text, settings)).transpose()?;
    let filter = RecordFilter {
        tool: filter.tool,
        caller: filter.caller,
        decision: filter.decision,
        session,
        call,
        since: filter.since.as_deref().map(parse_time).transpose()?,
        until: filter.until.as_deref().map(parse_time).transpose()?,
        limit: Some(limit),
    };
    let records = toolgate_audit::query_records(&settings.audit_dir, filter).map_err(failed)?;
    let mut records: Vec<Record> = records.collect::<Result<_, _>>().map_err(failed)?;
    records.reverse();
    match is_one_call {
        true => view.print_whole(&records)?,
        false => view.print_lines(&records)?,
    };
    Ok(SUCCESS)
}

/// A call by the beginning or the end of its id.
fn find_call(text: &str, settings: &Settings) -> Result<CallId, CliError> {
    if let Ok(call) = text.parse() {
        return Ok(call);
    }
    let records =
        toolgate_audit::query_records(&settings.audit_dir, RecordFilter::default()).map_err(failed)?;
    let calls: Vec<CallId> = records
        .map(|record| record.map(|record| record.trace_id))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    find_by_prefix("call", text, calls)?.ok_or_else(|| {
        CliError::usage(format!("no recorded call begins or ends with `{text}`"))
            .help("`toolgate audit tail` shows the last calls with their ids")
    })
}

/// A session by the beginning of its id. One without records may be named in full.
fn find_session(text: String, settings: &Settings) -> Result<String, CliError> {
    let records =
        toolgate_audit::query_records(&settings.audit_dir, RecordFilter::default()).map_err(failed)?;
    let sessions = records.filter_map(|record| Some(record.ok()?.caller.session));
    Ok(find_by_prefix("session", &text, sessions.collect::<BTreeSet<_>>())?.unwrap_or(text))
}

fn tail(view: &RecordView, settings: &Settings, lines: usize, follow: bool) -> Result<u8, CliError> {
    if !follow {
        let records = toolgate_audit::tail(&settings.audit_dir, lines).map_err(failed)?;
        view.print_lines(&records)?;
        return Ok(SUCCESS);
    }
    let (mut records, mut follower) = Follower::start(&settings.audit_dir, lines).map_err(failed)?;
    while view.print_lines(&records)? == StdoutStatus::Open
        && sleep_while_open(FOLLOW_INTERVAL) == StdoutStatus::Open
    {
        records = follower.poll().map_err(failed)?;
    }
    Ok(SUCCESS)
}

/// A date, a timestamp, or a duration before now.
fn parse_time(text: &str) -> Result<Timestamp, CliError> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    if let Ok(moment) = format!("{text}T00:00:00Z").parse::<Timestamp>() {
        return Ok(moment);
    }
    let wrong = || {
        CliError::usage(format!("`{text}` is not a time"))
            .help("write 2026-11-15, 2026-11-15T08:00:00Z, or an age such as 30m, 2h or 7d")
    };
    let unit = text.chars().last().ok_or_else(wrong)?;
    let count: i64 = text.trim_end_matches(unit).parse().map_err(|_| wrong())?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86400,
        _ => return Err(wrong()),
    };
    let ago = SignedDuration::from_secs(count.checked_mul(seconds).ok_or_else(wrong)?);
    Timestamp::now().checked_sub(ago).map_err(|_| wrong())
}
